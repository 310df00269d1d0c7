use super::super::parse;
use super::*;
use serde_json::json;

/// Everything that listings show, two addresses of one virtual server among it.
fn show() -> Value {
    let server = |address: &str, port: u16, forwarding: &str, weight: u32, up: bool| {
        json!({
            "address": address, "port": port, "forwarding": forwarding, "weight": weight, "up": up, "conns_max": weight * 10, "conns_min": weight,
            "active": 3, "inactive": 12, "connections": 67, "packets": 64391, "bytes": 96_584_528,
        })
    };
    json!({
        "flows_max": 4096, "timeouts_s": [900, 120, 300], "persistent": {"a 10.0.0.12:80": 7},
        "virtual_servers": [
            {"name": "c", "protocol": "UDP", "addresses": ["10.1.0.7:53"], "scheduler": "wlc", "one_packet": true, "servers": []},
            {"name": "b", "protocol": "TCP", "addresses": ["[fd00::1]:80"], "scheduler": "wlc", "persistence_s": 50, "persistence_prefix": 64,
             "servers": [server("fd00::11", 80, "Route", 1, true)]},
            {"name": "a", "protocol": "TCP", "addresses": ["10.1.0.4:80", "10.1.0.3:81"], "scheduler": "sh", "flags": ["sh-fallback", "sh-port"],
             "persistence_s": 60, "persistence_prefix": 24, "connections": 7, "packets": 125_173, "bytes": 187_757_528,
             "servers": [server("10.0.0.13", 80, "Tunnel", 2, true), server("10.0.0.12", 80, "Masq", 1, true), server("10.0.0.11", 80, "Route", 1, false)]},
        ],
    })
}

const NUMERIC: Style = Style {
    view: View::Plain,
    numeric: true,
    exact: false,
    unsorted: false,
};

fn listed(style: Style) -> String {
    let show = show();
    all(&services(&show, None, style), style, size(&show))
}

// The columns are those of ipvsadm 1.31 beside a kernel's IPVS.

#[test]
fn what_is_listed_is_sorted_and_in_ipvsadm_s_columns() {
    let expect = "\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.1.0.3:81 sh (sh-fallback,sh-port) persistent 60 mask 255.255.255.0
  -> 10.0.0.12:80                 Masq    1      3          12        \n  -> 10.0.0.13:80                 Tunnel  2      3          12        
TCP  10.1.0.4:80 sh (sh-fallback,sh-port) persistent 60 mask 255.255.255.0
  -> 10.0.0.12:80                 Masq    1      3          12        \n  -> 10.0.0.13:80                 Tunnel  2      3          12        
UDP  10.1.0.7:53 wlc ops
TCP  [fd00::1]:80 wlc persistent 50 mask 64
  -> [fd00::11]:80                Route   1      3          12        \n";
    assert_eq!(listed(NUMERIC), expect);
    let unsorted = listed(Style {
        unsorted: true,
        ..NUMERIC
    });
    let place = |what: &str| unsorted.find(what).unwrap();
    assert!(place("10.1.0.7:53") < place("[fd00::1]:80"));
    assert!(place("-> 10.0.0.12:80") < place("-> 10.0.0.13:80"));
}

#[test]
fn every_view_has_its_columns() {
    for (view, head, service, server) in [
        (
            View::Stats,
            "Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes\n  -> RemoteAddress:Port\n",
            "TCP  10.1.0.4:80                         7   125173        0  187757K        0\n",
            "  -> 10.0.0.12:80                       67    64391        0 96584528        0\n",
        ),
        (
            View::Thresholds,
            "Prot LocalAddress:Port            Uthreshold Lthreshold ActiveConn InActConn \n  -> RemoteAddress:Port\n",
            "TCP  10.1.0.4:80 sh (sh-fallback,sh-port) persistent 60 mask 255.255.255.0\n",
            "  -> 10.0.0.12:80                 10         1          3          12        \n",
        ),
        (
            View::PersistentConnections,
            "Prot LocalAddress:Port            Weight    PersistConn ActiveConn InActConn \n  -> RemoteAddress:Port\n",
            "UDP  10.1.0.7:53 wlc ops\n",
            "  -> 10.0.0.12:80                 1         7           3          12        \n",
        ),
        (
            View::TunnelInfo,
            "  -> RemoteAddress:Port           Forward TunnelInfo    Weight ActiveConn InActConn\n",
            "UDP  10.1.0.7:53 wlc ops\n",
            "  -> 10.0.0.13:80                 Tunnel  ipip          2      3          12        \n",
        ),
    ] {
        let text = listed(Style { view, ..NUMERIC });
        for part in [head, service, server] {
            assert!(text.contains(part), "{view:?}: {part}\n{text}");
        }
    }
    let exact = Style {
        view: View::Stats,
        exact: true,
        ..NUMERIC
    };
    assert!(listed(exact).contains("        7   125173        0 187757528        0\n"));
    assert_eq!(timeouts(&show()), "Timeout (tcp tcpfin udp): 900 120 300\n");
}

#[test]
fn numbers_grow_by_thousands() {
    for (n, expect) in [
        (0, "        0"),
        (99_999_999, " 99999999"),
        (100_000_000, "  100000K"),
        (99_999_999_999, "99999999K"),
        (100_000_000_000, "  100000M"),
        (100_000_000_000_000, "  100000G"),
        (100_000_000_000_000_000, "  100000T"),
    ] {
        assert_eq!(large(n, false), expect);
    }
}

#[test]
fn a_rate_is_what_came_in_between() {
    let style = Style {
        view: View::Rate,
        ..NUMERIC
    };
    let (before, mut now) = (show(), show());
    now["virtual_servers"][2]["packets"] = json!(125_200);
    // Its counts were zeroed.
    now["virtual_servers"][2]["servers"][1]["bytes"] = json!(500);
    let text = all(&services(&now, Some(&before), style), style, 1);
    for part in [
        "                 CPS    InPPS   OutPPS    InBPS   OutBPS\n",
        "TCP  10.1.0.4:80                         0       27        0        0        0\n",
        "  -> 10.0.0.12:80                        0        0        0      500        0\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn one_is_listed_without_the_version_and_what_is_not_there_not_at_all() {
    let show = show();
    let services = services(&show, None, NUMERIC);
    let text = one(&services, NUMERIC, "udp 10.1.0.7:53").unwrap();
    assert!(text.starts_with("Prot ") && text.ends_with("InActConn\nUDP  10.1.0.7:53 wlc ops\n"));
    assert_eq!(one(&services, NUMERIC, "tcp 10.1.0.7:53"), None);
}

#[test]
fn what_is_saved_can_be_read_back() {
    let show = show();
    let saved = save(&services(&show, None, NUMERIC));
    let expect = "\
-A -t 10.1.0.3:81 -s sh -p 60 -M 255.255.255.0 -b sh-fallback,sh-port
-a -t 10.1.0.3:81 -r 10.0.0.12:80 -m -w 1
-a -t 10.1.0.3:81 -r 10.0.0.13:80 -i -w 2 --tun-type ipip
-A -t 10.1.0.4:80 -s sh -p 60 -M 255.255.255.0 -b sh-fallback,sh-port
-a -t 10.1.0.4:80 -r 10.0.0.12:80 -m -w 1
-a -t 10.1.0.4:80 -r 10.0.0.13:80 -i -w 2 --tun-type ipip
-A -u 10.1.0.7:53 -s wlc -o
-A -t [fd00::1]:80 -s wlc -p 50 -M 64
-a -t [fd00::1]:80 -r [fd00::11]:80 -g -w 1
";
    assert_eq!(saved, expect);
    for line in saved.lines() {
        let args: Vec<String> = line.split(' ').map(String::from).collect();
        assert!(parse(&args).is_ok(), "{line}");
    }
}

#[test]
fn marks_come_last() {
    let mut show = show();
    let mark = |mark: u32, address: &str| {
        json!({"name": format!("FWM {mark}"), "fwmark": mark, "protocol": null, "addresses": ["10.1.0.1:80"], "scheduler": "rr",
        "servers": [{"address": address, "port": 0, "forwarding": "Route", "weight": 1, "up": true, "active": 0, "inactive": 0}]})
    };
    let all_servers = show["virtual_servers"].as_array_mut().unwrap();
    all_servers.insert(0, mark(7, "10.0.0.3"));
    all_servers.insert(0, mark(5, "fd00::4"));
    let services = services(&show, None, NUMERIC);
    let text = all(&services, NUMERIC, 1);
    assert!(text.ends_with(
        "FWM  5 IPv6 rr\n  -> [fd00::4]:0                  Route   1      0          0         \n\
         FWM  7 rr\n  -> 10.0.0.3:0                   Route   1      0          0         \n"
    ), "{text}");
    assert!(save(&services).ends_with(
        "-A -f 5 -6 -s rr\n-a -f 5 -6 -r [fd00::4]:0 -g -w 1\n-A -f 7 -s rr\n-a -f 7 -r 10.0.0.3:0 -g -w 1\n"
    ));
    assert!(one(&services, NUMERIC, "fwm 7").is_some_and(|t| t.contains("FWM  7 rr")));
}

#[test]
fn connections_are_a_line_each() {
    let flows = json!([{"protocol": 17, "expires_s": 291, "state": "UDP", "client": "10.1.0.1:46476", "virtual": "10.1.0.1:9", "server": "127.0.0.1:9"}]);
    assert_eq!(
        connections(&flows, NUMERIC),
        "IPVS connection entries\npro expire state       source             virtual            destination\n\
         UDP 04:51  UDP         10.1.0.1:46476     10.1.0.1:9         127.0.0.1:9\n"
    );
}
