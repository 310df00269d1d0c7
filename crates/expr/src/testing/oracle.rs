//! What holds for every expression and every byte, however strange: shared by the fuzz targets and the tests that
//! replay their corpora.

use std::sync::LazyLock;

use crate::compile::Expr;
use crate::fetch::{self, Cursor, Run};
use crate::place::Place;
use crate::testing::{TestEnv, compile};
use crate::value::{Absent, Type};

/// Occurrences an ACL may be shown before something must have gone in circles: more than a head has characters.
const OCCURRENCES_MAX: usize = 1 << 16;

/// Reads `data` as an expression up to its first line feed, then a message the expression runs on.
pub fn check_expression(data: &[u8]) {
    let (text, message) = match memchr::memchr(b'\n', data) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &b""[..]),
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match compile(text, Place::empty()) {
        Ok(expr) => {
            assert_eq!(&*expr.text, text);
            for env in worlds(message) {
                check_values(&expr, &env);
            }
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!(
                text.get(error.span.clone()).is_some(),
                "{error:?} points outside"
            );
        }
    }
}

/// Runs every fetch of raw content on `data`, whole and cut short.
pub fn check_content(data: &[u8]) {
    let whole = TestEnv::bytes(data, true);
    let part = TestEnv::bytes(&data[..data.len() / 2], false);
    for text in [
        "req.ssl_sni",
        "req.ssl_alpn",
        "req.ssl_ec_ext",
        "req.ssl_st_ext",
        "req.ssl_hello_type",
        "req.ssl_ver",
        "req.ssl_cipherlist",
        "req.ssl_sigalgs",
        "req.ssl_supported_groups",
        "req.ssl_keyshare_groups",
        "req.rdp_cookie",
        "req.rdp_cookie(mstshash)",
        "req.rdp_cookie_cnt(a)",
        "distcc_param(ARGV,2)",
        "distcc_body(DOTI)",
        "req.payload(3,5)",
        "req.payload_lv(1,2)",
        "req.payload_lv(0,1,-1)",
        "req.len",
    ] {
        let expr = compile(text, Place::empty()).expect(text);
        check_values(&expr, &whole);
        let (early, late) = (expr.eval(&part), expr.eval(&whole));
        assert!(
            !matches!(late, Err(Absent::NotYet)),
            "{text} waits for data that cannot come"
        );
        // What is certain from a part is true of the whole.
        match early {
            Ok(sample) if !sample.may_change => {
                assert_eq!(Some(sample.value), late.ok().map(|s| s.value), "{text}")
            }
            Err(Absent::Never) => assert!(late.is_err(), "{text} came back"),
            _ => {}
        }
    }
}

/// Every fetch that works without arguments, on whatever `data` is.
pub fn check_fetches(data: &[u8]) {
    static ALL: LazyLock<Vec<Expr>> = LazyLock::new(|| {
        let working = fetch::all()
            .iter()
            .filter(|def| matches!(def.run, Run::Fn(_)));
        let bare = working.filter(|def| def.args.required == 0);
        bare.map(|def| compile(def.name, Place::empty()).expect(def.name))
            .collect()
    });
    for env in worlds(data) {
        for expr in ALL.iter() {
            check_values(expr, &env);
        }
    }
}

/// The message as raw content, and as a request when it is one.
fn worlds(message: &[u8]) -> Vec<TestEnv> {
    let mut worlds = vec![TestEnv::bytes(message, true)];
    worlds.extend(TestEnv::try_request(message).ok());
    worlds
}

/// All values are of the promised type, and come to an end.
fn check_values(expr: &Expr, env: &TestEnv) {
    let mut text = Vec::new();
    if let Ok(sample) = expr.eval(env) {
        let got = sample.value.type_of();
        let fits = match expr.out {
            Type::Any | Type::Same => true,
            Type::Addr => matches!(got, Type::Ipv4 | Type::Ipv6),
            // `protobuf` and `ungrpc` give integers, as HAProxy's do.
            Type::Bin => matches!(got, Type::Bin | Type::Str | Type::Sint),
            out => got == out,
        };
        assert!(fits, "{expr:?} gave {got:?}");
        sample.value.write_text(&mut text);
    }
    let mut cursor = Cursor::default();
    for n in 0.. {
        match expr.eval_next(env, &mut cursor) {
            Ok(sample) if sample.not_last => {
                assert!(n < OCCURRENCES_MAX, "{expr:?} goes in circles")
            }
            _ => break,
        }
    }
}

/// Replays `fuzz/corpus/NAME`.
#[cfg(test)]
pub(super) fn replay(name: &str, check: fn(&[u8])) {
    let corpus = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut inputs = 0;
    for entry in std::fs::read_dir(&corpus).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let data = std::fs::read(&path).expect("an input");
        let result = std::panic::catch_unwind(|| check(&data));
        assert!(
            result.is_ok(),
            "replay with `fuzz/run {name} {}`",
            path.display()
        );
        inputs += 1;
    }
    assert!(inputs > 0, "{corpus} is empty");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_hold_on_the_corpus() {
        replay("expression", check_expression);
    }

    #[test]
    fn raw_content_holds_on_the_corpus() {
        replay("content", check_content);
    }

    #[test]
    fn fetches_hold_on_the_corpora_of_requests() {
        replay("http1_request", check_fetches);
        replay("content", check_fetches);
    }
}
