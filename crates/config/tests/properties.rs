//! Any text at all is read without panic and judged consistently; the fuzzer's corpus is replayed.

mod oracle;

use oracle::check_config;
use proptest::prelude::*;
use sluice_config::dump::coverage;

/// Words that mean something somewhere: keywords, values, punctuation, quotes.
fn word() -> impl Strategy<Value = String> {
    let mut known: Vec<String> = coverage()
        .into_iter()
        .filter(|(_, status)| status.is_some())
        .flat_map(|(name, _)| {
            let name = name
                .trim_start()
                .split(" [")
                .next()
                .unwrap_or_default()
                .to_owned();
            let words: Vec<String> = name.split(' ').map(str::to_owned).collect();
            words
        })
        .map(|w| w.trim_end_matches('*').to_owned())
        .filter(|w| !w.is_empty())
        .collect();
    known.sort();
    known.dedup();
    let values = [
        "0",
        "1",
        "-1",
        "10s",
        "99999999999999999999",
        "16k",
        "on",
        "off",
        "if",
        "unless",
        "{",
        "}",
        "||",
        "!",
        "TRUE",
        "src",
        "path",
        "hdr(host)",
        "path,lower",
        "%[src]",
        "%[",
        "%{+Q}r",
        "10.0.0.0/8",
        "[::1]:80",
        ":80-81",
        "*:80",
        "unix@/x",
        "fd@3",
        "ring@r",
        "a",
        "b",
        "web",
        "app",
        "from",
        "/x",
        "txn.v",
        "(txn.v)",
        "set-var(txn.v)",
        "\"\"",
        "\"$PORT\"",
        "\"${LIST[*]}\"",
        "'x y'",
        "\\",
        "\"",
        "'",
        "#",
        "\\x00",
        "\\xff",
        "-m",
        "-f",
        "-i",
        "--",
        "len",
        "GET",
        "status",
        "200",
        "str",
        "random(2)",
        "map(/f)",
        "\u{e9}",
        "roundrobin",
        "http",
        "tcp",
        "1-2,3",
        "auto:1/1-2",
    ];
    prop_oneof![
        3 => prop::sample::select(known),
        4 => prop::sample::select(values.to_vec()).prop_map(str::to_owned),
        1 => "[ -~]{0,8}",
    ]
}

fn line() -> impl Strategy<Value = String> {
    let section = prop::sample::select(vec![
        "global",
        "defaults",
        "defaults d",
        "frontend web",
        "listen l",
        "listen l :80",
        "backend app",
        "backend app from d",
        "userlist u",
        "ring r",
        "http-errors e",
        ".if 1",
        ".if streq(a,b) || (0",
        ".elif 1",
        ".else",
        ".endif",
        "peers p",
    ]);
    // What a proxy needs to become a model, so that not every text ends at its first line.
    let good = prop::sample::select(vec![
        "mode http",
        "bind :80",
        "server a 10.0.0.1:80 check",
        "acl x src 10.0.0.0/8",
        "http-request deny if x",
        "default_backend app",
        "option httplog",
        "log global",
        "http-request set-header a %[path]",
        "balance uri",
        "tcp-request content accept if TRUE",
        "option httpchk GET /",
        "cookie c insert",
        "stats uri /s",
    ]);
    prop_oneof![
        2 => section.prop_map(str::to_owned),
        3 => good.prop_map(str::to_owned),
        5 => prop::collection::vec(word(), 1..7).prop_map(|w| w.join(" ")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn lines_of_words(lines in prop::collection::vec(line(), 0..40)) {
        check_config(lines.join("\n").as_bytes());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check_config(&bytes);
    }

    #[test]
    fn any_bytes_after_a_keyword(start in line(), bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut text = b"defaults\n mode http\nlisten l\n bind :80\n ".to_vec();
        text.extend(start.as_bytes());
        text.push(b' ');
        text.extend(bytes);
        check_config(&text);
    }
}

#[test]
fn the_corpus_is_replayed() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/config");
    let mut replayed = 0;
    for entry in std::fs::read_dir(dir).expect("fuzz/corpus/config") {
        let path = entry.expect("a directory entry").path();
        let bytes = std::fs::read(&path).expect("a readable file");
        println!("{}", path.display());
        check_config(&bytes);
        replayed += 1;
    }
    assert!(replayed > 20, "only {replayed} files in {dir}");
}
