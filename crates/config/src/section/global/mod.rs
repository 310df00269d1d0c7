//! Keywords of the `global` section (manual chapter 3), one file a topic.

mod case;
mod cpu;
mod environment;
mod later;
mod limits;
mod logging;
mod process;
mod stats;
mod tune;

pub(crate) use cpu::expand as expand_cpu_map;

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::registry::Keyword;

/// The tables, in the order of the documentation.
pub(crate) static TABLES: &[&[Keyword]] = &[
    process::KEYWORDS,
    environment::KEYWORDS,
    limits::KEYWORDS,
    cpu::KEYWORDS,
    logging::KEYWORDS,
    stats::KEYWORDS,
    case::KEYWORDS,
    tune::KEYWORDS,
    later::KEYWORDS,
];

/// Keeps the first of two values, as HAProxy does, and says so. True when there was none yet.
fn first_time(cx: &mut Cx<'_>, line: &Line, already: bool) -> bool {
    if already {
        cx.warn(
            line,
            0,
            format!("'{}' already specified. Continuing.", line.keyword()),
            Some("the first value is kept".into()),
        );
    }
    !already
}

/// The keyword's only argument as an integer of some range.
fn only_uint(cx: &mut Cx<'_>, line: &Arc<Line>, low: u32, high: u32) -> Option<u32> {
    let n = cx.uint(line, line.keyword_len, low..=high)?;
    cx.no_more(line, line.keyword_len + 1).then_some(n)
}

/// The keyword's only argument as a time in milliseconds.
fn only_time_ms(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<u64> {
    let ms = cx.time_ms(line, line.keyword_len, crate::values::TimeUnit::Ms)?;
    cx.no_more(line, line.keyword_len + 1).then_some(ms)
}

/// The keyword's only argument as a text that is not empty.
fn only_text(cx: &mut Cx<'_>, line: &Arc<Line>, what: &str) -> Option<String> {
    let text = cx.need(line, line.keyword_len, what)?.to_owned();
    cx.no_more(line, line.keyword_len + 1).then_some(text)
}

/// A switch: the keyword alone; `no` turns it off, `default` gives what it was without.
fn switch(cx: &mut Cx<'_>, line: &Arc<Line>, default: bool) -> Option<bool> {
    use crate::line::Prefix;
    if !cx.no_more(line, line.keyword_len) {
        return None;
    }
    Some(match line.prefix {
        Prefix::None => true,
        Prefix::No => false,
        Prefix::Default => default,
    })
}
