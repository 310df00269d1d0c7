//! The same configuration and the same packets through the kernel's IPVS and through this datapath: which server gets what.
//!
//! IPVS comes from Debian's user-mode-linux, an ordinary program: this test's own binary runs inside it (`inside_uml`), with
//! Debian's keepalived reading the configuration and ipvsadm making the changes. Semantics only; it says nothing of speed.
//!
//! Every new connection must get the same server in the same order, and every server have the same active and inactive
//! connections. Only mh's choice is its own here (the servers' identities decide, not their order, so that directors agree).

mod common;

use common::*;
use sluice_l4::config::{self, NoHost};
use sluice_l4::datapath::director::{Director, Egress};
use sluice_l4::datapath::layout::Settings;
use sluice_l4::datapath::programs::Sizes;
use sluice_l4::pool::{Member, Pool};
use sluice_l4::shell::control::Request;
use sluice_l4::shell::ipvsadm::{self, Verb};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Virtual server N of this table is 10.1.0.N; its servers are 10.0.0.11 to .14 with these weights.
const SERVICES: &[(&str, [u32; 4], &str)] = &[
    ("rr", [1, 1, 1, 1], ""),
    ("wrr", [4, 3, 2, 1], ""),
    ("wrr", [6, 2, 0, 4], ""),
    ("lc", [1, 1, 1, 1], ""),
    ("wlc", [4, 3, 2, 1], ""),
    ("sed", [4, 3, 2, 1], ""),
    ("nq", [4, 3, 2, 1], ""),
    ("fo", [2, 5, 5, 1], ""),
    ("ovf", [3, 4, 4, 2], ""),
    ("sh", [1, 2, 3, 1], ""),
    ("sh", [1, 2, 3, 1], "sh-port\n sh-fallback"),
    ("dh", [1, 1, 1, 1], ""),
    ("mh", [1, 1, 1, 1], ""),
    ("mh", [4, 3, 2, 1], "mh-port"),
    ("lblc", [3, 3, 3, 3], ""),
    ("lblcr", [3, 3, 3, 3], ""),
    ("rr", [1, 1, 1, 1], "persistence_timeout 100"),
    ("rr", [1, 1, 1, 1], LIMITED),
    ("wlc", [4, 3, 2, 1], LIMITED),
    (
        "wlc",
        [1, 2, 3, 4],
        "persistence_timeout 100\n persistence_granularity 255.255.255.248",
    ),
];

/// A comment to keepalived: its servers have a limit.
const LIMITED: &str = "! limited";

fn configuration() -> String {
    let mut text = String::new();
    for (n, (scheduler, weights, more)) in SERVICES.iter().enumerate() {
        let _ = writeln!(
            text,
            "virtual_server 10.1.0.{} 80 {{\n lb_algo {scheduler}\n lb_kind DR\n protocol TCP\n {more}",
            n + 1
        );
        let limits = match *more {
            LIMITED => "uthreshold 9\n lthreshold 4",
            _ => "",
        };
        for (weight, server) in weights.iter().zip(11..) {
            let _ = writeln!(
                text,
                " real_server 10.0.0.{server} 80 {{\n weight {weight}\n {limits}\n }}"
            );
        }
        text.push_str("}\n");
    }
    text
}

enum Step {
    /// A packet of a client to every virtual server; a client that was refused sends no more than its SYN.
    All(u8, u8),
    /// ipvsadm's arguments after `-t VIP`, for every virtual server.
    Change(&'static str),
    Look(&'static str),
}

/// What happens to every virtual server.
fn play() -> Vec<Step> {
    use Step::*;
    let mut steps = Vec::new();
    let packets = |steps: &mut Vec<Step>, clients: std::ops::Range<u8>, flags| {
        steps.extend(clients.map(|c| All(c, flags)));
    };
    packets(&mut steps, 0..13, SYN);
    steps.push(Look("thirteen new connections"));
    packets(&mut steps, 0..7, ACK);
    packets(&mut steps, 13..20, SYN);
    steps.push(Look("seven of them established, seven more"));
    packets(&mut steps, 0..4, FIN | ACK);
    packets(&mut steps, 20..29, SYN);
    packets(&mut steps, 20..29, ACK);
    steps.push(Look("four closed, nine more"));
    steps.push(Change("-e -r 10.0.0.12:80 -g -w 0"));
    packets(&mut steps, 0..20, ACK);
    packets(&mut steps, 29..40, SYN);
    steps.push(Look("the second drains"));
    steps.push(Change("-e -r 10.0.0.12:80 -g -w 2"));
    packets(&mut steps, 40..51, SYN);
    packets(&mut steps, 40..51, ACK);
    steps.push(Look("the second has weight 2"));
    steps.push(Change("-a -r 10.0.0.15:80 -g -w 3"));
    packets(&mut steps, 51..64, SYN);
    packets(&mut steps, 51..64, ACK);
    steps.push(Look("a fifth is added"));
    steps.push(Change("-d -r 10.0.0.11:80"));
    packets(&mut steps, 64..80, SYN);
    steps.push(Look("the first is deleted"));
    steps
}

/// Clients are spread over addresses and ports.
fn client(n: u8) -> (Ipv4Addr, u16) {
    let n16 = u16::from(n);
    (
        Ipv4Addr::new(10, 9, n.wrapping_mul(37), n),
        2000 + n16 * 211,
    )
}

fn frame(vip: usize, n: u8, flags: u8) -> Vec<u8> {
    let (address, port) = client(n);
    tcp(
        &address.to_string(),
        port,
        &format!("10.1.0.{}", vip + 1),
        80,
        flags,
    )
}

/// What one look sees: for every virtual server its connections and its servers' (active, inactive).
#[derive(Debug, Default, Clone, PartialEq)]
struct Seen {
    server_of: BTreeMap<u8, u8>,
    load: BTreeMap<u8, (u32, u32)>,
}

type Looks = Vec<(String, Vec<Seen>)>;

fn client_number(address: Ipv4Addr) -> u8 {
    address.octets()[3]
}

// --- inside user-mode-linux

fn hex_address(text: &str) -> Option<Ipv4Addr> {
    u32::from_str_radix(text, 16).ok().map(Ipv4Addr::from)
}

fn look_at_ipvs() -> Vec<Seen> {
    let mut seen = vec![Seen::default(); SERVICES.len()];
    let connections = std::fs::read_to_string("/proc/net/ip_vs_conn").unwrap();
    for line in connections.lines().skip(1) {
        let w: Vec<&str> = line.split_whitespace().collect();
        let (Some(from), Some(to), Some(server)) =
            (hex_address(w[1]), hex_address(w[3]), hex_address(w[5]))
        else {
            continue;
        };
        // A persistence template has no client port.
        if w[2] != "0000" {
            let vip = usize::from(to.octets()[3]) - 1;
            seen[vip]
                .server_of
                .insert(client_number(from), server.octets()[3]);
        }
    }
    let mut vip = 0;
    for line in std::fs::read_to_string("/proc/net/ip_vs").unwrap().lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        match w.first() {
            Some(&"TCP") => vip = usize::from(hex_address(&w[1][..8]).unwrap().octets()[3]) - 1,
            Some(&"->") => {
                if let Some(server) = w[1].get(..8).and_then(hex_address) {
                    seen[vip].load.insert(
                        server.octets()[3],
                        (w[4].parse().unwrap(), w[5].parse().unwrap()),
                    );
                }
            }
            _ => {}
        }
    }
    seen
}

/// Datagrams that go the packets' way to a socket: one CPU takes frames in the order they came, so when a mark has arrived,
/// IPVS has seen what was sent before it.
struct Marks {
    socket: std::net::UdpSocket,
    /// The source port of the next one tells it from others.
    next: u16,
}

impl Marks {
    const ADDRESS: &str = "10.1.0.250";
    const PORT: u16 = 9;

    fn new() -> Marks {
        let socket = std::net::UdpSocket::bind((Self::ADDRESS, Self::PORT)).unwrap();
        let limit = Some(Duration::from_millis(200));
        socket.set_read_timeout(limit).unwrap();
        Marks { socket, next: 1000 }
    }

    fn wait(&mut self, send: impl Fn(&[u8])) {
        let began = Instant::now();
        let mut buffer = [0; 64];
        loop {
            send(&udp("10.9.9.9", self.next, Self::ADDRESS, Self::PORT));
            // What is late from an earlier attempt is passed over.
            while let Ok((_, from)) = self.socket.recv_from(&mut buffer) {
                if from.port() == self.next {
                    self.next += 1;
                    return;
                }
            }
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "frames do not arrive"
            );
        }
    }
}

/// The part that runs inside; it tells what it sees on its standard output.
#[test]
#[ignore = "runs inside user-mode-linux"]
fn inside_uml() {
    let Ok(directory) = std::env::var("SLUICE_IPVS") else {
        return;
    };
    let sh = |script: &str| {
        let out = Command::new("sh").args(["-ec", script]).output().unwrap();
        assert!(out.status.success(), "{script}: {out:?}");
    };
    sh("ip link set lo up; ip addr add 10.1.0.0/24 dev lo
        ip link add d0 type veth peer name c0; ip link set d0 address 02:00:00:00:00:02; ip link set c0 up; ip link set d0 up
        ip link add dummy0 type dummy; ip link set dummy0 up; ip addr add 10.0.0.2/24 dev dummy0
        echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter; echo 0 > /proc/sys/net/ipv4/conf/d0/rp_filter
        ip route add 10.9.0.0/16 dev d0");
    let config = format!("{directory}/keepalived.conf");
    let mut keepalived = Command::new("keepalived")
        .args([
            "-C",
            "-n",
            "-l",
            "-p",
            "/run/k.pid",
            "-c",
            "/run/c.pid",
            "-f",
            &config,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // A line of the heading has an arrow too.
    let services = || {
        let text = std::fs::read_to_string("/proc/net/ip_vs").unwrap_or_default();
        text.lines()
            .filter(|l| l.contains("->"))
            .count()
            .saturating_sub(1)
    };
    while services() < SERVICES.len() * 4 {
        assert!(
            began.elapsed() < Duration::from_secs(240),
            "keepalived sets no services"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let ifindex: u32 = std::fs::read_to_string("/sys/class/net/c0/ifindex")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::PACKET,
        rustix::net::SocketType::RAW,
        None,
    )
    .unwrap();
    let send = |frame: &[u8]| sluice_l4::sys::send_frame(&socket, ifindex, frame).unwrap();
    let mut marks = Marks::new();
    let mut seen = Vec::new();
    // A link that has just come up loses frames without a word.
    marks.wait(send);
    let began = Instant::now();
    for step in play() {
        match step {
            Step::All(n, flags) => {
                if flags == SYN {
                    seen.clear();
                } else if seen.is_empty() {
                    seen = look_at_ipvs();
                }
                for vip in 0..SERVICES.len() {
                    let known = |s: &Seen| s.server_of.contains_key(&n);
                    if flags == SYN || seen.get(vip).is_some_and(known) {
                        send(&frame(vip, n, flags));
                    }
                }
                marks.wait(send);
            }
            Step::Change(args) => {
                let mut rules = String::new();
                for vip in 1..=SERVICES.len() {
                    let (verb, rest) = args.split_at(2);
                    let _ = writeln!(rules, "{verb} -t 10.1.0.{vip}:80 {rest}");
                }
                sh(&format!("ipvsadm -R <<E\n{rules}E\n"));
            }
            Step::Look(name) => {
                println!("\nLOOK {name}");
                for (vip, seen) in look_at_ipvs().iter().enumerate() {
                    for (client, server) in &seen.server_of {
                        println!("CONNECTION {vip} {client} {server}");
                    }
                    for (server, (active, inactive)) in &seen.load {
                        println!("LOAD {vip} {server} {active} {inactive}");
                    }
                }
            }
        }
    }
    let _ = keepalived.kill();
    let _ = keepalived.wait();
    // What IPVS has in SYN_RECV it forgets after a minute.
    let slow = began.elapsed() > Duration::from_secs(50);
    println!("\n{}", if slow { "TOO SLOW" } else { "ALL SEEN" });
}

// --- outside

const INIT: &str = "#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin SLUICE_IPVS=@DIR@
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run
mkdir -p /run/m/lib; ln -s /usr/lib/uml/modules /run/m/lib/modules
modprobe -a -d /run/m ip_vs ip_vs_rr ip_vs_wrr ip_vs_lc ip_vs_wlc ip_vs_sh ip_vs_dh ip_vs_sed ip_vs_nq ip_vs_lblc ip_vs_lblcr ip_vs_fo ip_vs_ovf ip_vs_mh veth dummy
@BIN@ --exact inside_uml --ignored --nocapture 2>&1
echo o > /proc/sysrq-trigger
sleep 5
";

fn reason_to_skip() -> Option<&'static str> {
    for (file, package) in [
        ("/usr/bin/linux.uml", "user-mode-linux is not installed"),
        ("/usr/sbin/ipvsadm", "ipvsadm is not installed"),
        ("/usr/sbin/keepalived", "keepalived is not installed"),
        ("/usr/sbin/modprobe", "kmod is not installed"),
    ] {
        if !std::path::Path::new(file).exists() {
            return Some(package);
        }
    }
    common::reason_to_skip()
}

/// Boots user-mode-linux, plays, and gives what IPVS did; None if the machine is so busy that connections time out meanwhile.
fn ipvs_looks() -> Option<Looks> {
    let directory = std::env::temp_dir().join(format!("sl5-uml-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("keepalived.conf"), configuration()).unwrap();
    let init = directory.join("init");
    let binary = std::env::current_exe().unwrap();
    let text = INIT
        .replace("@DIR@", directory.to_str().unwrap())
        .replace("@BIN@", binary.to_str().unwrap());
    std::fs::write(&init, text).unwrap();
    std::fs::set_permissions(&init, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut child = Command::new("linux.uml")
        .args([
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "mem=192M",
            "con=null",
            "con0=fd:0,fd:1",
            "quiet",
        ])
        .arg(format!("init={}", init.display()))
        .env("HOME", &directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("linux.uml runs");
    let mut stdout = child.stdout.take().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    });
    let text = receiver.recv_timeout(Duration::from_secs(900));
    let group = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = child.wait();
    let _ = std::fs::remove_dir_all(&directory);
    let text = text.expect("user-mode-linux ends");
    if text.contains("TOO SLOW") {
        return None;
    }
    assert!(text.contains("ALL SEEN"), "{text}");
    let mut looks = Looks::new();
    for line in text.lines() {
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix("LOOK ") {
            looks.push((name.into(), vec![Seen::default(); SERVICES.len()]));
        }
        let number = |w: &str| w.parse::<u32>().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let Some((_, seen)) = looks.last_mut() else {
            continue;
        };
        match words[..] {
            ["CONNECTION", vip, client, server] => {
                seen[number(vip) as usize]
                    .server_of
                    .insert(number(client) as u8, number(server) as u8);
            }
            ["LOAD", vip, server, active, inactive] => {
                seen[number(vip) as usize]
                    .load
                    .insert(number(server) as u8, (number(active), number(inactive)));
            }
            _ => {}
        }
    }
    Some(looks)
}

fn change(pools: &mut [Pool], args: &str) {
    for (vip, pool) in pools.iter_mut().enumerate() {
        let (verb, rest) = args.split_at(2);
        let line = format!("{verb} -t 10.1.0.{}:80{rest}", vip + 1);
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let Verb::Change(request) = ipvsadm::parse(&words).unwrap() else {
            panic!("{line} changes nothing");
        };
        match request {
            Request::EditServer {
                ip,
                port,
                weight,
                conns_max,
                conns_min,
                ..
            } => {
                let m = pool.member(ip, port).unwrap();
                (m.weight, m.conns_max, m.conns_min) = (weight, conns_max, conns_min);
            }
            Request::Delete { ip, port, .. } => {
                pool.members.retain(|m| (m.ip, m.port) != (ip, port))
            }
            Request::Add {
                ip,
                port,
                weight,
                conns_max,
                conns_min,
                ..
            } => {
                let member = Member {
                    ip,
                    port,
                    weight,
                    conns_max,
                    conns_min,
                    ..pool.members[0].clone()
                };
                pool.members.push(member);
            }
            _ => unreachable!(),
        }
    }
}

fn our_looks() -> Looks {
    let (config, findings) = config::parse(&NoHost, "ipvs", &configuration(), "");
    assert!(config::runnable(&findings), "{findings:?}");
    let mut pools: Vec<Pool> = config
        .virtual_servers
        .iter()
        .map(|vs| Pool::new(vs, &config))
        .collect();
    let mut d = Director::new(Sizes::small(), Settings::default()).unwrap();
    for n in 11..=15 {
        let egress = Egress {
            ifindex: 1,
            next_hop: [2, 0, 0, 1, 0, n],
            own_mac: DIRECTOR_MAC,
            source: "10.0.0.2".parse().unwrap(),
            mtu: 1500,
            local: false,
        };
        d.set_egress(IpAddr::from([10, 0, 0, n]), Some(egress))
            .unwrap();
    }
    let apply = |d: &mut Director, pools: &mut [Pool]| {
        let services: Vec<_> = pools.iter_mut().map(Pool::service).collect();
        d.apply(&services).unwrap();
    };
    apply(&mut d, &mut pools);
    let mut looks = Looks::new();
    let mut seen = Vec::new();
    for step in play() {
        match step {
            Step::All(n, flags) => {
                if flags == SYN {
                    seen.clear();
                } else if seen.is_empty() {
                    seen = look_here(&d, &pools);
                }
                for vip in 0..SERVICES.len() {
                    let known = |s: &Seen| s.server_of.contains_key(&n);
                    if flags == SYN || seen.get(vip).is_some_and(known) {
                        d.programs
                            .test_run("director", &frame(vip, n, flags), 1)
                            .unwrap();
                    }
                }
            }
            Step::Change(args) => {
                change(&mut pools, args);
                apply(&mut d, &mut pools);
            }
            Step::Look(name) => looks.push((name.into(), look_here(&d, &pools))),
        }
    }
    looks
}

fn look_here(d: &Director, pools: &[Pool]) -> Vec<Seen> {
    let mut seen = vec![Seen::default(); SERVICES.len()];
    for (key, flow) in d.programs.flows() {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (key.client, key.vip) else {
            panic!("IPv6");
        };
        let vip = usize::from(to.octets()[3]) - 1;
        let Some((_, IpAddr::V4(server), _)) = d.server_at(flow.server) else {
            continue;
        };
        seen[vip]
            .server_of
            .insert(client_number(from), server.octets()[3]);
    }
    for (vip, pool) in pools.iter().enumerate() {
        for m in &pool.members {
            let IpAddr::V4(ip) = m.ip else { panic!("IPv6") };
            let counts = d.server_counts(&pool.name, m.ip, m.port);
            seen[vip]
                .load
                .insert(ip.octets()[3], (counts.active, counts.inactive));
        }
    }
    seen
}

/// The servers of the clients that were new since the last look, in the order they came.
fn news(now: &Seen, before: Option<&Seen>) -> String {
    let new = now
        .server_of
        .iter()
        .filter(|(c, _)| before.is_none_or(|b| !b.server_of.contains_key(c)));
    new.map(|(_, s)| char::from(b'A' + s - 11)).collect()
}

#[test]
fn the_same_packets_go_to_the_same_servers_as_with_ipvs() {
    if let Some(why) = reason_to_skip() {
        eprintln!("skipped: {why}");
        return;
    }
    let Some(theirs) = (0..3).find_map(|_| ipvs_looks()) else {
        eprintln!("not judged: user-mode-linux is too slow on this machine now");
        return;
    };
    let ours = our_looks();
    assert_eq!(theirs.len(), ours.len());
    let mut differences = String::new();
    for (vip, (scheduler, weights, more)) in SERVICES.iter().enumerate() {
        for at in 0..ours.len() {
            let (t, o) = (&theirs[at].1[vip], &ours[at].1[vip]);
            let before = |looks: &Looks| (at > 0).then(|| looks[at - 1].1[vip].clone());
            let mut differ =
                |what: &str, theirs: &dyn std::fmt::Debug, here: &dyn std::fmt::Debug| {
                    let _ = writeln!(
                        differences,
                        "{scheduler} {weights:?} {}: {}: {what}: IPVS {theirs:?}, here {here:?}",
                        more.replace('\n', ""),
                        ours[at].0
                    );
                };
            // Whoever has a server keeps it; those of a server that was deleted are gone here.
            if let Some(b) = before(&ours) {
                let moved = b
                    .server_of
                    .iter()
                    .any(|(c, s)| o.server_of.get(c).is_some_and(|n| n != s));
                if moved {
                    differ("moved", &b.server_of, &o.server_of);
                }
            }
            if *scheduler == "mh" {
                continue;
            }
            let (t_new, o_new) = (
                news(t, before(&theirs).as_ref()),
                news(o, before(&ours).as_ref()),
            );
            if t_new != o_new {
                differ("new connections", &t_new, &o_new);
            }
            if t.load != o.load {
                differ("loads", &t.load, &o.load);
            }
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}
