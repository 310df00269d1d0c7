//! `bind` lines and their words (manual chapter 5.1).

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Bind, CliLevel, Shards, UnixPerms};
use crate::registry::{Keyword, LineWord, Sections, WordRun, kw, word, word_later};
use crate::values::TimeUnit;

use super::choice;
use super::server::protocol;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[kw(
    "bind",
    Sections::FL,
    "{ [<address>]:<port range> | <path> }[,...] [ <word> ... ]",
    "an address to listen on",
    bind,
)
.ignored()];

#[rustfmt::skip]
pub(crate) static WORDS: &[LineWord<Bind>] = &[
    word("accept-netscaler-cip", "<magic>", "expect a NetScaler client IP header", |cx, line, at, b| {
        b.accept_netscaler_cip = Some(cx.uint(line, at + 1, 1..=u32::MAX)?);
        Some(2)
    }),
    word("accept-proxy", "", "expect a PROXY protocol header", |_, _, _, b| set(&mut b.accept_proxy, true)),
    word("backlog", "<conns>", "connections the kernel may hold", |cx, line, at, b| {
        b.backlog = Some(cx.uint(line, at + 1, 0..=i32::MAX as u32)?);
        Some(2)
    }),
    word("cc", "<algo>", "TCP congestion control", |cx, line, at, b| {
        b.cc = Some(cx.need(line, at + 1, "an algorithm")?.to_owned());
        Some(2)
    }),
    word("defer-accept", "", "accept connections once data is there", |_, _, _, b| set(&mut b.defer_accept, true)),
    word("gid", "<gid>", "group number of the socket", |cx, line, at, b| {
        b.perms.gid = Some(cx.uint(line, at + 1, 0..=u32::MAX)?);
        Some(2)
    }),
    word("group", "<group>", "group of the socket", |cx, line, at, b| {
        b.perms.group = Some(cx.need(line, at + 1, "a group's name")?.to_owned());
        Some(2)
    }),
    word("id", "<id>", "its number in statistics", |cx, line, at, b| {
        b.id = Some(cx.uint(line, at + 1, 1..=i32::MAX as u32)?);
        Some(2)
    }),
    word("interface", "<interface>", "only packets of this interface", |cx, line, at, b| {
        b.interface = Some(cx.need(line, at + 1, "an interface's name")?.to_owned());
        Some(2)
    }),
    word("level", "{ user | operator | admin }", "what its commands may do", |cx, line, at, b| {
        let among = [("user", CliLevel::User), ("operator", CliLevel::Operator), ("admin", CliLevel::Admin)];
        b.level = Some(choice(cx, line, at + 1, &among)?);
        Some(2)
    }),
    word("maxconn", "<conns>", "most concurrent connections on it", |cx, line, at, b| {
        b.maxconn = cx.uint(line, at + 1, 0..=i32::MAX as u32)?;
        Some(2)
    }),
    word("mode", "<mode>", "permissions of the socket, octal", |cx, line, at, b| {
        let text = cx.need(line, at + 1, "an octal mode")?;
        match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o7777 => b.perms.mode = Some(mode),
            _ => {
                cx.error_at(line, at + 1, format!("'mode' : '{text}' is not an octal mode such as 660"));
                return None;
            }
        }
        Some(2)
    }),
    word("mss", "<maxseg>", "largest segment; a negative one is relative to the path's", |cx, line, at, b| {
        let mss = cx.int(line, at + 1, -65_535..=65_535)?;
        if mss == 0 {
            cx.error_at(line, at + 1, "'mss' expects a number from 1 to 65535, or its negative");
            return None;
        }
        b.mss = i32::try_from(mss).ok();
        Some(2)
    }),
    word("name", "<name>", "its name in statistics and logs", |cx, line, at, b| {
        b.name = Some(cx.need(line, at + 1, "a name")?.into());
        Some(2)
    }),
    word("namespace", "<name>", "network namespace it belongs to", |cx, line, at, b| {
        b.namespace = Some(super::server::namespace(cx, line, at + 1)?);
        Some(2)
    }),
    word("nice", "<nice>", "share of the CPU its connections get", |cx, line, at, b| {
        b.nice = i32::try_from(cx.int(line, at + 1, -1024..=1024)?).unwrap_or(0);
        cx.no_effect(line, at, "connections of one worker take their turns alike");
        Some(2)
    }),
    LineWord {
        name: "process",
        args: "<process-set>[/<thread-set>]",
        help: "processes (here: workers) that serve it",
        run: WordRun::Obsolete {
            instead: "write `thread <thread-set>`: worker threads stand for processes",
            run: process,
        },
    },
    word("proto", "<name>", "the protocol spoken on it", |cx, line, at, b| {
        b.proto = Some(protocol(cx, line, at + 1)?);
        Some(2)
    }),
    word("severity-output", "{ none | number | string }", "severities in answers to commands", |cx, line, at, _| {
        choice(cx, line, at + 1, &[("none", ()), ("number", ()), ("string", ())])?;
        cx.warn(line, at, "'severity-output' has no effect here", Some("it belongs to `stats socket` lines".into()));
        Some(2)
    }),
    word("expose-fd", "listeners", "give listening sockets to a new process", |cx, line, at, _| {
        choice(cx, line, at + 1, &[("listeners", ())])?;
        cx.warn(line, at, "'expose-fd' has no effect here", Some("it belongs to `stats socket` lines".into()));
        Some(2)
    }),
    word("shards", "{ <number> | by-thread | by-group }", "how many sockets share its address", |cx, line, at, b| {
        b.shards = Some(match line.word(at + 1) {
            "by-thread" => Shards::ByThread,
            "by-group" => Shards::ByGroup,
            _ => Shards::Count(cx.uint(line, at + 1, 1..=1_000)?),
        });
        Some(2)
    }),
    word("tcp-ut", "<delay>", "time after which unacknowledged data breaks the connection", |cx, line, at, b| {
        b.tcp_ut_ms = Some(cx.time_ms(line, at + 1, TimeUnit::Ms)?);
        Some(2)
    }),
    word("tfo", "", "TCP fast open", |_, _, _, b| set(&mut b.tfo, true)),
    word("thread", "[<thread-group>/]<thread-set>[,...]", "workers that serve it", thread),
    word("transparent", "", "accept connections to addresses of others", |_, _, _, b| set(&mut b.transparent, true)),
    word("uid", "<uid>", "owner number of the socket", |cx, line, at, b| {
        b.perms.uid = Some(cx.uint(line, at + 1, 0..=u32::MAX)?);
        Some(2)
    }),
    word("user", "<user>", "owner of the socket", |cx, line, at, b| {
        b.perms.user = Some(cx.need(line, at + 1, "a user's name")?.to_owned());
        Some(2)
    }),
    word("v4v6", "", "IPv4 on the IPv6 wildcard too", |_, _, _, b| set(&mut b.v4v6, true)),
    word("v6only", "", "no IPv4 on the IPv6 wildcard", |_, _, _, b| set(&mut b.v6only, true)),
    word("alpn", "<protocols>", "protocols offered in TLS", |cx, line, at, b| {
        b.alpn = Some(cx.need(line, at + 1, "a list of protocols")?.to_owned());
        if !line.texts(0).contains(&"ssl") {
            cx.warn(line, at, "'alpn' has no effect without 'ssl'", None);
        }
        Some(2)
    }),
    word_later("allow-0rtt", "", "TLS"),
    word_later("ca-file", "<file>", "TLS"),
    word_later("ca-ignore-err", "<errors>", "TLS"),
    word_later("ca-sign-file", "<file>", "TLS"),
    word_later("ca-sign-pass", "<passphrase>", "TLS"),
    word_later("ca-verify-file", "<file>", "TLS"),
    word_later("ciphers", "<ciphers>", "TLS"),
    word_later("ciphersuites", "<suites>", "TLS"),
    word_later("client-sigalgs", "<algorithms>", "TLS"),
    word_later("crl-file", "<file>", "TLS"),
    word_later("crt", "<cert>", "TLS"),
    word_later("crt-ignore-err", "<errors>", "TLS"),
    word_later("crt-list", "<file>", "TLS"),
    word_later("curves", "<curves>", "TLS"),
    word_later("default-crt", "<cert>", "TLS"),
    word_later("ecdhe", "<curve>", "TLS"),
    word_later("force-sslv3", "", "TLS"),
    word_later("force-tlsv10", "", "TLS"),
    word_later("force-tlsv11", "", "TLS"),
    word_later("force-tlsv12", "", "TLS"),
    word_later("force-tlsv13", "", "TLS"),
    word_later("generate-certificates", "", "TLS"),
    word("guid-prefix", "<guid>", "its name across processes", |cx, line, at, _| {
        cx.need(line, at + 1, "an identifier")?;
        cx.no_effect(line, at, "it is a name in statistics files, which are not implemented by Sluice yet");
        Some(2)
    }),
    word_later("idle-ping", "<delay>", "HTTP/2"),
    word_later("ktls", "<on|off>", "TLS"),
    word_later("label", "<label>", "listener labels"),
    word_later("nbconn", "<count>", "reverse HTTP"),
    word_later("no-alpn", "", "TLS"),
    word_later("no-ca-names", "", "TLS"),
    word_later("no-sslv3", "", "TLS"),
    word_later("no-strict-sni", "", "TLS"),
    word_later("no-tls-tickets", "", "TLS"),
    word_later("no-tlsv10", "", "TLS"),
    word_later("no-tlsv11", "", "TLS"),
    word_later("no-tlsv12", "", "TLS"),
    word_later("no-tlsv13", "", "TLS"),
    word_later("npn", "<protocols>", "TLS"),
    word_later("prefer-client-ciphers", "", "TLS"),
    word_later("quic-cc-algo", "<algo>", "HTTP/3"),
    word_later("quic-force-retry", "", "HTTP/3"),
    word_later("quic-socket", "<mode>", "HTTP/3"),
    word_later("sigalgs", "<algorithms>", "TLS"),
    word_later("ssl", "", "TLS"),
    word_later("ssl-max-ver", "<version>", "TLS"),
    word_later("ssl-min-ver", "<version>", "TLS"),
    word_later("strict-sni", "", "TLS"),
    word("tcp-md5sig", "<password>", "sign TCP segments (RFC 2385)", |cx, line, at, b| {
        b.tcp_md5sig = Some(super::server::md5_key(cx, line, at + 1)?);
        Some(2)
    }),
    word_later("tcp-ss", "<mode>", "saved SYN packets"),
    word_later("tls-ticket-keys", "<file>", "TLS"),
    word_later("tls-tickets", "", "TLS"),
    word_later("verify", "<mode>", "TLS"),
];

fn set<T>(slot: &mut T, value: T) -> Option<usize> {
    *slot = value;
    Some(1)
}

fn fresh(line: &Arc<Line>) -> Bind {
    Bind {
        addrs: Vec::new(),
        name: None,
        id: None,
        maxconn: 0,
        backlog: None,
        accept_proxy: false,
        accept_netscaler_cip: None,
        defer_accept: false,
        interface: None,
        mss: None,
        nice: 0,
        namespace: None,
        tcp_md5sig: None,
        perms: UnixPerms::default(),
        process: Vec::new(),
        threads: Vec::new(),
        shards: None,
        cc: None,
        tcp_ut_ms: None,
        tfo: false,
        transparent: false,
        v4v6: false,
        v6only: false,
        proto: None,
        alpn: None,
        level: None,
        origin: line.origin(),
    }
}

fn bind(cx: &mut Cx<'_>, line: &Arc<Line>) {
    read_bind(cx, line, line.keyword_len);
}

/// Reads a listener from its address on; also for `listen NAME ADDRESS` headers of old files.
pub(crate) fn read_bind(cx: &mut Cx<'_>, line: &Arc<Line>, from: usize) {
    // A line that is wrong was still meant to be one.
    cx.proxy().seen.insert("bind".to_owned());
    let Some(addrs) = cx.listen_addrs(line, from) else {
        return;
    };
    let mut bind = fresh(line);
    bind.addrs = addrs;
    if !cx.line_words(line, from + 1, &[WORDS], &mut bind) {
        return;
    }
    if let Some(id) = bind.id
        && !cx.proxy().seen.insert(format!("bind-id {id}"))
    {
        let other = cx.proxy().binds.iter().find(|b| b.id == Some(id));
        let at = other.map_or(0, |b| b.origin.line);
        return cx.error_at(
            line,
            from,
            format!("'id' : custom id {id} is already used at line {at}"),
        );
    }
    let proxy = cx.proxy();
    proxy.binds.push(bind);
    proxy.bind_lines.push(line.clone());
}

/// Reads the words of a `bind` line that belongs to no proxy, from its address on: a `stats socket` (whose own words are not
/// in `line` any more), a `log-forward` section's.
pub(crate) fn lone_bind(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    from: usize,
    datagram: bool,
) -> Option<Bind> {
    let mut bind = fresh(line);
    bind.addrs = match datagram {
        true => cx.datagram_addrs(line, from)?,
        false => cx.listen_addrs(line, from)?,
    };
    cx.line_words(line, from + 1, &[WORDS], &mut bind)
        .then_some(bind)
}

/// Highest worker number that can be named.
const WORKER_MAX: u32 = 4096;

/// `N`, `N-M`, `N-`, `all`, `odd`, `even`: which of `1..=max`. Empty: all of them.
fn number_set(text: &str, max: u32) -> Option<Vec<u32>> {
    let number = |t: &str| match t.bytes().all(|b| b.is_ascii_digit()) {
        true => t.parse::<u32>().ok().filter(|n| (1..=max).contains(n)),
        false => None,
    };
    Some(match text {
        "all" => Vec::new(),
        "odd" => (1..=max).step_by(2).collect(),
        "even" => (2..=max).step_by(2).collect(),
        _ => match text.split_once('-') {
            Some((low, "")) => (number(low)?..=max).collect(),
            Some((low, high)) => {
                let (low, high) = (number(low)?, number(high)?);
                (low.min(high)..=low.max(high)).collect()
            }
            None => vec![number(text)?],
        },
    })
}

/// `process P[/T]` of old files: with `nbproc N`, process P is worker P; without it there is one process, and T are
/// its threads.
fn process(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize, bind: &mut Bind) -> Option<usize> {
    let text = cx.need(line, at + 1, "a process set after 'process'")?;
    let (processes, threads) = match text.split_once('/') {
        Some((processes, threads)) => (processes, Some(threads)),
        None => (text, None),
    };
    let max = cx.raw.global.nbproc.unwrap_or(1);
    let set = number_set(processes, max);
    let threads = threads.map_or(Some(Vec::new()), |t| number_set(t, WORKER_MAX));
    let (Some(set), Some(threads)) = (set, threads) else {
        cx.error(
            line,
            at + 1,
            0..0,
            format!("'process' : '{text}' is not a valid number or range"),
            Some(format!(
                "there are processes 1 to {max} (`nbproc` in the global section)"
            )),
        );
        return None;
    };
    let whole = set.is_empty() || u32::try_from(set.len()) == Ok(max);
    if !whole {
        bind.threads.extend(set.iter().map(|n| n - 1));
    } else if max == 1 {
        bind.threads.extend(threads.iter().map(|n| n - 1));
    }
    bind.process.extend(set);
    Some(2)
}

/// `thread [G/]SET[,...]`. Groups have no meaning here but the first, which is all of them.
fn thread(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize, bind: &mut Bind) -> Option<usize> {
    let text = cx.need(line, at + 1, "a thread set after 'thread'")?;
    let mut from = 0;
    for part in text.split(',') {
        let (group, set) = match part.split_once('/') {
            Some((group, set)) => (Some(group), set),
            None => (None, part),
        };
        let group_fits = group.is_none_or(|g| matches!(g, "1" | "all"));
        let threads = number_set(set, WORKER_MAX).filter(|_| group_fits);
        let Some(threads) = threads else {
            let hint = match group_fits {
                true => "write numbers, ranges, 'all', 'odd' or 'even'",
                false => "there is one group of workers: write `1/<thread-set>` or `<thread-set>`",
            };
            let message = format!("'thread' : '{part}' is not a valid number or range");
            cx.error(
                line,
                at + 1,
                from..from + part.len(),
                message,
                Some(hint.into()),
            );
            return None;
        };
        bind.threads.extend(threads.iter().map(|n| n - 1));
        from += part.len() + 1;
    }
    bind.threads.sort_unstable();
    bind.threads.dedup();
    Some(2)
}

#[cfg(test)]
mod tests {
    use super::number_set;

    #[test]
    fn sets_of_workers() {
        let check = |text: &str, expect: Option<&[u32]>| {
            assert_eq!(number_set(text, 8).as_deref(), expect, "{text}");
        };
        check("3", Some(&[3]));
        check("2-4", Some(&[2, 3, 4]));
        check("4-2", Some(&[2, 3, 4]));
        check("7-", Some(&[7, 8]));
        check("odd", Some(&[1, 3, 5, 7]));
        check("all", Some(&[]));
        check("9", None);
        check("0", None);
        check("x", None);
        check("", None);
    }
}
