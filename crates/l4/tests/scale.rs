//! Many virtual servers: a reload applies the difference and nothing flaps; and, as measurements (`make l4-scale`), how long
//! a reload of 37 000 servers takes and what 10 000 checked servers cost.

mod common;
#[path = "common/lab.rs"]
mod lab;

use lab::{Kind, Lab};
use std::fmt::Write as _;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// Directors in a, all servers are addresses of b, where whoever connects to port 80 is accepted.
fn site() -> Lab {
    let lab = Lab::new(2);
    let (a, b) = (lab.ns("a"), lab.ns("b"));
    lab::ip(&format!("-n {b} addr add 10.64.0.0/12 dev lo"));
    lab::ip(&format!("-n {a} route add 10.64.0.0/12 via 10.0.0.2"));
    let file = std::fs::File::open(format!("/run/netns/{b}")).unwrap();
    std::thread::spawn(move || {
        rustix::thread::move_into_link_name_space(
            file.as_fd(),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .unwrap();
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let any: std::net::SocketAddr = "0.0.0.0:80".parse().unwrap();
        socket.bind(&any.into()).unwrap();
        socket.listen(4096).unwrap();
        // Ends with the test's process; what is accepted is closed.
        while socket.accept().is_ok() {}
    });
    lab
}

/// `services` virtual servers with `each` or one more servers, checked every so many seconds; the last server of the
/// first is dead, all of the second have this weight. Who is dead refuses; a slow answer of the others is none the worse.
fn config(services: usize, each: usize, every: u32, weight: u32) -> String {
    let mut text = String::new();
    let mut server = 0u32;
    for n in 0..services {
        let _ = writeln!(
            text,
            "virtual_server 10.{}.{}.{} 80 {{\n delay_loop {every}\n lb_algo wrr\n lb_kind DR\n protocol TCP",
            128 + n / 65536,
            n / 256 % 256,
            n % 256
        );
        for i in 0..each + n % 2 {
            server += 1;
            let ip = std::net::Ipv4Addr::from(0x0a40_0000 + server);
            let w = if n == 1 { weight } else { 1 };
            // Nobody listens on port 81.
            let port = if n == 0 && i + 1 == each { 81 } else { 80 };
            let warmup = if port == 81 { 1 } else { every };
            let _ = writeln!(
                text,
                " real_server {ip} 80 {{\n weight {w}\n TCP_CHECK {{\n connect_port {port}\n connect_timeout 30\n retry 0\n warmup {warmup}\n }}\n }}"
            );
        }
        text.push_str("}\n");
    }
    text
}

/// Milliseconds that a reload says it took.
fn reload(lab: &Lab, before: usize) -> u64 {
    let socket = std::path::PathBuf::from(lab.path("a.sock"));
    sluice_l4::shell::control::ask(&socket, &sluice_l4::shell::control::Request::Reload)
        .expect("it reloads");
    let log = lab.log("a");
    let line = log[before..]
        .lines()
        .find(|l| l.starts_with("reloaded in "))
        .expect("it says so");
    line.split(' ').nth(2).unwrap().parse().unwrap()
}

/// Starts, waits until the dead server is known to be dead, and reloads a file in which one weight differs, one virtual
/// server is gone and one is new. Gives the milliseconds of the reload and the seconds around the command.
fn change_some(services: usize, each: usize, every: u32) -> (u64, Duration) {
    let mut lab = site();
    lab.start_with(
        "a",
        Kind::Sluice,
        &config(services, each, every, 1),
        &["--interface", "eth1"],
    );
    let dead = ":80: connect: Connection refused";
    lab.wait("it runs", Duration::from_secs(60), |lab| {
        lab.log("a").contains("running: ")
    });
    lab.wait("the dead server is down", Duration::from_secs(20), |lab| {
        lab.log("a").contains(dead)
    });
    let up = |lab: &Lab| -> (usize, usize) {
        let show = lab.show("a");
        let all = show["virtual_servers"].as_array().unwrap();
        let servers = all.iter().flat_map(|v| v["servers"].as_array().unwrap());
        let down = servers.clone().filter(|s| s["up"] == false).count();
        (servers.count(), down)
    };
    let (count, down) = up(&lab);
    assert_eq!(down, 1);
    // The same but for one weight; the last virtual server is another one.
    let text = config(services, each, every, 3);
    let at = text.rfind("virtual_server ").unwrap();
    let text = text[..at].to_string()
        + &text[at..].replacen("virtual_server 10.128", "virtual_server 10.140", 1);
    std::fs::write(lab.path("a.conf"), text).unwrap();
    let before = lab.log("a").len();
    let began = Instant::now();
    let ms = reload(&lab, before);
    let took = began.elapsed();
    assert_eq!(up(&lab), (count, 1), "what was known is known");
    // Nobody goes up or down, now or in the checks that follow.
    let steady = lab.stays("no server flaps", Duration::from_secs(3), |lab| {
        let log = lab.log("a");
        let news = &log[before..];
        !news.contains(" is UP") && !news.contains(" is DOWN")
    });
    assert!(steady);
    let show = lab.show("a");
    let all = show["virtual_servers"].as_array().unwrap();
    let changed = all
        .iter()
        .find(|v| v["addresses"][0] == "10.128.0.1:80")
        .unwrap();
    assert_eq!(changed["servers"][0]["weight"], 3);
    assert!(
        all.iter()
            .any(|v| v["addresses"][0].as_str().unwrap().starts_with("10.140"))
    );
    assert_eq!(all.len(), services);
    (ms, took)
}

#[test]
fn a_reload_of_many_applies_the_difference_and_nothing_flaps() {
    privileged!();
    change_some(100, 18, 5);
}

#[test]
#[ignore = "a measurement, for a release build"]
fn a_reload_of_37000_servers() {
    privileged!();
    let (ms, took) = change_some(2000, 18, 60);
    println!(
        "2000 virtual servers, 37000 servers: reloaded in {ms} ms, {took:?} around the command"
    );
}

#[test]
#[ignore = "a measurement, for a release build"]
fn the_cost_of_10000_checked_servers() {
    privileged!();
    let mut lab = site();
    // On a network card receiving is not done in the process's time; here the switch and the servers are this machine too.
    // Threads of their own do it (a veth asks for them only without TSO): the process is left with what it does itself.
    for (host, links) in [("a", "eth1"), ("b", "eth1"), ("sw", "p-a p-b")] {
        lab.run(
            host,
            &format!("for i in {links}; do ethtool -K $i tso off gro on; echo 1 > /sys/class/net/$i/threaded; done"),
        );
    }
    lab.start_with(
        "a",
        Kind::Sluice,
        &config(1053, 9, 5, 1),
        &["--interface", "eth1"],
    );
    lab.wait("it runs", Duration::from_secs(60), |lab| {
        lab.log("a").contains("running: ")
    });
    // All have had their first check.
    std::thread::sleep(Duration::from_secs(12));
    let checks = lab.show("a")["checks"].as_u64().unwrap();
    let cpu = |lab: &Lab| -> [f64; 2] {
        let pid = lab.pid("a");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // utime and stime, in hundredths.
        [fields[11], fields[12]].map(|t| t.parse::<f64>().unwrap() / 100.0)
    };
    let before = cpu(&lab);
    let time = Duration::from_secs(30);
    std::thread::sleep(time);
    let after = cpu(&lab);
    let share = |i: usize| 100.0 * (after[i] - before[i]) / time.as_secs_f64();
    println!(
        "{checks} TCP checks every 5 s: {:.1} % of a core ({:.1} % in the program, {:.1} % in system calls)",
        share(0) + share(1),
        share(0),
        share(1)
    );
}
