//! Actions that end a rule set, the stream or the connection: allow, deny, reject, redirect, return, auth, services.

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Action, Service};
use crate::proxy::redirect::redirect_action;
use crate::proxy::reply::{deny, return_, tarpit};
use crate::proxy::rules::{RuleSet, RuleWords, ready};
use crate::raw::RawAction;

actions! {
    "accept" in [conn sess content tcpres] "" "let it pass; no further rule of this set is looked at"
        => |_, _, _| ready(Action::Accept);
    "allow" in [req res after stats] "" "let it pass; no further rule of this set is looked at"
        => |_, _, _| ready(Action::Allow);
    "reject" in [conn sess content tcpres req] "" "close without an answer"
        => |_, _, _| ready(Action::Reject);
    "close" in [tcpres] "" "close the connection to the server"
        => |_, _, _| ready(Action::Close);
    "silent-drop" in [conn sess content tcpres req res] "[ rst-ttl <ttl> ]" "forget the connection without telling the client"
        => silent_drop;
    "deny" in [req res stats] "[ { status | deny_status } <code> ] [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <text> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*" "answer with an error"
        => deny;
    "tarpit" in [req] "[ { status | deny_status } <code> ] [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <text> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*" "hold the client for `timeout tarpit`, then answer with an error"
        => tarpit;
    "return" in [req res] "[ status <code> ] [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <text> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*" "answer with a response of one's own"
        => return_;
    "redirect" in [req res] "{ location <fmt> | prefix <fmt> | scheme <fmt> } [ code <code> ] [ <option> ]*" "send the client elsewhere"
        => redirect_action;
    "auth" in [req stats] "[ realm <realm> ]" "ask for a user name and a password"
        => auth;
    "use-service" in [req content] "<service>" "answer with a service of the proxy's own"
        => use_service;
    "switch-mode" in [content] "http [ proto <name> ]" "go on as HTTP"
        => switch_mode;
    "expect-proxy" in [conn] "layer4" "a PROXY protocol header comes first"
        => |cx, line, words| layer4(cx, line, words, Action::ExpectProxy);
    "expect-netscaler-cip" in [conn] "layer4" "a NetScaler client IP header comes first"
        => |cx, line, words| layer4(cx, line, words, Action::ExpectNetscalerCip);
}

fn silent_drop(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let mut rst_ttl = None;
    if line.word(words.at) == "rst-ttl" {
        let ttl = cx.uint(line, words.at + 1, 1..=255)?;
        rst_ttl = u8::try_from(ttl).ok();
        words.at += 2;
    }
    ready(Action::SilentDrop { rst_ttl })
}

fn auth(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let mut realm = String::new();
    if line.word(words.at) == "realm" {
        realm = cx
            .need(line, words.at + 1, "a realm after 'realm'")?
            .to_owned();
        words.at += 2;
    }
    ready(Action::Auth { realm })
}

fn use_service(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let name = cx.need(line, words.at, "a service's name")?;
    let word = words.at;
    words.at += 1;
    match name {
        "prometheus-exporter" if words.set == RuleSet::HttpRequest => {
            ready(Action::UseService(Service::PrometheusExporter))
        }
        "prometheus-exporter" => {
            cx.error_at(
                line,
                word,
                "the service 'prometheus-exporter' only answers to 'http-request' rules",
            );
            None
        }
        name if name.starts_with("lua.") => {
            cx.not_yet(line, word, name, "Lua");
            None
        }
        other => {
            let hint = crate::diag::suggest(other, ["prometheus-exporter"])
                .map(|near| format!("did you mean '{near}'?"));
            cx.error(
                line,
                word,
                0..0,
                format!("'{other}' unknown service name"),
                hint,
            );
            None
        }
    }
}

fn switch_mode(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    if line.word(words.at) != "http" {
        let got = line.word(words.at);
        cx.error_at(
            line,
            words.at,
            format!("'switch-mode' only switches to 'http' (got '{got}')"),
        );
        return None;
    }
    words.at += 1;
    if line.word(words.at) == "proto" {
        match line.word(words.at + 1) {
            "h1" => {}
            "h2" => {
                cx.not_yet(line, words.at + 1, "proto h2", "HTTP/2");
                return None;
            }
            other => {
                let message = format!("unknown protocol '{other}'");
                cx.error(
                    line,
                    words.at + 1,
                    0..0,
                    message,
                    Some("it is 'h1' or 'h2'".into()),
                );
                return None;
            }
        }
        words.at += 2;
    }
    if !cx.proxy().is_defaults() && !cx.proxy().is_frontend() {
        cx.error_at(
            line,
            2,
            "'switch-mode' is not allowed in a proxy without frontend capability",
        );
        return None;
    }
    ready(Action::SwitchModeHttp)
}

fn layer4(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
    action: Action,
) -> Option<RawAction> {
    if line.word(words.at) != "layer4" {
        let message = format!(
            "'{}' expects 'layer4' (got '{}')",
            line.keyword(),
            line.word(words.at)
        );
        cx.error_at(line, words.at, message);
        return None;
    }
    words.at += 1;
    ready(action)
}
