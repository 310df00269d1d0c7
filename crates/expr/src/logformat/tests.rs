//! What formats write. The lines were recorded from Debian's haproxy 2.6 (JSON and CBOR: HAProxy 3.x's documentation).

use super::*;
use crate::compile::ParseCtx;
use crate::env::{Addr, ConnInfo, Gauge, NameOf, ProxyId, ServerId};
use crate::pattern::Store;
use crate::place::Place;
use crate::testing::{NoFiles, TestEnv};
use crate::value::Value;
use crate::vars::VarRef;

fn with_ctx<R>(http: bool, f: impl FnOnce(&ParseCtx<'_>) -> R) -> R {
    let store = Store::new();
    f(&ParseCtx {
        place: Place::empty(),
        loader: &NoFiles,
        store: &store,
        file: "test.cfg",
        line: 1,
        http,
        acls: None,
    })
}

fn parse(text: &str, purpose: Purpose) -> Result<LogFormat, ExprError> {
    with_ctx(true, |ctx| LogFormat::parse(text, ctx, purpose))
}

fn write(env: &TestEnv, text: &str, purpose: Purpose) -> String {
    let format = parse(text, purpose).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut out = Vec::new();
    format.write(env, &mut out);
    String::from_utf8(out).unwrap_or_else(|e| e.to_string())
}

fn check(env: &TestEnv, text: &str, expect: &str) {
    assert_eq!(write(env, text, Purpose::Log), expect, "{text}");
}

fn addr(text: &str) -> Addr {
    Addr::Ip(text.parse().unwrap())
}

/// A world whose frontend 0 is `web`, backend 1 `app` with the server `s1`, process 3121 on host `vm`.
fn world() -> TestEnv {
    let mut env = TestEnv::new();
    let server = ServerId {
        backend: ProxyId(1),
        index: 0,
    };
    env.names = vec![
        (NameOf::Proxy(ProxyId(0)), "web".into()),
        (NameOf::Proxy(ProxyId(1)), "app".into()),
        (NameOf::Server(server), "s1".into()),
        (NameOf::Hostname, "vm".into()),
    ];
    env.gauges = vec![(Gauge::Pid, 3121)];
    env.client = Some(ConnInfo {
        src: addr("127.0.0.1:54440"),
        dst: addr("127.0.0.1:18081"),
        ..ConnInfo::default()
    });
    env
}

/// The stream behind the first recorded line: a request with odd characters, answered by the server.
fn answered() -> TestEnv {
    let mut env = world();
    env.server = Some(ConnInfo {
        src: addr("127.0.0.1:53806"),
        dst: addr("127.0.0.1:18082"),
        ..ConnInfo::default()
    });
    let s = env.stream.as_mut().unwrap();
    s.backend = ProxyId(1);
    s.server = Some(ServerId {
        backend: ProxyId(1),
        index: 0,
    });
    s.accept_us = 1_795_295_500_767_123;
    s.request_us = s.accept_us;
    (s.tr_ms, s.tw_ms, s.tc_ms, s.tsrv_ms) = (0, 0, 0, 1);
    (s.td_ms, s.ta_ms, s.tt_ms, s.tu_ms) = (0, 1, 1, 1);
    (s.status, s.bytes_out, s.bytes_in) = (200, 156, 87);
    (s.act_conn, s.fe_conn) = (1, 1);
    s.first_line = b"GET /p/a?q=1&x=\"y\" HTTP/1.1".to_vec();
    s.cookie_capture_req = Some(b"sid=zz".to_vec());
    s.cookie_capture_res = Some(b"sid=abc".to_vec());
    s.unique_id = b"7F000001:D4A8_7F000001:46A1_6B02090C_0000:0C31"
        .to_vec()
        .into();
    s.req_captures = vec![
        Some(b"ex|ample{}#\"".to_vec()),
        Some("\\]\té".as_bytes().to_vec()),
    ];
    s.res_captures = vec![
        Some(b"BaseHTTP/0.6 Python/".to_vec()),
        Some(b"v\"1|{x}#\x7f".to_vec()),
    ];
    env
}

/// The stream behind a line that does not parse.
fn bad() -> TestEnv {
    let mut env = world();
    let s = env.stream.as_mut().unwrap();
    s.backend = ProxyId(0);
    s.accept_us = 1_795_295_500_871_000;
    (s.status, s.term_cause, s.term_phase) = (400, b'P', b'R');
    (s.ta_ms, s.tt_ms, s.tu_ms) = (0, 0, 0);
    (s.act_conn, s.fe_conn, s.request_counter, s.log_counter) = (1, 1, 2, 2);
    env
}

/// Compares every tag with flags with what was recorded: `name=<value>` one a line.
fn check_tags(env: &TestEnv, flags: &str, recorded: &str) {
    let wrong: Vec<String> = recorded
        .split_whitespace()
        .map(|f| f.split_once("=<").expect("name=<value>"))
        .filter_map(|(tag, value)| {
            let expect = value.strip_suffix('>').unwrap_or(value).replace('_', " ");
            let got = write(env, &format!("%{flags}{tag}"), Purpose::Log).replace('_', " ");
            (got != expect).then(|| format!("%{flags}{tag}: {got}, not {expect}"))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_tag() {
    // Underscores stand for spaces.
    let recorded = r"
        B=<156> CC=<sid=zz> CS=<sid=abc> H=<vm> HM=<GET> HP=</p/a> HPO=</p/a> HQ=<?q=1&x=#22y#22>
        HU=</p/a?q=1&x=#22y#22> HV=<HTTP/1.1> ID=<7F000001:D4A8_7F000001:46A1_6B02090C_0000:0C31> ST=<200>
        T=<21/Nov/2026:21:11:40_+0000> Ta=<1> Tc=<0> Td=<0> Tl=<21/Nov/2026:21:11:40_+0000> Th=<0> Ti=<0> Tq=<0>
        TR=<0> Tr=<1> Ts=<1795295500> Tt=<1> Tu=<1> Tw=<0> U=<87> ac=<1> b=<app> bc=<0> bi=<127.0.0.1> bp=<53806>
        bq=<0> ci=<127.0.0.1> cp=<54440> f=<web> fc=<1> fi=<127.0.0.1> fp=<18081> ft=<web> lc=<0>
        hr=<{ex#7Cample#7B#7D#23#22|\]#09#C3#A9}> hrl=<ex#7Cample#7B#7D#23#22_\]#09#C3#A9>
        hs=<{BaseHTTP/0.6_Python/|v#221#7C#7Bx#7D#23#7F}> hsl=<BaseHTTP/0.6_Python/_v#221#7C#7Bx#7D#23#7F>
        ms=<767> pid=<3121> r=<GET_/p/a?q=1&x=#22y#22_HTTP/1.1> rc=<0> rt=<0> s=<s1> sc=<0> si=<127.0.0.1>
        sp=<18082> sq=<0> sslc=<-> sslv=<-> t=<21/Nov/2026:21:11:40.767> tr=<21/Nov/2026:21:11:40.767>
        trg=<21/Nov/2026:21:11:40_+0000> trl=<21/Nov/2026:21:11:40_+0000> ts=<--> tsc=<---->";
    check_tags(&answered(), "", recorded);
    let names: Vec<&str> = recorded
        .split_whitespace()
        .filter_map(|f| f.split_once("=<"))
        .map(|(n, _)| n)
        .collect();
    for def in TAGS.iter().filter(|t| t.name != "OG") {
        assert!(names.contains(&def.name), "{} is not tested", def.name);
    }
}

#[test]
fn every_tag_of_a_request_that_does_not_parse() {
    check_tags(
        &bad(),
        "",
        r"B=<0> CC=<-> CS=<-> H=<vm> HM=<<BADREQ>> HP=<<BADREQ>> HPO=<<BADREQ>> HQ=<<BADREQ>> HU=<<BADREQ>>
          HV=<<BADREQ>> ID=<-> ST=<400> T=<21/Nov/2026:21:11:40_+0000> Ta=<0> Tc=<-1> Td=<-1> Th=<0> Ti=<0>
          Tq=<-1> TR=<-1> Tr=<-1> Ts=<1795295500> Tt=<0> Tu=<0> Tw=<-1> U=<0> ac=<1> b=<web> bc=<0> bi=<-> bp=<->
          bq=<0> f=<web> fc=<1> ft=<web> lc=<2> hr=<> hrl=<> hs=<> hsl=<> ms=<871> r=<<BADREQ>> rc=<0> rt=<2>
          s=<<NOSRV>> sc=<0> si=<-> sp=<-> sq=<0> sslc=<-> sslv=<-> tr=<21/Nov/2026:21:11:40.871> ts=<PR>
          tsc=<PR-->",
    );
}

#[test]
fn flags_of_tags() {
    let env = answered();
    check_tags(
        &env,
        "{+Q}",
        r#"CC=<"sid=zz"> H=<"vm"> HM=<"GET"> HQ=<"?q=1&x=#22y#22"> T=<21/Nov/2026:21:11:40_+0000> B=<156>
           b=<"app"> bi=<"127.0.0.1"> bp=<53806> f=<"web"> ft=<"web"> s=<"s1"> si=<"127.0.0.1"> ts=<--> pid=<3121>
           hr=<"{ex#7Cample#7B#7D#23#22|\]#09#C3#A9}"> hrl=<"ex#7Cample#7B#7D#23#22"_"\]#09#C3#A9">
           r=<"GET_/p/a?q=1&x=#22y#22_HTTP/1.1"> sslc=<""> sslv=<""> ms=<767>"#,
    );
    check_tags(
        &env,
        "{+X}",
        r"Ts=<6B02090C> bi=<7F000001> bp=<D22E> ci=<7F000001> cp=<D4A8> fi=<7F000001> fp=<46A1> lc=<0000> ms=<2FF>
          pid=<0C31> rt=<0000> si=<7F000001> sp=<46A2> ac=<1> B=<156> ST=<200> Tt=<1>",
    );
    check_tags(
        &env,
        "{+E}",
        r"hr=<{ex#7Cample#7B#7D#23#22|\\\]#09#C3#A9}> hrl=<ex#7Cample#7B#7D#23#22_\\\]#09#C3#A9> CC=<sid=zz>",
    );
    check_tags(&env, "{-M}", "sslc=<> sslv=<> CC=<sid=zz>");
    check_tags(
        &bad(),
        "{+Q}",
        r#"bi=<""> bp=<""> r=<"<BADREQ>"> s=<"<NOSRV>"> hr=<> ID=<"">"#,
    );
}

#[test]
fn captures_that_are_not_there() {
    let mut env = world();
    let s = env.stream.as_mut().unwrap();
    s.req_captures = vec![Some(b"x".to_vec()), None];
    s.res_captures = vec![None, None];
    check_tags(&env, "", "hr=<{x|}> hrl=<x_-> hs=<{|}> hsl=<-_->");
    check_tags(
        &env,
        "{+Q}",
        r#"hr=<"{x|}"> hrl=<"x"_""> hs=<"{|}"> hsl=<""_"">"#,
    );
    check_tags(&env, "{-M}", "hrl=<x_->");
}

#[test]
fn absolute_uris() {
    let mut env = world();
    let mut check = |line: &str, recorded: &str| {
        env.stream.as_mut().unwrap().first_line = line.as_bytes().to_vec();
        check_tags(&env, "", recorded);
    };
    check(
        "GET http://h/p?z HTTP/1.0",
        "HM=<GET> HP=<http://h/p> HPO=</p> HQ=<?z> HU=<http://h/p?z> HV=<HTTP/1.0>",
    );
    check(
        "GET /local HTTP/1.1",
        "HP=</local> HPO=</local> HQ=<> HU=</local>",
    );
    check("OPTIONS * HTTP/1.1", "HM=<OPTIONS> HP=<*> HU=<*>");
}

/// A stream of the recorded default formats.
fn logged(port: u16, at_ms: i64, timers: [i32; 5]) -> TestEnv {
    let mut env = answered();
    env.client = Some(ConnInfo {
        src: Addr::Ip(([127, 0, 0, 1], port).into()),
        dst: addr("127.0.0.1:18081"),
        ..ConnInfo::default()
    });
    let s = env.stream.as_mut().unwrap();
    s.accept_us = at_ms * 1000;
    s.request_us = s.accept_us;
    [s.tr_ms, s.tw_ms, s.tc_ms, s.tsrv_ms, s.ta_ms] = timers;
    (s.cookie_req, s.cookie_res) = (b'N', b'I');
    s.bytes_out = 148;
    s.req_captures = vec![Some(b"ex".to_vec()), None];
    s.res_captures = vec![Some(b"v".to_vec())];
    env
}

#[test]
fn named_formats() {
    let env = logged(51280, 1_795_296_170_836, [0, 0, 0, 4, 4]);
    check(
        &env,
        HTTPLOG,
        "127.0.0.1:51280 [21/Nov/2026:21:22:50.836] web app/s1 0/0/0/4/4 200 148 sid=zz sid=abc --NI 1/1/0/0/0 0/0 \
         {ex|} {v} \"GET /p/a?q=1&x=#22y#22 HTTP/1.1\"",
    );
    let env = logged(51304, 1_795_296_173_032, [0, 0, 0, 1, 1]);
    check(
        &env,
        CLF,
        "127.0.0.1 - - [21/Nov/2026:21:22:53 +0000] \"GET /p/a?q=1&x=#22y#22 HTTP/1.1\" 200 148 \"\" \"\" 51304 032 \
         \"web\" \"app\" \"s1\" 0 0 0 1 1 --NI 1 1 0 0 0 0 0 \"sid=zz\" \"sid=abc\" \"ex\" \"\" \"v\"",
    );
    let mut env = logged(51340, 1_795_296_177_401, [-1, 1, 0, -1, 3]);
    let s = env.stream.as_mut().unwrap();
    (s.bytes_out, s.tt_ms) = (153, 3);
    check(
        &env,
        TCPLOG,
        "127.0.0.1:51340 [21/Nov/2026:21:22:57.401] web app/s1 1/0/3 153 -- 1/1/0/0/0 0/0",
    );
    check(
        &env,
        CONNECT_HTTP,
        "Connect from 127.0.0.1:51340 to 127.0.0.1:18081 (web/HTTP)",
    );
    check(
        &env,
        CONNECT_TCP,
        "Connect from 127.0.0.1:51340 to 127.0.0.1:18081 (web/TCP)",
    );
}

#[test]
fn named_formats_of_a_request_that_does_not_parse() {
    let mut env = bad();
    if let Some(c) = &mut env.client {
        c.src = addr("127.0.0.1:51296");
    }
    env.stream.as_mut().unwrap().accept_us = 1_795_296_170_892_000;
    check(
        &env,
        HTTPLOG,
        "127.0.0.1:51296 [21/Nov/2026:21:22:50.892] web web/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 \
         \"<BADREQ>\"",
    );
    // With the space haproxy leaves at its end.
    check(
        &env,
        CLF,
        "127.0.0.1 - - [21/Nov/2026:21:22:50 +0000] \"<BADREQ>\" 400 0 \"\" \"\" 51296 892 \"web\" \"web\" \
         \"<NOSRV>\" -1 -1 -1 -1 0 PR-- 1 1 0 0 0 0 0 \"\" \"\" ",
    );
}

#[test]
fn lines_written_before_the_end() {
    let mut env = logged(39136, 1_795_296_181_716, [0, 0, 0, 2, 2]);
    let s = env.stream.as_mut().unwrap();
    (s.logged_early, s.bytes_out, s.be_conn, s.srv_conn) = (true, 172, 1, 1);
    check(
        &env,
        HTTPLOG,
        "127.0.0.1:39136 [21/Nov/2026:21:23:01.716] web app/s1 0/0/0/2/+2 200 +172 sid=zz sid=abc --NI 1/1/1/1/0 0/0 \
         {ex|} {v} \"GET /p/a?q=1&x=#22y#22 HTTP/1.1\"",
    );
    // A redispatch is a plus sign too.
    let s = env.stream.as_mut().unwrap();
    (s.retries, s.redispatched) = (3, true);
    check(&env, "%rc", "+3");
    assert_eq!(
        write(&env, "%{+json}[int(1)] %{+json}B", Purpose::Log),
        "1 172"
    );
}

/// The world of the recorded samples: a variable with a quote, a bracket, a tab and a control character.
fn with_variable() -> TestEnv {
    let env = world();
    let text = b"a\"]\t\x01  b|v".to_vec();
    let value = Value::Str(text.into());
    env.vars
        .borrow_mut()
        .insert(VarRef::parse("txn.c").unwrap(), value);
    env
}

#[test]
fn samples_in_logs() {
    let env = with_variable();
    check(
        &env,
        "c=%[var(txn.c)] mis=%[var(txn.nope)] sp   ace  %hr  e %{+Q}[var(txn.nope)] %{+E}[str(a]b)] %{+Q}[int(5)] \
         %{+X}[int(255)] %{+Q,+X}[src]",
        "c=a\"]\t\u{1}  b|v mis=- sp ace e \"\" a\\]b \"5\" 255 \"127.0.0.1\"",
    );
    assert_eq!(
        write(
            &env,
            "[x@1 a=\"%{+E}[var(txn.c)]\" mis=%[var(txn.nope)]  b   %CC]",
            Purpose::LogSd
        ),
        "[x@1 a=\"a\\\"\\]\t\u{1}  b|v\" mis=- b -]"
    );
}

#[test]
fn samples_in_arguments() {
    let env = with_variable();
    let check = |purpose, text: &str, expect: &str| {
        assert_eq!(write(&env, text, purpose), expect, "{text}");
    };
    check(
        Purpose::Argument,
        "lf %[var(txn.c)]  x %[var(txn.nope)]|%{+Q}[var(txn.nope)]|%{+E}[var(txn.c)]|%{+Q}ci|%f|%[str(ab),hex]|%%",
        "lf a\"]\t%01  b|v  x ||a\\\"\\]\t%01  b|v|\"127.0.0.1\"|web|6162|%",
    );
    check(
        Purpose::UniqueId,
        "u%[var(txn.c)]  two %[var(txn.nope)]  %CC end",
        "ua\"]\t%01  b|v two   end",
    );
    check(
        Purpose::Text,
        "a\"]  b%[var(txn.nope)]|%ci|%%|%[var(txn.c)]",
        "a\"]  b|127.0.0.1|%|a\"]\t\u{1}  b|v",
    );
}

#[test]
fn global_flags() {
    let env = answered();
    check(&env, "%{+Q}o %s %{-Q}s %o%b", "\"s1\" s1 \"app\"");
    check(
        &env,
        "%{+X}o %ci:%cp_%fi:%fp_%Ts_%rt:%pid",
        "7F000001:D4A8_7F000001:46A1_6B02090C_0000:0C31",
    );
    check(&env, "%{-M}o[%sslv]%{+M}o[%sslv]", "[][-]");
}

#[test]
fn constants_cost_nothing() {
    let check = |text: &str, purpose, expect: Option<&str>| {
        let format = parse(text, purpose).unwrap();
        let got = format.as_constant().map(String::from_utf8_lossy);
        assert_eq!(got.as_deref(), expect, "{text}");
        assert_eq!(format.is_constant(), expect.is_some());
    };
    check("a  b%%", Purpose::Argument, Some("a  b%"));
    check("  a  b ", Purpose::Log, Some("a b "));
    check("", Purpose::Argument, Some(""));
    check("é%%é", Purpose::Argument, Some("é%é"));
    check("a%ci", Purpose::Argument, None);
    check("a%[str(b)]", Purpose::Argument, None);
}

#[test]
fn stages() {
    let check = |text: &str, expect: Stage| {
        let format = parse(text, Purpose::Log).unwrap();
        assert_eq!(format.stage(), expect, "{text}");
        assert_eq!(format.needs_end(), expect == Stage::Close);
        assert_eq!(format.needs_response(), expect >= Stage::Response);
    };
    check(CONNECT_HTTP, Stage::Accept);
    check("%ci %r", Stage::Request);
    check("%s", Stage::Connect);
    check("%ci %ST %r", Stage::Response);
    check(HTTPLOG, Stage::Close);
    check("%[var(txn.a)]", Stage::Close);
}

#[test]
fn json_lines() {
    let mut env = answered();
    check(
        &env,
        "%{+json}o ignored %ci %(client)ci %(port)cp %(port_text:str)cp %(ok:bool)ST %(path)[capture.req.uri] %(none)sslv %(n)[int(5)] %(b)[bool(1)] %(s:sint)[str(12ab)] %(line)r",
        r#"{"client": "127.0.0.1", "port": 54440, "port_text": "54440", "ok": true, "path": "/p/a?q=1&x=\"y\"", "none": null, "n": 5, "b": true, "s": 12, "line": "GET /p/a?q=1&x=\"y\" HTTP/1.1"}"#,
    );
    env.stream.as_mut().unwrap().req_captures = vec![Some(b"a|b".to_vec()), None];
    check(
        &env,
        "json",
        r##"{"client_ip": "127.0.0.1", "client_port": 54440, "request_date": "21/Nov/2026:21:11:40.767", "frontend_name": "web", "backend_name": "app", "server_name": "s1", "TR": 0, "Tw": 0, "Tc": 0, "Tr": 1, "Ta": 1, "status_code": 200, "bytes_read": 156, "captured_request_cookie": "sid=zz", "captured_response_cookie": "sid=abc", "termination_state": "----", "actconn": 1, "feconn": 1, "beconn": 0, "srv_conn": 0, "retries": 0, "srv_queue": 0, "backend_queue": 0, "captured_request_headers": ["a|b", null], "captured_response_headers": ["BaseHTTP/0.6 Python/", "v\"1|{x}#\u007F"], "http_request": "GET /p/a?q=1&x=\"y\" HTTP/1.1"}"##,
    );
    // Every line is JSON to another parser, whatever the bytes.
    let s = env.stream.as_mut().unwrap();
    s.first_line = (1..=255).collect();
    let line = write(&env, "json", Purpose::Log);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        value["http_request"].as_str().map(|s| s.chars().count()),
        Some(255)
    );
    assert_eq!(value["status_code"], 200);
    // In mode tcp, the fields of tcplog.
    let tcp = with_ctx(false, |ctx| LogFormat::parse("json", ctx, Purpose::Log)).unwrap();
    let mut out = Vec::new();
    tcp.write(&env, &mut out);
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(value["termination_state"], "--");
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(18));
    // As an argument it is just a word.
    assert_eq!(write(&env, "json", Purpose::Argument), "json");
}

#[test]
fn one_item_as_json_or_cbor() {
    let env = answered();
    check(
        &env,
        "a=%{+json}[str(x\\\"y)] b=%{+json}cp",
        r#"a="x\"y" b=54440"#,
    );
    check(&env, "%{+cbor}[str(IETF)]", "6449455446");
}

#[test]
fn cbor_lines() {
    let env = answered();
    let text = "%{+cbor}o %(a)ST %(b)s %ci";
    // {"a": 200, "b": "s1"}
    check(&env, text, "BF616118C86162627331FF");
    let format = parse(&text.replace("+cbor", "+cbor,+bin"), Purpose::Log).unwrap();
    let mut out = Vec::new();
    format.write(&env, &mut out);
    assert_eq!(out, b"\xbf\x61a\x18\xc8\x61b\x62s1\xff");
}

#[test]
fn faults_point_at_their_place() {
    let check = |text: &str, at: &str, message: &str, hint: &str| {
        let e = parse(text, Purpose::Log).unwrap_err();
        let got = text.get(e.span.clone()).unwrap_or("?");
        assert_eq!((got, e.message.as_str()), (at, message), "{text}");
        let got = e.hint.unwrap_or_default();
        assert!(
            got.contains(hint) && got.is_empty() == hint.is_empty(),
            "{text}: {got}"
        );
    };
    check("a %xx", "xx", "unknown tag '%xx'", "'%%'");
    check("a %PID", "PID", "unknown tag '%PID'", "'%pid'");
    check("50% of", "% ", "a '%' followed by no tag", "'%%'");
    check("a %", "%", "the format ends within an item", "'%%'");
    check("%{+Q", "{+Q", "the '{' of these flags is not closed", "");
    check(
        "%{+Q}",
        "%{+Q}",
        "a tag or '[' is missing after this",
        "`%{+Q}r`",
    );
    check("%{+Z}r", "+Z", "unknown flag 'Z'", "json");
    check("%{+Q,+jsn}r", "+jsn", "unknown flag 'jsn'", "'json'");
    check("%{Q}r", "Q", "flag 'Q' needs a '+' or '-' before it", "");
    check("%(a", "(a", "the '(' of this name is not closed", "");
    check("%(a:float)ci", "float", "unknown type 'float'", "sint");
    check(
        "%(a b)ci",
        " ",
        "character ' ' is not permitted in an item's name",
        "",
    );
    check("%[path", "[path", "a ']' is missing after `path`", "");
    check(
        "x %[path,lowr]",
        "lowr",
        "unknown converter `lowr`",
        "`lower`",
    );
    check(
        "%{+json}o %ci",
        "",
        "this format has no named item, so nothing would be written",
        "names",
    );
    let tcp = with_ctx(false, |ctx| LogFormat::parse("%ci %r", ctx, Purpose::Log));
    assert_eq!(
        tcp.unwrap_err().message,
        "'%r' (http_request) is reserved for mode http"
    );
}

#[test]
fn a_lone_percent_sign_goes_away_with_a_warning() {
    let format = parse("100%.", Purpose::Argument).unwrap();
    assert_eq!(format.as_constant(), Some(&b"100."[..]));
    assert_eq!(format.warnings().len(), 1);
}
