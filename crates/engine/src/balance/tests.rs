//! What HAProxy 2.6 answered on loopback to the same configuration and the same requests, and properties that hold for
//! any servers. A digit is a server, by its place in the configuration.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use sluice_config::model::HashType;

use super::Ask;
use super::hash;
use crate::state::{ProxyState, WEIGHT_SCALE, admin};
use crate::testing::backend;

/// (lines, server settings, the server of `/u/0`, `/u/1`, ...)
#[rustfmt::skip]
const BY_URI: &[(&str, &[&str], &str)] = &[
    ("hash-type consistent", &["weight 1", "weight 2", "weight 3"],
        "010222121221221122121012002212001201220210020110110200212021"),
    ("hash-type map-based sdbm", &["weight 1", "weight 2", "weight 3"],
        "212021212012021212022021212021021212021221212021211212021212"),
    ("hash-type consistent sdbm", &["weight 1", "weight 2", "weight 3"],
        "111111111122222222222222222222222222222222222222222222222222"),
    ("hash-type map-based djb2", &["weight 1", "weight 2", "weight 3"],
        "121202121220212120211212021212202121202112120212122021212021"),
    ("hash-type consistent djb2", &["weight 1", "weight 2", "weight 3"],
        "222222222222222222222222222222222222222222222222222222222222"),
    ("hash-type map-based wt6", &["weight 1", "weight 2", "weight 3"],
        "101111100122222222112222222210222222220122222222112222222201"),
    ("hash-type consistent wt6", &["weight 1", "weight 2", "weight 3"],
        "000022022020221111202222101122222210112222202121222120212121"),
    ("hash-type map-based crc32", &["weight 1", "weight 2", "weight 3"],
        "001122220122221001221111222211222211102211012222102222111022"),
    ("hash-type consistent crc32", &["weight 1", "weight 2", "weight 3"],
        "212021221121122121202212021202021200120122120221122111201202"),
    ("hash-type map-based sdbm avalanche", &["weight 1", "weight 2", "weight 3"],
        "121102112011211222221222222111112100122222221220102220112101"),
    ("hash-type consistent sdbm avalanche", &["weight 1", "weight 2", "weight 3"],
        "010222121221221122121012002212001201220210020110110200212021"),
    ("hash-type map-based djb2 avalanche", &["weight 1", "weight 2", "weight 3"],
        "220110211220221120202221120112212121220202220211212222012112"),
    ("hash-type consistent djb2 avalanche", &["weight 1", "weight 2", "weight 3"],
        "210121021120021202012221222212102211111000022111222121011221"),
    ("hash-type consistent", &["", "", ""],
        "01002202122122221212201200220200120100021002001011020021201101100201221011020222011221110202021020101100222111220121100001002222001002210210022200220121122102120012122000201012020002101010011101002011"),
    ("hash-type consistent", &["backup", "backup", "backup"],
        "0000000000"),
    ("hash-type consistent\noption allbackups", &["backup", "backup", "backup"],
        "010022021221222212122012002202"),
    ("option allbackups", &["backup weight 2", "backup weight 4", "backup weight 6"],
        "212021212012021212022021212021"),
    ("hash-type consistent", &["id 70", "id 5", "id 9 weight 0", "id 11"],
        "300100130000133300003330331111303310013333303113031333010303"),
    ("hash-type consistent\nhash-balance-factor 110", &["", "", ""],
        "010022021221222212122012002202"),
];

/// (lines, server settings, the servers of requests one after the other)
#[rustfmt::skip]
const IN_TURN: &[(&str, &[&str], &str)] = &[
    ("balance roundrobin", &["weight 1", "weight 1", "weight 1"],
        "01201201201201201201201201201201201201201201201201201201201201201201201201201201"),
    ("balance static-rr", &["weight 1", "weight 1", "weight 1"],
        "01201201201201201201201201201201201201201201201201201201201201201201201201201201"),
    ("balance roundrobin", &["weight 1", "weight 2", "weight 3"],
        "21202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121"),
    ("balance static-rr", &["weight 1", "weight 2", "weight 3"],
        "02121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202121202"),
    ("balance roundrobin", &["weight 3", "weight 2", "weight 1"],
        "01020101020101020101020101020101020101020101020101020101020101020101020101020101"),
    ("balance static-rr", &["weight 3", "weight 2", "weight 1"],
        "00101200101200101200101200101200101200101200101200101200101200101200101200101200"),
    ("balance roundrobin", &["weight 5", "weight 1"],
        "00000100000100000100000100000100000100000100000100000100000100000100000100000100"),
    ("balance static-rr", &["weight 5", "weight 1"],
        "00000100000100000100000100000100000100000100000100000100000100000100000100000100"),
    ("balance roundrobin", &["weight 10", "weight 20", "weight 30"],
        "21202121202121202121202121202121202121202121202121202121202121202121202121202121"),
    ("balance static-rr", &["weight 10", "weight 20", "weight 30"],
        "02121202121202121202121202121202121202121202121202121202121202121202121202121202"),
    ("balance roundrobin", &["weight 1", "weight 0", "weight 1"],
        "02020202020202020202020202020202020202020202020202020202020202020202020202020202"),
    ("balance static-rr", &["weight 1", "weight 0", "weight 1"],
        "02020202020202020202020202020202020202020202020202020202020202020202020202020202"),
    ("balance roundrobin", &["weight 7", "weight 3", "weight 5", "weight 2"],
        "02012030210200123020120302102001230201203021020012302012030210200123020120302102"),
    ("balance static-rr", &["weight 7", "weight 3", "weight 5", "weight 2"],
        "01020120302102023010201203021020230102012030210202301020120302102023010201203021"),
    ("balance roundrobin", &["weight 100", "weight 1"],
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000"),
    ("balance static-rr", &["weight 100", "weight 1"],
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000"),
    ("balance roundrobin", &["weight 256", "weight 255"],
        "00101010101010101010101010101010101010101010101010101010101010101010101010101010"),
    ("balance static-rr", &["weight 256", "weight 255"],
        "00101010101010101010101010101010101010101010101010101010101010101010101010101010"),
    ("balance roundrobin", &["weight 2", "weight 2", "weight 1", "weight 1"],
        "01201301201301201301201301201301201301201301201301201301201301201301201301201301"),
    ("balance static-rr", &["weight 2", "weight 2", "weight 1", "weight 1"],
        "01012301012301012301012301012301012301012301012301012301012301012301012301012301"),
    ("balance roundrobin", &["weight 3", "weight 3", "weight 2"],
        "01012010210120102101201021012010210120102101201021012010210120102101201021012010"),
    ("balance static-rr", &["weight 3", "weight 3", "weight 2"],
        "01021012010210120102101201021012010210120102101201021012010210120102101201021012"),
    ("balance hdr(X)\nhash-type consistent", &["weight 1", "weight 2", "weight 3"],
        "222222222221020201200201122202212220121222021211021121212120"),
    ("balance hdr(X)", &["weight 1", "weight 2", "weight 3"],
        "02121202121202121202"),
    ("balance leastconn", &["weight 1", "weight 2", "weight 3"],
        "01201201201201201201"),
    ("balance first", &["id 9", "id 3", "id 5"],
        "1111"),
    ("balance roundrobin", &["backup", "backup"],
        "0000"),
    ("balance roundrobin\noption allbackups", &["backup", "backup weight 2", "disabled"],
        "11011011"),
];

fn state(lines: &str, servers: &[&str]) -> std::sync::Arc<ProxyState> {
    let mut text = lines.to_owned();
    for (i, settings) in servers.iter().enumerate() {
        text.push_str(&format!("\nserver s{i} 192.0.2.{i}:80 {settings}"));
    }
    backend(&text).proxies[0].clone()
}

fn hash_type(lines: &str) -> HashType {
    backend(lines).model.proxies[0].hash_type
}

fn choose(p: &ProxyState, ask: Ask) -> Option<u32> {
    p.balancer.choose(&p.servers, &ask)
}

fn in_digits(chosen: impl Iterator<Item = Option<u32>>) -> String {
    chosen
        .map(|c| c.map_or("!".into(), |i| i.to_string()))
        .collect()
}

#[test]
fn hashes_as_haproxy() {
    for (lines, servers, expect) in BY_URI {
        let p = state(&format!("balance uri\n{lines}"), servers);
        let kind = hash_type(lines);
        let got = (0..expect.len()).map(|n| {
            let key = format!("/u/{n}");
            let hash = Some(hash::of_bytes(key.as_bytes(), kind));
            choose(
                &p,
                Ask {
                    hash,
                    ..Ask::default()
                },
            )
        });
        assert_eq!(in_digits(got), *expect, "{lines} {servers:?}");
    }
}

#[test]
fn takes_turns_as_haproxy() {
    for (lines, servers, expect) in IN_TURN {
        let p = state(lines, servers);
        let got = (0..expect.len()).map(|_| choose(&p, Ask::default()));
        assert_eq!(in_digits(got), *expect, "{lines} {servers:?}");
    }
}

#[test]
fn no_function_takes_the_number_the_key_begins_with() {
    let kind = hash_type("hash-type map-based none");
    for (key, expect) in [
        ("0", 0),
        ("12a", 12),
        ("abc", 0),
        ("-1", u32::MAX),
        ("4294967297", 1),
        ("", 0),
    ] {
        assert_eq!(hash::of_bytes(key.as_bytes(), kind), expect, "{key}");
    }
}

#[test]
fn full_servers_do_not_double_their_neighbour() {
    let p = state("balance roundrobin", &["maxconn 1", "", "", ""]);
    p.servers[0].served.store(1, Relaxed);
    let got = (0..9).map(|_| choose(&p, Ask::default()));
    assert_eq!(in_digits(got), "123123123");
}

#[test]
fn the_failed_server_is_the_last_resort() {
    for lines in [
        "balance roundrobin",
        "balance static-rr",
        "balance leastconn",
        "balance first",
        "balance random",
        "balance hdr(X)\nhash-type consistent",
    ] {
        let ask = |hash| Ask {
            avoid: Some(0),
            hash,
            random: 7,
            ..Ask::default()
        };
        let p = state(lines, &["", ""]);
        assert_eq!(choose(&p, ask(None)), Some(1), "{lines}");
        let p = state(lines, &[""]);
        assert_eq!(choose(&p, ask(None)), Some(0), "{lines}");
    }
    let p = state("balance uri\nhash-type consistent", &["", ""]);
    for h in 0..100u32 {
        let hash = Some(hash::avalanche(h));
        let ask = Ask {
            hash,
            avoid: Some(0),
            ..Ask::default()
        };
        assert_eq!(choose(&p, ask), Some(1));
    }
}

#[test]
fn first_fills_before_it_goes_on_and_waits_when_all_are_full() {
    let p = state("balance first", &["maxconn 2", "maxconn 1"]);
    let got = (0..5).map(|_| {
        let i = choose(&p, Ask::default())?;
        p.servers[i as usize].served.fetch_add(1, Relaxed);
        Some(i)
    });
    assert_eq!(in_digits(got), "001!!");
}

#[test]
fn a_backup_is_not_used_beside_an_active_server() {
    let p = state("balance roundrobin", &["", "backup", "backup"]);
    assert_eq!((p.usable_servers(), p.balancer.uses(1)), (1, false));
    p.servers[0].change_admin(admin::FORCED_MAINT, 0);
    p.state_changed();
    assert_eq!((p.usable_servers(), p.balancer.uses(1)), (1, true));
    assert!(!p.balancer.uses(2));
}

#[test]
fn the_same_addresses_hash_alike_in_any_order_with_hash_key_addr() {
    let p = |order: [u8; 3]| {
        let line = |i: u8| format!("server s{i} 192.0.2.{i}:80 hash-key addr\n");
        let text: String = order.into_iter().map(line).collect();
        backend(&format!("balance uri\nhash-type consistent\n{text}")).proxies[0].clone()
    };
    let (a, b) = (p([0, 1, 2]), p([2, 0, 1]));
    let name = |p: &ProxyState, hash| {
        let i = choose(
            p,
            Ask {
                hash: Some(hash),
                ..Ask::default()
            },
        );
        i.map(|i| p.servers[i as usize].name.clone())
    };
    for h in (0..200).map(hash::avalanche) {
        assert_eq!(name(&a, h), name(&b, h));
    }
}

#[test]
fn no_server_gets_more_than_its_factor_of_the_load() {
    let p = state(
        "balance uri\nhash-type consistent\nhash-balance-factor 150",
        &["", "", ""],
    );
    for n in 1..=60u32 {
        // one popular key: its server would get everything
        let ask = Ask {
            hash: Some(12345),
            ..Ask::default()
        };
        let i = choose(&p, ask).expect("a server");
        let served = p.servers[i as usize].served.fetch_add(1, Relaxed) + 1;
        assert!(served <= (n * 150).div_ceil(100).div_ceil(3).max(1), "{n}");
    }
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(prop_oneof![0..6u32, 0..257u32], 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_server_gets_its_share(w in weights(), algorithm in prop_oneof!["roundrobin", "static-rr"]) {
        let settings: Vec<String> = w.iter().map(|w| format!("weight {w}")).collect();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let p = state(&format!("balance {algorithm}"), &settings);
        let total: u32 = w.iter().sum();
        let mut got = vec![0u32; w.len()];
        // several rounds: the share is exact over whole rounds
        for _ in 0..total * WEIGHT_SCALE {
            let Some(i) = choose(&p, Ask::default()) else { break };
            got[i as usize] += 1;
        }
        for (i, &w) in w.iter().enumerate() {
            let off = got[i].abs_diff(w * WEIGHT_SCALE);
            prop_assert!(w > 0 || got[i] == 0);
            // one part in fifty for rounds that were shortened
            prop_assert!(off <= 16 + w * WEIGHT_SCALE / 50, "server {i} weight {w}: {got:?}");
        }
    }

    #[test]
    fn random_follows_the_weights(seed: u64) {
        let p = state("balance random(1)", &["weight 10", "weight 30", "weight 0"]);
        let mut got = [0u32; 3];
        for n in 0..4000u64 {
            let ask = Ask { random: seed.wrapping_add(n.wrapping_mul(0x1234_5678_9abc_def1)), ..Ask::default() };
            got[choose(&p, ask).expect("a server") as usize] += 1;
        }
        prop_assert!(got[0].abs_diff(1000) < 200 && got[2] == 0, "{got:?}");
    }

    #[test]
    fn a_server_that_leaves_the_ring_moves_only_its_keys(w in weights(), gone: prop::sample::Index) {
        let settings: Vec<String> = w.iter().map(|w| format!("weight {w}")).collect();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let p = state("balance uri\nhash-type consistent", &settings);
        let of = |h| choose(&p, Ask { hash: Some(hash::avalanche(h)), ..Ask::default() });
        let before: Vec<_> = (0..300).map(of).collect();
        let gone = gone.index(w.len());
        p.servers[gone].change_admin(admin::FORCED_DRAIN, 0);
        p.state_changed();
        for (h, was) in (0..300).zip(before) {
            let now = of(h);
            if was != Some(gone as u32) {
                prop_assert_eq!(was, now);
            } else {
                prop_assert_ne!(was, now);
            }
        }
    }
}
