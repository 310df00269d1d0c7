//! Actions that change pattern lists and maps while traffic flows.

use std::sync::Arc;

use sluice_expr::LogFormat;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::Action;
use crate::proxy::rules::{RuleWords, ready};
use crate::proxy::{format, text_format};

actions! {
    "set-map*" in [req res after] "(<map>) <key fmt> <value fmt>" "set an entry of a map"
        => |cx, line, words| {
            let list = list(cx, line, words)?;
            let key = next_format(cx, line, words)?;
            let value = next_format(cx, line, words)?;
            ready(Action::SetMap { list, key, value })
        };
    "del-map*" in [req res after] "(<map>) <key fmt>" "remove an entry of a map"
        => |cx, line, words| {
            let list = list(cx, line, words)?;
            let key = next_format(cx, line, words)?;
            ready(Action::DelMap { list, key })
        };
    "add-acl*" in [req res after] "(<file>) <key fmt>" "add a pattern to a list"
        => |cx, line, words| {
            let list = list(cx, line, words)?;
            let key = next_format(cx, line, words)?;
            ready(Action::AddAcl { list, key })
        };
    "del-acl*" in [req res after] "(<file>) <key fmt>" "remove a pattern from a list"
        => |cx, line, words| {
            let list = list(cx, line, words)?;
            let key = next_format(cx, line, words)?;
            ready(Action::DelAcl { list, key })
        };
}

/// What stands in the parentheses of the action's own word: the list's name, which may be a log-format.
fn list(cx: &mut Cx<'_>, line: &Arc<Line>, words: &RuleWords) -> Option<LogFormat> {
    let word = line.keyword_len - 1;
    let inner = super::stream::inside(cx, line, word, "a list's name, as in `set-map(file.map)`")?;
    text_format(cx, line, word, &inner, words.place)
}

fn next_format(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<LogFormat> {
    let format = format(cx, line, words.at, words.place)?;
    words.at += 1;
    Some(format)
}
