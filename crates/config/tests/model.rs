//! What texts become: settings, names, defaults, sections, files. Keywords one by one are in the other tests.

use std::net::IpAddr;

use sluice_config::model::*;
use sluice_config::{LoadOptions, Severity, SourceFile, load};
use sluice_expr::Loader;

struct Files;

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "/etc/h/503.http" => Ok(b"HTTP/1.0 503 Busy\r\n\r\n".to_vec()),
            "/etc/h/hosts" => Ok(b"10.0.0.1\n".to_vec()),
            other => Err(format!("no file {other}")),
        }
    }
}

fn load_files(files: &[(&str, &str)]) -> (Option<Model>, Vec<String>) {
    let mut opts = LoadOptions::new(&Files, &|name| {
        (name == "localhost").then(|| IpAddr::from([127, 0, 0, 1]))
    });
    opts.env = vec![("FD_APP1".into(), "5".into())];
    let files: Vec<SourceFile> = files
        .iter()
        .map(|(name, text)| SourceFile {
            name: (*name).to_owned(),
            text: text.as_bytes().to_vec(),
        })
        .collect();
    let loaded = load(&files, &opts);
    let said = loaded
        .diagnostics
        .iter()
        .filter(|d| d.severity >= Severity::Warning)
        .map(|d| d.headline())
        .collect();
    (loaded.model, said)
}

/// A model from a text that nothing is said about.
#[track_caller]
fn model(text: &str) -> Model {
    let (model, said) = load_files(&[("/etc/h/h.cfg", text)]);
    assert_eq!(said, Vec::<String>::new(), "{text}");
    model.expect("a model when nothing is wrong")
}

/// A model from a text that gives these warnings.
#[track_caller]
fn model_warned(text: &str, warnings: &[&str]) -> Model {
    let (model, said) = load_files(&[("h.cfg", text)]);
    let model = model.unwrap_or_else(|| panic!("{text}\n{said:#?}"));
    assert_eq!(said.len(), warnings.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(warnings) {
        assert!(
            said.contains(expected),
            "'{said}' says nothing of '{expected}'"
        );
    }
    model
}

#[track_caller]
fn proxy<'m>(model: &'m Model, name: &str) -> &'m Proxy {
    let found = model.proxies.iter().find(|p| *p.name == *name);
    found.unwrap_or_else(|| panic!("no proxy {name}"))
}

const BASE: &str =
    "defaults\n mode http\n timeout client 1s\n timeout server 2s\n timeout connect 3s\n";

#[test]
fn defaults_are_where_sections_begin() {
    let m = model(&format!(
        "{BASE} retries 5\n option nolinger\n balance leastconn\n\
         backend a\n server x 10.0.0.1:80\n\
         backend b\n no option nolinger\n retries 1\n balance source\n server x 10.0.0.1:80\n\
         defaults\n timeout connect 1s\n timeout server 1s\n\
         backend c\n server x 10.0.0.1:80\n"
    ));
    let (a, b, c) = (proxy(&m, "a"), proxy(&m, "b"), proxy(&m, "c"));
    assert_eq!((a.retries, b.retries, c.retries), (5, 1, 3));
    assert_eq!(
        (a.mode, b.mode, c.mode),
        (Mode::Http, Mode::Http, Mode::Tcp)
    );
    assert!(a.options.contains(Options::NOLINGER));
    assert!(!b.options.contains(Options::NOLINGER));
    assert!(matches!(a.balance, Balance::LeastConn));
    assert!(matches!(b.balance, Balance::Source));
    assert!(matches!(c.balance, Balance::RoundRobin));
}

#[test]
fn a_section_may_name_its_defaults() {
    let m = model(
        "defaults tcp\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n\
         defaults web from tcp\n mode http\n\
         frontend f from web\n bind :80\n\
         frontend g from tcp\n bind :81\n",
    );
    let (f, g) = (proxy(&m, "f"), proxy(&m, "g"));
    assert_eq!((f.mode, g.mode), (Mode::Http, Mode::Tcp));
    assert_eq!(f.timeouts.client_ms, Some(1000));
    assert_eq!(f.defaults_name.as_deref(), Some("web"));
}

#[test]
fn rules_of_defaults_run_first() {
    let m = model(
        "defaults d\n mode http\n timeout client 1s\n http-request set-header a d\n tcp-request inspect-delay 4s\n\
         frontend f\n bind :80\n http-request set-header a f\n",
    );
    let f = proxy(&m, "f");
    let lines: Vec<u32> = f.http_request.iter().map(|r| r.origin.line).collect();
    assert_eq!(lines, [4, 8]);
    assert_eq!(f.tcp_req_inspect_delay_ms, Some(4000));
}

#[test]
fn timeouts_stand_in_for_each_other() {
    let m = model(&format!(
        "{BASE} timeout http-request 9s\nlisten l\n bind :80\n server x 10.0.0.1:80\n"
    ));
    let t = proxy(&m, "l").timeouts;
    assert_eq!(t.http_keep_alive_ms, Some(9_000));
    assert_eq!((t.queue_ms, t.tarpit_ms), (Some(3_000), Some(3_000)));
    assert_eq!(t.tunnel_ms, None);
}

#[test]
fn names_become_ids() {
    let m = model(&format!(
        "{BASE}frontend f\n bind :80\n default_backend b\n use_backend a if {{ path /a }}\n use_backend %[hdr(host)]\n\
         backend a\n server x 10.0.0.1:80\n\
         backend b\n server y 10.0.0.1:80\n use-server y if {{ src 10.0.0.1 }}\n"
    ));
    let f = proxy(&m, "f");
    assert_eq!(&*m.proxy(f.default_backend.unwrap()).name, "b");
    assert!(
        matches!(f.use_backends[0].target, BackendTarget::Static(id) if &*m.proxy(id).name == "a")
    );
    assert!(matches!(
        f.use_backends[1].target,
        BackendTarget::Dynamic(_)
    ));
    assert!(matches!(
        proxy(&m, "b").use_servers[0].target,
        ServerTarget::Static(0)
    ));
}

#[test]
fn numbers_are_given_as_haproxy_gives_them() {
    let m = model(&format!(
        "{BASE}backend a\n server x 10.0.0.1:80\n server y 10.0.0.1:80 id 1\n server z 10.0.0.1:80\n\
         listen c\n id 1\n bind :80\n"
    ));
    let ids: Vec<u32> = proxy(&m, "a").servers.iter().map(|s| s.id).collect();
    assert_eq!(ids, [2, 1, 4]);
    assert_eq!((proxy(&m, "a").puid, proxy(&m, "c").puid), (2, 1));
}

#[test]
fn a_tracking_server_names_the_one_it_follows() {
    let m = model(&format!(
        "{BASE}backend a\n server x 10.0.0.1:80 check\n server y 10.0.0.2:80 track x\n\
         backend b\n server z 10.0.0.1:80 track a/y\n"
    ));
    assert_eq!(proxy(&m, "a").servers[1].track.as_deref(), Some("a/x"));
    assert_eq!(proxy(&m, "b").servers[0].track.as_deref(), Some("a/y"));
}

#[test]
fn old_rules_keep_their_place() {
    let m = model_warned(
        &format!(
            "{BASE}frontend f\n bind :80\n redirect location /x if TRUE\n http-request deny if TRUE\n block if TRUE\n"
        ),
        &[
            "placed after a 'redirect' rule",
            "'block' is obsolete",
            "placed after",
        ],
    );
    let lines: Vec<u32> = proxy(&m, "f")
        .http_request
        .iter()
        .map(|r| r.origin.line)
        .collect();
    assert_eq!(lines, [10, 9, 8], "block, http-request, redirect");
}

#[test]
fn logs_are_collected() {
    let m = model(&format!(
        "global\n log /dev/log local0\n log 127.0.0.1:514 local1 notice\n\
         {BASE} log global\n option httplog\n\
         ring r\n size 32k\n maxlen 500\n format raw\n\
         frontend f\n bind :80\n log ring@r local2\n\
         frontend g\n bind :81\n no log\n log stdout format raw daemon\n"
    ));
    let f = &proxy(&m, "f").log;
    let from_global: Vec<bool> = f.targets.iter().map(|t| t.from_global).collect();
    assert_eq!(from_global, [true, true, false]);
    assert!(!f.at_start);
    assert_eq!(proxy(&m, "g").log.targets.len(), 1);
    assert_eq!(m.rings[0].size_bytes, 32 << 10);
    assert_eq!(
        (m.rings[0].max_len, m.rings[0].format),
        (500, LogFormatKind::Raw)
    );
}

#[test]
fn without_a_format_connections_are_logged_when_they_come() {
    let m = model(&format!(
        "{BASE}frontend f\n bind :80\n log 127.0.0.1 local0\n"
    ));
    assert!(proxy(&m, "f").log.at_start);
}

#[test]
fn user_lists_know_groups_from_both_sides() {
    let m = model(
        "userlist u\n group g1 users a,b\n group g2\n user a insecure-password x\n user b password $6$x groups g2\n",
    );
    let groups = |i: usize| m.userlists[0].users[i].groups.join(",");
    assert_eq!((groups(0).as_str(), groups(1).as_str()), ("g1", "g2,g1"));
    assert!(matches!(
        m.userlists[0].users[1].password,
        Some(Password::Crypt(_))
    ));
}

#[test]
fn error_pages_come_from_sections() {
    let m = model(&format!(
        "http-errors e\n errorfile 503 /etc/h/503.http\n errorfile 502 /etc/h/503.http\n\
         {BASE}backend a\n errorfiles e 503\n server x 10.0.0.1:80\n\
         backend b\n errorfiles e\n errorloc302 502 /busy\n server x 10.0.0.1:80\n"
    ));
    let codes = |name: &str| -> Vec<u16> {
        proxy(&m, name)
            .errors
            .by_status
            .iter()
            .map(|(s, _)| *s)
            .collect()
    };
    assert_eq!(codes("a"), [503]);
    assert_eq!(codes("b"), [503, 502]);
    assert!(matches!(
        proxy(&m, "b").errors.by_status[1].1,
        ErrorReply::Location { code: 302, .. }
    ));
}

#[test]
fn splicing_can_be_refused() {
    let options = |line: &str| {
        let m = model(&format!("{BASE}listen l\n bind :80\n {line}\n"));
        proxy(&m, "l").options
    };
    assert!(options("no option splice-auto").contains(Options::NO_SPLICE));
    assert!(!options("option splice-response").contains(Options::NO_SPLICE));
    assert!(options("option splice-response").contains(Options::SPLICE_RESPONSE));
}

#[test]
fn the_environment_changes_line_by_line() {
    let m = model(&format!(
        "global\n setenv NAME web\n presetenv NAME other\n description \"${{NAME}}\"\n unsetenv NAME\n node \"x${{NAME}}\"\n\
         {BASE}frontend f\n bind \"fd@${{FD_APP1}}\"\n bind fd@$FD_APP1\n"
    ));
    assert_eq!(m.global.description.as_deref(), Some("web"));
    assert_eq!(m.global.node.as_deref(), Some("x"));
    let binds: Vec<&ListenAddr> = proxy(&m, "f").binds.iter().flat_map(|b| &b.addrs).collect();
    assert_eq!(binds, [&ListenAddr::Fd(5), &ListenAddr::Fd(5)]);
    assert!(
        m.global
            .env
            .iter()
            .any(|(k, v)| k == "HAPROXY_CFGFILES" && v == "/etc/h/h.cfg")
    );
}

#[test]
fn relative_files_start_at_the_default_path() {
    let m = model(&format!(
        "global\n default-path config\n{BASE} errorfile 503 503.http\nfrontend f\n bind :80\n acl a src -f hosts\n"
    ));
    assert_eq!(proxy(&m, "f").errors.by_status.len(), 1);
}

#[test]
fn several_files_are_one_configuration() {
    let (m, said) = load_files(&[
        ("a.cfg", "defaults\n timeout client 1s\n"),
        ("b.cfg", "frontend f\n bind :80\n"),
    ]);
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(proxy(&m.unwrap(), "f").timeouts.client_ms, Some(1000));
    // A section ends with its file.
    let (m, said) = load_files(&[
        ("a.cfg", "frontend f\n bind :80\n timeout client 1s\n"),
        ("b.cfg", "bind :81\n"),
    ]);
    assert!(m.is_none());
    assert!(
        said[0].contains("parsing [b.cfg:1] : unknown keyword 'bind' out of section."),
        "{said:?}"
    );
}

#[test]
fn a_disabled_proxy_is_not_judged() {
    let m = model("frontend f\n disabled\n default_backend nowhere\n");
    assert!(proxy(&m, "f").disabled);
}

#[test]
fn a_tcp_proxy_loses_what_needs_http() {
    let m = model_warned(
        "listen l\n bind :80\n timeout client 1s\n monitor-uri /x\n http-request deny\n",
        &[
            "monitor-uri will be ignored",
            "'http-request' rules ignored",
        ],
    );
    let l = proxy(&m, "l");
    assert!(l.monitor_uri.is_none() && l.http_request.is_empty());
}

/// The files that the issue wants to run as they stand.
#[test]
fn the_promised_files_load() {
    model_warned(
        "listen http-splice\n bind :8000\n option splice-response\n server a 127.0.0.1:8080\n",
        &["missing timeouts"],
    );
    let m = model(&format!(
        "{BASE}listen l\n bind :80\n acl blacklist src 10.0.0.0/8\n tcp-request content reject if blacklist\n"
    ));
    assert_eq!(proxy(&m, "l").tcp_request_content.len(), 1);
    model_warned(
        &format!(
            "{BASE}listen l\n bind :80\n acl service_down nbsrv -lt 2\n redirect prefix http://backup.site if service_down\n server a 10.0.0.1:80 check\n"
        ),
        &["'-lt' is an operator with a dash"],
    );
    model(&format!(
        "{BASE}listen l\n bind :80\n acl service_down nbsrv lt 2\n redirect prefix http://backup.site if service_down\n server a 10.0.0.1:80 check\n"
    ));
    model(&format!(
        "global\n tune.pipesize 524288\n{}listen l\n bind :80\n option splice-request\n option splice-response\n server a 10.0.0.1:80\n",
        BASE.replace("http", "tcp")
    ));
}

#[test]
fn the_file_of_2019_loads() {
    let mut text = String::from("global\n nbproc 8\n");
    for n in 1..=8 {
        text += &format!(" cpu-map {n} {}\n", (n - 1) * 2);
    }
    text += "defaults\n mode tcp\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nlisten l\n balance static-rr\n";
    for n in 1..=8 {
        text += &format!(" bind 127.0.0.1:1080 process {n}\n");
    }
    for n in 1..=8 {
        text += &format!(" server s{n} 10.0.0.{n}:80\n");
    }
    let (m, said) = load_files(&[("h.cfg", &text)]);
    let m = m.unwrap_or_else(|| panic!("{said:#?}"));
    assert_eq!(said.len(), 9, "nbproc, and process eight times: {said:#?}");
    assert_eq!(m.global.nbproc, Some(8));
    let map: Vec<(u32, &[u32])> = m
        .global
        .cpu_map
        .iter()
        .map(|c| (c.worker, c.cpus.as_slice()))
        .collect();
    assert_eq!(map[0], (0, [0].as_slice()));
    assert_eq!(map[7], (7, [14].as_slice()));
    let l = proxy(&m, "l");
    let workers: Vec<&[u32]> = l.binds.iter().map(|b| b.threads.as_slice()).collect();
    assert_eq!(workers[0], [0]);
    assert_eq!(workers[7], [7]);
    assert_eq!(l.servers.len(), 8);
}

#[test]
fn what_may_be_meant_is_shown_in_diagnostic_mode_only() {
    let text = format!(
        "{BASE}backend b\n cookie x insert\n server a 10.0.0.1:80 cookie s weight 0\n server b 10.0.0.2:80 cookie s\nglobal\n maxconn 3\n"
    );
    let said = |diag: bool| -> Vec<String> {
        let mut opts = LoadOptions::new(&Files, &|_| None);
        opts.diag = diag;
        let file = SourceFile {
            name: "h.cfg".into(),
            text: text.clone().into_bytes(),
        };
        let found = load(&[file], &opts).diagnostics;
        found.iter().map(|d| d.message.clone()).collect()
    };
    assert!(said(false).is_empty());
    let said = said(true);
    assert!(
        said[0].starts_with("global section detected after"),
        "{said:?}"
    );
    assert!(
        said[1].contains("'server b/a' : configured with weight of 0"),
        "{said:?}"
    );
    assert!(
        said[2].contains("'server b/b' : same cookie value"),
        "{said:?}"
    );
}

#[test]
fn a_command_socket_is_read_from_one_word() {
    let opts = LoadOptions::new(&Files, &|_| None);
    let socket =
        sluice_config::parse_cli_socket("/run/m.sock,level,admin,mode,660", &opts).unwrap();
    assert_eq!(socket.addrs, [ListenAddr::Unix("/run/m.sock".into())]);
    assert_eq!(
        (socket.level, socket.perms.mode),
        (CliLevel::Admin, Some(0o660))
    );
    assert!(sluice_config::parse_cli_socket("/run/m.sock,levle,admin", &opts).is_err());
    assert!(sluice_config::parse_cli_socket("", &opts).is_err());
}
