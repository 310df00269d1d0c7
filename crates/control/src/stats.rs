//! The statistics page (manual 4.2 `stats enable`): HTML for people, `;csv`, `;json`, `;typed` for programs, and the admin form.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use sluice_engine::admin::{AdminState, Told};
use sluice_engine::state::admin;

use crate::dump::{self, Wanted};
use crate::fields::{At, FIELDS, Row, V, rows, status};
use crate::info;
use crate::page::{Page, StatsRequest};

/// Answers a request for the statistics page.
pub fn page(r: &StatsRequest<'_>) -> Page {
    let at = At {
        rt: r.runtime,
        now_ms: r.now_ms,
    };
    let rest = String::from_utf8_lossy(r.rest).into_owned();
    let wants = |word: &str| rest.split(['?', '&', ';']).any(|w| w == word);
    let w = Wanted {
        up: wants("up"),
        no_maint: wants("no-maint"),
        ..Wanted::default()
    };
    if let Some(form) = r.form {
        return after_form(r, form);
    }
    let text = |content_type, body: String| Page {
        status: 200,
        content_type,
        headers: Vec::new(),
        body: body.into_bytes(),
    };
    if wants("csv") {
        return text("text/plain", dump::csv(&at, w));
    }
    if wants("json") {
        return text("application/json", dump::json(&at, w));
    }
    if wants("typed") {
        return text("text/plain", dump::typed(&at, w));
    }
    let refresh = r.stats.refresh_s.filter(|_| !wants("norefresh"));
    let mut headers = vec![("Vary", "Accept".to_string())];
    if let Some(s) = refresh {
        headers.push(("Refresh", s.to_string()));
    }
    let message = rest
        .split(['?', '&', ';'])
        .find_map(|p| p.strip_prefix("st="))
        .and_then(message);
    Page {
        status: 200,
        content_type: "text/html; charset=utf-8",
        headers,
        body: html(r, &at, w, refresh, message).into_bytes(),
    }
}

/// What the outcome code of a form means.
fn message(code: &str) -> Option<&'static str> {
    Some(match code {
        "DONE" => "Action processed successfully.",
        "NONE" => "Nothing has changed.",
        "PART" => "Action partially processed: some servers were not found.",
        "ERRP" => "Action not processed: the form is incomplete.",
        "DENY" => "Action denied: 'stats admin' does not allow it here.",
        "UNKN" => "Unknown action.",
        _ => return None,
    })
}

/// Carries out the admin form and sends the browser back to the page.
fn after_form(r: &StatsRequest<'_>, form: &[u8]) -> Page {
    let code = if r.admin {
        apply(r, &String::from_utf8_lossy(form))
    } else {
        "DENY"
    };
    let base = &r.stats.uri;
    Page {
        status: 303,
        content_type: "text/plain",
        headers: vec![("Location", format!("{base};st={code}"))],
        body: Vec::new(),
    }
}

fn apply(r: &StatsRequest<'_>, form: &str) -> &'static str {
    let fields: Vec<(String, String)> = form
        .split('&')
        .filter_map(|p| p.split_once('='))
        .map(|(k, v)| (decode(k), decode(v)))
        .collect();
    let first = |name: &str| {
        fields
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    };
    let (Some(backend), Some(action)) = (first("b"), first("action")) else {
        return "ERRP";
    };
    let rt = r.runtime;
    let Some(p) = rt
        .proxies
        .iter()
        .find(|p| p.id.0.to_string() == backend.trim_start_matches('#') || *p.name == *backend)
    else {
        return "ERRP";
    };
    let (mut found, mut missing) = (0, 0);
    for (_, name) in fields.iter().filter(|(k, _)| k == "s") {
        let Some(s) = p.servers.iter().find(|s| *s.name == **name) else {
            missing += 1;
            continue;
        };
        let set = |to| rt.set_admin(s.id, to, r.now_ms);
        let healthy = |to| {
            if s.conf.check.enabled && s.conf.track.is_none() {
                rt.set_health(s.id, to, r.now_ms);
            }
        };
        match action {
            "ready" => set(AdminState::Ready),
            "enable" => rt.end_maintenance(s.id, r.now_ms),
            "drain" | "stop" => set(AdminState::Drain),
            "maint" | "disable" => set(AdminState::Maint),
            "dhlth" => s.check_probe.paused.store(true, Relaxed),
            "ehlth" => s.check_probe.paused.store(false, Relaxed),
            "hrunn" => healthy(Told::Up),
            "hnolb" => healthy(Told::Stopping),
            "hdown" => healthy(Told::Down),
            "dagent" => s.agent_probe.paused.store(true, Relaxed),
            "eagent" => s.agent_probe.paused.store(false, Relaxed),
            "arunn" if s.conf.agent.enabled => rt.set_agent(s.id, true, r.now_ms),
            "adown" if s.conf.agent.enabled => rt.set_agent(s.id, false, r.now_ms),
            "arunn" | "adown" => {}
            "shutdown" => rt.shutdown_sessions(s.id, b'K'),
            _ => return "UNKN",
        }
        found += 1;
    }
    match (found, missing) {
        (0, 0) => "NONE",
        (0, _) => "ERRP",
        (_, 0) => "DONE",
        _ => "PART",
    }
}

/// Undoes the encoding of forms.
fn decode(s: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = s.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'+' => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let hex = std::str::from_utf8(&digits)
                    .ok()
                    .and_then(|t| u8::from_str_radix(t, 16).ok());
                out.extend(hex);
            }
            b => out.push(b),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn escape(s: &str) -> String {
    s.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const STYLE: &str = include_str!("stats.css");

fn html(
    r: &StatsRequest<'_>,
    at: &At<'_>,
    w: Wanted,
    refresh: Option<u32>,
    message: Option<&str>,
) -> String {
    let rt = r.runtime;
    let mut o = String::with_capacity(16 * 1024);
    let node = r.stats.show_node.as_deref().map(|n| {
        if n.is_empty() {
            rt.model.global.node.as_deref().unwrap_or(&rt.hostname)
        } else {
            n
        }
    });
    let title = node.map_or("Sluice statistics".to_string(), |n| {
        format!("Sluice statistics on {n}")
    });
    let _ = write!(
        o,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{t}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <style>{STYLE}</style></head><body><header><h1>{t}</h1>",
        t = escape(&title)
    );
    if !r.stats.hide_version {
        let _ = write!(
            o,
            "<p class=\"sub\">version {}, pid {}, up {}</p>",
            info::VERSION,
            rt.pid,
            span(at.now_ms.saturating_sub(rt.started.mono_us / 1000) / 1000)
        );
    }
    if let Some(d) = &r.stats.show_desc {
        let text = if d.is_empty() {
            rt.model.global.description.as_deref().unwrap_or("")
        } else {
            d
        };
        let _ = write!(o, "<p class=\"sub\">{}</p>", escape(text));
    }
    tiles(&mut o, at);
    let base = String::from_utf8_lossy(r.uri);
    let base = escape(base.split([';', '?']).next().unwrap_or("/"));
    let _ = write!(
        o,
        "<nav><a href=\"{base}\">refresh now</a><a href=\"{base};csv\">CSV</a><a href=\"{base};json\">JSON</a><a href=\"{base};up\">only servers that are up</a>"
    );
    if refresh.is_some() {
        let _ = write!(o, "<a href=\"{base};norefresh\">stop refreshing</a>");
    }
    o.push_str("</nav></header><main>");
    if let Some(m) = message {
        let _ = write!(o, "<p class=\"message\" role=\"status\">{m}</p>");
    }
    let scope = &r.stats.scope;
    let own = &rt.model.proxy(r.proxy).name;
    for conf in &rt.model.proxies {
        let named = |s: &String| **s == *conf.name || (s == "." && conf.name == *own);
        if conf.disabled || !(scope.is_empty() || scope.iter().any(named)) {
            continue;
        }
        let kind = match (conf.is_frontend(), conf.is_backend()) {
            (true, true) => "listen",
            (true, false) => "frontend",
            _ => "backend",
        };
        let _ = write!(
            o,
            "<section id=\"{n}\"><h2>{n} <small>{kind}, {}{}</small></h2>",
            conf.mode.name(),
            if conf.is_backend() {
                format!(", {}", crate::fields::algorithm(&conf.balance))
            } else {
                String::new()
            },
            n = escape(&conf.name)
        );
        if let Some(d) = &conf.description {
            let _ = write!(o, "<p class=\"sub\">{}</p>", escape(d));
        }
        let admin = r.admin && conf.is_backend() && !conf.servers.is_empty();
        if admin {
            let _ = write!(
                o,
                "<form method=\"post\" action=\"{base}\"><input type=\"hidden\" name=\"b\" value=\"{}\">",
                escape(&conf.name)
            );
        }
        table(&mut o, r, at, w, conf, admin);
        if admin {
            o.push_str("<p class=\"admin\"><select name=\"action\" aria-label=\"action\"><option value=\"ready\">set ready</option><option value=\"drain\">drain</option><option value=\"maint\">put in maintenance</option><option value=\"shutdown\">end sessions</option></select> <button>Apply to the chosen servers</button></p></form>");
        }
        o.push_str("</section>");
    }
    o.push_str("</main></body></html>\n");
    o
}

/// The process at a glance.
fn tiles(o: &mut String, at: &At<'_>) {
    let (rt, c) = (at.rt, &at.rt.counters);
    let limit = rt.maxconn.load(Relaxed);
    o.push_str("<div class=\"tiles\">");
    let mut tile = |name: &str, value: String, note: String| {
        let _ = write!(
            o,
            "<div><b>{value}</b><span>{name}</span><i>{note}</i></div>"
        );
    };
    tile(
        "connections",
        c.conns.now().to_string(),
        format!("limit {limit}"),
    );
    tile(
        "connections per second",
        c.conn_rate.per_second(at.now_ms).to_string(),
        format!("most {}", c.conn_rate.max()),
    );
    tile(
        "sessions per second",
        c.sess_rate.per_second(at.now_ms).to_string(),
        format!("most {}", c.sess_rate.max()),
    );
    tile(
        "requests",
        c.req_total.value().to_string(),
        format!("{} connections", c.conn_total.value()),
    );
    tile(
        "sent",
        bytes(c.bytes_out.value()),
        format!("{} spliced", bytes(c.spliced_bytes.value())),
    );
    tile(
        "worker threads",
        rt.workers.to_string(),
        format!("{} % idle", c.idle_pct.value()),
    );
    o.push_str("</div>");
}

/// The columns of the page: heading, group, fields shown.
const COLUMNS: &[(&str, &str)] = &[
    ("Queue", "qcur"),
    ("most", "qmax"),
    ("Sessions/s", "rate"),
    ("most", "rate_max"),
    ("Sessions", "scur"),
    ("most", "smax"),
    ("limit", "slim"),
    ("total", "stot"),
    ("In", "bin"),
    ("Out", "bout"),
    ("Denied", "dreq"),
    ("resp", "dresp"),
    ("Errors", "ereq"),
    ("conn", "econ"),
    ("resp", "eresp"),
    ("Retries", "wretr"),
    ("redisp", "wredis"),
    ("2xx", "hrsp_2xx"),
    ("4xx", "hrsp_4xx"),
    ("5xx", "hrsp_5xx"),
    ("Weight", "weight"),
    ("Checks failed", "chkfail"),
    ("downs", "chkdown"),
    ("down for", "downtime"),
];

fn table(
    o: &mut String,
    r: &StatsRequest<'_>,
    at: &At<'_>,
    w: Wanted,
    conf: &sluice_config::model::Proxy,
    admin: bool,
) {
    o.push_str("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Status</th>");
    for (name, field) in COLUMNS {
        let _ = write!(o, "<th scope=\"col\" title=\"{field}\">{name}</th>");
    }
    o.push_str("</tr></thead><tbody>");
    for row in rows(at.rt).iter().filter(|x| x.proxy().id == conf.id) {
        if let Row::Server(_, _, s) = row
            && ((w.up && !s.accepts_persistent()) || (w.no_maint && s.admin() & admin::MAINT != 0))
        {
            continue;
        }
        let st = status(row);
        let class = match row {
            Row::Frontend(..) => "frontend",
            Row::Backend(..) => "backend",
            Row::Listener(..) => "listener",
            Row::Server(..) => "server",
        };
        let tone = match st.split(' ').next().unwrap_or("") {
            "UP" | "OPEN" if !st.contains('/') => "good",
            "UP" | "DRAIN" | "NOLB" | "PAUSED" => "warn",
            "DOWN" | "STOP" => "bad",
            _ => "calm",
        };
        let name = escape(&row.name());
        let choose = if admin && matches!(row, Row::Server(..)) {
            format!(
                "<input type=\"checkbox\" name=\"s\" value=\"{name}\" aria-label=\"choose {name}\"> "
            )
        } else {
            String::new()
        };
        let legend = if r.stats.show_legends {
            legend(row, at)
        } else {
            String::new()
        };
        let _ = write!(
            o,
            "<tr class=\"{class}\"><th scope=\"row\"{legend}>{choose}{name}</th><td class=\"st {tone}\"{}>{}</td>",
            check_title(row, at),
            escape(&st)
        );
        for (_, field) in COLUMNS {
            let v = value(row, at, field);
            let text = match (*field, v) {
                ("bin" | "bout", Some(V::U64(n))) => bytes(n),
                ("downtime", Some(V::U32(n))) => span(u64::from(n)),
                (_, Some(V::U64(0) | V::U32(0))) => "<s>0</s>".into(),
                (_, Some(v)) => escape(&v.to_string()),
                (_, None) => String::new(),
            };
            let _ = write!(o, "<td>{text}</td>");
        }
        o.push_str("</tr>");
    }
    o.push_str("</tbody></table></div>");
}

fn value(row: &Row<'_>, at: &At<'_>, name: &str) -> Option<V> {
    FIELDS
        .iter()
        .find(|f| f.name == name)
        .and_then(|f| (f.get)(row, at))
}

/// The last check, as the status's tooltip.
fn check_title(row: &Row<'_>, at: &At<'_>) -> String {
    let Some(code) = value(row, at, "check_status") else {
        return String::new();
    };
    let text = |f| value(row, at, f).map(|v| v.to_string()).unwrap_or_default();
    format!(
        " title=\"{}\"",
        escape(&format!(
            "{} {} {} in {} ms: {}",
            code,
            text("check_code"),
            text("last_chk"),
            text("check_duration"),
            text("check_desc")
        ))
    )
}

/// `stats show-legends`: more about a row, as its name's tooltip.
fn legend(row: &Row<'_>, at: &At<'_>) -> String {
    let text = |f| value(row, at, f).map(|v| format!("{f} {v}"));
    let parts: Vec<String> = ["addr", "cookie", "iid", "sid", "check_rise", "check_fall"]
        .into_iter()
        .filter_map(text)
        .collect();
    format!(" title=\"{}\"", escape(&parts.join(", ")))
}

fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut v = n as f64;
    let mut unit = 0;
    while v >= 1000.0 && unit + 1 < UNITS.len() {
        v /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{n} B")
    } else {
        format!("{v:.1} {}", UNITS[unit])
    }
}

fn span(s: u64) -> String {
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86400, s / 3600 % 24),
    }
}
