//! Actions on the request line: method, path, query, whole URI, normalisation.

use std::sync::Arc;

use sluice_expr::LogFormat;
use sluice_expr::pattern::Regex;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Action, NormalizeUri};
use crate::proxy::rules::{RuleWords, ready};
use crate::proxy::{choice, format, regex};
use crate::raw::RawAction;

actions! {
    "set-method" in [req] "<fmt>" "change the method"
        => |cx, line, words| ready(Action::SetMethod(one_format(cx, line, words)?));
    "set-path" in [req] "<fmt>" "change the path, not the query string"
        => |cx, line, words| ready(Action::SetPath(one_format(cx, line, words)?));
    "set-pathq" in [req] "<fmt>" "change the path and the query string"
        => |cx, line, words| ready(Action::SetPathq(one_format(cx, line, words)?));
    "set-query" in [req] "<fmt>" "change the query string"
        => |cx, line, words| ready(Action::SetQuery(one_format(cx, line, words)?));
    "set-uri" in [req] "<fmt>" "change the whole request URI"
        => |cx, line, words| ready(Action::SetUri(one_format(cx, line, words)?));
    "replace-path" in [req] "<regex> <fmt>" "replace what matches in the path"
        => |cx, line, words| {
            let (regex, replace) = regex_format(cx, line, words)?;
            ready(Action::ReplacePath { regex, replace })
        };
    "replace-pathq" in [req] "<regex> <fmt>" "replace what matches in the path and the query string"
        => |cx, line, words| {
            let (regex, replace) = regex_format(cx, line, words)?;
            ready(Action::ReplacePathq { regex, replace })
        };
    "replace-uri" in [req] "<regex> <fmt>" "replace what matches in the whole URI"
        => |cx, line, words| {
            let (regex, replace) = regex_format(cx, line, words)?;
            ready(Action::ReplaceUri { regex, replace })
        };
    "normalize-uri" in [req] "<normalizer> [ strict | full ]" "write the URI in a normal form"
        => normalize_uri;
}

fn one_format(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<LogFormat> {
    let format = format(cx, line, words.at, words.place)?;
    words.at += 1;
    Some(format)
}

fn regex_format(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<(Arc<Regex>, LogFormat)> {
    let regex = regex(cx, line, words.at, false)?;
    let replace = format(cx, line, words.at + 1, words.place)?;
    words.at += 2;
    Some((regex, replace))
}

fn normalize_uri(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let among = [
        ("fragment-encode", NormalizeUri::FragmentEncode),
        ("fragment-strip", NormalizeUri::FragmentStrip),
        ("path-merge-slashes", NormalizeUri::PathMergeSlashes),
        ("path-strip-dot", NormalizeUri::PathStripDot),
        (
            "path-strip-dotdot",
            NormalizeUri::PathStripDotdot { full: false },
        ),
        (
            "percent-decode-unreserved",
            NormalizeUri::PercentDecodeUnreserved { strict: false },
        ),
        (
            "percent-to-uppercase",
            NormalizeUri::PercentToUppercase { strict: false },
        ),
        ("query-sort-by-name", NormalizeUri::QuerySortByName),
    ];
    let mut normalizer = choice(cx, line, words.at, &among)?;
    words.at += 1;
    let more = line.word(words.at);
    let taken = match (&mut normalizer, more) {
        (NormalizeUri::PathStripDotdot { full }, "full") => {
            *full = true;
            1
        }
        (
            NormalizeUri::PercentDecodeUnreserved { strict }
            | NormalizeUri::PercentToUppercase { strict },
            "strict",
        ) => {
            *strict = true;
            1
        }
        _ => 0,
    };
    words.at += taken;
    ready(Action::NormalizeUri(normalizer))
}
