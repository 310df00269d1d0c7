//! Twins that do not understand each other, or do not hear each other: what they tell differs, the network parts, a process stands
//! still.

use super::*;

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
fn adverts_that_were_routed_are_not_believed() {
    if lab::is_missing(&["python3"]) {
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
