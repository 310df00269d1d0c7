use super::*;
use crate::config::{NoHost, parse};

const TWO: &str = "virtual_server 10.0.0.1 80 {\n lb_algo rr\n lb_kind DR\n protocol TCP\n OPTIONS\n \
    real_server 10.0.0.11 80 {\n weight 2\n TCP_CHECK {\n }\n }\n real_server 10.0.0.12 80 {\n weight 3\n TCP_CHECK {\n }\n }\n}\n";

fn pool(options: &str) -> Pool {
    let (config, d) = parse(&NoHost, "t", &TWO.replace("OPTIONS", options), "");
    assert!(d.is_empty(), "{d:?}");
    Pool::new(&config.virtual_servers[0], &config)
}

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// Servers and weights, as `11:2 12:3`.
fn check(pool: &mut Pool, expect: &str) {
    let got: Vec<String> = pool
        .service()
        .servers
        .iter()
        .map(|s| {
            format!(
                "{}:{}",
                s.ip.to_string().rsplit('.').next().unwrap(),
                s.weight
            )
        })
        .collect();
    assert_eq!(got.join(" "), expect);
}

#[test]
fn a_server_that_is_down_leaves() {
    let mut p = pool("");
    check(&mut p, "11:2 12:3");
    assert_eq!(p.set_up(ip(11), 80, false), [Event::ServerDown(ip(11), 80)]);
    check(&mut p, "12:3");
    assert_eq!(p.set_up(ip(11), 80, false), []);
    assert_eq!(p.set_up(ip(11), 80, true), [Event::ServerUp(ip(11), 80)]);
    check(&mut p, "11:2 12:3");
}

#[test]
fn checkers_change_weights() {
    let mut p = pool("");
    p.set_weight(ip(11), 80, Weight::Adds(5));
    p.set_weight(ip(12), 80, Weight::Is(9));
    check(&mut p, "11:7 12:9");
    p.set_weight(ip(11), 80, Weight::Adds(-5));
    check(&mut p, "11:0 12:9");
    p.member(ip(12), 80).unwrap().weight_by_command = true;
    p.set_weight(ip(12), 80, Weight::Is(1));
    check(&mut p, "11:0 12:9");
}

#[test]
fn inhibited_servers_stay_with_weight_0() {
    let mut p = pool("inhibit_on_failure");
    p.set_up(ip(12), 80, false);
    check(&mut p, "11:2 12:0");
}

#[test]
fn without_quorum_the_sorry_server_serves() {
    let mut p = pool("quorum 3\n sorry_server 10.0.0.99 80");
    let events = p.set_up(ip(12), 80, false);
    assert_eq!(events, [Event::ServerDown(ip(12), 80), Event::QuorumLost]);
    check(&mut p, "99:1");
    assert_eq!(
        p.set_up(ip(12), 80, true),
        [Event::ServerUp(ip(12), 80), Event::QuorumGained]
    );
    check(&mut p, "11:2 12:3");
}

#[test]
fn hysteresis_dampens() {
    let mut p = pool("quorum 4\n hysteresis 1");
    assert!(p.has_quorum());
    // 3 is not below 4 - 1.
    assert_eq!(p.set_up(ip(11), 80, false).len(), 1);
    assert!(p.has_quorum());
}

#[test]
fn the_last_table_is_kept() {
    let mut p = pool("");
    check(&mut p, "11:2 12:3");
    p.set_up(ip(11), 80, false);
    check(&mut p, "12:3");
    let events = p.set_up(ip(12), 80, false);
    assert!(events.contains(&Event::LastTableKept), "{events:?}");
    check(&mut p, "12:3");
}

#[test]
fn alpha_starts_down() {
    let mut p = pool("alpha");
    assert!(!p.has_quorum());
    assert_eq!(
        p.set_up(ip(11), 80, true),
        [Event::ServerUp(ip(11), 80), Event::QuorumGained]
    );
    check(&mut p, "11:2");
}

#[test]
fn a_reload_inherits_what_is_known() {
    let mut old = pool("");
    old.set_up(ip(11), 80, false);
    let m = old.member(ip(12), 80).unwrap();
    (m.weight, m.weight_by_command) = (7, true);
    let mut new = pool("");
    new.inherit(&old);
    check(&mut new, "12:7");
}

#[test]
fn a_group_has_all_its_addresses() {
    let text = "virtual_server_group G {\n 10.0.0.1-3 80\n 10.1.0.0/30 81\n}\nvirtual_server group G {\n lb_algo rr\n lb_kind NAT\n protocol TCP\n real_server 10.0.0.9 80 {\n }\n}\n";
    let (config, _) = parse(&NoHost, "t", text, "");
    assert_eq!(vips_of(&config.virtual_servers[0], &config).len(), 7);
    assert_eq!(name_of(&config.virtual_servers[0]), "TCP group G");
}
