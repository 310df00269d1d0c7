use super::*;

/// What the rules give each mark, as `1: 10.0.0.1 tcp 80, ...; 2: ...`, and how many are not understood.
fn check(read: fn(&mut Marks, &str), text: &str, expect: &str, doubts: usize) {
    let mut marks = Marks::default();
    read(&mut marks, text);
    let mut all: Vec<u32> = marks.targets.values().map(|(m, _)| *m).collect();
    all.sort();
    all.dedup();
    let of = |mark: &u32| {
        let shown = marks
            .targets(*mark)
            .into_iter()
            .map(|(ip, port, protocol)| {
                let name = protocol.name().to_lowercase();
                format!("{ip} {name} {port}")
            });
        format!("{mark}: {}", shown.collect::<Vec<_>>().join(", "))
    };
    let got: Vec<String> = all.iter().map(of).collect();
    assert_eq!(got.join("; "), expect, "{text}");
    assert_eq!(marks.doubts.len(), doubts, "{text}\n{:?}", marks.doubts);
}

fn iptables(text: &str, expect: &str, doubts: usize) {
    check(Marks::read_iptables, text, expect, doubts);
}

fn nftables(rules: &str, expect: &str, doubts: usize) {
    let text = format!(
        "table ip lvs {{\n\tset s {{\n\t\ttype ipv4_addr\n\t}}\n\tchain pre {{\n\t\ttype filter hook prerouting priority mangle; policy accept;\n\t\t{rules}\n\t}}\n\
         \tchain out {{\n\t\ttype route hook output priority mangle; policy accept;\n\t\tip daddr 10.0.0.9 tcp dport 80 meta mark set 0x00000009\n\t}}\n}}\n"
    );
    check(Marks::read_nftables, &text, expect, doubts);
}

#[test]
fn rules_of_the_guides_are_read() {
    // Red Hat's guide, the LVS HOWTO, keepalived's and ldirectord's manuals.
    iptables(
        "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 10.0.0.1/32 -p tcp -m multiport --dports 80,443 -j MARK --set-xmark 0x50/0xffffffff\nCOMMIT\n",
        "80: 10.0.0.1 tcp 80, 10.0.0.1 tcp 443",
        0,
    );
    iptables(
        "-A PREROUTING -d 10.0.0.1/32 -p tcp -m tcp --dport 21 -m comment --comment \"ftp -s x\" -j MARK --set-xmark 0x15/0xffffffff\n\
         -A PREROUTING -d 10.0.0.1/32 -p tcp -m tcp --dport 10000:10002 -j MARK --set-mark 21\n-A OUTPUT -d 10.0.0.1 -j MARK --set-mark 3\n",
        "21: 10.0.0.1 tcp 21, 10.0.0.1 tcp 10000, 10.0.0.1 tcp 10001, 10.0.0.1 tcp 10002",
        0,
    );
    iptables(
        "-A PREROUTING -d 10.0.0.0/31 -p udp -m udp --dport 53 -j MARK --set-mark 0x1\n-A PREROUTING -d fd00::1/128 -p tcp -m tcp --dport 80 -j MARK --set-mark 0x1\n",
        "1: 10.0.0.0 udp 53, 10.0.0.1 udp 53, fd00::1 tcp 80",
        0,
    );
    iptables(
        "-A PREROUTING -d 10.0.0.1/32 -j MARK --set-mark 4",
        "4: 10.0.0.1 tcp 0, 10.0.0.1 udp 0, 10.0.0.1 sctp 0",
        0,
    );
}

#[test]
fn nftables_own_rules_are_read() {
    nftables(
        "ip daddr 10.0.0.1 tcp dport { 80, 443 } meta mark set 0x00000001",
        "1: 10.0.0.1 tcp 80, 10.0.0.1 tcp 443",
        0,
    );
    nftables(
        "ip daddr 10.0.0.0/31 meta l4proto tcp tcp dport 80-81 counter packets 3 bytes 180 meta mark set 2 comment \"web saddr\"",
        "2: 10.0.0.0 tcp 80, 10.0.0.0 tcp 81, 10.0.0.1 tcp 80, 10.0.0.1 tcp 81",
        0,
    );
    nftables(
        "ip daddr { 10.0.0.1, 10.0.0.5-10.0.0.6 } udp dport 53 counter meta mark set 0x3 accept",
        "3: 10.0.0.1 udp 53, 10.0.0.5 udp 53, 10.0.0.6 udp 53",
        0,
    );
    nftables(
        "ip6 daddr fd00::1 meta l4proto { tcp, udp } th dport 53 meta mark set 0x4",
        "4: fd00::1 tcp 53, fd00::1 udp 53",
        0,
    );
    nftables(
        "ip daddr 10.0.0.1 ip protocol tcp meta mark set 0x5",
        "5: 10.0.0.1 tcp 0",
        0,
    );
}

#[test]
fn the_last_rule_counts_unless_one_before_is_final() {
    iptables(
        "-A PREROUTING -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j MARK --set-mark 1\n-A PREROUTING -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j MARK --set-mark 2",
        "2: 10.0.0.1 tcp 80",
        0,
    );
    iptables(
        "-A PREROUTING -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j MARK --set-mark 1\n-A PREROUTING -d 10.0.0.1/32 -p tcp -j MARK --set-mark 2",
        "2: 10.0.0.1 tcp 0",
        0,
    );
    iptables(
        "-A PREROUTING -d 10.0.0.1/32 -p tcp -j MARK --set-mark 2\n-A PREROUTING -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j MARK --set-mark 1",
        "1: 10.0.0.1 tcp 80; 2: 10.0.0.1 tcp 0",
        0,
    );
    nftables(
        "ip daddr 10.0.0.1 tcp dport 80 meta mark set 1 accept\n ip daddr 10.0.0.1 tcp dport 80-81 meta mark set 2",
        "1: 10.0.0.1 tcp 80; 2: 10.0.0.1 tcp 81",
        0,
    );
}

#[test]
fn what_asks_for_more_is_told_and_not_guessed_at() {
    for rule in [
        "-s 10.9.0.0/16 -d 10.0.0.1/32 -p tcp -j MARK --set-mark 1",
        "-i eth0 -d 10.0.0.1/32 -p tcp -j MARK --set-mark 1",
        "-p tcp -m tcp --dport 80 -j MARK --set-mark 1",
        "! -d 10.0.0.1/32 -p tcp -j MARK --set-mark 1",
        "-d 10.0.0.1/32 -p tcp -j MARK --set-xmark 0x1/0xff",
        "-d 10.0.0.1/32 -p tcp -j MARK --or-mark 0x1",
        "-d 10.0.0.0/8 -p tcp -j MARK --set-mark 1",
        "-d 10.0.0.1/32 -m tcp --dport 80 -j MARK --set-mark 1",
        "-d 10.0.0.1/32 -p icmp -j MARK --set-mark 1",
        "-d 10.0.0.1/32 -p tcp -m tcp --dport http -j MARK --set-mark 1",
    ] {
        iptables(&format!("-A PREROUTING {rule}"), "", 1);
    }
    for rule in [
        "ip saddr 10.9.0.1 ip daddr 10.0.0.1 tcp dport 80 meta mark set 1",
        "iifname \"eth0\" ip daddr 10.0.0.1 tcp dport 80 meta mark set 1",
        "ip daddr @vips tcp dport 80 meta mark set 1",
        "ip daddr != 10.0.0.1 tcp dport 80 meta mark set 1",
        "meta mark set ct mark",
        "ip daddr 10.0.0.1 tcp dport vmap { 80 : jump web } meta mark set 1",
    ] {
        nftables(rule, "", 1);
    }
    // Rules that set no mark are none of ours.
    iptables("-A PREROUTING -i eth0 -j CONNMARK --restore-mark", "", 0);
    nftables("ct state established accept", "", 0);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\n{}]{0,200}", rule in "(ip daddr|tcp dport|meta mark set|meta l4proto|counter|[{}0-9,.:/ -]{1,9}| ){0,12}") {
        for text in [text.clone(), format!("-A PREROUTING {text}"), format!("chain c {{\ntype filter hook prerouting priority 0;\n{rule}\n}}")] {
            let mut marks = Marks::default();
            marks.read_iptables(&text);
            marks.read_nftables(&text);
        }
    }
}
