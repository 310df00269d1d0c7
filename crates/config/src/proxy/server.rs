//! `server`, `default-server` and `server-template` lines. The words about checks are in [`super::server_check`].

use std::collections::HashSet;
use std::sync::Arc;

use sluice_expr::place::Place;

use crate::addr::AddrRules;
use crate::cx::Cx;
use crate::line::{Line, Written};
use crate::model::{
    AgentParams, CheckParams, HashKey, InitAddr, PeerAddr, PortSpec, SendProxy, Server,
};
use crate::raw::RawServer;
use crate::registry::{Keyword, LineWord, Sections, kw, word, word_later};
use crate::values::{TimeUnit, is_name_char};

use super::server_check::WORDS as CHECK_WORDS;
use super::source::source;
use super::{choice, format};

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("server", Sections::LB, "<name> <address>[:[port]] [ <word> ... ]", "declare a server", server).bytes(),
    kw("default-server", Sections::DLB, "[ <word> ... ]", "words that the servers after it begin with", default_server),
    kw("server-template", Sections::LB, "<prefix> <num | range> <address>[:[port]] [ <word> ... ]", "declare several servers alike", template),
];

/// Most servers one template may make.
const TEMPLATE_MAX: u32 = 65_535;

/// The words of a server line.
#[rustfmt::skip]
pub(crate) static WORDS: &[LineWord<RawServer>] = &[
    word("backup", "", "use it only when all others are down", |_, _, _, s| set(&mut s.server.backup, true)),
    word("no-backup", "", "undo `backup`", |_, _, _, s| set(&mut s.server.backup, false)),
    word("cookie", "<value>", "its persistence cookie", |cx, line, at, s| {
        s.server.cookie = Some(cx.need(line, at + 1, "a value after 'cookie'")?.to_owned());
        Some(2)
    }),
    word("disabled", "", "start in maintenance", |_, _, _, s| set(&mut s.server.disabled, true)),
    word("enabled", "", "undo `disabled`", |_, _, _, s| set(&mut s.server.disabled, false)),
    word("hash-key", "{ id | addr | addr-port }", "what consistent hashing knows it by", |cx, line, at, s| {
        let among = [("id", HashKey::Id), ("addr", HashKey::Addr), ("addr-port", HashKey::AddrPort)];
        s.server.hash_key = choice(cx, line, at + 1, &among)?;
        Some(2)
    }),
    word("id", "<value>", "its number in statistics and commands", id),
    word("init-addr", "{ last | libc | none | <ip> },[...]", "where its first address comes from", init_addr),
    word("max-reuse", "<count>", "requests a connection may serve again; -1 is no limit", |cx, line, at, s| {
        let count = cx.int(line, at + 1, -1..=i64::from(i32::MAX))?;
        s.server.max_reuse = (count >= 0).then_some(count);
        Some(2)
    }),
    word("maxconn", "<count>", "most concurrent connections; 0 is no limit", |cx, line, at, s| {
        s.server.maxconn = cx.uint(line, at + 1, 0..=i32::MAX as u32)?;
        Some(2)
    }),
    word("maxqueue", "<count>", "most requests that wait for it; 0 is no limit", |cx, line, at, s| {
        s.server.maxqueue = cx.uint(line, at + 1, 0..=i32::MAX as u32)?;
        Some(2)
    }),
    word("minconn", "<count>", "its `maxconn` while the backend has little to do", |cx, line, at, s| {
        s.server.minconn = cx.uint(line, at + 1, 0..=i32::MAX as u32)?;
        Some(2)
    }),
    word("on-marked-down", "shutdown-sessions", "what to do when it goes down", |cx, line, at, s| {
        choice(cx, line, at + 1, &[("shutdown-sessions", ())])?;
        s.server.on_marked_down_shutdown_sessions = true;
        Some(2)
    }),
    word("on-marked-up", "shutdown-backup-sessions", "what to do when it comes up", |cx, line, at, s| {
        choice(cx, line, at + 1, &[("shutdown-backup-sessions", ())])?;
        s.server.on_marked_up_shutdown_backup_sessions = true;
        Some(2)
    }),
    word("pool-low-conn", "<count>", "idle connections below which workers do not share them", |cx, line, at, s| {
        s.server.pool_low_conn = cx.uint(line, at + 1, 0..=i32::MAX as u32)?;
        Some(2)
    }),
    word("pool-max-conn", "<count>", "most idle connections; -1 is no limit", |cx, line, at, s| {
        let count = cx.int(line, at + 1, -1..=i64::from(i32::MAX))?;
        s.server.pool_max_conn = (count >= 0).then_some(count);
        Some(2)
    }),
    word("pool-purge-delay", "<delay>", "time after which half of the idle connections are closed", |cx, line, at, s| {
        s.server.pool_purge_delay_ms = cx.time_ms(line, at + 1, TimeUnit::Ms)?;
        Some(2)
    }),
    word("proto", "<name>", "the protocol spoken to it", proto),
    word("proxy-v2-options", "{ authority | crc32c | unique-id | ... },[...]", "what a PROXY v2 header tells", proxy_v2_options),
    word("redir", "<prefix>", "send GET and HEAD requests for it there with a redirect", |cx, line, at, s| {
        s.server.redir = Some(cx.need(line, at + 1, "a prefix after 'redir'")?.to_owned());
        Some(2)
    }),
    word("send-proxy", "", "begin connections with a PROXY v1 header", |_, _, _, s| {
        let header = send_proxy(s);
        (header.v2, header.wanted) = (false, true);
        Some(1)
    }),
    word("no-send-proxy", "", "undo `send-proxy`", |_, _, _, s| set(&mut s.server.send_proxy, None)),
    word("send-proxy-v2", "", "begin connections with a PROXY v2 header", |_, _, _, s| {
        let header = send_proxy(s);
        (header.v2, header.wanted) = (true, true);
        Some(1)
    }),
    word("no-send-proxy-v2", "", "undo `send-proxy-v2`", |_, _, _, s| set(&mut s.server.send_proxy, None)),
    word("set-proxy-v2-tlv-fmt*", "(<id>) <fmt>", "add a TLV to the PROXY v2 header", tlv),
    word("slowstart", "<delay>", "time it takes to get its full share after it came up", |cx, line, at, s| {
        s.server.slowstart_ms = cx.time_ms(line, at + 1, TimeUnit::Ms)?;
        Some(2)
    }),
    word("source", "<addr>[:<port>[-<port>]] [ usesrc ... ] [ interface <name> ]", "the address its connections come from", |cx, line, at, s| {
        let mut next = at + 1;
        s.server.source = Some(source(cx, line, &mut next, true)?);
        Some(next - at)
    }),
    word("usesrc", "", "only after `source`", |cx, line, at, _| {
        cx.error_at(line, at, "'usesrc' is only allowed after 'source <addr>'");
        None
    }),
    word("cc", "<algo>", "TCP congestion control", |cx, line, at, s| {
        s.server.cc = Some(cx.need(line, at + 1, "an algorithm")?.to_owned());
        Some(2)
    }),
    word("tcp-ut", "<delay>", "time after which unacknowledged data breaks the connection", |cx, line, at, s| {
        s.server.tcp_ut_ms = Some(cx.time_ms(line, at + 1, TimeUnit::Ms)?);
        Some(2)
    }),
    word("tfo", "", "TCP fast open", |_, _, _, s| set(&mut s.server.tfo, true)),
    word("no-tfo", "", "undo `tfo`", |_, _, _, s| set(&mut s.server.tfo, false)),
    word("track", "[<backend>/]<server>", "take the state of another server", |cx, line, at, s| {
        cx.need(line, at + 1, "a server after 'track'")?;
        s.track = Some(Written::new(line, at + 1));
        Some(2)
    }),
    word("weight", "<weight>", "its share of the load, 0 to 256", |cx, line, at, s| {
        s.server.weight = cx.uint(line, at + 1, 0..=256)?;
        Some(2)
    }),
    word("ws", "{ auto | h1 | h2 }", "the protocol websockets use", |cx, line, at, s| {
        let chosen = choice(cx, line, at + 1, &[("auto", "auto"), ("h1", "h1"), ("h2", "h2")])?;
        if chosen == "h2" {
            cx.not_yet(line, at + 1, "ws h2", "HTTP/2");
            return None;
        }
        s.server.ws = Some(chosen.to_owned());
        Some(2)
    }),
    // No check has to be switched off where none exists: these undo what a default-server may have said of TLS.
    word("no-ssl", "", "do not speak TLS to it", |_, _, _, _| Some(1)),
    word("no-check-ssl", "", "do not speak TLS in checks", |_, _, _, _| Some(1)),
    word("no-send-proxy-v2-ssl", "", "undo `send-proxy-v2-ssl`", |_, _, _, _| Some(1)),
    word("no-send-proxy-v2-ssl-cn", "", "undo `send-proxy-v2-ssl-cn`", |_, _, _, _| Some(1)),
    word_later("allow-0rtt", "", "TLS"),
    word_later("alpn", "<protocols>", "TLS"),
    word_later("ca-file", "<file>", "TLS"),
    word_later("check-alpn", "<protocols>", "TLS"),
    word_later("check-sni", "<sni>", "TLS"),
    word_later("check-sni-auto", "", "TLS"),
    word_later("check-ssl", "", "TLS"),
    word_later("ciphers", "<ciphers>", "TLS"),
    word_later("ciphersuites", "<suites>", "TLS"),
    word_later("client-sigalgs", "<algorithms>", "TLS"),
    word_later("crl-file", "<file>", "TLS"),
    word_later("crt", "<file>", "TLS"),
    word_later("curves", "<curves>", "TLS"),
    word_later("force-sslv3", "", "TLS"),
    word_later("force-tlsv10", "", "TLS"),
    word_later("force-tlsv11", "", "TLS"),
    word_later("force-tlsv12", "", "TLS"),
    word_later("force-tlsv13", "", "TLS"),
    word("guid", "<guid>", "its name across processes", |cx, line, at, _| {
        cx.need(line, at + 1, "an identifier")?;
        cx.no_effect(line, at, "it is a name in statistics files, which are not implemented by Sluice yet");
        Some(2)
    }),
    word_later("idle-ping", "<delay>", "HTTP/2"),
    word_later("ktls", "<on|off>", "TLS"),
    word("log-bufsize", "<bytes>", "memory for messages that a log server over TCP has not taken", |cx, line, at, s| {
        let bytes = cx.size(line, at + 1)?;
        s.server.log_bufsize = u32::try_from(bytes).ok();
        Some(2)
    }),
    word("log-proto", "{ legacy | octet-count }", "how messages to a log server over TCP are told apart", |cx, line, at, s| {
        s.server.octet_count = choice(cx, line, at + 1, &[("legacy", false), ("octet-count", true)])?;
        Some(2)
    }),
    word_later("no-check-sni-auto", "", "TLS"),
    word_later("no-renegotiate", "", "TLS"),
    word_later("no-sni-auto", "", "TLS"),
    word_later("no-ssl-reuse", "", "TLS"),
    word_later("no-sslv3", "", "TLS"),
    word_later("no-tls-tickets", "", "TLS"),
    word_later("no-tlsv10", "", "TLS"),
    word_later("no-tlsv11", "", "TLS"),
    word_later("no-tlsv12", "", "TLS"),
    word_later("no-tlsv13", "", "TLS"),
    word_later("non-stick", "", "stick tables"),
    word_later("npn", "<protocols>", "TLS"),
    word("pool-conn-name", "<expression>", "a name of its idle connections: only those of the same name are used again", |cx, line, at, s| {
        cx.need(line, at + 1, "an expression")?;
        s.server.pool_conn_name = Some(cx.expr(line, at + 1, Place::BE_SERVER_CONNECT)?);
        Some(2)
    }),
    word_later("quic-cc-algo", "<algo>", "HTTP/3"),
    word_later("renegotiate", "", "TLS"),
    word_later("resolve-net", "<network>", "resolvers"),
    word_later("resolve-opts", "<options>", "resolvers"),
    word_later("resolve-prefer", "<family>", "resolvers"),
    word_later("resolvers", "<id>", "resolvers"),
    word_later("send-proxy-v2-ssl", "", "TLS"),
    word_later("send-proxy-v2-ssl-cn", "", "TLS"),
    word_later("shard", "<shard>", "peers"),
    word_later("sigalgs", "<algorithms>", "TLS"),
    word_later("sni", "<expression>", "TLS"),
    word_later("sni-auto", "", "TLS"),
    word("socks4", "<address>:<port>", "a SOCKS4 proxy that its connections go through", |cx, line, at, s| {
        match cx.peer_addr(line, at + 1, AddrRules::FIXED)? {
            PeerAddr::Ip { ip, port: PortSpec::Fixed(port) } => s.server.socks4 = Some(std::net::SocketAddr::new(ip, port)),
            _ => {
                cx.error_at(line, at + 1, "'socks4' expects an address and a port");
                return None;
            }
        }
        Some(2)
    }),
    word_later("ssl", "", "TLS"),
    word_later("ssl-max-ver", "<version>", "TLS"),
    word_later("ssl-min-ver", "<version>", "TLS"),
    word_later("ssl-reuse", "", "TLS"),
    word_later("stick", "", "stick tables"),
    word_later("strict-maxconn", "", "strict connection limits"),
    word("namespace", "{ <name> | * }", "network namespace it is reached from", |cx, line, at, s| {
        if line.word(at + 1) == "*" {
            cx.not_yet(line, at + 1, "namespace *", "namespaces named by the PROXY protocol");
            return None;
        }
        s.server.namespace = Some(namespace(cx, line, at + 1)?);
        Some(2)
    }),
    word("tcp-md5sig", "<password>", "sign TCP segments (RFC 2385)", |cx, line, at, s| {
        s.server.tcp_md5sig = Some(md5_key(cx, line, at + 1)?);
        Some(2)
    }),
    word_later("tls-tickets", "", "TLS"),
    word_later("verify", "<what>", "TLS"),
    word_later("verifyhost", "<name>", "TLS"),
];

/// The name of a network namespace, which is a file's.
pub(super) fn namespace(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<String> {
    let name = cx.need(line, word, "a namespace's name")?.to_owned();
    if name.contains('/') || name.starts_with('.') {
        cx.error_at(
            line,
            word,
            format!("'namespace' : '{name}' is no name of ip-netns(8)"),
        );
        return None;
    }
    Some(name)
}

/// A key for TCP signatures: the kernel takes 80 bytes.
pub(super) fn md5_key(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<String> {
    const LONGEST: usize = 80;
    let key = cx.need(line, word, "a password")?.to_owned();
    if key.len() > LONGEST {
        cx.error_at(
            line,
            word,
            format!("'tcp-md5sig' : the password is longer than {LONGEST} bytes"),
        );
        return None;
    }
    Some(key)
}

pub(super) fn set<T>(slot: &mut T, value: T) -> Option<usize> {
    *slot = value;
    Some(1)
}

fn send_proxy(server: &mut RawServer) -> &mut SendProxy {
    server.server.send_proxy.get_or_insert_default()
}

/// A server of which nothing was said yet.
fn fresh(line: &Arc<Line>) -> RawServer {
    RawServer {
        server: Server {
            name: "".into(),
            id: 0,
            addr: PeerAddr::Unresolved {
                host: String::new(),
                port: PortSpec::FromClient,
            },
            datagrams: false,
            hostname: None,
            weight: 1,
            backup: false,
            disabled: false,
            maxconn: 0,
            minconn: 0,
            maxqueue: 0,
            pool_max_conn: None,
            pool_low_conn: 0,
            pool_purge_delay_ms: 5_000,
            max_reuse: None,
            pool_conn_name: None,
            slowstart_ms: 0,
            cookie: None,
            redir: None,
            track: None,
            check: CheckParams::default(),
            agent: AgentParams::default(),
            on_marked_down_shutdown_sessions: false,
            on_marked_up_shutdown_backup_sessions: false,
            send_proxy: None,
            source: None,
            socks4: None,
            tfo: false,
            tcp_ut_ms: None,
            cc: None,
            tcp_md5sig: None,
            namespace: None,
            proto: None,
            ws: None,
            hash_key: HashKey::Id,
            log_bufsize: None,
            octet_count: false,
            error_limit: 10,
            init_addr: Vec::new(),
            origin: line.origin(),
        },
        track: None,
        line: line.clone(),
    }
}

/// The words of a line, on top of what `default-server` said.
fn words(cx: &mut Cx<'_>, line: &Arc<Line>, from: usize) -> Option<RawServer> {
    let base = cx.proxy().settings.default_server.clone();
    let mut server = base.unwrap_or_else(|| fresh(line));
    server.line = line.clone();
    server.server.origin = line.origin();
    // Words that are missing still leave a server, so that what names it is not an error as well; the load fails anyway.
    cx.line_words(line, from, &[WORDS, CHECK_WORDS], &mut server);
    Some(server)
}

fn default_server(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some(i) = (line.keyword_len..line.words.len()).find(|i| line.word(*i) == "id") {
        return cx.error_at(line, i, "'id' is not accepted by 'default-server'");
    }
    if let Some(server) = words(cx, line, line.keyword_len) {
        cx.proxy().settings.default_server = Some(server);
    }
}

fn server(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    let Some(name) = server_name(cx, line, from) else {
        return;
    };
    if cx
        .need(line, from + 1, "<name> and <addr>[:<port>]")
        .is_none()
    {
        return;
    }
    let Some(server) = words(cx, line, from + 2) else {
        return;
    };
    if let Some(server) = complete(cx, line, from + 1, server) {
        add(cx, line, from, &name, server);
    }
}

fn template(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    let Some(prefix) = server_name(cx, line, from) else {
        return;
    };
    for (word, what) in [(1, "a number or range"), (2, "an address")] {
        if cx
            .need(
                line,
                from + word,
                &format!("<prefix> <number | range> <addr>[:<port>] ({what})"),
            )
            .is_none()
        {
            return;
        }
    }
    let text = line.word(from + 1);
    let number = |t: &str| match t.bytes().all(|b| b.is_ascii_digit()) {
        true => t
            .parse::<u32>()
            .ok()
            .filter(|n| (1..=TEMPLATE_MAX).contains(n)),
        false => None,
    };
    let range = match text.split_once('-') {
        Some((low, high)) => number(low).zip(number(high)),
        None => number(text).map(|n| (1, n)),
    };
    let Some((low, high)) = range.filter(|(low, high)| low <= high) else {
        return cx.error(
            line,
            from + 1,
            0..0,
            format!("'server-template' : wrong number or range '{text}'"),
            Some("write how many, or FIRST-LAST".into()),
        );
    };
    let Some(server) = words(cx, line, from + 3) else {
        return;
    };
    let Some(server) = complete(cx, line, from + 2, server) else {
        return;
    };
    for n in low..=high {
        let mut one = server.clone();
        if n > low {
            // A number can be one server's only.
            one.server.id = 0;
        }
        add(cx, line, from, &format!("{prefix}{n}"), one);
    }
}

fn server_name(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<String> {
    let name = cx.need(line, word, "<name> and <addr>[:<port>]")?;
    match name.char_indices().find(|(_, c)| !is_name_char(*c)) {
        None => Some(name.to_owned()),
        Some((at, c)) => {
            let message = format!("character '{c}' is not permitted in server name '{name}'");
            cx.error(line, word, at..at + c.len_utf8(), message, None);
            None
        }
    }
}

/// Reads the address, now that it is known how a host name is to be treated, and checks what the words say together.
fn complete(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    word: usize,
    mut server: RawServer,
) -> Option<RawServer> {
    let mut methods = match server.server.init_addr.as_slice() {
        [] => vec![InitAddr::Last, InitAddr::Libc],
        given => given.to_vec(),
    };
    if cx.opts.ignores_unresolved {
        methods.push(InitAddr::None);
    }
    let prefix = line.word(word).split('@').next();
    server.server.datagrams = matches!(prefix, Some("udp" | "udp4" | "udp6"));
    let rules = AddrRules {
        datagram: server.server.datagrams,
        ..AddrRules::SERVER
    };
    let mut addr = match methods.contains(&InitAddr::Libc) {
        true => cx.peer_addr(line, word, rules)?,
        // Names are not looked up then.
        false => cx.peer_addr_unresolved(line, word, rules)?,
    };
    if let PeerAddr::Unresolved { host, port } = &addr {
        let (host, port) = (host.clone(), *port);
        let first = methods
            .iter()
            .find(|m| matches!(m, InitAddr::None | InitAddr::Ip(_)));
        let asked = methods.contains(&InitAddr::Libc);
        match first {
            Some(InitAddr::Ip(ip)) => {
                if asked {
                    let message = format!(
                        "could not resolve address '{host}', falling back to configured address"
                    );
                    cx.warn(line, word, message, None);
                }
                addr = PeerAddr::Ip { ip: *ip, port };
            }
            Some(_) if asked => {
                cx.warn(
                    line,
                    word,
                    format!("could not resolve address '{host}', disabling server"),
                    None,
                );
            }
            Some(_) => {}
            None => {
                cx.error(
                    line,
                    word,
                    0..0,
                    format!("could not resolve address '{host}'"),
                    Some("`init-addr last,libc,none` lets Sluice start without it".into()),
                );
                return None;
            }
        }
        server.server.hostname = Some(host);
    } else {
        server.server.hostname = host_name(line.word(word));
    }
    server.server.addr = addr;
    if server.track.is_some() && server.server.check.enabled {
        cx.error_at(
            line,
            word,
            "unable to enable checks and tracking at the same time",
        );
        return None;
    }
    if server.server.agent.enabled && server.server.agent.port.is_none() {
        let name = line.word(word - 1);
        let message = format!(
            "'server {name}' : server {name} does not have agent port. Agent check has been disabled."
        );
        cx.error_at(line, word, message);
        return None;
    }
    if server.server.init_addr.is_empty() {
        server.server.init_addr = methods;
    }
    Some(server)
}

/// The host name an address was written with; `None` when it was an address.
fn host_name(text: &str) -> Option<String> {
    let text = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    let is_name = host.contains(|c: char| c.is_ascii_alphabetic())
        && !host.contains([':', '/', '$', '['])
        && host.parse::<std::net::IpAddr>().is_err();
    is_name.then(|| host.to_owned())
}

fn add(cx: &mut Cx<'_>, line: &Arc<Line>, word: usize, name: &str, mut server: RawServer) {
    server.server.name = name.into();
    let proxy = cx.proxy();
    if !proxy.seen.insert(format!("server {name}")) {
        let other = proxy.servers.iter().find(|s| &*s.server.name == name);
        let at = other.map_or(0, |s| s.line.number);
        let message = format!(
            "another server named '{name}' was already defined at line {at}, please use distinct names"
        );
        return cx.error_at(line, word, message);
    }
    if server.server.id > 0 && !proxy.seen.insert(format!("server-id {}", server.server.id)) {
        let id = server.server.id;
        let other = proxy.servers.iter().find(|s| s.server.id == id);
        let (at, who) = other.map_or((0, ""), |s| (s.line.number, &*s.server.name));
        let message = format!("custom id {id} is already used by server '{who}' at line {at}");
        return cx.error_at(line, word, message);
    }
    proxy.servers.push(server);
}

fn id(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize, server: &mut RawServer) -> Option<usize> {
    server.server.id = cx.uint(line, at + 1, 1..=i32::MAX as u32)?;
    Some(2)
}

fn init_addr(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    at: usize,
    server: &mut RawServer,
) -> Option<usize> {
    let text = cx.need(line, at + 1, "a list of methods after 'init-addr'")?;
    let mut methods = Vec::new();
    let mut from = 0;
    for part in text.split(',') {
        methods.push(match part {
            "last" => InitAddr::Last,
            "libc" => InitAddr::Libc,
            "none" => InitAddr::None,
            ip => match ip.parse() {
                Ok(ip) => InitAddr::Ip(ip),
                Err(_) => {
                    let message = format!("'init-addr' : unknown method '{part}'");
                    let hint = "it is 'last', 'libc', 'none' or an IP address".into();
                    cx.error(line, at + 1, from..from + part.len(), message, Some(hint));
                    return None;
                }
            },
        });
        from += part.len() + 1;
    }
    let distinct: HashSet<&str> = text.split(',').collect();
    if distinct.len() != methods.len() {
        cx.error_at(line, at + 1, "'init-addr' : a method is given twice");
        return None;
    }
    server.server.init_addr = methods;
    Some(2)
}

/// `proto NAME`: HTTP/1 is what there is.
fn proto(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize, server: &mut RawServer) -> Option<usize> {
    let name = protocol(cx, line, at + 1)?;
    server.server.proto = Some(name);
    Some(2)
}

/// A protocol's name for `proto`; `None` for those that are not there.
pub(super) fn protocol(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<String> {
    let name = cx.need(line, word, "a protocol's name after 'proto'")?;
    let part = match name {
        "h1" | "none" => return Some(name.to_owned()),
        "h2" => "HTTP/2",
        "quic" => "HTTP/3",
        "fcgi" => "FastCGI",
        "spop" => "SPOE",
        _ => {
            let hint = "it is 'h1', or 'h2', 'quic', 'fcgi' in HAProxy".into();
            cx.error(
                line,
                word,
                0..0,
                format!("'proto' : unknown MUX protocol '{name}'"),
                Some(hint),
            );
            return None;
        }
    };
    cx.not_yet(line, word, &format!("proto {name}"), part);
    None
}

fn proxy_v2_options(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    at: usize,
    server: &mut RawServer,
) -> Option<usize> {
    let text = cx.need(line, at + 1, "a list of options after 'proxy-v2-options'")?;
    // The options alone send nothing; `send-proxy-v2` does, before or after them.
    let mut header = server.server.send_proxy.clone().unwrap_or_default();
    for option in text.split(',') {
        match option {
            "unique-id" => header.unique_id = true,
            "authority" => header.authority = true,
            "crc32c" => header.crc32c = true,
            "ssl" | "cert-cn" | "ssl-cipher" | "cert-sig" | "cert-key" => {
                cx.not_yet(line, at + 1, &format!("proxy-v2-options {option}"), "TLS");
                return None;
            }
            other => {
                let hint = crate::diag::suggest(
                    other,
                    ["unique-id", "authority", "crc32c", "ssl", "cert-cn"],
                )
                .map(|near| format!("did you mean '{near}'?"));
                cx.error(
                    line,
                    at + 1,
                    0..0,
                    format!("'proxy-v2-options' : unknown option '{other}'"),
                    hint,
                );
                return None;
            }
        }
    }
    server.server.send_proxy = Some(header);
    Some(2)
}

/// `set-proxy-v2-tlv-fmt(0xE1) FORMAT`
fn tlv(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize, server: &mut RawServer) -> Option<usize> {
    let inner = super::basic::paren_argument(cx, line, at)
        .ok()?
        .unwrap_or_default();
    let id = match inner.strip_prefix("0x").or(inner.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => inner.parse().ok(),
    };
    let Some(id) = id else {
        cx.error_at(
            line,
            at,
            format!(
                "'{}' : expects a TLV type from 0 to 0xFF in parentheses",
                line.word(at)
            ),
        );
        return None;
    };
    let format = format(
        cx,
        line,
        at + 1,
        Place::BE_SERVER_CONNECT | Place::BE_SET_SERVER,
    )?;
    send_proxy(server).tlvs.push((id, format));
    Some(2)
}
