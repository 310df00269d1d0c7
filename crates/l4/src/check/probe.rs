//! Asking a server whether it works: one function a checker, each bounded in time by its caller and in bytes here.

use crate::check::http;
use crate::config::model::{Checker, CheckerKind, FileCheck, MiscCheck, UdpCheck};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

const LINE_MAX: usize = 4096;

/// What a probe found: nothing wrong (and perhaps a weight), or why not.
pub type Outcome = Result<Option<Weight>, String>;

/// What a probe makes of a server's weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// misc_dynamic: this weight.
    Is(u32),
    /// FILE_CHECK: this much more (or less) than configured.
    Adds(i64),
}

/// Probes once. `target` is the server; the checker's connect_ip and connect_port go before it.
pub async fn probe(checker: &Checker, target: SocketAddr, limit: Duration) -> Outcome {
    let to = SocketAddr::new(
        checker.connect_ip.unwrap_or(target.ip()),
        checker.connect_port.unwrap_or(target.port()),
    );
    // The most frequent one by itself: a small future, and a clock only where it is slow.
    if let CheckerKind::Tcp = checker.kind {
        return reach(checker, to, limit).await.map(|()| None);
    }
    let work = async {
        match &checker.kind {
            CheckerKind::Tcp => reach(checker, to, limit).await.map(|()| None),
            CheckerKind::Http(check) => http::pages(checker, check, to).await.map(|()| None),
            CheckerKind::Smtp { helo } => smtp(checker, to, helo.as_deref()).await.map(|()| None),
            CheckerKind::Dns { record, name } => {
                dns(checker, to, *record, name).await.map(|()| None)
            }
            CheckerKind::Udp(udp) => datagram(checker, to, udp, limit).await.map(|()| None),
            CheckerKind::Ping => ping(checker, to.ip()).await.map(|()| None),
            CheckerKind::Misc(misc) => program(misc).await,
            CheckerKind::File(check) => file(check),
            // A session tells by itself; nothing is asked here (see the shell's checks).
            CheckerKind::Bfd { name } => Err(format!("no BFD session {name}")),
        }
    };
    // A datagram without required answer is right when nothing came until the limit: it watches the clock itself.
    let limit = if matches!(checker.kind, CheckerKind::Udp(_)) {
        limit + Duration::from_secs(1)
    } else {
        limit
    };
    match timeout(limit, Box::pin(work)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(no_answer(limit)),
    }
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

pub(super) fn fail(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |e| format!("{what}: {e}")
}

/// A socket bound and marked as the checker says.
fn socket(
    checker: &Checker,
    to: SocketAddr,
    kind: Type,
    protocol: Option<Protocol>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), kind.nonblocking(), protocol)?;
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

pub(super) async fn connect(checker: &Checker, to: SocketAddr) -> Result<TcpStream, String> {
    let socket = socket(checker, to, Type::STREAM, None).map_err(fail("socket"))?;
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    let stream = socket.connect(to).await.map_err(fail("connect"))?;
    // Closing with a reset leaves no TIME_WAIT behind for the thousands of probes that follow.
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    Ok(stream)
}

/// Connects and no more. Ten thousand of these shall cost little: the answer to a SYN is usually there at the next beat, so the
/// socket is looked at once before the runtime is asked to watch it; and then it serves the next check.
async fn reach(checker: &Checker, to: SocketAddr, limit: Duration) -> Result<(), String> {
    let plain = checker.bind_interface.is_none()
        && checker.fwmark.is_none()
        && checker.bind_ip.is_none()
        && checker.bind_port.is_none();
    let spare = plain.then(|| SPARE.take(to)).flatten();
    let socket = match spare {
        Some(s) => s,
        None => socket(checker, to, Type::STREAM, None).map_err(fail("socket"))?,
    };
    match socket.connect(&SockAddr::from(to)) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => {
            return Err(format!("connect: {e}"));
        }
        _ => {}
    }
    tokio::time::sleep_until(next_beat(Duration::ZERO)).await;
    let mut events = [PollFd::new(&socket, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let decided = poll(&mut events, Some(&now)).is_ok_and(|n| n > 0);
    let failed = events[0]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP);
    if decided && !failed {
        // Disconnecting resets, as the linger below does.
        if plain && rustix::net::connect_unspec(&socket).is_ok() {
            SPARE.put(to, socket);
        } else {
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        return Ok(());
    }
    if !decided {
        // Closing with a reset leaves no TIME_WAIT behind for the thousands of probes that follow.
        let _ = socket.set_linger(Some(Duration::ZERO));
        let stream = TcpStream::from_std(socket.into()).map_err(fail("socket"))?;
        match timeout(limit, stream.writable()).await {
            Ok(ready) => ready.map_err(fail("connect"))?,
            Err(_) => return Err(no_answer(limit)),
        }
        let error = stream.take_error().map_err(fail("connect"))?;
        return error.map_or(Ok(()), |e| Err(format!("connect: {e}")));
    }
    match socket.take_error().map_err(fail("connect"))? {
        Some(e) => Err(format!("connect: {e}")),
        None => Ok(()),
    }
}

/// Sockets that were connected and are so no more: half of what a check costs the kernel is making and closing them.
struct Spare([Mutex<Vec<Socket>>; 2]);

static SPARE: Spare = Spare([Mutex::new(Vec::new()), Mutex::new(Vec::new())]);
/// As many as are under way between two beats, at ten thousand servers every five seconds, twice.
const SPARE_MAX: usize = 64;

impl Spare {
    fn of(&self, to: SocketAddr) -> Option<std::sync::MutexGuard<'_, Vec<Socket>>> {
        self.0[usize::from(to.is_ipv6())].lock().ok()
    }
    fn take(&self, to: SocketAddr) -> Option<Socket> {
        self.of(to)?.pop()
    }
    fn put(&self, to: SocketAddr, socket: Socket) {
        if let Some(mut list) = self.of(to).filter(|l| l.len() < SPARE_MAX) {
            list.push(socket);
        }
    }
}

/// Checks begin, and short waits end, in time with each other: one awakening for all that are due.
const BEAT_MS: u64 = 25;

/// The first beat after `wait`.
pub fn next_beat(wait: Duration) -> tokio::time::Instant {
    static FIRST: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
    let first = *FIRST.get_or_init(tokio::time::Instant::now);
    let end = tokio::time::Instant::now() + wait;
    // Short intervals are meant as they are.
    if !wait.is_zero() && wait < Duration::from_millis(8 * BEAT_MS) {
        return end;
    }
    let at = end.duration_since(first);
    let beats = at.as_millis() as u64 / BEAT_MS + 1;
    first + Duration::from_millis(beats * BEAT_MS)
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

/// keepalived.conf(5), track files: with weight 0 a number other than 0 is a failure; otherwise number times weight is added to
/// the server's weight. A file that is not there, or holds no number, counts as 0.
fn file(check: &FileCheck) -> Outcome {
    let text = std::fs::read_to_string(&check.path).unwrap_or_default();
    let value: i64 = text.trim().parse().unwrap_or(0);
    if check.weight == 0 {
        return match (value != 0) == check.reverse {
            true => Ok(None),
            false => Err(format!("{} says {value}", check.path)),
        };
    }
    let sign = if check.reverse { -1 } else { 1 };
    let adds = value.saturating_mul(i64::from(check.weight) * sign);
    if adds <= i64::from(i32::MIN) {
        return Err(format!("{} says {value}", check.path));
    }
    Ok(Some(Weight::Adds(adds)))
}

/// Exit status 0 is well, 1 is not; with misc_dynamic 2 to 255 set the weight to two less.
async fn program(check: &MiscCheck) -> Outcome {
    let [program, args @ ..] = check.argv.as_slice() else {
        return Err("no program".into());
    };
    if check.secure {
        crate::host::safe_for_root(program, check.user.as_ref())?;
    }
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
        Some(code @ 2..) if check.dynamic => Ok(Some(Weight::Is(code as u32 - 2))),
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
    fn a_socket_serves_many_checks() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let accepted = tokio::spawn(async move {
                let mut n = 0;
                while n < 5 && listener.accept().await.is_ok() {
                    n += 1;
                }
                n
            });
            let checker = Checker::new(CheckerKind::Tcp);
            for _ in 0..5 {
                assert_eq!(probe(&checker, to, LIMIT).await, Ok(None));
            }
            assert_eq!(accepted.await.unwrap(), 5);
            // The listener has gone: the same socket says so.
            assert!(probe(&checker, to, LIMIT).await.is_err());
        });
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
        assert_eq!(
            misc(&["/bin/sh", "-c", "exit 12"], true),
            Ok(Some(Weight::Is(10)))
        );
        assert!(misc(&["/bin/sh", "-c", "exit 12"], false).is_err());
        assert!(misc(&["/nonexistent"], false).is_err());
    }

    #[test]
    fn files_weigh_or_fail() {
        let path = std::env::temp_dir().join(format!("sl5-file-{}", std::process::id()));
        let check = |text: &str, weight, reverse, expect: Result<Option<Weight>, ()>| {
            std::fs::write(&path, text).unwrap();
            let path = path.display().to_string();
            let track_file = String::new();
            let kind = CheckerKind::File(FileCheck {
                track_file,
                path,
                weight,
                reverse,
                own_weight: true,
            });
            let got = run(probe(
                &Checker::new(kind),
                "127.0.0.1:1".parse().unwrap(),
                LIMIT,
            ));
            assert_eq!(got.map_err(drop), expect, "{text} {weight} {reverse}");
        };
        check("0\n", 0, false, Ok(None));
        check("3\n", 0, false, Err(()));
        check("3", 0, true, Ok(None));
        check("3", 2, false, Ok(Some(Weight::Adds(6))));
        check("3", 2, true, Ok(Some(Weight::Adds(-6))));
        check("no number", 2, false, Ok(Some(Weight::Adds(0))));
        check("2147483648", -1, false, Err(()));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_script_that_others_may_write_is_not_run_as_root() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return;
        }
        let path = std::env::temp_dir().join(format!("sl5-script-{}", std::process::id()));
        std::fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let check = |program: &str, user: Option<(&str, Option<&str>)>, expect: bool| {
            let checker = Checker::new(CheckerKind::Misc(MiscCheck {
                argv: vec![program.into()],
                user: user.map(|(u, g)| (u.into(), g.map(Into::into))),
                secure: true,
                ..MiscCheck::default()
            }));
            let got = run(probe(&checker, "127.0.0.1:1".parse().unwrap(), LIMIT));
            assert_eq!(got.is_ok(), expect, "{program} {user:?}: {got:?}");
        };
        // Everybody may write into /tmp.
        check(path.to_str().unwrap(), None, false);
        check(path.to_str().unwrap(), Some(("nobody", None)), true);
        check("/bin/true", None, true);
        check("true", None, true);
        std::fs::remove_file(&path).unwrap();
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
