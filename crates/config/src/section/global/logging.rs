//! `log`, `log-tag`, `log-send-hostname` of the `global` section.

use std::sync::Arc;

use super::{first_time, only_text};
use crate::cx::Cx;
use crate::line::{Line, Prefix};
use crate::registry::{Keyword, Sections, kw};

const G: Sections = Sections::GLOBAL;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("log", G, "<address> [len <length>] [format <format>] [sample <ranges>:<size>] <facility> [<level> [<minlevel>]]",
        "where `log global` sends, and the process's own events", log).no(),
    kw("log-tag", G, "<string>", "program name in syslog messages", |cx, line| {
        if let Some(tag) = only_text(cx, line, "a tag for use in syslog") { cx.global().log_tag = Some(tag); }
    }),
    kw("log-send-hostname", G, "[<name>]", "host name in syslog messages; without a name, the machine's", |cx, line| {
        if !cx.no_more(line, line.keyword_len + 1) { return }
        if first_time(cx, line, cx.raw.global.log_send_hostname.is_some()) {
            // Empty: the machine's, which only the process knows.
            cx.global().log_send_hostname = Some(line.arg(0).to_owned());
        }
    }),
];

fn log(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.prefix == Prefix::No {
        if cx.no_more(line, line.keyword_len) {
            cx.global().logs.clear();
            cx.raw.global_log_lines.clear();
        }
        return;
    }
    if line.arg(0) == "global" {
        cx.error_at(
            line,
            line.keyword_len,
            "log : 'global' is not supported for a global syslog server",
        );
        return;
    }
    if let Some(target) = cx.log_target(line, line.keyword_len) {
        cx.global().logs.push(target);
        cx.raw.global_log_lines.push(line.clone());
    }
}
