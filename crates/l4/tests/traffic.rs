//! Real connections through a director, in namespaces: client a, director b, servers c and d. Needs root, clang at build
//! time and ip(8).

mod common;
#[path = "common/lab.rs"]
mod lab;

use lab::{Kind, Lab, ip};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const VIP: &str = "10.0.0.100";

/// Runs work in a thread of another namespace.
fn inside<T: Send + 'static>(
    ns: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let path = format!("/run/netns/{ns}");
    std::thread::spawn(move || {
        let file = std::fs::File::open(&path).expect("the namespace is there");
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .expect("root may enter it");
        work()
    })
}

/// A server that says its name to everyone and echoes what it hears, until the flag falls.
fn serve(lab: &Lab, host: &'static str, alive: Arc<AtomicBool>) {
    inside(&lab.ns(host), move || {
        let listener = TcpListener::bind("[::]:80").expect("port 80 is free in a new namespace");
        listener.set_nonblocking(true).unwrap();
        while alive.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let alive = alive.clone();
            std::thread::spawn(move || {
                stream.set_nonblocking(false).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_millis(100)))
                    .unwrap();
                let _ = stream.write_all(host.as_bytes());
                let mut buffer = [0; 256];
                while alive.load(Ordering::Relaxed) {
                    match stream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(n) => drop(stream.write_all(&buffer[..n])),
                        Err(_) => {}
                    }
                }
            });
        }
    });
}

struct Site {
    lab: Lab,
    alive: Vec<Arc<AtomicBool>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        for a in &self.alive {
            a.store(false, Ordering::Relaxed);
        }
    }
}

impl Site {
    fn new() -> Site {
        let mut site = Site {
            lab: Lab::new(5),
            alive: Vec::new(),
        };
        for host in ["c", "d"] {
            let alive = Arc::new(AtomicBool::new(true));
            serve(&site.lab, host, alive.clone());
            site.alive.push(alive);
        }
        ip(&format!(
            "-n {} addr add {VIP}/32 dev eth1",
            site.lab.ns("b")
        ));
        ip(&format!(
            "-n {} addr add fd00::100/128 dev eth1 nodad",
            site.lab.ns("b")
        ));
        for host in ["c", "d"] {
            site.lab.run(host, "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0");
        }
        site
    }

    /// Gives the servers the virtual addresses, as DR and TUN want it.
    fn addresses_on_servers(&self) {
        for host in ["c", "d"] {
            ip(&format!(
                "-n {} addr add {VIP}/32 dev lo",
                self.lab.ns(host)
            ));
            ip(&format!(
                "-n {} addr add fd00::100/128 dev lo nodad",
                self.lab.ns(host)
            ));
        }
    }

    fn start(&mut self, config: &str) {
        self.lab
            .start_with("b", Kind::Sluice, config, &["--interface", "eth1"]);
        self.lab.wait(
            "the director knows its next hops",
            Duration::from_secs(10),
            |lab| {
                let socket = lab.path("b.sock");
                let shown = sluice_l4::shell::control::ask(
                    socket.as_ref(),
                    &sluice_l4::shell::control::Request::Show,
                );
                shown.is_ok_and(|s| {
                    s["virtual_servers"].as_array().is_some_and(|v| {
                        !v.is_empty()
                            && v.iter().all(|v| {
                                v["servers"]
                                    .as_array()
                                    .unwrap()
                                    .iter()
                                    .all(|s| !s["next_hop"].is_null())
                            })
                    })
                })
            },
        );
    }

    /// Connects from the client; the connection and who answered.
    fn connect(&self, to: &str) -> Option<(TcpStream, String)> {
        let to: SocketAddr = to.parse().unwrap();
        inside(&self.lab.ns("a"), move || {
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(30)).ok()?;
            stream
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            let mut name = [0; 1];
            stream.read_exact(&mut name).ok()?;
            Some((stream, String::from_utf8_lossy(&name).into_owned()))
        })
        .join()
        .unwrap()
    }

    /// Who answers a number of connections, in order.
    fn answers(&self, to: &str, n: usize) -> String {
        (0..n)
            .map(|_| self.connect(to).map_or("-".into(), |(_, name)| name))
            .collect()
    }

    fn command(&self, args: &[&str]) -> String {
        let socket = self.lab.path("b.sock");
        // After the verb: what follows `ipvsadm` is its own.
        let (verb, rest) = args.split_first().expect("a verb");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sluice-l4"));
        let output = match *verb {
            "set" => command.args(args).args(["--socket", &socket]),
            _ => command.args([verb, "--socket", &socket]).args(rest),
        };
        let output = output.output().unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// `ipvsadm` and what is refused of it: its words and its exit status.
fn refused(site: &Site, args: &str, words: &str, status: i32) {
    let socket = site.lab.path("b.sock");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sluice-l4"))
        .args(["ipvsadm", "--socket", &socket])
        .args(args.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let got = (said.trim_end(), output.status.code());
    assert_eq!(got, (words, Some(status)), "{args}");
}

/// An echo over the connection: it is alive, end to end.
fn echo(stream: &mut TcpStream) -> bool {
    let mut back = [0; 4];
    stream.write_all(b"ping").is_ok() && stream.read_exact(&mut back).is_ok() && &back == b"ping"
}

fn config(vip: &str, kind: &str, servers: [&str; 2], more: &str) -> String {
    let servers: String = servers
        .iter()
        .map(|s| format!(" real_server {s} 80 {{\n weight 1\n {more}\n }}\n"))
        .collect();
    format!(
        "virtual_server {vip} 80 {{\n delay_loop 1\n lb_algo rr\n lb_kind {kind}\n protocol TCP\n{servers}}}\n"
    )
}

const V4: [&str; 2] = ["10.0.0.3", "10.0.0.4"];
const V6: [&str; 2] = ["fd00::3", "fd00::4"];

#[test]
fn direct_routing_carries_connections() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    site.start(&(config(VIP, "DR", V4, "") + &config("fd00::100", "DR", V6, "")));
    assert_eq!(site.answers("10.0.0.100:80", 6), "dcdcdc");
    assert_eq!(site.answers("[fd00::100]:80", 4), "dcdc");
    let (mut stream, _) = site.connect("10.0.0.100:80").unwrap();
    assert!(echo(&mut stream));
}

#[test]
fn tunnels_carry_connections() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    for host in ["c", "d"] {
        let program = format!("{} decap eth1", env!("CARGO_BIN_EXE_sluice-l4"));
        site.lab.helper(host, &program);
    }
    site.start(&config(VIP, "TUN", V4, ""));
    site.lab.wait(
        "tunnels end at the servers",
        Duration::from_secs(5),
        |lab| {
            ["c", "d"]
                .iter()
                .all(|h| lab.run(h, "ip link show eth1").contains("xdp"))
        },
    );
    assert_eq!(site.answers("10.0.0.100:80", 4), "dcdc");
}

#[test]
fn address_translation_carries_connections() {
    privileged!();
    let mut site = Site::new();
    for host in ["c", "d"] {
        // Clients are reached through the director, even those of the same network.
        site.lab.run(
            host,
            "ip route add 10.0.0.1/32 via 10.0.0.2 && ip -6 route add fd00::1/128 via fd00::2",
        );
        // veth sends checksums unfinished, and a director that rewrites them needs them whole.
        site.lab.run(host, "ethtool -K eth1 tx off >/dev/null 2>&1");
    }
    site.lab.run("a", "ethtool -K eth1 tx off >/dev/null 2>&1");
    if site
        .lab
        .run("a", "ethtool -k eth1 | grep '^tx-checksumming: off'")
        .is_empty()
    {
        eprintln!("skipped: ethtool is missing");
        return;
    }
    site.start(&(config(VIP, "NAT", V4, "") + &config("fd00::100", "NAT", V6, "")));
    assert_eq!(site.answers("10.0.0.100:80", 4), "dcdc");
    assert_eq!(site.answers("[fd00::100]:80", 2), "dc");
    let (mut stream, _) = site.connect("10.0.0.100:80").unwrap();
    assert!(echo(&mut stream));
}

#[test]
fn a_server_that_fails_its_check_is_out_until_it_returns() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    site.start(&config(
        VIP,
        "DR",
        V4,
        "TCP_CHECK {\n connect_timeout 30\n retry 0\n warmup 0\n }",
    ));
    assert_eq!(site.answers("10.0.0.100:80", 2), "dc");
    site.alive[0].store(false, Ordering::Relaxed);
    let down = |site: &Site| site.lab.show("b")["virtual_servers"][0]["servers"][0]["up"] == false;
    site.lab
        .wait("c is down", Duration::from_secs(5), |_| down(&site));
    assert_eq!(site.answers("10.0.0.100:80", 3), "ddd");
    let alive = Arc::new(AtomicBool::new(true));
    serve(&site.lab, "c", alive.clone());
    site.lab
        .wait("c is up", Duration::from_secs(5), |_| !down(&site));
    assert!(site.answers("10.0.0.100:80", 2).contains('c'));
    alive.store(false, Ordering::Relaxed);
}

#[test]
fn commands_change_the_table_while_connections_live() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    site.start(&config(VIP, "DR", V4, ""));
    // As in IPVS the server that was added last has the first turn.
    assert_eq!(site.answers("10.0.0.100:80", 1), "d");
    let (mut stream, name) = site.connect("10.0.0.100:80").unwrap();
    assert_eq!(name, "c");
    site.command(&["set", "drain", "10.0.0.100:80", "10.0.0.3:80"]);
    assert_eq!(site.answers("10.0.0.100:80", 3), "ddd");
    assert!(echo(&mut stream), "the drained server's connection lives");
    site.command(&[
        "ipvsadm",
        "-e",
        "-t",
        "10.0.0.100:80",
        "-r",
        "10.0.0.3:80",
        "-w",
        "1",
    ]);
    assert!(site.answers("10.0.0.100:80", 2).contains('c'));
    site.command(&["set", "delete", "tcp 10.0.0.100:80", "10.0.0.4:80"]);
    assert_eq!(site.answers("10.0.0.100:80", 2), "cc");
    site.command(&["set", "add", "TCP 10.0.0.100:80", "10.0.0.4:80", "1"]);
    site.lab
        .wait("d serves again", Duration::from_secs(3), |_| {
            site.answers("10.0.0.100:80", 2).contains('d')
        });
    let list = site.command(&["ipvsadm", "-L", "-n"]);
    assert!(
        list.contains("TCP  10.0.0.100:80 rr") && list.contains("-> 10.0.0.4:80"),
        "{list}"
    );
    assert!(site.command(&["show", "flows"]).contains("ESTABLISHED"));
    let connections = site.command(&["ipvsadm", "-L", "-c", "-n"]);
    assert!(
        connections.lines().any(|l| l.starts_with("TCP ")
            && l.contains("ESTABLISHED")
            && l.contains(" 10.0.0.100:80 ")),
        "{connections}"
    );
    assert!(
        site.command(&["ipvsadm", "-S", "-n"])
            .contains("-a -t 10.0.0.100:80 -r 10.0.0.4:80 -g -w 1")
    );
}

#[test]
fn ipvsadm_s_verbs_edit_a_running_director() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    for host in ["b", "c", "d"] {
        let device = if host == "b" { "eth1" } else { "lo" };
        ip(&format!(
            "-n {} addr add 10.0.0.101/32 dev {device}",
            site.lab.ns(host)
        ));
    }
    site.start(&config(VIP, "DR", V4, ""));
    let ipvsadm = |site: &Site, line: &str| {
        let args: Vec<&str> = ["ipvsadm"].into_iter().chain(line.split(' ')).collect();
        site.command(&args)
    };
    let listed = |site: &Site, service: &str| {
        let text = ipvsadm(site, &format!("-L -n -t {service}"));
        let lines = text.lines().skip(2).map(|l| {
            let words: Vec<&str> = l.split_whitespace().take(4).collect();
            words.join(" ")
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    // A virtual server that no file knows.
    ipvsadm(&site, "-A -t 10.0.0.101:80 -s rr");
    ipvsadm(&site, "-a -t 10.0.0.101:80 -r 10.0.0.3");
    ipvsadm(&site, "-a -t 10.0.0.101:80 -r 10.0.0.4:80 -g -w 2 -x 100");
    let both = "TCP 10.0.0.101:80 rr\n-> 10.0.0.3:80 Route 1\n-> 10.0.0.4:80 Route 2";
    assert_eq!(listed(&site, "10.0.0.101:80"), both);
    site.lab
        .wait("the new servers serve", Duration::from_secs(5), |_| {
            let said = site.answers("10.0.0.101:80", 2);
            said.contains('c') && said.contains('d')
        });
    let (mut stream, _) = site.connect("10.0.0.101:80").unwrap();
    let packets = |site: &Site| {
        let text = ipvsadm(site, "-L -n --stats");
        let line = text.lines().find(|l| l.contains("10.0.0.101:80"));
        let words: Vec<String> = line.unwrap().split_whitespace().map(String::from).collect();
        words[2].clone()
    };
    assert_ne!(packets(&site), "0");
    // An acknowledgement may come late.
    site.lab
        .wait("the counts begin anew", Duration::from_secs(8), |_| {
            ipvsadm(&site, "-Z -t 10.0.0.101:80");
            packets(&site) == "0"
        });
    ipvsadm(&site, "-E -t 10.0.0.101:80 -s wlc -p 60 -M 255.255.255.0");
    ipvsadm(&site, "-e -t 10.0.0.101:80 -r 10.0.0.3 -w 0");
    let edited = "TCP 10.0.0.101:80 wlc persistent\n-> 10.0.0.3:80 Route 0\n-> 10.0.0.4:80 Route 2";
    assert_eq!(listed(&site, "10.0.0.101:80"), edited);
    ipvsadm(&site, "--set 100 0 30");
    let timeouts = ipvsadm(&site, "-L --timeout");
    assert_eq!(timeouts, "Timeout (tcp tcpfin udp): 100 120 30\n");
    ipvsadm(&site, "-e -t 10.0.0.101:80 -r 10.0.0.4 -w 2 -x 9 -y 4");
    for (view, columns) in [
        ("--thresholds", " 9          4 "),
        ("--rate", "CPS    InPPS"),
        ("--persistent-conn", " 2         0 "),
    ] {
        let said = ipvsadm(&site, &format!("-L -n {view}"));
        assert!(said.contains(columns), "{said}");
    }
    assert!(echo(&mut stream), "connections do not notice");
    for (args, words, status) in [
        ("-A -t 10.0.0.101:80", "Service already exists", 255),
        (
            "-A -t 10.0.0.101:81 -s bogus",
            "Scheduler or persistence engine not found",
            255,
        ),
        ("-E -t 10.0.0.109:80", "No such service", 255),
        ("-D -t 10.0.0.109:80", "No such service", 255),
        ("-Z -t 10.0.0.109:80", "No such service", 255),
        ("-L -t 10.0.0.109:80", "No such service", 1),
        (
            "-a -t 10.0.0.109:80 -r 10.0.0.3",
            "Service not defined",
            255,
        ),
        (
            "-a -t 10.0.0.101:80 -r 10.0.0.3",
            "Destination already exists",
            255,
        ),
        (
            "-e -t 10.0.0.101:80 -r 10.0.0.9",
            "No such destination",
            255,
        ),
        (
            "-e -t 10.0.0.101:80 -r 10.0.0.4 -x 4 -y 5",
            "Numerical result out of range",
            255,
        ),
        (
            "-d -t 10.0.0.101:80 -r 10.0.0.9",
            "No such destination",
            255,
        ),
        (
            "-a -t 10.0.0.101:80 -r 224.0.0.9",
            "Invalid operation.  Possibly wrong module version, address not unicast, ...",
            255,
        ),
        (
            "-A",
            "You need to supply the 'service-address' option for the 'add-service' command",
            2,
        ),
    ] {
        refused(&site, args, words, status);
    }
    // The file's own servers and virtual servers; a reload of the same file leaves what commands made.
    ipvsadm(&site, "-d -t 10.0.0.100:80 -r 10.0.0.3:80");
    ipvsadm(&site, "-E -t 10.0.0.100:80 -s mh");
    let changed = "TCP 10.0.0.100:80 mh\n-> 10.0.0.4:80 Route 1";
    assert_eq!(listed(&site, "10.0.0.100:80"), changed);
    site.command(&["reload"]);
    assert_eq!(listed(&site, "10.0.0.100:80"), changed);
    assert_eq!(listed(&site, "10.0.0.101:80"), edited);
    assert_eq!(site.answers("10.0.0.100:80", 2), "dd");
    ipvsadm(&site, "-D -t 10.0.0.100:80");
    site.command(&["reload"]);
    refused(&site, "-L -t 10.0.0.100:80", "No such service", 1);
    // What the file says anew is as it says.
    let file = site.lab.path("b.conf");
    std::fs::write(&file, config(VIP, "DR", V4, "").replace("rr", "wrr")).unwrap();
    site.command(&["reload"]);
    let anew = "TCP 10.0.0.100:80 wrr\n-> 10.0.0.3:80 Route 1\n-> 10.0.0.4:80 Route 1";
    assert_eq!(listed(&site, "10.0.0.100:80"), anew);
    assert_eq!(listed(&site, "10.0.0.101:80"), edited);
    // All of it away, and back from what was saved.
    let saved = ipvsadm(&site, "-S -n");
    ipvsadm(&site, "-C");
    assert_eq!(ipvsadm(&site, "-S -n"), "");
    let script = site.lab.path("b.saved");
    std::fs::write(&script, &saved).unwrap();
    let socket = site.lab.path("b.sock");
    let restored = std::process::Command::new(env!("CARGO_BIN_EXE_sluice-l4"))
        .args(["ipvsadm", "--socket", &socket, "-R"])
        .stdin(std::fs::File::open(&script).unwrap())
        .status()
        .unwrap();
    assert!(restored.success());
    assert_eq!(ipvsadm(&site, "-S -n"), saved);
    site.lab
        .wait("both serve again", Duration::from_secs(5), |_| {
            let said = site.answers("10.0.0.100:80", 2);
            said.contains('c') && said.contains('d')
        });
}

#[test]
fn the_director_itself_may_serve_and_be_sorry() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    let alive = Arc::new(AtomicBool::new(true));
    serve(&site.lab, "b", alive.clone());
    site.alive.push(alive);
    let check = "TCP_CHECK {\n connect_timeout 30\n retry 0\n warmup 0\n }";
    for (host, device) in [("b", "eth1"), ("c", "lo"), ("d", "lo")] {
        ip(&format!(
            "-n {} addr add 10.0.0.101/32 dev {device}",
            site.lab.ns(host)
        ));
    }
    let text = config(VIP, "DR", ["10.0.0.2", "10.0.0.3"], "")
        + &config("10.0.0.101", "DR", V4, check)
            .replace("protocol TCP", "protocol TCP\n sorry_server 127.0.0.1 80");
    site.start(&text);
    assert_eq!(site.answers("10.0.0.100:80", 4), "cbcb");
    let (mut stream, name) = site.connect("10.0.0.100:80").unwrap();
    assert_eq!(name, "c");
    assert!(echo(&mut stream));
    let (mut stream, name) = site.connect("10.0.0.100:80").unwrap();
    assert_eq!(name, "b");
    assert!(echo(&mut stream));
    let here = &site.lab.show("b")["virtual_servers"][0]["servers"][0];
    assert_eq!(here["next_hop"], "this host");
    assert_eq!(site.answers("10.0.0.101:80", 2), "dc");
    for alive in &site.alive[..2] {
        alive.store(false, Ordering::Relaxed);
    }
    site.lab
        .wait("the director is sorry", Duration::from_secs(8), |_| {
            site.answers("10.0.0.101:80", 2) == "bb"
        });
}

#[test]
fn a_firewall_mark_stands_for_what_the_host_s_rules_name() {
    privileged!();
    if std::process::Command::new("nft")
        .arg("-v")
        .output()
        .is_err()
    {
        eprintln!("skipped: nft is missing");
        return;
    }
    let mut site = Site::new();
    site.addresses_on_servers();
    let nft = |site: &Site, rules: &str| {
        let table = format!(
            "table ip marks\ndelete table ip marks\ntable ip marks {{\n chain pre {{\n type filter hook prerouting priority mangle;\n {rules}\n }}\n}}\n"
        );
        let file = site.lab.path("b.nft");
        std::fs::write(&file, table).unwrap();
        assert_eq!(site.lab.run("b", &format!("nft -f {file} 2>&1")), "");
    };
    nft(
        &site,
        &format!("ip daddr {VIP} tcp dport {{ 80, 443 }} meta mark set 7"),
    );
    let servers: String = V4
        .iter()
        .map(|s| format!(" real_server {s} 0 {{\n weight 1\n }}\n"))
        .collect();
    site.start(&format!(
        "virtual_server fwmark 7 {{\n lb_algo rr\n lb_kind DR\n{servers}}}\n"
    ));
    assert_eq!(site.answers("10.0.0.100:80", 4), "dcdc");
    let shown = |site: &Site| site.lab.show("b")["virtual_servers"][0]["addresses"].clone();
    assert_eq!(
        shown(&site),
        serde_json::json!(["10.0.0.100:80", "10.0.0.100:443"])
    );
    let listed = site.command(&["ipvsadm", "-L", "-n", "-f", "7"]);
    assert!(listed.contains("\nFWM  7 rr\n"), "{listed}");
    site.command(&["ipvsadm", "-e", "-f", "7", "-r", "10.0.0.3", "-w", "0"]);
    assert_eq!(site.answers("10.0.0.100:80", 2), "dd");
    // The rules change; what commands did stays.
    nft(
        &site,
        &format!(
            "ip daddr {VIP} tcp dport 443 meta mark set 7\n ip saddr 10.0.0.1 meta mark set 7"
        ),
    );
    site.lab
        .wait("port 80 is marked no more", Duration::from_secs(20), |_| {
            shown(&site) == serde_json::json!(["10.0.0.100:443"])
        });
    assert_eq!(site.answers("10.0.0.100:80", 1), "-");
    site.lab.wait(
        "what cannot be followed is told",
        Duration::from_secs(8),
        |lab| lab.log("b").contains("not followed: ip saddr 10.0.0.1"),
    );
    assert!(
        site.command(&["ipvsadm", "-S", "-n"])
            .contains("-a -f 7 -r 10.0.0.3:0 -g -w 0")
    );
    // A marked packet is the mark's, whatever service its address has.
    site.command(&["ipvsadm", "-A", "-t", "10.0.0.100:443", "-s", "rr"]);
    site.command(&["ipvsadm", "-a", "-t", "10.0.0.100:443", "-r", "10.0.0.3"]);
    let forwarded = |site: &Site, n: usize| {
        site.lab.show("b")["virtual_servers"][n]["connections"]
            .as_u64()
            .unwrap()
    };
    let before = forwarded(&site, 0);
    assert_eq!(site.answers("10.0.0.100:443", 1), "-");
    assert_eq!((forwarded(&site, 0) - before, forwarded(&site, 1)), (1, 0));
    site.command(&["ipvsadm", "-D", "-t", "10.0.0.100:443"]);
    // And by commands alone.
    site.command(&["ipvsadm", "-D", "-f", "7"]);
    site.command(&["ipvsadm", "-A", "-f", "7", "-s", "rr"]);
    site.command(&["ipvsadm", "-a", "-f", "7", "-r", "10.0.0.4"]);
    assert_eq!(shown(&site), serde_json::json!(["10.0.0.100:443"]));
    nft(
        &site,
        &format!("ip daddr {VIP} tcp dport 80 meta mark set 7"),
    );
    site.lab
        .wait("port 80 is marked again", Duration::from_secs(20), |_| {
            shown(&site) == serde_json::json!(["10.0.0.100:80"])
        });
    assert_eq!(site.answers("10.0.0.100:80", 2), "dd");
}

#[test]
fn a_reload_applies_the_difference() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    let check = "TCP_CHECK {\n connect_timeout 30\n retry 0\n warmup 0\n }";
    site.start(&config(VIP, "DR", V4, check));
    site.alive[0].store(false, Ordering::Relaxed);
    let up = |site: &Site, n: usize| {
        site.lab.show("b")["virtual_servers"][0]["servers"][n]["up"] == true
    };
    site.lab
        .wait("c is down", Duration::from_secs(5), |_| !up(&site, 0));
    let (mut stream, name) = site.connect("10.0.0.100:80").unwrap();
    assert_eq!(name, "d");
    // Taken out and brought back by commands it is still what its checks say.
    site.command(&["ipvsadm", "-d", "-t", "10.0.0.100:80", "-r", "10.0.0.3"]);
    site.command(&["ipvsadm", "-a", "-t", "10.0.0.100:80", "-r", "10.0.0.3"]);
    assert!(!up(&site, 1), "the server that came back is the last");
    site.command(&["ipvsadm", "-D", "-t", "10.0.0.100:80"]);
    let file = site.lab.path("b.conf");
    std::fs::write(&file, config(VIP, "DR", V4, check).replace("rr", "wrr")).unwrap();
    site.command(&["reload"]);
    assert!(!up(&site, 0), "and so is a virtual server");
    // Another virtual server comes; nothing is said of the first.
    let more = config("10.0.0.101", "DR", V4, "");
    std::fs::write(&file, config(VIP, "DR", V4, check) + &more).unwrap();
    site.command(&["reload"]);
    assert_eq!(
        site.lab.show("b")["virtual_servers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert!(!up(&site, 0), "what a check has found is not forgotten");
    assert!(echo(&mut stream), "connections do not notice");
    // A file that is wrong changes nothing.
    std::fs::write(&file, "virtual_server 10.0.0.100 80 {\n nonsense\n}\n").unwrap();
    let socket = site.lab.path("b.sock");
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_sluice-l4"))
        .args(["reload", "--socket", &socket])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert_eq!(
        site.lab.show("b")["virtual_servers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_killed_director_s_table_forwards_until_the_next_start() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    site.start(&config(VIP, "DR", V4, ""));
    let (mut stream, _) = site.connect("10.0.0.100:80").unwrap();
    site.lab.kill("b");
    assert!(echo(&mut stream), "a connection outlives the process");
    assert_eq!(site.answers("10.0.0.100:80", 2).len(), 2);
    site.start(&config(VIP, "DR", V4, ""));
    assert_eq!(site.answers("10.0.0.100:80", 2), "dc");
    site.lab.terminate("b");
    site.lab.ended("b");
    assert!(
        !site.lab.run("b", "ip link show eth1").contains("xdp"),
        "the program is left behind"
    );
}

#[test]
fn a_twin_knows_the_connections_of_a_dead_director() {
    privileged!();
    let mut site = Site::new();
    site.addresses_on_servers();
    // Two more routers of the same address, so that the twin takes it over by itself.
    ip(&format!(
        "-n {} addr del {VIP}/32 dev eth1",
        site.lab.ns("b")
    ));
    let vrrp = |priority: u8| {
        format!(
            "vrrp_instance V {{\n interface eth1\n virtual_router_id 9\n priority {priority}\n version 3\n advert_int 0.1\n virtual_ipaddress {{\n {VIP}/32\n }}\n}}\n"
        )
    };
    let service =
        "global_defs {\n lvs_sync_daemon eth1 V\n}\n".to_string() + &config(VIP, "DR", V4, "");
    // Without a word on the twin it does not start.
    site.lab.start("d", Kind::Sluice, &(vrrp(90) + &service));
    site.lab
        .wait("it says what is missing", Duration::from_secs(8), |lab| {
            lab.log("d").contains("lvs_sync_daemon wants a twin")
        });
    site.lab.ended("d");
    let options = |own: u8, peer: u8| [format!("10.0.0.{own}:7000"), format!("10.0.0.{peer}:7000")];
    let start = |lab: &mut Lab, host: &str, priority: u8, [own, peer]: [String; 2]| {
        lab.start_with(
            host,
            Kind::Sluice,
            &(vrrp(priority) + &service),
            &["--sync", &own, "--sync-peer", &peer],
        );
    };
    start(&mut site.lab, "b", 150, options(2, 5));
    site.lab
        .wait("b is master", Duration::from_secs(15), |lab| {
            lab.has("b", VIP)
        });
    start(&mut site.lab, "e", 100, options(5, 2));
    let mut streams: Vec<_> = (0..8)
        .map(|_| site.connect("10.0.0.100:80").expect("b serves"))
        .collect();
    site.lab
        .wait("the twin has all eight", Duration::from_secs(15), |lab| {
            let socket = lab.path("e.sock");
            let flows = sluice_l4::shell::control::ask(
                socket.as_ref(),
                &sluice_l4::shell::control::Request::Flows { limit: 100 },
            );
            flows.is_ok_and(|f| f.as_array().is_some_and(|f| f.len() >= 8))
        });
    site.lab.kill("b");
    site.lab.cable("b", false);
    site.lab
        .wait("e takes over", Duration::from_secs(3), |lab| {
            lab.has("e", VIP)
        });
    for (stream, name) in &mut streams {
        assert!(echo(stream), "the connection to {name} lives");
    }
    // Round robin cannot find them by chance: eight flows to two servers.
    let shown = site.lab.show("e");
    assert_eq!(shown["counters"]["new_flow"], 0, "{shown}");
    // The first returns: it pulls the table before its router starts, and preempts knowing every connection.
    site.lab.cable("b", true);
    start(&mut site.lab, "b", 150, options(2, 5));
    site.lab.wait("b preempts", Duration::from_secs(15), |lab| {
        lab.has("b", VIP) && !lab.has("e", VIP)
    });
    let log = site.lab.log("b");
    let place = |what: &str| {
        log.find(what)
            .unwrap_or_else(|| panic!("no '{what}' in {log}"))
    };
    assert!(place("8 flows pulled from the twin") < place("entered BACKUP state"));
    for (stream, name) in &mut streams {
        assert!(echo(stream), "the connection to {name} lives");
    }
    let shown = site.lab.show("b");
    assert_eq!(shown["counters"]["new_flow"], 0, "{shown}");
}
