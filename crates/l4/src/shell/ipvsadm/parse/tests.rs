use super::*;

fn read(line: &str) -> Result<Verb, Refused> {
    let args: Vec<String> = line.split_whitespace().map(String::from).collect();
    parse(&args)
}

fn check(line: &str, expect: Request) {
    assert_eq!(read(line), Ok(Verb::Change(expect)), "{line}");
}

#[test]
fn fingers_are_understood() {
    let numeric = Style {
        numeric: true,
        ..Style::default()
    };
    let view = |view, style| Verb::List {
        service: None,
        style: Style { view, ..style },
    };
    let list = |service: Option<&str>| Verb::List {
        service: service.map(String::from),
        style: numeric,
    };
    for (line, expect) in [
        ("", view(View::Plain, Style::default())),
        ("-L", view(View::Plain, Style::default())),
        ("-L -n", list(None)),
        ("-ln", list(None)),
        ("-L -n -t 10.0.0.1:80", list(Some("tcp 10.0.0.1:80"))),
        ("-L -n --stats --rate", view(View::Stats, numeric)),
        ("-ln --rate", view(View::Rate, numeric)),
        (
            "-L --persistent-conn",
            view(View::PersistentConnections, Style::default()),
        ),
        ("-L -n --tun-info --sort", view(View::TunnelInfo, numeric)),
        ("-L --timeout", Verb::Timeouts),
        ("-L --daemon", Verb::Daemons),
        ("--version", Verb::Version),
        ("-h", Verb::Help),
        (
            "--set 900 0 30",
            Verb::Change(Request::Timeouts {
                tcp_s: 900,
                tcp_fin_s: 0,
                udp_s: 30,
            }),
        ),
        ("-Lnc", Verb::Connections(numeric)),
        ("-L -c -n", Verb::Connections(numeric)),
        (
            "--list --thresholds",
            view(View::Thresholds, Style::default()),
        ),
        ("-S -n", Verb::Save(numeric)),
        ("-R", Verb::Restore),
        ("-C", Verb::Change(Request::Clear)),
        (
            "-Z",
            Verb::Change(Request::Zero {
                virtual_server: None,
            }),
        ),
    ] {
        assert_eq!(read(line), Ok(expect), "{line}");
    }
}

#[test]
fn services_have_ipvsadm_s_defaults() {
    let terms = ServiceTerms {
        scheduler: "wlc".into(),
        ..ServiceTerms::default()
    };
    check(
        "-A -t 10.0.0.1:80",
        Request::AddService {
            virtual_server: "tcp 10.0.0.1:80".into(),
            terms: terms.clone(),
        },
    );
    check(
        "-E -u [fd00::1]:53 -p -M 64 -s sh -b sh-port,sh-fallback -o",
        Request::EditService {
            virtual_server: "udp [fd00::1]:53".into(),
            terms: ServiceTerms {
                scheduler: "sh".into(),
                persistence_s: Some(360),
                persistence_prefix: Some(64),
                hash_port: true,
                hash_fallback: true,
                one_packet: true,
            },
        },
    );
    check(
        "--add-service --tcp-service=10.0.0.1:80 -p60 -M 255.255.255.0",
        Request::AddService {
            virtual_server: "tcp 10.0.0.1:80".into(),
            terms: ServiceTerms {
                persistence_s: Some(60),
                persistence_prefix: Some(24),
                ..terms
            },
        },
    );
}

#[test]
fn a_mark_needs_no_port() {
    let terms = ServiceTerms {
        scheduler: "rr".into(),
        ..ServiceTerms::default()
    };
    check(
        "-A -f 7 -s rr",
        Request::AddService {
            virtual_server: "fwm 7".into(),
            terms,
        },
    );
    check(
        "-a -f 7 -6 -r fd00::3",
        Request::Add {
            virtual_server: "fwm 7".into(),
            ip: "fd00::3".parse().unwrap(),
            port: 0,
            weight: 1,
            forwarding: Some("DR".into()),
            conns_max: 0,
            conns_min: 0,
        },
    );
}

#[test]
fn servers_have_ipvsadm_s_defaults() {
    let (virtual_server, ip) = ("tcp 10.0.0.1:80".to_string(), "10.0.0.2".parse().unwrap());
    let add = |port, weight, forwarding: &str, conns_max| Request::Add {
        virtual_server: virtual_server.clone(),
        ip,
        port,
        weight,
        forwarding: Some(forwarding.into()),
        conns_max,
        conns_min: 0,
    };
    let service = "-a -t 10.0.0.1:80";
    check(&format!("{service} -r 10.0.0.2"), add(80, 1, "DR", 0));
    // Nothing is rewritten: the port is the service's.
    check(
        &format!("{service} -r 10.0.0.2:81 -g -w 3"),
        add(80, 3, "DR", 0),
    );
    check(
        &format!("{service} -r 10.0.0.2:81 -m -x 10 -y 0"),
        add(81, 1, "NAT", 10),
    );
    check(
        "-e -t 10.0.0.1:80 -r 10.0.0.2:80 -i -w0",
        Request::EditServer {
            virtual_server: virtual_server.clone(),
            ip,
            port: 80,
            weight: 0,
            forwarding: Some("TUN".into()),
            conns_max: 0,
            conns_min: 0,
        },
    );
    check(
        "-d -t 10.0.0.1:80 -r 10.0.0.2:80",
        Request::Delete {
            virtual_server: virtual_server.clone(),
            ip,
            port: 80,
        },
    );
}

/// The words and statuses were read off ipvsadm 1.31 beside a kernel's IPVS.
#[test]
fn what_is_wrong_is_refused_with_ipvsadm_s_words() {
    let help = "Try `ipvsadm -h' or 'ipvsadm --help' for more information.";
    for (line, words, status) in [
        (
            "-A",
            "You need to supply the 'service-address' option for the 'add-service' command",
            2,
        ),
        (
            "-a -t 10.0.0.1:80",
            "You need to supply the 'real-server' option for the 'add-server' command",
            2,
        ),
        (
            "-A -t nonsense:80",
            "illegal virtual server address[:port] specified",
            2,
        ),
        (
            "-A -t 10.1.0.2",
            "Zero port specified for non-persistent service",
            2,
        ),
        (
            "-A -t 10.1.0.5:80 -p 0",
            "invalid timeout value `0' specified",
            2,
        ),
        (
            "-A -t 10.1.0.6:80 -b sh-port",
            "incompatible scheduler flag `sh-port'",
            2,
        ),
        (
            "-A -t 10.1.0.6:80 -r 10.0.0.2:80",
            "Illegal 'real-server' option with the 'add-service' command",
            2,
        ),
        ("-A -D -t 10.1.0.6:80", "invalid option `-D'", 2),
        (
            "-A -t 10.1.0.6:80 -u 10.1.0.6:80",
            "multiple 'service-address' options specified",
            2,
        ),
        (
            "-a -t 10.1.0.1:80 -r 10.0.0.2 -g -m",
            "multiple 'forwarding-method' options specified",
            2,
        ),
        (
            "-a -t 10.1.0.1:80 -r 10.0.0.2 -s rr",
            "Illegal 'scheduler' option with the 'add-server' command",
            2,
        ),
        (
            "-A -t 10.1.0.7:80 -o",
            "One-Packet Scheduling is only for UDP virtual services",
            2,
        ),
        (
            "-a -t 10.1.0.1:80 -r 10.0.0.6:80 -x x",
            "illegal u_threshold specified",
            2,
        ),
        (
            "-a -t 10.1.0.1:80 -r 10.0.0.6:80 -w 65536",
            "illegal weight specified",
            2,
        ),
        (
            "-a -t 10.1.0.1:80 -r [fd00::2]:80",
            "Different address family is allowed only for tunneling servers",
            2,
        ),
        (
            "-C -t 10.1.0.1:80",
            "Illegal 'service-address' option with the 'flush' command",
            2,
        ),
        ("-w 3", help, 255),
        ("-X", "-X: unknown option", 255),
        ("-L --foo", "--foo: unknown option", 255),
        (
            "-a -t 10.0.0.1:80 -r 10.0.0.2 -w",
            "-w: missing argument",
            255,
        ),
        (
            "-A -t [fd00::7] -p 3",
            "illegal virtual server address[:port] specified",
            2,
        ),
        (
            "-A -t 10.1.0.2:nosuch -p",
            "illegal virtual server address[:port] specified",
            2,
        ),
        ("-A 10.1.0.1:80", "unexpected argument 10.1.0.1:80", 2),
        ("-L -6", "-6 used before -f\n", 2),
        ("-L -h", "invalid option `-h'", 2),
        ("--set 1", "--set option requires 3 timeout values", 2),
        ("--set a b c", "invalid timeout value `a' specified", 2),
        ("--set 1 2 3 4", "unexpected argument 4", 2),
        (
            "--set 1 2 3 -n",
            "Illegal 'numeric' option with the 'set' command",
            2,
        ),
        (
            "-S -n -x 3",
            "Illegal 'u-threshold' option with the 'save' command",
            2,
        ),
        (
            "-A -t 10.1.0.1:80 --pe sip",
            "Scheduler or persistence engine not found",
            255,
        ),
        (
            "-a -t 10.1.0.1:80 -r 10.0.0.2 -g --tun-type ipip",
            "Tunnel options conflict with forward method",
            2,
        ),
        (
            "-a -t 10.1.0.1:80 -r 10.0.0.2 -i --tun-type bogus",
            "illegal tunnel type specified",
            2,
        ),
        (
            "-L -t 10.1.0.1:80 -c",
            "The option 'service-address' conflicts with the 'connection' option in the 'list' command",
            2,
        ),
        (
            "-L --daemon --timeout",
            "The option 'daemon' conflicts with the 'timeout' option in the 'list' command",
            2,
        ),
        ("-L -c --stats", "options conflicts in the list command", 2),
        ("-r 10.0.0.2:80 -e -t 10.1.0.1:80 -w 0", help, 255),
    ] {
        let expect = Refused {
            words: words.into(),
            status,
        };
        assert_eq!(read(line), Err(expect), "{line}");
    }
    for line in [
        "-A -f 0",
        "-A -f 5x",
        "-A -f 5 -t 10.0.0.1:80",
        "-a -t 10.0.0.1:80 -r 10.0.0.2 -i --tun-type gue",
    ] {
        assert_eq!(read(line).unwrap_err().status, 2, "{line}");
    }
}

#[test]
fn usage_names_every_command_and_option() {
    let text = usage();
    for (letter, long, _, _, _) in COMMANDS.iter().filter(|c| c.0 != 'l') {
        let line = match letter.is_control() {
            true => format!("  --{long}"),
            false => format!("  -{letter}, --{long}"),
        };
        assert!(text.contains(&line), "{long}");
    }
    for (letter, long, _, _) in words::OPTIONS {
        let there = text.contains(&format!("-{letter}")) || text.contains(&format!("--{long}"));
        assert!(there, "{long}\n{text}");
    }
}
