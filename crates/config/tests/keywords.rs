//! What the keywords of proxies put into the model: one scenario a test, checked on the loaded configuration.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::model::*;
use sluice_config::{LoadOptions, RenderOptions, SourceFile, load};
use sluice_expr::Loader;

struct Files;

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "503.http" => Ok(b"HTTP/1.0 503 Sorry\r\n\r\nsorry\n".to_vec()),
            "body.txt" => Ok(b"body\n".to_vec()),
            _ => Err("no such file".into()),
        }
    }
}

/// Loads a text that must be good; warnings are fine.
#[track_caller]
fn model(text: &str) -> Model {
    let lookup = |name: &str| (name == "known.example").then(|| IpAddr::from([192, 0, 2, 1]));
    let opts = LoadOptions {
        env: vec![("PORT".into(), "8080".into())],
        loader: &Files,
        lookup: &lookup,
        store: Arc::default(),
        localpeer: "peer".into(),
        master_worker: false,
        features: Vec::new(),
        enabled: Vec::new(),
        tls_library: String::new(),
        diag: false,
        ignores_unresolved: false,
    };
    let file = SourceFile {
        name: "t.cfg".into(),
        text: text.as_bytes().to_vec(),
    };
    let loaded = load(&[file], &opts);
    let said: String = loaded
        .diagnostics
        .iter()
        .map(|d| d.render(RenderOptions::default()))
        .collect();
    loaded.model.unwrap_or_else(|| panic!("{text}\n{said}"))
}

/// The proxy of that name in a text after usual defaults.
#[track_caller]
fn proxy(name: &str, text: &str) -> Arc<Proxy> {
    let defaults =
        "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n";
    let model = model(&format!("{defaults}{text}"));
    let found = model.proxies.iter().find(|p| &*p.name == name);
    found.expect("the proxy is there").clone()
}

fn constant(format: &sluice_expr::LogFormat) -> String {
    String::from_utf8_lossy(format.as_constant().expect("a constant")).into_owned()
}

#[test]
fn servers_begin_with_what_default_server_says() {
    let b = proxy(
        "b",
        "backend b\n default-server check port 90 inter 3s rise 5 maxconn 7 send-proxy-v2 weight 20\n \
         server one known.example:80 weight 3 no-check id 9\n default-server fall 9 no-send-proxy\n \
         server two 10.0.0.2:+100 backup cookie x\n server-template t 2-3 10.0.0.3\n",
    );
    let names: Vec<&str> = b.servers.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["one", "two", "t2", "t3"]);
    let one = &b.servers[0];
    assert_eq!((one.id, one.weight, one.maxconn), (9, 3, 7));
    assert_eq!(one.hostname.as_deref(), Some("known.example"));
    assert!(!one.check.enabled && one.send_proxy.as_ref().is_some_and(|p| p.v2 && p.wanted));
    assert_eq!(
        (one.check.inter_ms, one.check.rise, one.check.fall),
        (3000, 5, 3)
    );
    let two = &b.servers[1];
    assert!(two.check.enabled && two.backup && two.send_proxy.is_none());
    assert_eq!((two.weight, two.check.fall, two.id), (20, 9, 2));
    assert_eq!(two.cookie.as_deref(), Some("x"));
    assert_eq!(
        two.addr,
        PeerAddr::Ip {
            ip: [10, 0, 0, 2].into(),
            port: PortSpec::Offset(100)
        }
    );
}

#[test]
fn defaults_are_inherited_and_taken_back() {
    let text = "defaults base\n mode http\n option http-server-close\n option dontlognull\n option redispatch\n \
                option splice-auto\n cookie S insert\n balance leastconn\n retries 7\n stats uri /s\n errorloc 503 http://a/\n \
                timeout client 5s\n timeout server 6s\n timeout connect 1s\n http-reuse never\n log 127.0.0.1 local0\n \
                frontend f from base\n bind :80\n no option dontlognull\n no option http-server-close\n no log\n \
                backend b from base\n no option redispatch\n no option splice-auto\n default option dontlognull\n \
                server s :80\n";
    let model = model(text);
    let [f, b] = [&model.proxies[0], &model.proxies[1]];
    assert!(!f.options.contains(Options::DONTLOGNULL));
    assert_eq!(f.conn_mode, ConnMode::KeepAlive);
    assert!(f.log.targets.is_empty());
    assert_eq!(f.timeouts.client_ms, Some(5000));
    assert_eq!(f.errors.by_status.len(), 1);
    assert_eq!(f.stats.as_ref().map(|s| s.uri.as_str()), Some("/s"));
    assert_eq!(b.conn_mode, ConnMode::ServerClose);
    assert_eq!(b.redispatch, 0);
    assert!(b.options.contains(Options::NO_SPLICE) && !b.options.contains(Options::SPLICE_AUTO));
    assert_eq!((b.retries, b.http_reuse), (7, HttpReuse::Never));
    assert!(matches!(b.balance, Balance::LeastConn));
    assert!(
        b.cookie
            .as_ref()
            .is_some_and(|c| c.mode == CookieMode::Insert)
    );
    assert_eq!(b.log.targets.len(), 1);
    assert_eq!(f.defaults_name.as_deref(), Some("base"));
}

#[test]
fn rules_of_named_defaults_run_first_and_old_blocks_before_all() {
    let text = "defaults d\n mode http\n timeout client 1s\n http-request set-header A 1\n acl x path /x\n \
                http-request deny if x\nfrontend f from d\n bind :80\n redirect location / if { path /r }\n \
                http-request set-header B 2\n block if { path /b }\n";
    let model = model(text);
    let kinds: Vec<&str> = model.proxies[0]
        .http_request
        .iter()
        .map(|r| match &r.action {
            Action::SetHeader { name, .. } => name.as_str(),
            Action::Deny(reply) if reply.status == 403 => "deny",
            Action::Redirect(_) => "redirect",
            _ => "?",
        })
        .collect();
    assert_eq!(kinds, ["deny", "A", "deny", "B", "redirect"]);
}

#[test]
fn replies_and_redirects_say_what_haproxy_says() {
    let f = proxy(
        "f",
        "frontend f\n bind :80\n http-request deny if { path /1 }\n http-request deny deny_status 429 if { path /2 }\n \
         http-request deny status 404 if { path /3 }\n http-request return if { path /4 }\n \
         http-request return status 202 content-type a/b file body.txt hdr X y if { path /5 }\n \
         http-request return status 503 errorfile 503.http if { path /6 }\n http-request tarpit if { path /7 }\n \
         redirect location /%[a] code 303 set-cookie A=1\n http-request redirect prefix http://b drop-query\n",
    );
    let replies: Vec<(u16, &str)> = f
        .http_request
        .iter()
        .filter_map(|r| match &r.action {
            Action::Deny(r) | Action::Return(r) | Action::Tarpit(r) => Some((
                r.status,
                match &r.content {
                    ReplyContent::Default => "default",
                    ReplyContent::Empty => "empty",
                    ReplyContent::Raw(_) => "raw",
                    ReplyContent::Bytes(b) => std::str::from_utf8(b).unwrap(),
                    ReplyContent::Format(_) => "format",
                },
            )),
            _ => None,
        })
        .collect();
    assert_eq!(
        replies,
        [
            (403, "default"),
            (429, "default"),
            (404, "empty"),
            (200, "empty"),
            (202, "body\n"),
            (503, "raw"),
            (500, "default")
        ]
    );
    let redirects: Vec<&Arc<Redirect>> = f
        .http_request
        .iter()
        .filter_map(|r| match &r.action {
            Action::Redirect(r) => Some(r),
            _ => None,
        })
        .collect();
    assert!(matches!(&redirects[0].kind, RedirectKind::Prefix(p) if constant(p) == "http://b"));
    assert!(redirects[0].drop_query && redirects[0].code == 302);
    // A `redirect` line is last, and is no log-format.
    assert!(matches!(&redirects[1].kind, RedirectKind::Location(l) if constant(l) == "/%[a]"));
    assert_eq!(redirects[1].code, 303);
    let cookie = redirects[1].set_cookie.as_ref().map(constant);
    assert_eq!(cookie.as_deref(), Some("A=1; path=/;"));
}

#[test]
fn captures_share_their_slots() {
    let text = "frontend f\n bind :80\n capture request header Host len 10\n declare capture request len 20\n \
                http-request capture req.hdr(a) len 30\n http-request capture req.hdr(b) id 1\n \
                capture response header Server len 5\n http-response capture res.hdr(c) id 0\n capture cookie A= len 9\n \
                default_backend b\nbackend b\n http-request capture req.hdr(d) id 2\n server s :80\n";
    let f = proxy("f", text);
    let lens: Vec<usize> = f.captures_req.iter().map(|c| c.len).collect();
    assert_eq!(lens, [10, 20, 30]);
    let slots: Vec<(usize, usize)> = f
        .http_request
        .iter()
        .filter_map(|r| match &r.action {
            Action::Capture { slot, len, .. } => Some((*slot, *len)),
            _ => None,
        })
        .collect();
    assert_eq!(slots, [(2, 30), (1, 20)]);
    let cookie = f.capture_cookie.as_ref().expect("a cookie");
    assert_eq!((cookie.name.as_str(), cookie.prefix), ("A", false));
    // A backend takes the length of the slot in whatever frontend it comes from.
    let b = proxy("b", text);
    assert!(matches!(
        b.http_request[0].action,
        Action::Capture {
            slot: 2,
            len: 0,
            ..
        }
    ));
}

#[test]
fn binds_know_their_workers() {
    let text = "global\n nbproc 4\nlisten l\n mode tcp\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n \
                bind :1 process 2\n bind :2 process odd\n bind :3 process all\n bind :4 thread 1/1-2,4\n \
                bind :5-7,[::1]:9 name n shards 2 tcp-ut 3s mss -50 accept-proxy\n bind \"*:${PORT}\"\n \
                bind fd@3\n bind abns@x\n server s :80\n";
    let model = model(text);
    let l = &model.proxies[0];
    let threads: Vec<&[u32]> = l.binds.iter().map(|b| b.threads.as_slice()).collect();
    assert_eq!(threads[..4], [&[1][..], &[0, 2], &[], &[0, 1, 3]]);
    let five = &l.binds[4];
    assert_eq!(five.addrs.len(), 4);
    assert_eq!(
        (five.shards, five.tcp_ut_ms, five.mss, five.accept_proxy),
        (Some(Shards::Count(2)), Some(3000), Some(-50), true)
    );
    assert_eq!(
        l.binds[5].addrs,
        [ListenAddr::Tcp("0.0.0.0:8080".parse().unwrap())]
    );
    assert_eq!(l.binds[6].addrs, [ListenAddr::Fd(3)]);
}

/// The steps of a check, in a short form.
fn steps(text: &str) -> Vec<String> {
    let b = proxy(
        "b",
        &format!("backend b\n {text}\n server s 10.0.0.1:80 check\n"),
    );
    let CheckKind::Rules(rules) = &b.check else {
        return vec!["tcp".into()];
    };
    rules
        .steps
        .iter()
        .map(|s| match &s.action {
            CheckAction::Connect { port, .. } => {
                format!("connect{}", if port.is_some() { " port" } else { "" })
            }
            CheckAction::Send(bytes) => {
                format!("send {}", String::from_utf8_lossy(bytes).trim_end())
            }
            CheckAction::SendFormat { .. } => "send-lf".into(),
            CheckAction::SendHttp {
                method,
                uri,
                version,
                headers,
                body,
            } => format!(
                "{} {} {}{}{}",
                String::from_utf8_lossy(method),
                constant(uri),
                String::from_utf8_lossy(version),
                headers
                    .iter()
                    .map(|(n, v)| format!(" {n}:{}", constant(v)))
                    .collect::<String>(),
                body.as_ref()
                    .map_or(String::new(), |b| format!(" [{}]", constant(b))),
            ),
            CheckAction::Expect(e) => match &e.matcher {
                CheckMatch::Status(ranges) => {
                    format!("expect {}{ranges:?}", if e.negate { "!" } else { "" })
                }
                CheckMatch::String(s) => format!("expect {}", String::from_utf8_lossy(s)),
                _ => "expect".into(),
            },
            _ => "var".into(),
        })
        .collect()
}

/// As HAProxy 2.6 sent them over the wire.
#[test]
fn http_checks_send_what_haproxy_sends() {
    let check = |text: &str, expect: &[&str]| assert_eq!(steps(text), expect, "{text}");
    let two_or_three = "expect [(200, 399)]";
    check("option httpchk", &["OPTIONS / HTTP/1.0", two_or_three]);
    check(
        "option httpchk /zz",
        &["OPTIONS /zz HTTP/1.0", two_or_three],
    );
    check(
        "option httpchk GET /a\n http-check send uri /b hdr X y",
        &["GET /b HTTP/1.0 X:y", two_or_three],
    );
    check(
        "option httpchk GET /a HTTP/1.1\n http-check send hdr Host h",
        &["GET /a HTTP/1.1 Host:h", two_or_three],
    );
    check(
        "option httpchk GET /a HTTP/1.1\\r\\nHost:\\ foo\n http-check send hdr X h",
        &["GET /a HTTP/1.1 X:h", two_or_three],
    );
    check(
        "option httpchk GET /a HTTP/1.1\\r\\nHost:\\ foo",
        &["GET /a HTTP/1.1 Host:foo", two_or_three],
    );
    check(
        "option httpchk GET /a\n http-check connect\n http-check send uri /b",
        &["connect", "GET /b HTTP/1.0", two_or_three],
    );
    check(
        "http-check send uri /b\n option httpchk GET /a",
        &["GET /b HTTP/1.0", two_or_three],
    );
    check(
        "option httpchk\n http-check expect ! status 500-599",
        &["OPTIONS / HTTP/1.0", "expect ![(500, 599)]"],
    );
    check(
        "option httpchk\n http-check send meth POST uri /%[x] body b%b\n http-check expect string ok",
        &["POST /%[x] HTTP/1.0 [b%b]", "expect ok"],
    );
    check(
        "option httpchk\n http-check connect port 81\n http-check send uri /1\n http-check expect status 200\n \
         http-check connect port 82\n http-check send uri /2",
        &[
            "connect port",
            "OPTIONS /1 HTTP/1.0",
            "expect [(200, 200)]",
            "connect port",
            "OPTIONS /2 HTTP/1.0",
        ],
    );
}

#[test]
fn tcp_checks_are_their_steps() {
    let check = |text: &str, expect: &[&str]| assert_eq!(steps(text), expect, "{text}");
    check("option tcp-check", &[]);
    check("tcp-check send x", &["tcp"]);
    check(
        "option tcp-check\n tcp-check send-binary 5049\n tcp-check expect string x",
        &["send PI", "expect x"],
    );
    check("option redis-check", &["send *1\r\n$4\r\nPING", "expect"]);
    check(
        "option smtpchk EHLO a.b",
        &[
            "expect",
            "expect",
            "send EHLO a.b",
            "expect",
            "send QUIT",
            "expect",
        ],
    );
    // The last option decides, and a comment names the step after it.
    check(
        "option httpchk\n option tcp-check\n tcp-check comment hi\n tcp-check send a",
        &["send a"],
    );
    let b = proxy(
        "b",
        "backend b\n option tcp-check\n tcp-check comment hi\n tcp-check send a\n tcp-check send b\n server s :80\n",
    );
    let CheckKind::Rules(rules) = &b.check else {
        panic!("rules");
    };
    let comments: Vec<_> = rules
        .steps
        .iter()
        .map(|s| (s.number, s.comment.as_deref()))
        .collect();
    // as HAProxy counts: the comment is a step, too
    assert_eq!(comments, [(2, Some("hi")), (3, None)]);
}

#[test]
fn own_check_rules_replace_inherited_ones() {
    let text = "defaults\n option httpchk\n http-check expect status 200\n mode http\n timeout connect 1s\n timeout server 1s\n\
                backend a\n server s :80\nbackend b\n http-check expect status 201\n server s :80\n";
    let model = model(text);
    let expects = |p: &Proxy| match &p.check {
        CheckKind::Rules(r) => r
            .steps
            .iter()
            .filter_map(|s| match &s.action {
                CheckAction::Expect(e) => match &e.matcher {
                    CheckMatch::Status(r) => Some(r[0].0),
                    _ => None,
                },
                _ => None,
            })
            .collect(),
        CheckKind::Tcp | CheckKind::External(_) => Vec::new(),
    };
    assert_eq!(expects(&model.proxies[0]), [200]);
    assert_eq!(expects(&model.proxies[1]), [201]);
}

#[test]
fn balancing_reads_its_arguments() {
    let check = |text: &str, matches: fn(&Proxy) -> bool| {
        let b = proxy("b", &format!("backend b\n {text}\n server s :80\n"));
        assert!(matches(&b), "{text}");
    };
    check("balance", |b| matches!(b.balance, Balance::RoundRobin));
    check("balance random", |b| {
        matches!(b.balance, Balance::Random { draws: 2 })
    });
    check("balance uri len 3 depth 2 whole", |b| {
        matches!(
            b.balance,
            Balance::Uri {
                len: Some(3),
                depth: Some(2),
                whole: true,
                path_only: false
            }
        )
    });
    check(
        "balance hdr(Host) use_domain_only",
        |b| matches!(&b.balance, Balance::Header { name, use_domain_only: true } if name == "Host"),
    );
    check(
        "balance hash req.hdr(x),lower",
        |b| matches!(&b.balance, Balance::Hash(e) if &*e.text == "req.hdr(x),lower"),
    );
    check(
        "balance hash req.hdr(x) lower",
        |b| matches!(&b.balance, Balance::Hash(e) if &*e.text == "req.hdr(x),lower"),
    );
    check("hash-type consistent", |b| {
        b.hash_type.avalanche && b.hash_type.function == HashFunction::Sdbm
    });
    check("hash-type consistent djb2", |b| {
        !b.hash_type.avalanche && b.hash_type.consistent
    });
    check(
        "hash-type map-based wt6 avalanche\n hash-balance-factor 150",
        |b| b.hash_type.avalanche && !b.hash_type.consistent && b.hash_type.balance_factor == 150,
    );
    check("option redispatch", |b| b.redispatch == -1);
    check("option redispatch 3", |b| b.redispatch == 3);
    check("retry-on none", |b| b.retry_on.is_empty());
    check("retry-on 503 empty-response", |b| {
        b.retry_on == RetryOn::S503 | RetryOn::EMPTY_RESPONSE
    });
}

#[test]
fn sources_have_ports_and_ways() {
    let b = proxy(
        "b",
        "backend b\n source 10.0.0.9:1000 interface eth0\n server a :80 source 10.0.0.8:1024-2048\n \
         server c :80 source 0.0.0.0 usesrc hdr_ip(x-ip,1)\n",
    );
    let source = b.source.as_ref().expect("a source");
    assert_eq!(
        (source.ports, source.interface.as_deref()),
        (Some((1000, 1000)), Some("eth0"))
    );
    assert_eq!(
        b.servers[0].source.as_ref().and_then(|s| s.ports),
        Some((1024, 2048))
    );
    let third = b.servers[1].source.as_ref().expect("a source");
    assert_eq!(third.ip, None);
    assert_eq!(
        third.usesrc,
        Some(UseSrc::Header {
            name: "x-ip".into(),
            occurrence: 1
        })
    );
}

#[test]
fn log_lines_have_targets() {
    let f = proxy(
        "f",
        "frontend f\n bind :80\n log 127.0.0.1 len 2048 format rfc5424 sample 1,3-4:5 local3 notice err\n log stdout format raw daemon\n \
         log /dev/log local0\n log-tag x\n log-steps request,close\n",
    );
    let [udp, out, unix] = f.log.targets.as_slice() else {
        panic!("three targets");
    };
    assert_eq!(
        udp.addr,
        PeerAddr::Ip {
            ip: [127, 0, 0, 1].into(),
            port: PortSpec::Fixed(514)
        }
    );
    assert_eq!(
        (
            udp.max_len,
            udp.format,
            udp.facility,
            udp.level,
            udp.min_level
        ),
        (2048, LogFormatKind::Rfc5424, 19, 5, 3)
    );
    assert_eq!(
        udp.sample.as_ref().map(|s| (s.ranges.clone(), s.size)),
        Some((vec![(1, 1), (3, 4)], 5))
    );
    assert_eq!(
        (&out.addr, out.format, out.facility),
        (&PeerAddr::Fd(1), LogFormatKind::Raw, 3)
    );
    assert_eq!(unix.addr, PeerAddr::Unix("/dev/log".into()));
    assert_eq!(f.log.tag.as_deref(), Some("x"));
    assert_eq!(f.log.steps, Some(LogSteps::REQUEST | LogSteps::CLOSE));
}

#[test]
fn stream_actions_read_numbers_times_and_expressions() {
    let f = proxy(
        "f",
        "listen f\n bind :80\n server s :80\n filter bwlim-out slow default-limit 1m default-period 2s\n \
         http-request set-mark 0x10\n http-request set-bc-tos src,bytes(0,1)\n http-request set-timeout server 5s\n \
         http-request set-timeout tunnel int(7)\n http-request set-nice 5000\n http-request set-log-level silent\n \
         http-request set-var(txn.a,ifnotset,ifnotempty) src if TRUE\n http-request wait-for-body time 2s at-least 1k\n \
         http-response set-bandwidth-limit slow limit 10k period 3s\n http-request pause 5ms\n http-request set-src hdr(x) \n \
         http-request del-header ^x- -m reg\n http-response set-status 299 reason \"Fine by me\"\n",
    );
    let mut requests = f.http_request.iter().map(|r| &r.action);
    let mut next = || requests.next().expect("a rule");
    use sluice_expr::env::Side;
    assert!(matches!(
        next(),
        Action::SetMark {
            side: Side::Client,
            value: NumberSource::Const(16)
        }
    ));
    assert!(matches!(
        next(),
        Action::SetTos {
            side: Side::Server,
            value: NumberSource::Expr(_)
        }
    ));
    assert!(matches!(
        next(),
        Action::SetTimeout {
            which: TimeoutKind::Server,
            value: TimeoutSource::ConstMs(5000)
        }
    ));
    assert!(matches!(
        next(),
        Action::SetTimeout {
            which: TimeoutKind::Tunnel,
            value: TimeoutSource::Expr(_)
        }
    ));
    assert!(matches!(next(), Action::SetNice(1024)));
    assert!(matches!(next(), Action::SetLogLevel(None)));
    assert!(matches!(next(), Action::SetVar { conds, .. } if conds.len() == 2));
    assert!(matches!(
        next(),
        Action::WaitForBody {
            time_ms: 2000,
            at_least: 1024
        }
    ));
    assert!(matches!(next(), Action::Pause(PauseSource::ConstMs(5))));
    assert!(matches!(next(), Action::SetSrc(_)));
    assert!(matches!(next(), Action::DelHeader(HeaderMatch::Regex(r)) if r.is_match(b"X-A")));
    assert!(
        matches!(&f.http_response[0].action, Action::SetBandwidthLimit { filter, limit: Some(_), period: Some(_) }
        if filter.limit_bytes == 1 << 20 && filter.period_ms == 2000 && !filter.inbound)
    );
    assert!(
        matches!(&f.http_response[1].action, Action::SetStatus { code: 299, reason: Some(r) } if r == "Fine by me")
    );
}

#[test]
fn a_name_without_address_waits_for_one() {
    let b = proxy(
        "b",
        "backend b\n server a gone.example:80 init-addr none\n server c gone.example:80 init-addr libc,10.9.9.9\n",
    );
    assert_eq!(
        b.servers[0].addr,
        PeerAddr::Unresolved {
            host: "gone.example".into(),
            port: PortSpec::Fixed(80)
        }
    );
    assert_eq!(
        b.servers[1].addr,
        PeerAddr::Ip {
            ip: [10, 9, 9, 9].into(),
            port: PortSpec::Fixed(80)
        }
    );
}

#[test]
fn forwarded_headers_have_their_shapes() {
    let f = proxy(
        "f",
        "frontend f\n bind :80\n option forwardfor except 10.0.0.0/8 header X-Client if-none\n option originalto\n \
         option forwarded proto host by-expr dst for for_port\n",
    );
    let ff = f.forwardfor.as_ref().expect("forwardfor");
    assert_eq!(
        (ff.header.as_str(), ff.if_none, ff.except),
        ("X-Client", true, Some(([10, 0, 0, 0].into(), 8)))
    );
    assert_eq!(
        f.originalto.as_ref().map(|o| o.header.as_str()),
        Some("X-Original-To")
    );
    let forwarded = f.forwarded.as_ref().expect("forwarded");
    assert!(forwarded.proto && matches!(forwarded.by, Some(ForwardedValue::Expr(_))));
    assert!(matches!(forwarded.for_, Some(ForwardedValue::Auto)) && forwarded.by_port.is_none());
}

#[test]
fn stats_pages_collect_their_lines() {
    let f = proxy(
        "f",
        "frontend f\n bind :80\n stats uri /x\n stats auth a:b:c\n stats auth a:b:c\n stats refresh 5s\n stats hide-version\n \
         stats scope .\n stats show-desc one two\n stats admin if { src 127.0.0.1 }\n stats http-request deny if { src 1.1.1.1 }\n",
    );
    let stats = f.stats.as_ref().expect("a page");
    assert_eq!(stats.uri, "/x");
    assert_eq!(stats.auth, [("a".into(), "b:c".into())]);
    assert_eq!(
        (
            stats.refresh_s,
            stats.hide_version,
            stats.show_desc.as_deref()
        ),
        (Some(5), true, Some("one two"))
    );
    assert_eq!((f.stats_admin.len(), f.stats_http_request.len()), (1, 1));
}
