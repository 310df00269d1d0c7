//! Tables of `json_query`: HAProxy 2.6's answers, and what must hold for any input.

use proptest::prelude::*;

use super::format_g;
use crate::conv::testing::{World, check_header, check_header_new, check_refused};

#[test]
fn as_haproxy_answers() {
    check_header(&[
        (b"{\"a\":1}", "hdr,json_query('$.a')", Some(b"1")),
        (b"{\"a\":1.5}", "hdr,json_query('$.a')", Some(b"1.5")),
        (b"{\"a\":1e3}", "hdr,json_query('$.a')", Some(b"1000")),
        (b"{\"a\":1e30}", "hdr,json_query('$.a')", Some(b"1e+30")),
        (
            b"{\"a\":-0.00001}",
            "hdr,json_query('$.a')",
            Some(b"-1e-05"),
        ),
        (
            b"{\"a\":123456789}",
            "hdr,json_query('$.a')",
            Some(b"1.23457e+08"),
        ),
        (
            b"{\"a\":1234567}",
            "hdr,json_query('$.a')",
            Some(b"1.23457e+06"),
        ),
        (b"{\"a\":100000}", "hdr,json_query('$.a')", Some(b"100000")),
        (b"{\"a\":1000000}", "hdr,json_query('$.a')", Some(b"1e+06")),
        (b"{\"a\":0.1}", "hdr,json_query('$.a')", Some(b"0.1")),
        (b"{\"a\":-0}", "hdr,json_query('$.a')", Some(b"-0")),
        (
            b"{\"a\":3.14159265358979}",
            "hdr,json_query('$.a')",
            Some(b"3.14159"),
        ),
        (b"{\"a\":1.5}", "hdr,json_query('$.a','int')", Some(b"1")),
        (
            b"{\"a\":123456789012345678901234567890}",
            "hdr,json_query('$.a','int')",
            None,
        ),
        (
            b"{\"a\":\"12\"}",
            "hdr,json_query('$.a','int')",
            Some(b"12"),
        ),
        (
            b"{\"a\":\"abc\"}",
            "hdr,json_query('$.a','int')",
            Some(b"abc"),
        ),
        (b"{\"a\":0x1F}", "hdr,json_query('$.a','int')", Some(b"31")),
        (b"{\"a\":017}", "hdr,json_query('$.a','int')", Some(b"15")),
        (b"{\"a\":true}", "hdr,json_query('$.a','int')", Some(b"1")),
        (b"{\"a\":-5}", "hdr,json_query('$.a','int')", Some(b"-5")),
        (b"{\"a\":\"x\"}", "hdr,json_query('$.a')", Some(b"x")),
        (b"{\"a\":\"\"}", "hdr,json_query('$.a')", Some(b"")),
        (
            b"{\"a\":\"x\\ny\\u0041\\t\\\"\\\\\\/\"}",
            "hdr,json_query('$.a')",
            None,
        ),
        (
            b"{\"a\":\"\\u00e9\"}",
            "hdr,json_query('$.a')",
            Some(b"\xe9"),
        ),
        (b"{\"a\":\"\\u20ac\"}", "hdr,json_query('$.a')", None),
        (b"{\"a\":\"\\x41\"}", "hdr,json_query('$.a')", None),
        (b"{\"a\":\"\xe9\"}", "hdr,json_query('$.a')", Some(b"\xe9")),
        (b"{\"a\":true}", "hdr,json_query('$.a')", Some(b"1")),
        (b"{\"a\":false}", "hdr,json_query('$.a')", Some(b"0")),
        (b"{\"a\":null}", "hdr,json_query('$.a')", None),
        (b"{\"a\":{\"b\":1}}", "hdr,json_query('$.a')", None),
        (b"{\"a\":{\"b\":1}}", "hdr,json_query('$.a.b')", Some(b"1")),
        (b"{\"a\":[1,2]}", "hdr,json_query('$.a[1]')", Some(b"2")),
        (b"{\"a\":[1,2]}", "hdr,json_query('$.a[2]')", None),
        (
            b"{\"a\":[{\"b\":7},2]}",
            "hdr,json_query('$.a[0].b')",
            Some(b"7"),
        ),
        (b"[5,6]", "hdr,json_query('$[1]')", Some(b"6")),
        (b"\"s\"", "hdr,json_query('$')", Some(b"s")),
        (b"{\"a\":1}", "hdr,json_query('$')", None),
        (
            b"{\"my.key\":\"v\"}",
            "hdr,json_query('$.my\\\\.key')",
            None,
        ),
        (
            b"{\"my.key\":\"v\"}",
            "hdr,json_query('$.my\\.key')",
            Some(b"v"),
        ),
        (b"{\"b\":1}", "hdr,json_query('$.a')", None),
        (b"{\"a\":1", "hdr,json_query('$.a')", Some(b"1")),
        (b"{\"a\":1,", "hdr,json_query('$.a')", Some(b"1")),
        (b"{\"a\":\"x", "hdr,json_query('$.a')", None),
        (b"{\"a\":", "hdr,json_query('$.a')", None),
        (b"", "hdr,json_query('$.a')", None),
        (b"{\"a\":1,\"a\":2}", "hdr,json_query('$.a')", Some(b"1")),
        (b"{ \"a\" : 1 }", "hdr,json_query('$.a')", Some(b"1")),
        (
            b"{\"x\":{\"a\":5},\"a\":6}",
            "hdr,json_query('$.a')",
            Some(b"6"),
        ),
        (
            b"{\"x\":[{\"a\":5}],\"a\":6}",
            "hdr,json_query('$.a')",
            Some(b"6"),
        ),
        (b"{\"a\":1x,\"b\":6}", "hdr,json_query('$.b')", None),
        (b"{\"a\":tru,\"b\":6}", "hdr,json_query('$.b')", None),
        (b"{a:1,\"b\":6}", "hdr,json_query('$.b')", None),
        (b"{\"a\":1 \"b\":6}", "hdr,json_query('$.b')", None),
        (b"{\"a\":1,,\"b\":6}", "hdr,json_query('$.b')", None),
        (b"{'a':1,\"b\":6}", "hdr,json_query('$.b')", None),
        (b"{\"a\":1}", "hdr,json_query('$.a.')", None),
        (b"{\"a\":1}", "hdr,json_query('$.')", None),
        (b"{\"a\":1}", "hdr,json_query('$..a')", None),
        (b"{\"a\":1}", "hdr,json_query('$.*')", None),
        (b"{\"a\":1,\"ab\":2}", "hdr,json_query('$.ab')", Some(b"2")),
        (b"{\"ab\":1,\"a\":2}", "hdr,json_query('$.a')", Some(b"2")),
        (
            b"{\"a\":[0,1,2,3,4,5,6,7,8,9,\"ten\"]}",
            "hdr,json_query('$.a[10]')",
            Some(b"ten"),
        ),
        (
            b"{\"a\":[0,[3]]}",
            "hdr,json_query('$.a[1][0]')",
            Some(b"3"),
        ),
        (b"{\"a\":+1}", "hdr,json_query('$.a')", None),
        (b"{\"a\":.5}", "hdr,json_query('$.a')", None),
        (b"{\"a\":1.}", "hdr,json_query('$.a')", Some(b"1")),
        (b"{\"a\":-}", "hdr,json_query('$.a')", Some(b"0")),
        (b"{\"a\":1e}", "hdr,json_query('$.a')", Some(b"1")),
        (b"{\"a\":1e+2}", "hdr,json_query('$.a')", Some(b"100")),
        (b"{\"a\":1E2}", "hdr,json_query('$.a')", Some(b"100")),
        (b"{\"a\":NaN}", "hdr,json_query('$.a')", None),
        (b"x{\"a\":1}", "hdr,json_query('$.a')", None),
        (b"{\"a\":1}x", "hdr,json_query('$.a')", Some(b"1")),
        (
            b"{\"a\":\"x\"} garbage",
            "hdr,json_query('$.a')",
            Some(b"x"),
        ),
        (b"{\"\\u0061\":1}", "hdr,json_query('$.a')", None),
        (b"{\"a\\\"b\":1}", "hdr,json_query('$.a\"b')", None),
        (b"{\"a\":1}", "hdr,json_query('$.a','')", Some(b"1")),
        (
            b"{\"a\":\"x\\ny\\u0041\\t\\\"\\\\z\\b\\f\\r\"}",
            "hdr,json_query('$.a')",
            Some(b"x\nyA\t\"\\z\x08\x0c\r"),
        ),
        (b"{\"a\":\"x\\/y\"}", "hdr,json_query('$.a')", None),
        (
            b"{\"a\":\"x\\u0000y\"}",
            "hdr,json_query('$.a')",
            Some(b"x\x00y"),
        ),
        (
            b"{\"a\":\"x\\u00e9y\\u20acz\"}",
            "hdr,json_query('$.a')",
            None,
        ),
        (
            b"{\"a\":\"x\\u00ey\"}",
            "hdr,json_query('$.a')",
            Some(b"x\xe2"),
        ),
        (b"{\"a\":\"x\\u00\"}", "hdr,json_query('$.a')", None),
        (
            b"{\"a\":\"x\\ud83d\\ude00y\"}",
            "hdr,json_query('$.a')",
            None,
        ),
        (b"{\"a\":\"x\\q\"}", "hdr,json_query('$.a')", None),
        (
            b"{\"a\":\"aaa\\\\\"}",
            "hdr,json_query('$.a')",
            Some(b"aaa\\"),
        ),
        (
            b"{\"a\":123456789012345678901234567890}",
            "hdr,json_query('$.a')",
            Some(b"1.23457e+29"),
        ),
        (
            b"{\"a\":9007199254740992}",
            "hdr,json_query('$.a','int')",
            None,
        ),
        (
            b"{\"a\":9007199254740991}",
            "hdr,json_query('$.a','int')",
            Some(b"9007199254740991"),
        ),
        (
            b"{\"a\":-9007199254740992}",
            "hdr,json_query('$.a','int')",
            None,
        ),
        (
            b"{\"a\":-9007199254740991}",
            "hdr,json_query('$.a','int')",
            Some(b"-9007199254740991"),
        ),
        (b"{\"a\":1e3}", "hdr,json_query('$.a','int')", Some(b"1")),
        (
            b"{\"a\":\"12x\"}",
            "hdr,json_query('$.a','int')",
            Some(b"12x"),
        ),
        (
            b"{\"a\":0.000123456789}",
            "hdr,json_query('$.a')",
            Some(b"0.000123457"),
        ),
        (
            b"{\"a\":0.0000123456789}",
            "hdr,json_query('$.a')",
            Some(b"1.23457e-05"),
        ),
        (b"{\"a\":999999.5}", "hdr,json_query('$.a')", Some(b"1e+06")),
        (
            b"{\"a\":999999.4}",
            "hdr,json_query('$.a')",
            Some(b"999999"),
        ),
        (b"{\"a\":2.5e5}", "hdr,json_query('$.a')", Some(b"250000")),
        (b"{\"a\":1e400}", "hdr,json_query('$.a')", Some(b"inf")),
        (
            b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
            "hdr,json_query('$.b[2].c')",
            Some(b"1"),
        ),
        (
            b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
            "hdr,json_query('$.b[2]')",
            None,
        ),
        (
            b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
            "hdr,json_query('$.b[01]')",
            Some(b"b"),
        ),
        (
            b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
            "hdr,json_query('$.b[9]')",
            None,
        ),
        (b"[[1,2],3]", "hdr,json_query('$[0][1]')", Some(b"2")),
        (
            b"{\"x\":\"}\",\"a\":1}",
            "hdr,json_query('$.a')",
            Some(b"1"),
        ),
        (
            b"{\"x\":\"a\\\"\",\"a\":1}",
            "hdr,json_query('$.a')",
            Some(b"1"),
        ),
        (
            b"{\"a\":[1,[2,{\"b\":\"]\"}]],\"c\":1}",
            "hdr,json_query('$.c')",
            Some(b"1"),
        ),
        (
            b"{\"a\":{\"b\":{\"c\":{\"d\":\"deep\"}}}}",
            "hdr,json_query('$.a.b.c.d')",
            Some(b"deep"),
        ),
        (b"{\"b\":tru,\"a\":1}", "hdr,json_query('$.a')", None),
        (b"true1", "hdr,json_query('$')", Some(b"1")),
        (b"{\"a\":- 5}", "hdr,json_query('$.a')", Some(b"0")),
        (b"{\"x\":[1,],\"a\":5}", "hdr,json_query('$.a')", Some(b"5")),
        (
            b"{\"x\":{\"b\":1,},\"a\":5}",
            "hdr,json_query('$.a')",
            Some(b"5"),
        ),
        (b"{\"x\":[],\"a\":5}", "hdr,json_query('$.a')", Some(b"5")),
        (b"{\"x\":{},\"a\":5}", "hdr,json_query('$.a')", Some(b"5")),
        (b"{\"x\":[1 2],\"a\":5}", "hdr,json_query('$.a')", None),
        (b"{\"x\":[1},\"a\":5}", "hdr,json_query('$.a')", None),
        (b"{\"x\":[,1],\"a\":5}", "hdr,json_query('$.a')", None),
        (b"{\"x\":{,},\"a\":5}", "hdr,json_query('$.a')", None),
        (b"{,\"a\":5}", "hdr,json_query('$.a')", None),
        (b"{\"x\" \"y\",\"a\":5}", "hdr,json_query('$.a')", None),
        (b"{\"x\"::1,\"a\":5}", "hdr,json_query('$.a')", None),
        (
            b"{\"x\":\"\\q\",\"a\":5}",
            "hdr,json_query('$.a')",
            Some(b"5"),
        ),
        (b"{\"x\":1}{\"a\":5}", "hdr,json_query('$.a')", None),
        (
            b"{\"a\":{\"b\":1},\"a\":{\"c\":2}}",
            "hdr,json_query('$.a')",
            None,
        ),
        (
            b"{\"a\":{\"b\":1},\"a\":{\"c\":2}}",
            "hdr,json_query('$.a.c')",
            None,
        ),
        (
            b"{\"a\":1,\"a\":{\"c\":2}}",
            "hdr,json_query('$.a.c')",
            None,
        ),
        (b"{\"a\":1,\"c\":[7]}", "hdr,json_query('$.a[0]')", None),
        (b"{\"a\":{\"x\":[7]}}", "hdr,json_query('$.a[0]')", None),
        (b"{\"a\":[{\"x\":7}]}", "hdr,json_query('$.a.x')", None),
        (b"{\"a\":[{\"x\":7}]}", "hdr,json_query('$.x')", None),
        (b"[1,{\"a\":8}]", "hdr,json_query('$[1].a')", Some(b"8")),
        (
            b"[{\"a\":1},{\"a\":8},{\"a\":9}]",
            "hdr,json_query('$[1].a')",
            Some(b"8"),
        ),
        (b"{\"a\":[[1]]}", "hdr,json_query('$.a[10]')", None),
        (b"{\"a\":\"x\"}", "hdr,json_query('$.a[0]')", None),
        (
            b"{\"a\":[{\"c\":1,\"b\":2}]}",
            "hdr,json_query('$.a[0].b')",
            Some(b"2"),
        ),
        (
            b"{\"a\":[5,{\"c\":[1,2],\"b\":2}]}",
            "hdr,json_query('$.a[1].b')",
            Some(b"2"),
        ),
        (
            b"{\"a\":[[1,2],[3,4],9]}",
            "hdr,json_query('$.a[2]')",
            Some(b"9"),
        ),
        (
            b"{\"a\":[{\"x\":1,\"y\":2},9]}",
            "hdr,json_query('$.a[1]')",
            Some(b"9"),
        ),
        (
            b"{\"a\":{\"b\":{\"x\":1}},\"x\":2}",
            "hdr,json_query('$.x')",
            Some(b"2"),
        ),
        (
            b"{\"x\":[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]],\"a\":5}",
            "hdr,json_query('$.a')",
            Some(b"5"),
        ),
        (
            b"{\"x\":[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]],\"a\":5}",
            "hdr,json_query('$.a')",
            Some(b"5"),
        ),
        (
            b"{\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]],\"a\":5}",
            "hdr,json_query('$.a')",
            None,
        ),
        (
            b"{\"x\":[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]],\"a\":5}",
            "hdr,json_query('$.a')",
            None,
        ),
        (
            b"{\"x\":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]],\"a\":5}",
            "hdr,json_query('$.a')",
            None,
        ),
        (b"\x00{\"a\":1}", "hdr,json_query('$.a')", None),
        (b"{\"a\" :\t\"x\"}", "hdr,json_query('$.a')", Some(b"x")),
        (
            b"{\"a\":\"\x01\x1f\"}",
            "hdr,json_query('$.a')",
            Some(b"\x01\x1f"),
        ),
        (b"{\"\":1}", "hdr,json_query('$.')", Some(b"1")),
        (b"-5", "hdr,json_query('$')", Some(b"-5")),
        (b"1 2", "hdr,json_query('$')", Some(b"1")),
        (b"", "hdr,json_query('$')", None),
        (b"tru", "hdr,json_query('$')", None),
        (b"{\"a\":tru}", "hdr,json_query('$.a')", None),
        (b"{\"a\":0x}", "hdr,json_query('$.a','int')", Some(b"0")),
        (b"{\"a\":08}", "hdr,json_query('$.a','int')", Some(b"0")),
        (
            b"{\"a\":-0x10}",
            "hdr,json_query('$.a','int')",
            Some(b"-16"),
        ),
        (b"{\"a\":-}", "hdr,json_query('$.a','int')", Some(b"0")),
        (b"{\"a\":12", "hdr,json_query('$.a','int')", Some(b"12")),
    ]);
}

/// HAProxy 2.6 gives nothing for arrays; 3.x gives their text.
#[test]
fn arrays_are_given_as_they_stand() {
    check_header_new(&[
        (
            b"{\"a\":[1, \"b\" ,{\"c\":1}]}",
            "hdr,json_query('$.a')",
            Some(b"[1, \"b\" ,{\"c\":1}]"),
        ),
        (b"{\"a\":[]}", "hdr,json_query('$.a')", Some(b"[]")),
        (b"[[1,2],3]", "hdr,json_query('$[0]')", Some(b"[1,2]")),
        (b"[5,6]", "hdr,json_query('$')", Some(b"[5,6]")),
        (b"{\"a\":[1,2", "hdr,json_query('$.a')", None),
    ]);
}

/// HAProxy 2.6 answers 9 and 8 here.
#[test]
fn a_miss_in_an_element_does_not_go_on_to_the_next() {
    check_header_new(&[
        (
            b"[{\"a\":1},{\"b\":8},{\"a\":9}]",
            "hdr,json_query('$[1].a')",
            None,
        ),
        (b"[{\"a\":1},{\"b\":8}]", "hdr,json_query('$[0].b')", None),
    ]);
}

#[test]
fn bad_paths_are_refused() {
    check_refused(&[
        ("str(a),json_query('')", "empty"),
        ("str(a),json_query('$.a','str')", "`int`"),
    ]);
    for path in ["a", "$a", ".a", "$[x]", "$[]", "$[-1]", "$[0", "$[\"a\"]"] {
        let expr = format!("str(a),json_query('{path}')");
        assert!(World::new(b"").run(&expr).is_err(), "{path}");
    }
}

proptest! {
    #[test]
    fn numbers_print_as_percent_g_reads_them(number: f64) {
        prop_assume!(number.is_finite());
        let text = format_g(number);
        let read: f64 = text.parse().unwrap();
        prop_assert!((read - number).abs() <= number.abs() * 1e-5, "{number} {text}");
    }

    #[test]
    fn any_text_may_be_queried(text in "[\\[\\]{}\",:a0-9.tfn\\\\u -]{0,60}", path in r"\$(\.a|\[[0-3]\]){0,3}") {
        let world = World::new(text.as_bytes());
        let _ = world.run(&format!("hdr,json_query({path})")).unwrap();
    }

    /// What serde_json writes is found again.
    #[test]
    fn members_are_found(before: Vec<u8>, wanted in "[a-z0-9 ]{0,20}") {
        let text = serde_json::json!({"x": before, "y": {"z": [1, {"w": wanted}]}, "w": 1}).to_string();
        let got = World::new(text.as_bytes()).run("hdr,json_query('$.y.z[1].w')").unwrap();
        prop_assert_eq!(got, Some(wanted.into_bytes()));
    }
}
