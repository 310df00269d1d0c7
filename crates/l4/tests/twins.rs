//! Real keepalived as VRRP twin, in namespaces: every scenario with Sluice in either role. Needs root, ip(8) and
//! keepalived; most adverts go every 100 ms, so that each test takes a few seconds.

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/pulse.rs"]
mod pulse;

use lab::{Kind, Lab, in_time, once};
use rustix::process::Signal;
use std::time::Duration;

const VIP: &str = "10.0.0.100";

/// An instance of version 3, 100 ms between adverts, unless `more` says otherwise.
fn instance(name: &str, vrid: u8, priority: u8, addresses: &str, more: &str) -> String {
    // keepalived takes the first word on the version.
    let version = if more.contains("version") {
        ""
    } else {
        "version 3"
    };
    let interval = if more.contains("advert_int") {
        ""
    } else {
        "advert_int 0.1"
    };
    format!(
        "vrrp_instance {name} {{\n state BACKUP\n interface eth1\n virtual_router_id {vrid}\n priority {priority}\n {version}\n {interval}\n \
         garp_master_delay 1\n {more}\n virtual_ipaddress {{\n {addresses}\n }}\n}}\n"
    )
}

fn simple(priority: u8, more: &str) -> String {
    instance("VI", 51, priority, &format!("{VIP}/24"), more)
}

/// Both assignments of programs to hosts.
const ROLES: [(Kind, Kind); 2] = [
    (Kind::Sluice, Kind::Keepalived),
    (Kind::Keepalived, Kind::Sluice),
];

/// Hosts a (priority 150) and b (100) with these programs, a elected.
fn pair(roles: (Kind, Kind), more: &str) -> Lab {
    let mut lab = Lab::new(2);
    lab.start("a", roles.0, &simple(150, more));
    lab.start("b", roles.1, &simple(100, more));
    lab.master("a", VIP, 15);
    lab
}

#[test]
fn the_higher_priority_is_elected_at_one_second() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        for version in [2, 3] {
            pair(roles, &format!("version {version}\n advert_int 1")).settles(
                "a stays master",
                Duration::from_millis(1500),
                |lab| lab.has("a", VIP) && !lab.has("b", VIP),
            );
        }
    }
}

#[test]
fn version_3_elects_and_a_killed_master_is_replaced_in_time() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let what = format!("{:?} after kill -9 of {:?}", roles.1, roles.0);
        // Three adverts and a skew of 0.61: 361 ms from the last advert, which was up to 100 ms before the kill.
        in_time(&what, Duration::from_millis(500), || {
            let mut lab = pair(roles, "");
            lab.kill("a");
            lab.wait("b takes over", Duration::from_secs(3), |lab| {
                lab.has("b", VIP)
            })
        });
    }
}

#[test]
fn a_master_that_is_told_to_stop_is_replaced_at_once() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let what = format!("{:?} after SIGTERM of {:?}", roles.1, roles.0);
        in_time(&what, Duration::from_millis(250), || {
            let mut lab = pair(roles, "");
            lab.terminate("a");
            let took = lab.wait("b takes over", Duration::from_secs(3), |lab| {
                lab.has("b", VIP)
            });
            lab.ended("a");
            assert!(!lab.has("a", VIP), "the address is left behind");
            took
        });
    }
}

#[test]
fn ten_milliseconds_between_adverts() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = pair(roles, "advert_int 0.01");
        // On a busy machine three adverts may be late together: the lower one may have its moment, and gives way again.
        lab.settles("a stays master", Duration::from_millis(300), |lab| {
            lab.has("a", VIP) && !lab.has("b", VIP)
        });
        lab.kill("a");
        lab.wait("b takes over", Duration::from_secs(1), |lab| {
            lab.has("b", VIP)
        });
    }
}

#[test]
fn unicast_peers_elect() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let unicast = |own: u8, peer: u8| {
            format!("unicast_src_ip 10.0.0.{own}\n unicast_peer {{\n 10.0.0.{peer}\n }}")
        };
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &simple(150, &unicast(1, 2)));
        lab.start("b", roles.1, &simple(100, &unicast(2, 1)));
        lab.master("a", VIP, 10);
        lab.kill("a");
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", VIP)
        });
    }
}

#[test]
fn ipv6_unicast_peers_elect() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let config = |priority: u8, own: u8, peer: u8| {
            let unicast =
                format!("unicast_src_ip fd00::{own}\n unicast_peer {{\n fd00::{peer}\n }}");
            instance("VI", 53, priority, "fd00::100/64", &unicast)
        };
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &config(150, 1, 2));
        lab.start("b", roles.1, &config(100, 2, 1));
        lab.master("a", "fd00::100", 10);
        lab.terminate("a");
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", "fd00::100")
        });
    }
}

#[test]
fn ipv6_elects() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let config = |priority| instance("VI", 52, priority, "fe80::100/64\n fd00::100/64", "");
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &config(150));
        lab.start("b", roles.1, &config(100));
        lab.master("a", "fd00::100", 10);
        lab.kill("a");
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", "fd00::100")
        });
    }
}

#[test]
fn who_returns_preempts() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("b", roles.1, &simple(100, ""));
        lab.wait("b is master", Duration::from_secs(5), |lab| {
            lab.has("b", VIP)
        });
        lab.start("a", roles.0, &simple(150, ""));
        lab.master("a", VIP, 5);
    }
}

#[test]
fn who_returns_waits_with_nopreempt() {
    if lab::is_missing(&[]) {
        return;
    }
    // At 1 s between adverts, so that a busy machine's pauses are no silence of the master's.
    let config = |priority| simple(priority, "nopreempt\n advert_int 1");
    for roles in ROLES {
        once(&format!("{roles:?}"), || {
            let mut lab = Lab::new(2);
            lab.start("b", roles.1, &config(100));
            lab.wait("b is master", Duration::from_secs(8), |lab| {
                lab.has("b", VIP)
            });
            lab.start("a", roles.0, &config(150));
            // It would take over after three adverts and the skew of 0.41 s.
            let time = Duration::from_millis(4500);
            let stays = lab.stays("b is master", time, |lab| {
                lab.has("b", VIP) && !lab.has("a", VIP)
            });
            lab.kill("b");
            lab.wait("a takes over", Duration::from_secs(8), |lab| {
                lab.has("a", VIP)
            });
            stays
        });
    }
}

#[test]
fn preemption_waits_its_delay() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let what = format!("{:?} before {:?}", roles.0, roles.1);
        in_time(&what, Duration::from_millis(3500), || {
            let mut lab = Lab::new(2);
            lab.start("b", roles.1, &simple(100, ""));
            lab.wait("b is master", Duration::from_secs(5), |lab| {
                lab.has("b", VIP)
            });
            lab.start("a", roles.0, &simple(150, "preempt_delay 2"));
            let took = lab.master("a", VIP, 6);
            assert!(took > Duration::from_millis(1900), "{what} {took:?}");
            took
        });
    }
}

#[test]
fn of_equals_the_higher_address_wins() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.partition("b", true);
        lab.start("a", roles.0, &simple(100, ""));
        lab.start("b", roles.1, &simple(100, ""));
        lab.wait("both are masters", Duration::from_secs(5), |lab| {
            lab.has("a", VIP) && lab.has("b", VIP)
        });
        lab.partition("b", false);
        lab.master("b", VIP, 5);
    }
}

#[test]
fn a_partition_heals() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let lab = pair(roles, "");
        lab.partition("b", true);
        lab.wait("both are masters", Duration::from_secs(5), |lab| {
            lab.has("a", VIP) && lab.has("b", VIP)
        });
        lab.partition("b", false);
        lab.master("a", VIP, 5);
    }
}

#[test]
fn an_owner_takes_its_address_at_once() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("b", roles.1, &simple(254, ""));
        lab.wait("b is master", Duration::from_secs(5), |lab| {
            lab.has("b", VIP)
        });
        lab.start("a", roles.0, &simple(255, "state MASTER"));
        lab.master("a", VIP, 3);
    }
}

#[test]
fn a_stopped_process_loses_and_regains_its_office() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let lab = pair(roles, "");
        lab.signal_all("a", Signal::STOP);
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", VIP)
        });
        lab.signal_all("a", Signal::CONT);
        lab.master("a", VIP, 5);
    }
}

#[test]
fn a_lost_link_is_a_fault_and_returns() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let lab = pair(roles, "");
        lab.cable("a", false);
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", VIP) && !lab.has("a", VIP)
        });
        lab.cable("a", true);
        lab.master("a", VIP, 6);
    }
}

#[test]
fn passwords_must_match() {
    if lab::is_missing(&[]) {
        return;
    }
    let auth = |pass: &str| {
        format!(
            "version 2\n advert_int 1\n authentication {{\n auth_type PASS\n auth_pass {pass}\n }}"
        )
    };
    for roles in ROLES {
        pair(roles, &auth("secret"));
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &simple(150, &auth("secret")));
        lab.start("b", roles.1, &simple(100, &auth("other")));
        lab.wait("both are masters", Duration::from_secs(8), |lab| {
            lab.has("a", VIP) && lab.has("b", VIP)
        });
    }
}

#[test]
fn another_virtual_router_id_is_another_router() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &simple(150, ""));
        lab.start(
            "b",
            roles.1,
            &instance("VI", 77, 100, &format!("{VIP}/24"), ""),
        );
        lab.wait("both are masters", Duration::from_secs(5), |lab| {
            lab.has("a", VIP) && lab.has("b", VIP)
        });
    }
}

#[test]
fn an_interval_that_differs_is_refused_in_version_2() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &simple(150, "version 2\n advert_int 2"));
        lab.start("b", roles.1, &simple(100, "version 2\n advert_int 1"));
        lab.wait("both are masters", Duration::from_secs(12), |lab| {
            lab.has("a", VIP) && lab.has("b", VIP)
        });
        let ours = if roles.0 == Kind::Sluice { "a" } else { "b" };
        let counts = |lab: &Lab| lab.show(ours)["routers"][0]["counts"].clone();
        lab.wait("it is counted", Duration::from_secs(5), |lab| {
            counts(lab)["ignored"]["interval"]
                .as_u64()
                .is_some_and(|n| n > 0)
        });
    }
}

#[test]
fn an_interval_that_differs_is_the_master_s_in_version_3() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &simple(150, "version 3\n advert_int 0.5"));
        lab.start("b", roles.1, &simple(100, "version 3\n advert_int 0.1"));
        lab.master("a", VIP, 10);
        lab.settles("a stays master", Duration::from_millis(1200), |lab| {
            lab.has("a", VIP) && !lab.has("b", VIP)
        });
    }
}

#[test]
fn another_version_is_not_heard() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &simple(150, "version 2\n advert_int 1"));
        lab.start("b", roles.1, &simple(100, "version 3\n advert_int 1"));
        lab.wait("both are masters", Duration::from_secs(8), |lab| {
            lab.has("a", VIP) && lab.has("b", VIP)
        });
    }
}

#[test]
fn two_hundred_addresses_move() {
    two_hundred(|p, list| simple(p, &format!("virtual_ipaddress_excluded {{\n{list} }}")));
}

#[test]
fn two_hundred_advertised_addresses_move() {
    two_hundred(|p, list| instance("VI", 51, p, &format!("{VIP}/24\n{list}"), ""));
}

fn two_hundred(config: impl Fn(u8, &str) -> String) {
    if lab::is_missing(&[]) {
        return;
    }
    let list: String = (1..=200).map(|n| format!(" 10.128.0.{n}/32\n")).collect();
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &config(150, &list));
        lab.start("b", roles.1, &config(100, &list));
        lab.master("a", VIP, 15);
        lab.wait("all addresses", Duration::from_secs(3), |lab| {
            lab.has("a", "10.128.0.200")
        });
        // While the master announces them all, five times and five times again, its adverts keep their time.
        lab.settles("a stays master", Duration::from_millis(1500), |lab| {
            lab.has("a", VIP) && !lab.has("b", VIP)
        });
        lab.terminate("a");
        lab.wait("all addresses move", Duration::from_secs(4), |lab| {
            lab.has("b", "10.128.0.1") && lab.has("b", "10.128.0.200")
        });
    }
}

#[test]
fn a_sync_group_moves_together() {
    if lab::is_missing(&[]) {
        return;
    }
    let config = |priority, more: &str| {
        format!(
            "vrrp_sync_group G {{\n group {{\n V1\n V2\n }}\n {more}\n}}\n{}{}",
            instance("V1", 61, priority, "10.0.0.101/24", ""),
            instance("V2", 62, priority, "10.0.0.102/24", "")
        )
    };
    for roles in ROLES {
        let mut lab = Lab::new(2);
        let file = lab.path("group.track");
        std::fs::write(&file, "0").unwrap();
        let track = format!("track_file f {{\n file {file}\n weight 0\n}}\n");
        lab.start(
            "a",
            roles.0,
            &(track + &config(150, "track_file {\n f weight 0\n }")),
        );
        lab.start("b", roles.1, &config(100, ""));
        lab.master("a", "10.0.0.101", 10);
        lab.master("a", "10.0.0.102", 5);
        std::fs::write(&file, "1").unwrap();
        lab.master("b", "10.0.0.101", 5);
        lab.master("b", "10.0.0.102", 5);
    }
}

#[test]
fn a_tracked_file_moves_the_priority() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        let file = lab.path("file.track");
        std::fs::write(&file, "0").unwrap();
        let track = format!("track_file f {{\n file {file}\n weight 1\n}}\n");
        lab.start(
            "a",
            roles.0,
            &(track + &simple(150, "track_file {\n f weight 1\n }")),
        );
        lab.start("b", roles.1, &simple(100, ""));
        lab.master("a", VIP, 10);
        std::fs::write(&file, "-100").unwrap();
        lab.master("b", VIP, 5);
        std::fs::write(&file, "0").unwrap();
        lab.master("a", VIP, 5);
    }
}

#[test]
fn a_tracked_script_faults_or_weighs() {
    if lab::is_missing(&[]) {
        return;
    }
    for (weight, after) in [("weight 0", "b"), ("weight -80", "b"), ("weight -20", "a")] {
        let mut lab = Lab::new(2);
        let file = lab.path("script.ok");
        std::fs::write(&file, "").unwrap();
        let script = format!(
            "global_defs {{\n script_user root\n}}\nvrrp_script s {{\n script \"/usr/bin/test -e {file}\"\n interval 1\n fall 1\n rise 1\n {weight}\n}}\n"
        );
        lab.start(
            "a",
            Kind::Sluice,
            &(script + &simple(150, "track_script {\n s\n }")),
        );
        lab.start("b", Kind::Keepalived, &simple(100, ""));
        lab.master("a", VIP, 10);
        std::fs::remove_file(&file).unwrap();
        if after == "a" {
            lab.settles("a stays master", Duration::from_millis(1800), |lab| {
                lab.has("a", VIP)
            });
        } else {
            lab.master("b", VIP, 5);
        }
    }
}

#[test]
fn a_tracked_process_and_interface_count() {
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab::ip(&format!(
        "-n {} link add trk0 type veth peer name trk1",
        lab.ns("a")
    ));
    lab::ip(&format!("-n {} link set trk0 up", lab.ns("a")));
    lab::ip(&format!("-n {} link set trk1 up", lab.ns("a")));
    let name = "l4sleeper";
    let program = lab.path(name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let base = std::path::Path::new(&program)
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    lab.helper("a", &format!("{program} 60"));
    let config = format!(
        "vrrp_track_process p {{\n process {base}\n weight 0\n}}\n{}",
        simple(
            150,
            "track_process {\n p\n }\n track_interface {\n trk0 weight -80\n }"
        )
    );
    lab.start("a", Kind::Sluice, &config);
    lab.start("b", Kind::Keepalived, &simple(100, ""));
    lab.wait("a is master", Duration::from_secs(10), |lab| {
        lab.has("a", VIP) && !lab.has("b", VIP)
    });
    lab::ip(&format!("-n {} link set trk1 down", lab.ns("a")));
    lab.wait("b is master", Duration::from_secs(5), |lab| {
        lab.has("b", VIP) && !lab.has("a", VIP)
    });
    lab::ip(&format!("-n {} link set trk1 up", lab.ns("a")));
    lab.wait("a is master again", Duration::from_secs(5), |lab| {
        lab.has("a", VIP) && !lab.has("b", VIP)
    });
    lab.kill("a-helper");
    lab.wait("b is master", Duration::from_secs(5), |lab| {
        lab.has("b", VIP) && !lab.has("a", VIP)
    });
}

#[test]
fn adverts_that_were_routed_are_not_believed() {
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab.start("a", Kind::Sluice, &simple(100, ""));
    lab.master("a", VIP, 5);
    // A valid advert of priority 250, once with a time to live of 64 and once of 255.
    let advert = sluice_l4::vrrp::packet::Advert {
        version: 3,
        vrid: 51,
        priority: 250,
        interval_cs: 10,
        addresses: vec![VIP.parse().unwrap()],
        pass: None,
    };
    let bytes = advert.encode(
        "10.0.0.2".parse().unwrap(),
        "224.0.0.18".parse().unwrap(),
        Default::default(),
    );
    let hex: String = bytes.iter().map(|b| format!("\\\\x{b:02x}")).collect();
    let send = |ttl: u8| {
        lab.run(
            "b",
            &format!(
                "python3 -c \"import socket; s=socket.socket(socket.AF_INET,socket.SOCK_RAW,112); s.setsockopt(0,33,{ttl}); s.setsockopt(0,32,socket.inet_aton('10.0.0.2')); s.sendto(b'{hex}',('224.0.0.18',0))\""
            ),
        );
    };
    let counts = |lab: &Lab| lab.show("a")["routers"][0]["counts"].clone();
    send(64);
    lab.wait("it is counted", Duration::from_secs(5), |lab| {
        counts(lab)["ttl_errors"] == 1
    });
    assert_eq!(counts(&lab)["release_master"], 0);
    assert!(lab.has("a", VIP));
    send(255);
    lab.wait("a gives way", Duration::from_secs(5), |lab| {
        counts(lab)["release_master"] == 1
    });
}

#[test]
fn what_a_killed_process_left_is_cleaned_at_the_next_start() {
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab.start(
        "a",
        Kind::Sluice,
        &simple(
            100,
            "virtual_routes {\n 10.77.0.0/16 via 10.0.0.9 dev eth1\n }",
        ),
    );
    lab.master("a", VIP, 5);
    lab.wait("the route", Duration::from_secs(1), |lab| {
        lab.run("a", "ip route").contains("10.77.0.0/16")
    });
    lab.kill("a");
    assert!(lab.has("a", VIP));
    lab.start("b", Kind::Keepalived, &simple(200, "state MASTER"));
    lab.wait("b is master", Duration::from_secs(5), |lab| {
        lab.has("b", VIP)
    });
    lab.start(
        "a",
        Kind::Sluice,
        &simple(
            100,
            "virtual_routes {\n 10.77.0.0/16 via 10.0.0.9 dev eth1\n }",
        ),
    );
    lab.master("b", VIP, 3);
    assert!(!lab.run("a", "ip route").contains("10.77.0.0/16"));
}

#[test]
fn notify_scripts_and_fifo_get_keepalived_s_arguments() {
    if lab::is_missing(&[]) {
        return;
    }
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(1);
        let out = lab.path("notified");
        let script = lab.path("notify.sh");
        std::fs::write(&script, format!("#!/bin/sh\necho \"$@\" >> {out}\n")).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let globals = "global_defs {\n script_user root\n}\n";
        lab.start(
            "a",
            kind,
            &(globals.to_string() + &simple(100, &format!("notify \"{script} extra\""))),
        );
        lab.master("a", VIP, 5);
        let expect = "extra INSTANCE VI BACKUP 100\nextra INSTANCE VI MASTER 100\n";
        let what = format!("{kind:?} tells both changes in {out}");
        lab.wait(&what, Duration::from_secs(3), |_| {
            std::fs::read_to_string(&out).unwrap_or_default() == expect
        });
    }
}

#[test]
fn a_macvlan_carries_the_virtual_mac() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = pair(roles, "use_vmac");
        let mac = "00:00:5e:00:01:33";
        assert!(
            lab.run("a", "ip link").contains(mac),
            "{}",
            lab.run("a", "ip link")
        );
        lab.kill("a");
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", VIP)
        });
        assert!(
            lab.run("b", "ip -o addr")
                .lines()
                .any(|l| l.contains("vrrp") && l.contains(VIP))
        );
    }
}

/// Hosts a and b route for the client c to an address behind d, and the virtual address is c's gateway: a connection that
/// never ends runs through whoever is master.
#[test]
fn rolling_from_keepalived_to_sluice_and_back_with_live_tcp() {
    if lab::is_missing(&[]) {
        return;
    }
    // TCP's own retransmission waits at least 200 ms after a loss.
    let limit = Duration::from_millis(1500);
    in_time("the longest pause", limit, || {
        let mut lab = Lab::new(4);
        for router in ["a", "b"] {
            lab.run(router, "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth1.send_redirects=0 net.ipv4.conf.all.rp_filter=0");
            lab::ip(&format!(
                "-n {} route add 10.50.0.1 via 10.0.0.4",
                lab.ns(router)
            ));
        }
        lab.run("c", "sysctl -qw net.ipv4.conf.all.accept_redirects=0");
        lab::ip(&format!("-n {} route add 10.50.0.1 via {VIP}", lab.ns("c")));
        lab::ip(&format!("-n {} addr add 10.50.0.1/32 dev lo", lab.ns("d")));
        lab.start("a", Kind::Keepalived, &simple(150, ""));
        lab.start("b", Kind::Keepalived, &simple(100, ""));
        lab.master("a", VIP, 10);
        let pulse = pulse::Pulse::start(&lab.ns("c"), &lab.ns("d"), "10.50.0.1:80");
        let swap = |lab: &mut Lab, host: &str, other: &str, kind, priority| {
            lab.terminate(host);
            lab.ended(host);
            lab.wait("the other serves", Duration::from_secs(3), |lab| {
                lab.has(other, VIP)
            });
            lab.start(host, kind, &simple(priority, ""));
            pulse.beats(20);
        };
        swap(&mut lab, "b", "a", Kind::Sluice, 100);
        swap(&mut lab, "a", "b", Kind::Sluice, 150);
        lab.master("a", VIP, 5);
        swap(&mut lab, "b", "a", Kind::Keepalived, 100);
        swap(&mut lab, "a", "b", Kind::Keepalived, 150);
        lab.master("a", VIP, 5);
        pulse.beats(20);
        let (beats, longest) = pulse.end();
        eprintln!("one connection, {beats} echoes");
        longest
    });
}
