//! `regsub`: replaces what a regular expression matches, like sed's `s///`.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, str_arg, text_arg};
use crate::env::Env;
use crate::pattern::{Captures, Regex, check_template, expand};
use crate::value::{Fetched, Sample, Value};

converters! {
    "regsub" (Reg, Str; Str) Str -> Str, regsub, prepare prepare_regsub
        => "Replaces the first match of a regular expression, or with the flag `g` all; `i` ignores case; `\\0` to `\\9` are \
            what was matched.";
}

/// The compiled arguments.
struct Substitution {
    regex: Regex,
    global: bool,
    with: Replacement,
}

enum Replacement {
    /// The same text for every match.
    Text(Vec<u8>),
    /// It quotes groups of the match.
    Template(Vec<u8>),
}

impl Replacement {
    fn new(template: &[u8]) -> Replacement {
        let quotes_groups = template
            .windows(2)
            .any(|w| w[0] == b'\\' && w[1].is_ascii_digit());
        if quotes_groups {
            return Replacement::Template(template.to_vec());
        }
        let mut text = Vec::new();
        expand(template, b"", &Captures::new(), &mut text);
        Replacement::Text(text)
    }
}

fn prepare_regsub(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let flags = str_arg(args, 2);
    if let Some(flag) = flags.iter().find(|f| !b"ig".contains(f)) {
        let flag = char::from(*flag);
        return Err(BadArg::new(
            2,
            format!("'{flag}' is no flag; there are `i` and `g`"),
        ));
    }
    let (ignore_case, global) = (flags.contains(&b'i'), flags.contains(&b'g'));
    let pattern = text_arg(args, 0)?;
    if pattern.is_empty() {
        return Err(BadArg::new(0, "the regular expression is empty"));
    }
    let regex = Regex::new(pattern, ignore_case).map_err(|e| BadArg::new(0, e))?;
    check_template(str_arg(args, 1)).map_err(|e| BadArg::new(1, e))?;
    let with = Replacement::new(str_arg(args, 1));
    set_prepared(
        args,
        0,
        Substitution {
            regex,
            global,
            with,
        },
    );
    Ok(())
}

thread_local! {
    /// Room for the groups, kept so that a match allocates nothing.
    static CAPTURES: RefCell<Captures> = RefCell::new(Captures::new());
}

fn regsub<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let substitution = prepared::<Substitution>(args, 0)?;
        let replaced = match &substitution.with {
            Replacement::Text(with) => substitution.replace(&s, |start, out| {
                let found = substitution.regex.find_at(&s, start)?;
                out.extend_from_slice(&s[start..found.start]);
                out.extend_from_slice(with);
                Some(found.end)
            }),
            Replacement::Template(with) => CAPTURES.with_borrow_mut(|captures| {
                substitution.replace(&s, |start, out| {
                    if !substitution.regex.captures_at(&s, start, captures) {
                        return None;
                    }
                    let found = captures.group(0)?;
                    out.extend_from_slice(&s[start..found.start]);
                    expand(with, &s, captures, out);
                    Some(found.end)
                })
            }),
        };
        Some(Value::Str(replaced.map_or(s, Cow::Owned)))
    })
}

impl Substitution {
    /// The text with its replacements; `None` when nothing matches. `next` writes what stands from an offset to the next
    /// match, then what replaces it, and says where the match ends.
    ///
    /// As HAProxy, an empty match before a character copies that character, and the end of the text is tried once more
    /// after a match that reaches it: `$` replaced by `-` everywhere makes `abc--` of `abc`.
    fn replace(
        &self,
        text: &[u8],
        mut next: impl FnMut(usize, &mut Vec<u8>) -> Option<usize>,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut end = next(0, &mut out)?;
        out.reserve(text.len() - end);
        let mut at = 0;
        while let Some(c) = text.get(at) {
            if end == at {
                out.push(*c);
                at += 1;
            } else {
                at = end;
            }
            if !self.global {
                break;
            }
            match next(at, &mut out) {
                Some(next_end) => end = next_end,
                None => break,
            }
        }
        out.extend_from_slice(text.get(at..).unwrap_or_default());
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_new, check_refused};

    #[test]
    fn first_or_all() {
        check_all(&[
            (
                "str(/////a///b/c/xzxyz/),regsub('/+','/','g')",
                Some("/a/b/c/xzxyz/"),
            ),
            ("str(abcabc),regsub(b,X)", Some("aXcabc")),
            ("str(abcabc),regsub(b,X,g)", Some("aXcaXc")),
            ("str(aBcabc),regsub(b,X,gi)", Some("aXcaXc")),
            ("str(aBcabc),regsub(b,X,ig)", Some("aXcaXc")),
            ("str(abc),regsub('b',X,)", Some("aXc")),
            ("str(abc),regsub(b,)", Some("ac")),
            ("str(abc),regsub(x,y)", Some("abc")),
            ("str(aaa),regsub(aa,b,g)", Some("ba")),
            ("str(ab12),regsub('[[:digit:]]','#',g)", Some("ab##")),
            ("str(hello world),regsub('o\\b','0',g)", Some("hell0 world")),
            ("str(abcabc),regsub('(?<=a)b','X',g)", Some("aXcaXc")),
            ("str(),regsub('^$',X)", Some("X")),
            ("str(),regsub(x,X)", Some("")),
        ]);
    }

    #[test]
    fn empty_matches_and_ends() {
        check_all(&[
            ("str(abc),regsub(x*,-,g)", Some("-a-b-c-")),
            ("str(abc),regsub(x*,-)", Some("-abc")),
            ("str(abc),regsub('$','-',g)", Some("abc--")),
            ("str(abc),regsub('^','-',g)", Some("-abc")),
            ("str(aaab),regsub('^a','X',g)", Some("Xaab")),
            ("str(abcd),regsub('b|$','-',g)", Some("a-cd--")),
            ("str(abcd),regsub('a*','-',g)", Some("--b-c-d-")),
            ("str(baac),regsub('a*','-',g)", Some("-b--c-")),
        ]);
    }

    #[test]
    fn groups() {
        check_all(&[
            (
                "str(foo12bar3),regsub('(foo|bar)([0-9]+)?','\\2\\1',g)",
                Some("12foo3bar"),
            ),
            (
                "str(foo12bar3),regsub(\"(foo|bar)([0-9]+)?\",\"\\\\2\\\\1\",g)",
                Some("12foo3bar"),
            ),
            ("str(abc),regsub('(b)','[\\0]')", Some("a[b]c")),
            ("str(abc),regsub('(b)','[\\9]')", Some("a[]c")),
            ("str(ab),regsub('(a)(b)(c)?','<\\3>')", Some("<>")),
            ("str(abc),regsub('b','\\x41')", Some("aAc")),
            ("str(abc),regsub('b','\\\\')", Some("a\\c")),
            ("str(abc),regsub('b','\\n')", Some("anc")),
            ("str(abc),regsub('b','$1&')", Some("a$1&c")),
        ]);
    }

    #[test]
    fn bad_arguments_are_refused() {
        check_refused(&[("str(abc),regsub('b',X,q)", "flag")]);
        // HAProxy looks at these once the whole file is read.
        check_refused(&[
            ("str(abc),regsub('(b',X)", "("),
            ("str(abc),regsub(,X)", "empty"),
        ]);
        // HAProxy takes these and answers with an error or worse when they run.
        let world = World::new(b"");
        assert!(world.run(r"str(abc),regsub('b','a\')").is_err());
        assert!(world.run(r"str(abc),regsub('b','\x4')").is_err());
    }

    /// HAProxy looks at each rest as a text of its own, so that `\b` holds at its beginning, and gives `-YY`.
    #[test]
    fn what_precedes_a_match_is_seen() {
        check_new(&[("str(-xx),regsub('\\bx',Y,g)", Some("-Yx"))]);
    }

    proptest! {
        #[test]
        fn literal_patterns_replace_like_a_string_search(text in "[ab]{0,20}") {
            let got = World::new(text.as_bytes()).run("hdr,regsub(ab,-,g)").unwrap();
            prop_assert_eq!(got, Some(text.replace("ab", "-").into_bytes()));
        }
    }
}
