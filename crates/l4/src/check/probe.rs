//! Asking a server whether it works: one function a checker, each bounded in time by its caller and in bytes here.

use super::datagram::{datagram, dns, ping};
use super::reach::reach;
use super::{http, smtp};
use crate::config::model::{Checker, CheckerKind, FileCheck, MiscCheck};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

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
            CheckerKind::Smtp { helo } => smtp::check(checker, to, helo.as_deref())
                .await
                .map(|()| None),
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

pub(super) fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

pub(super) fn fail(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |e| format!("{what}: {e}")
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
    use crate::config::model::UdpCheck;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UdpSocket};

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(work)
    }

    const LIMIT: Duration = Duration::from_secs(30);

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
        check_udp_within(LIMIT, kind, reply, expect);
    }

    fn check_udp_within(
        limit: Duration,
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
            probe(&Checker::new(kind), to, limit).await
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
        // An echo is no answer: it is waited for to the end.
        let limit = Duration::from_millis(50);
        check_udp_within(limit, kind(), |q| Some(q.to_vec()), false);
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
        let silence = Duration::from_millis(50);
        check_udp_within(silence, kind(vec![]), |_| None, false);
        let any = CheckerKind::Udp(UdpCheck::default());
        check_udp_within(silence, any, |_| None, true);
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
