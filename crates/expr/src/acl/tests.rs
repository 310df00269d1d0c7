//! What ACLs and conditions answer: the tables were recorded from Debian's haproxy 2.6.

use super::*;
use crate::compile::{Loader, ParseCtx};
use crate::error::ExprError;
use crate::pattern::Store;
use crate::place::Place;
use crate::testing::TestEnv;

/// A few files and one host name.
struct Files;

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "names" => Ok(b"# who\nwww.example.com\n  api.example.com\n".to_vec()),
            "nets" => Ok(b"10.0.0.0/8\n\nfd00::/8\n".to_vec()),
            "badnets" => Ok(b"10.0.0.0/8\n# no\nnot an address\n".to_vec()),
            "map" => Ok(b"/old /new\n".to_vec()),
            _ => Err(format!("cannot read '{path}': no such file")),
        }
    }
    fn resolve(&self, host: &str) -> Result<std::net::IpAddr, String> {
        match host {
            "gateway.local" => Ok([10, 9, 8, 7].into()),
            _ => Err("no such name".into()),
        }
    }
}

fn with_ctx<R>(f: impl FnOnce(&ParseCtx<'_>) -> R) -> R {
    let store = Store::new();
    f(&ParseCtx {
        place: Place::FE_HTTP_REQ,
        loader: &Files,
        store: &store,
        file: "test.cfg",
        line: 7,
        http: true,
        acls: None,
    })
}

fn table(declarations: &[&str], ctx: &ParseCtx<'_>) -> AclTable {
    let mut table = AclTable::new();
    for d in declarations {
        let words: Vec<&str> = d.split_whitespace().collect();
        table
            .declare(&words, ctx)
            .unwrap_or_else(|e| panic!("{d}: {e}"));
    }
    table
}

fn parse(declarations: &[&str], cond: &str) -> Result<Cond, ExprError> {
    with_ctx(|ctx| {
        let words: Vec<&str> = cond.split_whitespace().collect();
        Cond::parse(&words, &table(declarations, ctx), ctx)
    })
}

fn cond(text: &str) -> Cond {
    parse(&[], text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn holds(env: &TestEnv, test: &str) -> bool {
    cond(&format!("if {{ {test} }}")).eval_final(env)
}

fn check_tests(env: &TestEnv, table: &[(&str, bool)]) {
    let wrong: Vec<&str> = table
        .iter()
        .filter(|(test, want)| holds(env, test) != *want)
        .map(|(test, _)| *test)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn with_header(value: &str) -> TestEnv {
    TestEnv::request(format!("GET /a HTTP/1.1\r\nHost: h\r\nk: {value}\r\n\r\n"))
}

#[test]
fn binary_samples_are_compared_as_bytes() {
    let env = TestEnv::request("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    check_tests(
        &env,
        &[
            ("req.body -m str abc", true),
            ("req.body -m str 616263", false),
            ("req.body -m beg 6162", false),
            ("req.body -m sub b", true),
            ("req.body -m len 3", true),
            ("req.body -m len 6", false),
            ("req.body -m bin 616263", true),
            ("req.body -m bin 61626364", false),
            ("req.body -m reg ^abc$", true),
            ("req.body -m reg ^616263$", false),
            ("req.body -m found", true),
            ("req.body -m end bc", true),
        ],
    );
}

#[test]
fn strings_against_every_method() {
    let tests = [
        "req.hdr(k) -m bin 616263",
        "req.hdr(k) -m int 5",
        "req.hdr(k) -m bool",
        "req.hdr(k) -m len 0",
        "req.hdr(k) -m dir a/b",
        "req.hdr(k) -m dir /",
        "req.hdr(k) -m dom .a.",
        "req.hdr(k) -m dom :",
        "req.hdr(k) -m ip 10.0.0.0/8",
        "req.hdr(k) -i -m str ABC",
        "req.hdr(k) abc",
        "req.hdr_cnt(k) -m bool",
        "req.hdr(k) -m int -- -5",
        "hdr_beg(k) a y",
        "hdr_end(k),lower bc abc",
    ];
    let check = |value: &str, want: &[&str]| {
        let env = with_header(value);
        let got: Vec<&str> = tests.into_iter().filter(|t| holds(&env, t)).collect();
        assert_eq!(got, want, "k: {value}");
    };
    let [
        bin,
        int,
        yes,
        len0,
        dir,
        _,
        dom,
        _,
        ip,
        insensitive,
        exact,
        count,
        minus5,
        beg,
        end,
    ] = tests;
    check("abc", &[bin, insensitive, exact, count, minus5, beg, end]);
    check("", &[len0, count]);
    check("x/a/b", &[dir, dom, count, minus5]);
    check("a:b", &[dom, count, minus5, beg]);
    check("5", &[int, yes, count, minus5]);
    check("-5", &[yes, count, minus5]);
    check("0", &[count, minus5]);
    check("10.1.1.1", &[yes, ip, count]);
    check("ABC", &[insensitive, count, minus5, end]);
}

#[test]
fn integers_and_operators() {
    check_tests(
        &TestEnv::new(),
        &[
            ("int(5) lt -5", true),
            ("int(4) lt -5", true),
            ("int(6) lt -5", false),
            ("int(-5) lt 0", true),
            ("int(5) eq 5:7", true),
            ("int(6) gt 5:7", true),
            ("int(8) gt 5:7", false),
            ("int(5) gt 3 lt 2 9", true),
            ("int(1) gt 3 lt 2", true),
            ("int(3) gt 3 lt 2", false),
            ("int(5) ge 5", true),
            ("int(5) le 4", false),
            ("str(abcd) -m len gt 3", true),
            ("str(abcd) -m len 5:", false),
            ("bool(true) -m int 1", true),
            ("int(2),bool", true),
            ("always_true 5", true),
            ("always_false", false),
        ],
    );
}

#[test]
fn methods_have_case() {
    let with_method = |m: &str| TestEnv::request(format!("{m} / HTTP/1.1\r\nHost: h\r\n\r\n"));
    let tests = [
        "method get",
        "method GET",
        "method -m beg GE",
        "method foo",
        "method -i FOO",
    ];
    let check = |method: &str, want: &[&str]| {
        let env = with_method(method);
        let got: Vec<&str> = tests.into_iter().filter(|t| holds(&env, t)).collect();
        assert_eq!(got, want, "{method}");
    };
    check("GET", &["method GET", "method -m beg GE"]);
    check("get", &["method get"]);
    check("FOO", &["method -i FOO"]);
    check("foo", &["method foo", "method -i FOO"]);
}

#[test]
fn addresses_and_files() {
    let mut env = with_header("www.example.com");
    check_tests(
        &env,
        &[
            ("src 192.0.2.0/24", true),
            ("src -f nets", false),
            ("src -f nets 192.0.2.1", true),
            ("src gateway.local 192.0.2.1/32", true),
            ("src,ipmask(24) 192.0.2.0", true),
            ("hdr(k) -f names", true),
            ("hdr(k) -f names -i x", true),
            ("hdr(k) -m end -f names", true),
            ("path -M -f map", false),
        ],
    );
    if let Some(client) = &mut env.client {
        client.src = crate::env::Addr::Ip(([10, 9, 8, 7], 1).into());
    }
    check_tests(
        &env,
        &[
            ("src gateway.local", true),
            ("src gateway.local/24", true),
            ("src -f nets", true),
            ("src 10.9.8.6", false),
        ],
    );
}

#[test]
fn all_occurrences_are_tried() {
    let env = TestEnv::request("GET / HTTP/1.1\r\nk: one, two\r\nk: three\r\n\r\n");
    check_tests(
        &env,
        &[
            ("req.hdr(k) one", true),
            ("req.hdr(k) two", true),
            ("req.hdr(k) three", true),
            ("req.hdr(k),upper THREE", true),
            ("req.hdr(k) four", false),
            ("req.hdr(k,1) three", false),
            ("req.hdr(nope) -m found", false),
        ],
    );
}

#[test]
fn terms_are_combined() {
    let check = |text: &str, want: bool| {
        let cond = parse(
            &[
                "yes always_true",
                "no always_false",
                "both always_false",
                "both always_true",
            ],
            text,
        )
        .unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(cond.eval_final(&TestEnv::new()), want, "{text}");
        let tri = if want { Tri::Pass } else { Tri::Fail };
        assert_eq!(cond.eval(&TestEnv::new()), tri, "{text}");
    };
    check("if yes", true);
    check("if no", false);
    check("unless no", true);
    check("if yes no", false);
    check("if yes !no", true);
    check("if ! no", true);
    check("if !!no", false);
    check("if no or yes", true);
    check("if no || yes", true);
    check("if no OR yes", true);
    check("if yes no or no yes", false);
    check("if both", true);
    check("if { always_true } !{ always_false }", true);
    check("if TRUE FALSE", false);
    check("unless TRUE FALSE", true);
    // As haproxy takes them: nothing to fulfil is never fulfilled.
    check("if", false);
    check("unless", true);
    check("if !", false);
    check("if no or", false);
    check("if || yes", true);
}

#[test]
fn alternatives_added_later_count_in_earlier_conditions() {
    with_ctx(|ctx| {
        let mut table = table(&["a always_false"], ctx);
        let cond = Cond::parse(&["if", "a"], &table, ctx).unwrap();
        assert!(!cond.eval_final(&TestEnv::new()));
        table.declare(&["a", "always_true"], ctx).unwrap();
        assert!(cond.eval_final(&TestEnv::new()));
    });
}

#[test]
fn what_is_not_there_yet_is_waited_for() {
    let pending = TestEnv::bytes("GE", false);
    let cond = cond("if { req.len gt 5 }");
    assert_eq!(cond.eval(&pending), Tri::Miss);
    assert!(!cond.eval_final(&pending));
    assert_eq!(cond.eval(&TestEnv::bytes("GET / ", false)), Tri::Pass);
    let not = parse(&[], "if !{ req.len gt 5 }").unwrap();
    assert_eq!(not.eval(&pending), Tri::Miss);
    assert!(not.eval_final(&pending));
    let unless = parse(&[], "unless { req.len gt 5 }").unwrap();
    assert_eq!(unless.eval(&pending), Tri::Miss);
    // Certainty elsewhere ends the wait.
    assert_eq!(
        parse(&[], "if { req.len gt 5 } or TRUE")
            .unwrap()
            .eval(&pending),
        Tri::Pass
    );
    assert_eq!(
        parse(&[], "if FALSE { req.len gt 5 }")
            .unwrap()
            .eval(&pending),
        Tri::Fail
    );
}

#[test]
fn predefined_acls() {
    let env = TestEnv::request("POST http://x/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    let check = |name: &str, want: bool| {
        assert_eq!(cond(&format!("if {name}")).eval_final(&env), want, "{name}");
    };
    check("TRUE", true);
    check("FALSE", false);
    check("HTTP_1.1", true);
    check("HTTP_1.0", false);
    check("HTTP_CONTENT", false);
    check("HTTP_URL_ABS", true);
    check("HTTP_URL_SLASH", false);
    check("HTTP_URL_STAR", false);
    check("LOCALHOST", false);
    check("METH_POST", true);
    check("METH_GET", false);
    // Every name of the manual's table stands for something that compiles.
    for name in [
        "HTTP",
        "HTTP_2.0",
        "METH_CONNECT",
        "METH_DELETE",
        "METH_HEAD",
        "METH_OPTIONS",
        "METH_PUT",
        "METH_TRACE",
        "RDP_COOKIE",
        "REQ_CONTENT",
        "WAIT_END",
    ] {
        cond(&format!("if {name}"));
    }
    // A declared one of the same name goes first.
    let own = parse(&["METH_GET always_true"], "if METH_GET").unwrap();
    assert!(own.eval_final(&env));
}

#[test]
fn faults_point_at_their_word() {
    let check = |text: &str, word: usize, message: &str, hint: &str| {
        let e = parse(&["a path /x"], text).unwrap_err();
        assert_eq!((e.word, e.message.as_str()), (word, message), "{text}");
        let got = e.hint.unwrap_or_default();
        assert!(
            got.contains(hint) && got.is_empty() == hint.is_empty(),
            "{text}: {got}"
        );
    };
    check(
        "maybe a",
        0,
        "a condition begins with 'if' or 'unless', not with 'maybe'",
        "",
    );
    check(
        "if other",
        1,
        "no ACL is called 'other'",
        "declare it before",
    );
    check(
        "if a METH_GTE",
        2,
        "no ACL is called 'METH_GTE'",
        "'METH_GET'",
    );
    check(
        "if {path /x}",
        1,
        "no ACL is called '{path'",
        "spaces around",
    );
    check(
        "if a { path /x",
        2,
        "the '{' of this anonymous ACL is not closed",
        "'}'",
    );
    check("if a { path /x } }", 6, "no ACL is called '}'", "spaces");
    check("if { }", 2, "an ACL needs a criterion", "`path_beg`");
    check(
        "if { pathbeg /x }",
        2,
        "unknown sample fetch `pathbeg`",
        "`path_beg`",
    );
    check(
        "if { path -x foo }",
        3,
        "'-x' is not a flag of ACLs",
        "'--'",
    );
    check("if { src -5 }", 3, "'-5' is not a flag of ACLs", "'--'");
    check(
        "if { path -m zork foo }",
        4,
        "unknown matching method 'zork'",
        "str",
    );
    check(
        "if { path -m rex foo }",
        4,
        "unknown matching method 'rex'",
        "'reg'",
    );
    check(
        "if { path -m }",
        3,
        "'-m' needs a matching method after it",
        "",
    );
    check("if { path -f }", 3, "'-f' needs a file after it", "");
    check(
        "if { path -u x }",
        4,
        "the argument of -u must be a number, not 'x'",
        "",
    );
    check(
        "if { path -f names -m beg }",
        5,
        "'-m' must come before the files and patterns it is for",
        "",
    );
    check(
        "if { int(5) -- 7:3 }",
        4,
        "'7:3' is not a valid number range",
        "",
    );
    check("if { int(5) gt abc }", 4, "'abc' is not a number", "");
    check(
        "if { src 10.0.0.1 1.2.3.4/33 }",
        4,
        "'1.2.3.4/33' has an invalid network mask",
        "",
    );
    check(
        "if { src -n gateway.local }",
        4,
        "'gateway.local' is not a valid IPv4 or IPv6 address",
        "",
    );
    check(
        "if { src -f badnets }",
        4,
        "'not an address' is not a valid IPv4 or IPv6 address at line 3 of file 'badnets'",
        "",
    );
    check(
        "if { path -f gone }",
        4,
        "cannot read 'gone': no such file",
        "an empty file",
    );
    check(
        "if { path_reg /a ( }",
        4,
        "regex '(' is invalid: missing closing parenthesis at offset 1",
        "a backslash",
    );
    check(
        "if { req.body -m bin 616 }",
        5,
        "'616' has an odd number of hexadecimal digits: each byte takes two",
        "",
    );
    check(
        "if { bool(1) -m ip 1.1.1.1 }",
        4,
        "matching method 'ip' cannot be used with `bool(1)`, which gives a boolean",
        "",
    );
    check(
        "if { req.body abc }",
        2,
        "`req.body` gives binary data, which has no matching method of its own",
        "'-m'",
    );
}

#[test]
fn declarations_have_rules() {
    let check = |words: &str, word: usize, message: &str| {
        let e = with_ctx(|ctx| {
            let words: Vec<&str> = words.split_whitespace().collect();
            AclTable::new().declare(&words, ctx).unwrap_err()
        });
        assert_eq!((e.word, e.message.as_str()), (word, message), "{words}");
    };
    check("", 0, "'acl' needs a name and a criterion");
    check("a", 1, "an ACL needs a criterion");
    check(
        "bad!name path /x",
        0,
        "character '!' is not permitted in ACL name 'bad!name'",
    );
    check(
        "or path /x",
        0,
        "an ACL called 'or' could never be used: 'or' joins the terms of a condition",
    );
    check(
        "a path -u 1.5 x",
        3,
        "the argument of -u must be a number, not '1.5'",
    );
}

#[test]
fn what_can_never_match_is_told() {
    let rule = "frontend 'http-request' header rule";
    let check = |text: &str, want: Option<&str>| {
        let cond = parse(
            &[
                "q status 200",
                "q2 status 200",
                "q2 path /x",
                "fine path /y",
            ],
            text,
        )
        .unwrap();
        assert_eq!(
            cond.conflict(Place::FE_HTTP_REQ, rule).as_deref(),
            want,
            "{text}"
        );
    };
    check("if fine", None);
    check(
        "if fine q",
        Some(
            "ACL 'q' will never match because it only involves keywords that are incompatible with 'frontend \
             'http-request' header rule'",
        ),
    );
    check(
        "if q2",
        Some(
            "ACL 'q2' involves keyword 'status' which is incompatible with 'frontend 'http-request' header rule'",
        ),
    );
    check(
        "if { res.hdr(x) foo }",
        Some(
            "anonymous ACL will never match because it uses keyword 'res.hdr(x)' which is incompatible with \
             'frontend 'http-request' header rule'",
        ),
    );
}

#[test]
fn doubtful_things_are_warned_about() {
    let check = |text: &str, want: &str| {
        let warned: Vec<String> = cond(text)
            .warnings()
            .iter()
            .map(|w| w.message.clone())
            .collect();
        assert_eq!(warned.join("; "), want, "{text}");
    };
    check(
        "if { path }",
        "no pattern to match `path` against, so this ACL will never match",
    );
    check("if { path -- }", "");
    check("if { path -m found }", "");
    check("if { always_true }", "");
    check("if", "this condition has no term: it never applies");
    check(
        "if { int(1) gt -5 }",
        "'-5' is the range of all numbers up to 5, not a negative number",
    );
}

/// Random patterns of every method against random samples, as haproxy decided.
#[test]
fn the_recorded_conditions_agree() {
    let recorded = include_str!("recorded.txt");
    let samples: Vec<&str> = recorded
        .lines()
        .filter_map(|l| l.strip_prefix("= "))
        .collect();
    let worlds: Vec<TestEnv> = samples.iter().map(|s| with_header(s)).collect();
    let mut lines = recorded.lines();
    let mut wrong = Vec::new();
    let mut conditions = 0;
    while let Some(line) = lines.next() {
        let Some(test) = line.strip_prefix("? ") else {
            continue;
        };
        let hits = lines.next().and_then(|l| l.strip_prefix(':')).unwrap();
        let want: Vec<usize> = hits
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        let cond = cond(&format!("if {{ {} }}", test.replace("\\\\", "\\")));
        for (n, env) in worlds.iter().enumerate() {
            if cond.eval_final(env) != want.contains(&n) {
                wrong.push(format!(
                    "{test}: '{}' should be {}",
                    samples[n],
                    want.contains(&n)
                ));
            }
        }
        conditions += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(conditions > 100 && samples.len() > 50);
}
