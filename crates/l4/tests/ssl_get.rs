//! HTTP_GET and SSL_GET against a real server: nginx with two names, each with its certificate, behind one address.

use sluice_l4::check::md5::md5;
use sluice_l4::check::probe::{Outcome, probe};
use sluice_l4::config::model::{Checker, CheckerKind, HttpCheck, Identity, Url};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Nginx {
    child: Child,
    directory: PathBuf,
    plain: SocketAddr,
    tls: SocketAddr,
}

impl Nginx {
    /// Waits for both ports; false if it ended, or does neither.
    fn listens(&mut self) -> bool {
        let began = Instant::now();
        let connects = |to| TcpStream::connect(to).is_ok();
        while began.elapsed() < Duration::from_secs(60) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            if connects(self.tls) && connects(self.plain) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// None where nginx or openssl is missing. Another program may be quicker to a free port.
fn nginx() -> Option<Nginx> {
    for _ in 0..5 {
        let mut nginx = attempt()?;
        if nginx.listens() {
            return Some(nginx);
        }
    }
    panic!("nginx does not listen");
}

fn attempt() -> Option<Nginx> {
    let directory = std::env::temp_dir().join(format!("sl5-nginx-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for name in ["one", "two"] {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-subj", &format!("/CN={name}.example")])
            .arg("-keyout")
            .arg(directory.join(format!("{name}.key")))
            .arg("-out")
            .arg(directory.join(format!("{name}.pem")))
            .stderr(Stdio::null())
            .status();
        if !made.is_ok_and(|s| s.success()) {
            return None;
        }
    }
    let (plain, tls) = (free_port(), free_port());
    let d = directory.display();
    let server = |name: &str, default: &str| {
        format!(
            "server {{ listen {tls} ssl {default}; server_name {name}.example; ssl_certificate {d}/{name}.pem; ssl_certificate_key {d}/{name}.key; \
             location / {{ return 200 'this is {name}'; }} location /gone {{ return 410; }} location /sni {{ return 200 'sni=$ssl_server_name.'; }} \
             ssl_verify_client optional_no_ca; location /who {{ return 200 'client=$ssl_client_s_dn.'; }} }}\n"
        )
    };
    let config = format!(
        "daemon off; master_process off; pid {d}/pid; error_log {d}/error.log; events {{}}\nhttp {{ access_log off; client_body_temp_path {d}; proxy_temp_path {d}; \
         fastcgi_temp_path {d}; uwsgi_temp_path {d}; scgi_temp_path {d};\n{}{}server {{ listen {plain}; location / {{ return 200 'plain'; }} }}\n}}\n",
        server("one", "default_server"),
        server("two", "")
    );
    let file = directory.join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"]
        .into_iter()
        .find(|p| std::path::Path::new(p).exists())?;
    let child = Command::new(program)
        .arg("-c")
        .arg(&file)
        .args(["-p", directory.to_str().unwrap()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    Some(Nginx {
        child,
        directory,
        plain,
        tls,
    })
}

fn get(to: SocketAddr, change: impl Fn(&mut HttpCheck, &mut Url)) -> Outcome {
    let mut check = HttpCheck {
        tls: true,
        ..HttpCheck::default()
    };
    let mut url = Url {
        path: "/".into(),
        ..Url::default()
    };
    change(&mut check, &mut url);
    check.urls.push(url);
    let checker = Checker::new(CheckerKind::Http(check));
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(probe(&checker, to, Duration::from_secs(60)))
}

#[test]
fn pages_come_over_tls() {
    let Some(nginx) = nginx() else {
        eprintln!("skipped: nginx or openssl is missing");
        return;
    };
    let fails =
        |got: Outcome, with: &str| assert!(got.clone().is_err_and(|e| e.contains(with)), "{got:?}");
    let tls = nginx.tls;
    assert_eq!(get(tls, |_, _| ()), Ok(None));
    fails(get(tls, |_, u| u.path = "/gone".into()), "status 410");
    assert_eq!(
        get(tls, |_, u| (u.path, u.status) =
            ("/gone".into(), vec![(400, 499)])),
        Ok(None)
    );
    assert_eq!(
        get(tls, |_, u| u.digest = Some(md5(b"this is one"))),
        Ok(None)
    );
    // The name goes into Host, and with enable_sni into the handshake.
    let two = |c: &mut HttpCheck, u: &mut Url, sni| {
        (c.sni, c.virtualhost) = (sni, Some("two.example".into()));
        u.regex = Some("this is two".into());
    };
    assert_eq!(get(tls, |c, u| two(c, u, true)), Ok(None));
    let name = |sni, expect: &str| {
        get(tls, |c, u| {
            two(c, u, sni);
            (u.path, u.regex) = ("/sni".into(), Some(expect.into()));
        })
    };
    assert_eq!(name(true, "sni=two.example\\."), Ok(None));
    assert_eq!(name(false, "sni=\\."), Ok(None));
    fails(name(false, "two.example"), "does not match");
    // Who asks: the SSL block's certificate, where there is one.
    let who = |certificate: &str, key: &str, expect: &str| {
        get(tls, |c, u| {
            let file = |name: &str| nginx.directory.join(name).display().to_string();
            c.identity = (!certificate.is_empty()).then(|| Identity {
                certificate: file(certificate),
                key: file(key),
            });
            (u.path, u.regex) = ("/who".into(), Some(expect.into()));
        })
    };
    assert_eq!(who("", "", "client=\\."), Ok(None));
    assert_eq!(
        who("two.pem", "two.key", "client=CN=two.example\\."),
        Ok(None)
    );
    fails(who("two.pem", "one.key", "."), "two.pem");
    fails(who("gone.pem", "one.key", "."), "gone.pem");
    fails(who("one.key", "one.key", "."), "no certificate");
    // Neither speaks the other's language.
    fails(get(nginx.plain, |_, _| ()), "TLS");
    fails(get(tls, |c, _| c.tls = false), "status 400");
    assert_eq!(get(nginx.plain, |c, _| c.tls = false), Ok(None));
}
