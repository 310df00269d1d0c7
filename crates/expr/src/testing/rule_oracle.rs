//! What holds for every ACL, condition and log-format, however strange: shared by the fuzz targets and the tests that
//! replay their corpora.

use crate::acl::{AclTable, Cond, Tri};
use crate::compile::{Loader, ParseCtx};
use crate::error::ExprError;
use crate::logformat::{LogFormat, Purpose};
use crate::pattern::Store;
use crate::place::Place;
use crate::testing::TestEnv;

/// Every file is the message.
struct OneFile<'f>(&'f [u8]);

impl Loader for OneFile<'_> {
    fn load(&self, _path: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.to_vec())
    }
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
    fn resolve(&self, host: &str) -> Result<std::net::IpAddr, String> {
        match host.len() % 2 {
            0 => Ok([192, 0, 2, 1].into()),
            _ => Err("no such name".into()),
        }
    }
}

fn with_ctx<R>(message: &[u8], http: bool, f: impl FnOnce(&ParseCtx<'_>) -> R) -> R {
    let store = Store::new();
    f(&ParseCtx {
        place: Place::empty(),
        loader: &OneFile(message),
        store: &store,
        file: "fuzz.cfg",
        line: 1,
        http,
        acls: None,
    })
}

/// The parts before and after the first empty line.
fn parts(data: &[u8]) -> Option<(&str, &[u8])> {
    let (text, message) = match memchr::memmem::find(data, b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &b""[..]),
    };
    Some((std::str::from_utf8(text).ok()?, message))
}

fn worlds(message: &[u8]) -> Vec<TestEnv> {
    let mut worlds = vec![
        TestEnv::bytes(message, true),
        TestEnv::bytes(message, false),
    ];
    worlds.extend(TestEnv::try_request(message).ok());
    worlds
}

fn check_fault(error: &ExprError, words: &[&str]) {
    assert!(!error.message.is_empty());
    assert!(error.word <= words.len(), "{error:?} points outside");
    if let Some(word) = words.get(error.word) {
        assert!(
            word.get(error.span.clone()).is_some(),
            "{error:?} points outside of {word:?}"
        );
    }
}

/// Reads `data` as lines, each a condition (`if`, `unless`) or a declaration without its `acl`, up to the first empty
/// one; then a message the conditions look at.
pub fn check_condition(data: &[u8]) {
    let Some((text, message)) = parts(data) else {
        return;
    };
    with_ctx(message, true, |ctx| {
        let mut table = AclTable::new();
        let mut conds = Vec::new();
        for line in text.lines().take(50) {
            let words: Vec<&str> = line.split(' ').collect();
            if matches!(words[0], "if" | "unless") {
                match Cond::parse(&words, &table, ctx) {
                    Ok(cond) => conds.push(cond),
                    Err(e) => check_fault(&e, &words),
                }
            } else if let Err(e) = table.declare(&words, ctx) {
                check_fault(&e, &words);
            }
        }
        for env in worlds(message) {
            for cond in &conds {
                // What is certain before the end stays so, but for what is drawn by lot.
                let by_lot = ["rand", "uuid", "set-var", "capture-"];
                match cond.eval(&env) {
                    _ if by_lot.iter().any(|w| text.contains(w)) => {}
                    Tri::Pass => assert!(cond.eval_final(&env), "{cond:?}"),
                    Tri::Fail => assert!(!cond.eval_final(&env), "{cond:?}"),
                    Tri::Miss => {
                        cond.eval_final(&env);
                    }
                }
            }
        }
    });
}

/// Reads `data` as a format up to the first empty line, then a message it is written for.
pub fn check_log_format(data: &[u8]) {
    let Some((text, message)) = parts(data) else {
        return;
    };
    for purpose in [
        Purpose::Log,
        Purpose::LogSd,
        Purpose::UniqueId,
        Purpose::Argument,
        Purpose::Text,
    ] {
        with_ctx(message, data.len().is_multiple_of(2), |ctx| {
            let format = match LogFormat::parse(text, ctx, purpose) {
                Ok(format) => format,
                Err(e) => return check_fault(&e, &[text]),
            };
            for env in worlds(message) {
                let mut out = Vec::new();
                format.write(&env, &mut out);
                if let Some(constant) = format.as_constant() {
                    assert_eq!(constant, out);
                }
                if format.is_json() {
                    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&out);
                    assert!(parsed.is_ok(), "{text} wrote {out:?}");
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::oracle::replay;

    const REQUEST: &str =
        "\n\nGET /p/a?q=1 HTTP/1.1\r\nHost: www.example.com\r\nk: one, x/a/b\r\n\r\n";

    /// Words of the language and a few that are not, in any order.
    fn mixed(
        words: &'static [&'static str],
        between: &'static str,
    ) -> impl Strategy<Value = String> {
        let any =
            prop_oneof![8 => prop::sample::select(words).prop_map(String::from), 1 => "\\PC{0,3}"];
        proptest::collection::vec(any, 0..16).prop_map(move |w| w.join(between) + REQUEST)
    }

    proptest! {
        #[test]
        fn mixed_conditions(text in mixed(
            &[
                "if", "unless", "{", "}", "!", "or", "||", "\n", "a", "\na", "METH_GET", "path", "hdr(k)", "path_beg",
                "src", "int(5)", "req.hdr_cnt(k)", "hdr_dom(k),lower", "-i", "-m", "-f", "-M", "-n", "-u", "--", "str",
                "beg", "reg", "ip", "int", "len", "bin", "sub", "dir", "dom", "found", "bool", "gt", "lt", "5", "1:100",
                "-5", "1.2.3.4/24", "::1", "/p", "^/p", "(a|b)*", "616263", "/",
            ],
            " ",
        )) {
            check_condition(text.as_bytes());
        }

        #[test]
        fn mixed_formats(text in mixed(
            &[
                "%", "%%", "%ci", "%tr", "%hr", "%r", "%{+Q}", "%{+X}o", "%{+json}o", "%{+cbor}o", "%{-M,+E}", "%(a)",
                "%(b:sint)", "(", ")", "[", "]", "{", "}", "%[path]", "%[req.hdr(k)]", "[src]", "path,", "lower]", " ",
                "text", "o", "ST", "\"", "json", "%{+bin}[req.hdr(host)]",
            ],
            "",
        )) {
            check_log_format(text.as_bytes());
        }
    }

    #[test]
    fn conditions_hold_on_the_corpus() {
        replay("condition", check_condition);
    }

    #[test]
    fn formats_hold_on_the_corpus() {
        replay("log_format", check_log_format);
    }
}
