//! Asking a server whether it works: one function a checker, each bounded in time by its caller and in bytes here.

use crate::check::md5::md5;
use crate::config::model::{
    Checker, CheckerKind, HttpCheck, HttpVersion, MiscCheck, UdpCheck, Url,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Most of a page that is read: a check is no download.
const PAGE_MAX: usize = 4 << 20;
const LINE_MAX: usize = 4096;

/// What a probe found: nothing wrong (and perhaps a weight), or why not.
pub type Outcome = Result<Option<u32>, String>;

/// Probes once. `target` is the server; the checker's connect_ip and connect_port go before it.
pub async fn probe(checker: &Checker, target: SocketAddr, limit: Duration) -> Outcome {
    let to = SocketAddr::new(
        checker.connect_ip.unwrap_or(target.ip()),
        checker.connect_port.unwrap_or(target.port()),
    );
    let work = async {
        match &checker.kind {
            CheckerKind::Tcp => connect(checker, to).await.map(|_| None),
            CheckerKind::Http(http) => pages(checker, http, to).await.map(|()| None),
            CheckerKind::Smtp { helo } => smtp(checker, to, helo.as_deref()).await.map(|()| None),
            CheckerKind::Dns { record, name } => {
                dns(checker, to, *record, name).await.map(|()| None)
            }
            CheckerKind::Udp(udp) => datagram(checker, to, udp, limit).await.map(|()| None),
            CheckerKind::Ping => ping(checker, to.ip()).await.map(|()| None),
            CheckerKind::Misc(misc) => program(misc).await,
            CheckerKind::File { .. } => Ok(None),
            CheckerKind::Bfd { .. } => Err("BFD is not written".into()),
        }
    };
    // A datagram without required answer is right when nothing came until the limit: it watches the clock itself.
    let limit = if matches!(checker.kind, CheckerKind::Udp(_)) {
        limit + Duration::from_secs(1)
    } else {
        limit
    };
    match timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer within {limit:?}")),
    }
}

fn fail(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |e| format!("{what}: {e}")
}

/// A socket bound and marked as the checker says.
fn socket(
    checker: &Checker,
    to: SocketAddr,
    kind: Type,
    protocol: Option<Protocol>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), kind, protocol)?;
    socket.set_nonblocking(true)?;
    if let Some(name) = &checker.bind_interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    if let Some(mark) = checker.fwmark {
        socket.set_mark(mark)?;
    }
    if checker.bind_ip.is_some() || checker.bind_port.is_some() {
        let any = if to.is_ipv4() {
            IpAddr::from([0; 4])
        } else {
            IpAddr::from([0; 16])
        };
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(SocketAddr::new(
            checker.bind_ip.unwrap_or(any),
            checker.bind_port.unwrap_or(0),
        )))?;
    }
    Ok(socket)
}

async fn connect(checker: &Checker, to: SocketAddr) -> Result<TcpStream, String> {
    let socket = socket(checker, to, Type::STREAM, None).map_err(fail("socket"))?;
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    let stream = socket.connect(to).await.map_err(fail("connect"))?;
    // Closing with a reset leaves no TIME_WAIT behind for the thousands of probes that follow.
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    Ok(stream)
}

async fn pages(checker: &Checker, http: &HttpCheck, to: SocketAddr) -> Result<(), String> {
    for url in &http.urls {
        page(checker, http, url, to)
            .await
            .map_err(|e| format!("{}: {e}", url.path))?;
    }
    Ok(())
}

async fn page(
    checker: &Checker,
    http: &HttpCheck,
    url: &Url,
    to: SocketAddr,
) -> Result<(), String> {
    let mut stream = connect(checker, to).await?;
    let host = match url.virtualhost.as_ref().or(http.virtualhost.as_ref()) {
        Some(name) => name.clone(),
        None => to.to_string(),
    };
    let (version, close) = match http.version {
        HttpVersion::V10 => ("1.0", ""),
        HttpVersion::V10Close => ("1.0", "Connection: close\r\n"),
        HttpVersion::V11 => ("1.1", "Connection: close\r\n"),
    };
    let request = format!(
        "GET {} HTTP/{version}\r\nUser-Agent: sluice-l4\r\n{close}Host: {host}\r\n\r\n",
        url.path
    );
    stream
        .write_all(request.as_bytes())
        .await
        .map_err(fail("write"))?;
    let needs_body = url.digest.is_some() || url.regex.is_some();
    let mut answer = Vec::new();
    let mut chunk = vec![0; 16384];
    loop {
        let n = stream.read(&mut chunk).await.map_err(fail("read"))?;
        answer.extend_from_slice(chunk.get(..n).unwrap_or_default());
        if n == 0
            || answer.len() > PAGE_MAX
            || (!needs_body && head_end(&answer).is_some())
            || complete(&answer)
        {
            break;
        }
    }
    judge(url, &answer)
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|p| p + 4)
}

/// Whether the body is as long as Content-Length says.
fn complete(answer: &[u8]) -> bool {
    let Some(end) = head_end(answer) else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    let length = head
        .lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(n, _)| n.eq_ignore_ascii_case("content-length"));
    length
        .and_then(|(_, v)| v.trim().parse::<usize>().ok())
        .is_some_and(|l| answer.len() - end >= l)
}

/// Status, digest and pattern of an answer.
fn judge(url: &Url, answer: &[u8]) -> Result<(), String> {
    let end = head_end(answer).ok_or("the answer has no end of headers")?;
    let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let status: u16 = match (words.next(), words.next().and_then(|s| s.parse().ok())) {
        (Some(v), Some(status)) if v.starts_with("HTTP/1.") => status,
        _ => return Err("the answer is not HTTP".into()),
    };
    let good = if url.status.is_empty() {
        (200..=299).contains(&status)
    } else {
        url.status.iter().any(|(l, h)| (*l..=*h).contains(&status))
    };
    if !good {
        return Err(format!("status {status}"));
    }
    let body = answer.get(end..).unwrap_or_default();
    if url.digest.is_some_and(|d| d != md5(body)) {
        return Err("the digest differs".into());
    }
    if let Some(pattern) = &url.regex {
        let regex = regex::bytes::RegexBuilder::new(pattern)
            .case_insensitive(url.regex_caseless)
            .multi_line(url.regex_multiline)
            .dot_matches_new_line(url.regex_dotall)
            .size_limit(1 << 20)
            .build()
            .map_err(|e| format!("the pattern: {e}"))?;
        let found = regex
            .find_at(body, url.regex_min_offset.min(body.len()))
            .is_some_and(|m| url.regex_max_offset.is_none_or(|max| m.start() <= max));
        if found == url.regex_no_match {
            return Err(if found {
                "the pattern matches"
            } else {
                "the pattern does not match"
            }
            .into());
        }
    }
    Ok(())
}

async fn smtp(checker: &Checker, to: SocketAddr, helo: Option<&str>) -> Result<(), String> {
    let mut stream = connect(checker, to).await?;
    expect(&mut stream, "220").await?;
    let name = helo.unwrap_or("localhost");
    stream
        .write_all(format!("HELO {name}\r\n").as_bytes())
        .await
        .map_err(fail("write"))?;
    expect(&mut stream, "250").await?;
    // Good manners; whether it is answered does not matter.
    let _ = stream.write_all(b"QUIT\r\n").await;
    Ok(())
}

/// Reads one reply (all lines of it) and compares its code.
async fn expect(stream: &mut TcpStream, code: &str) -> Result<(), String> {
    let mut line = Vec::new();
    loop {
        let byte = stream.read_u8().await.map_err(fail("read"))?;
        line.push(byte);
        if line.len() > LINE_MAX {
            return Err("a reply without end".into());
        }
        if byte == b'\n' {
            if line.get(3) != Some(&b'-') {
                break;
            }
            line.clear();
        }
    }
    if line.starts_with(code.as_bytes()) {
        return Ok(());
    }
    Err(format!(
        "expected {code}, got {}",
        String::from_utf8_lossy(&line).trim()
    ))
}

fn udp(checker: &Checker, to: SocketAddr) -> Result<UdpSocket, String> {
    let make = || -> io::Result<UdpSocket> {
        let socket = socket(checker, to, Type::DGRAM, None)?;
        socket.connect(&SockAddr::from(to))?;
        UdpSocket::from_std(socket.into())
    };
    make().map_err(fail("socket"))
}

/// RFC 1035: a question; any answer to it without an error will do.
async fn dns(checker: &Checker, to: SocketAddr, record: u16, name: &str) -> Result<(), String> {
    let socket = udp(checker, to)?;
    let id = socket.local_addr().map_or(0x5ca1, |a| a.port());
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|l| !l.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(record.to_be_bytes());
    query.extend([0, 1]);
    socket.send(&query).await.map_err(fail("send"))?;
    let mut answer = [0; 1500];
    loop {
        let n = socket.recv(&mut answer).await.map_err(fail("receive"))?;
        let [a, b, flags, more, ..] = answer;
        // Strays and echoes are not our answer.
        if n < 12 || [a, b] != id.to_be_bytes() || flags & 0x80 == 0 {
            continue;
        }
        return match more & 0xf {
            0 => Ok(()),
            code => Err(format!("response code {code}")),
        };
    }
}

async fn datagram(
    checker: &Checker,
    to: SocketAddr,
    check: &UdpCheck,
    limit: Duration,
) -> Result<(), String> {
    let socket = udp(checker, to)?;
    let payload = check
        .payload
        .clone()
        .unwrap_or_else(|| b"sluice-l4 health check".to_vec());
    socket.send(&payload).await.map_err(fail("send"))?;
    let mut answer = vec![0; 65536];
    match timeout(limit, socket.recv(&mut answer)).await {
        Err(_) if check.require_reply => Err("no reply".into()),
        Err(_) => Ok(()),
        // An ICMP error comes back as one of the socket.
        Ok(Err(e)) => Err(format!("receive: {e}")),
        Ok(Ok(n)) if check.require_reply => {
            if n < usize::from(check.reply_min) || n > usize::from(check.reply_max) {
                return Err(format!("a reply of {n} bytes"));
            }
            let same = check
                .reply
                .iter()
                .zip(&answer[..n])
                .all(|((value, mask), byte)| value & mask == byte & mask);
            if same {
                Ok(())
            } else {
                Err("the reply differs".into())
            }
        }
        Ok(Ok(_)) => Ok(()),
    }
}

async fn ping(checker: &Checker, to: IpAddr) -> Result<(), String> {
    let v4 = to.is_ipv4();
    let protocol = if v4 {
        Protocol::ICMPV4
    } else {
        Protocol::ICMPV6
    };
    let address = SocketAddr::new(to, 0);
    let socket = socket(checker, address, Type::RAW, Some(protocol)).map_err(fail("socket"))?;
    socket
        .connect(&SockAddr::from(address))
        .map_err(fail("connect"))?;
    // A connected raw socket is read like a datagram socket.
    let socket = UdpSocket::from_std(socket.into()).map_err(fail("socket"))?;
    // Our process and this probe: replies to others come to this socket too.
    let id = (std::process::id() as u16) ^ (std::ptr::from_ref(checker) as usize >> 4) as u16;
    let mut echo = vec![if v4 { 8 } else { 128 }, 0, 0, 0];
    echo.extend(id.to_be_bytes());
    echo.extend([0, 1]);
    echo.extend(b"sluice-l4");
    if v4 {
        let mut sum = crate::vrrp::packet::Sum::default();
        sum.add(&echo);
        echo[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    }
    socket.send(&echo).await.map_err(fail("send"))?;
    let mut buffer = [0; 1500];
    loop {
        let n = socket.recv(&mut buffer).await.map_err(fail("receive"))?;
        let packet = buffer.get(..n).unwrap_or_default();
        let header = if v4 {
            usize::from(packet.first().copied().unwrap_or(0) & 0xf) * 4
        } else {
            0
        };
        let icmp = packet.get(header..).unwrap_or_default();
        let [kind, _, _, _, a, b, ..] = icmp else {
            continue;
        };
        if *kind == (if v4 { 0 } else { 129 }) && [*a, *b] == id.to_be_bytes() {
            return Ok(());
        }
    }
}

/// Exit status 0 is well, 1 is not; with misc_dynamic 2 to 255 set the weight to two less.
async fn program(check: &MiscCheck) -> Outcome {
    let [program, args @ ..] = check.argv.as_slice() else {
        return Err("no program".into());
    };
    let mut command = tokio::process::Command::new(program);
    command
        .args(args)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true);
    if let Some((user, group)) = &check.user {
        let (uid, gid) =
            crate::host::user(user, group.as_deref()).ok_or_else(|| format!("no user {user}"))?;
        command.uid(uid).gid(gid);
    }
    let status = command.status().await.map_err(fail(program))?;
    match status.code() {
        Some(0) => Ok(None),
        Some(code @ 2..) if check.dynamic => Ok(Some(code as u32 - 2)),
        Some(code) => Err(format!("{program} ended with {code}")),
        None => Err(format!("{program} was killed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(work)
    }

    const LIMIT: Duration = Duration::from_secs(3);

    /// A server that says `greeting`, reads once, answers, and closes.
    async fn server(greeting: &'static str, answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut s, _)) = listener.accept().await {
                let _ = s.write_all(greeting.as_bytes()).await;
                let mut buffer = [0; 1024];
                let _ = s.read(&mut buffer).await;
                let _ = s.write_all(answer.as_bytes()).await;
                let _ = s.read(&mut buffer).await;
            }
        });
        address
    }

    fn check(
        kind: CheckerKind,
        greeting: &'static str,
        answer: &'static str,
        expect: Result<(), &str>,
    ) {
        let got = run(async {
            let to = server(greeting, answer).await;
            probe(&Checker::new(kind), to, LIMIT).await
        });
        match expect {
            Ok(()) => assert_eq!(got, Ok(None)),
            Err(part) => assert!(got.clone().is_err_and(|e| e.contains(part)), "{got:?}"),
        }
    }

    fn http(change: impl Fn(&mut Url)) -> CheckerKind {
        let mut url = Url {
            path: "/".into(),
            ..Url::default()
        };
        change(&mut url);
        CheckerKind::Http(HttpCheck {
            urls: vec![url],
            ..HttpCheck::default()
        })
    }

    const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    #[test]
    fn tcp_connects() {
        check(CheckerKind::Tcp, "", "", Ok(()));
        let closed = run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            drop(listener);
            probe(&Checker::new(CheckerKind::Tcp), to, LIMIT).await
        });
        assert!(closed.unwrap_err().contains("refused"));
    }

    #[test]
    fn http_looks_at_status_digest_and_pattern() {
        check(http(|_| ()), "", PAGE, Ok(()));
        check(
            http(|u| u.status = vec![(404, 404)]),
            "",
            PAGE,
            Err("status 200"),
        );
        check(
            http(|_| ()),
            "",
            "HTTP/1.0 503 No\r\n\r\n",
            Err("status 503"),
        );
        check(http(|_| ()), "", "SSH-2.0\r\n\r\n", Err("not HTTP"));
        check(http(|u| u.digest = Some(md5(b"hello"))), "", PAGE, Ok(()));
        check(
            http(|u| u.digest = Some(md5(b"other"))),
            "",
            PAGE,
            Err("digest"),
        );
        check(http(|u| u.regex = Some("^h.l+o$".into())), "", PAGE, Ok(()));
        check(
            http(|u| u.regex = Some("HELLO".into())),
            "",
            PAGE,
            Err("does not match"),
        );
        check(
            http(|u| (u.regex, u.regex_no_match) = (Some("ell".into()), true)),
            "",
            PAGE,
            Err("pattern matches"),
        );
    }

    #[test]
    fn smtp_greets() {
        check(
            CheckerKind::Smtp { helo: None },
            "220-welcome\r\n220 here\r\n",
            "250 hello\r\n",
            Ok(()),
        );
        check(
            CheckerKind::Smtp { helo: None },
            "554 go away\r\n",
            "",
            Err("expected 220"),
        );
    }

    #[test]
    fn a_silent_server_is_given_up() {
        let got = run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            probe(
                &Checker::new(CheckerKind::Smtp { helo: None }),
                to,
                Duration::from_millis(50),
            )
            .await
        });
        assert!(got.unwrap_err().contains("no answer"));
    }

    fn check_udp(
        kind: CheckerKind,
        reply: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static,
        expect: bool,
    ) {
        let got = run(async {
            let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let to = server.local_addr().unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 512];
                while let Ok((n, from)) = server.recv_from(&mut buffer).await {
                    if let Some(answer) = reply(&buffer[..n]) {
                        let _ = server.send_to(&answer, from).await;
                    }
                }
            });
            probe(&Checker::new(kind), to, Duration::from_millis(200)).await
        });
        assert_eq!(got.is_ok(), expect, "{got:?}");
    }

    #[test]
    fn dns_wants_an_answer_without_error() {
        let kind = || CheckerKind::Dns {
            record: 1,
            name: "a.example".into(),
        };
        let answer = |code: u8| {
            move |q: &[u8]| {
                let mut a = q.to_vec();
                a[2] |= 0x80;
                a[3] = code;
                Some(a)
            }
        };
        check_udp(kind(), answer(0), true);
        check_udp(kind(), answer(3), false);
        check_udp(kind(), |q| Some(q.to_vec()), false);
    }

    #[test]
    fn udp_compares_the_reply() {
        let kind = |reply: Vec<(u8, u8)>| {
            CheckerKind::Udp(UdpCheck {
                payload: Some(vec![1]),
                require_reply: true,
                reply,
                reply_min: 2,
                reply_max: 9,
            })
        };
        check_udp(
            kind(vec![(0xab, 0xff), (0, 0)]),
            |_| Some(vec![0xab, 7]),
            true,
        );
        check_udp(kind(vec![(0xab, 0xff)]), |_| Some(vec![0xac, 7]), false);
        check_udp(kind(vec![]), |_| Some(vec![1]), false);
        check_udp(kind(vec![]), |_| None, false);
        check_udp(CheckerKind::Udp(UdpCheck::default()), |_| None, true);
    }

    #[test]
    fn programs_tell_by_their_exit_status() {
        let misc = |argv: &[&str], dynamic| {
            let argv = argv.iter().map(ToString::to_string).collect();
            let checker = Checker::new(CheckerKind::Misc(MiscCheck {
                argv,
                dynamic,
                ..MiscCheck::default()
            }));
            run(probe(&checker, "127.0.0.1:1".parse().unwrap(), LIMIT))
        };
        assert_eq!(misc(&["/bin/true"], false), Ok(None));
        assert!(misc(&["/bin/false"], false).is_err());
        assert_eq!(misc(&["/bin/sh", "-c", "exit 12"], true), Ok(Some(10)));
        assert!(misc(&["/bin/sh", "-c", "exit 12"], false).is_err());
        assert!(misc(&["/nonexistent"], false).is_err());
    }

    #[test]
    fn ping_is_answered_by_the_loopback() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return;
        }
        assert_eq!(
            run(probe(
                &Checker::new(CheckerKind::Ping),
                "127.0.0.1:0".parse().unwrap(),
                LIMIT
            )),
            Ok(None)
        );
    }
}
