//! What pattern lists cost: time to load, memory beyond the texts, time of a lookup and of a change while it is read.
//! Times are those this thread ran on a CPU, so that a busy machine does not change them much.
//!
//! `cargo run --release -p sluice-expr --example patterns [ENTRIES [LIST]]`: with one list only, the resident memory
//! is told too.

use std::hint::black_box;
use std::net::Ipv4Addr;

use sluice_expr::Value;
use sluice_expr::pattern::{Kind, List, Match, Matcher};

/// A small generator (SplitMix64): the numbers are the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|p| p.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

/// Nanoseconds this thread has run.
fn ran_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = stat.split(' ').next().and_then(|n| n.parse().ok());
    ran.unwrap_or(0)
}

fn main() {
    let arg = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let entries: usize = arg.unwrap_or(1_000_000);
    println!("{entries} entries");
    println!(
        "{:<14} {:>8} {:>10} {:>12} {:>10} {:>10} {:>10}",
        "list", "load", "B/entry", "RSS B/entry", "hit", "miss", "change"
    );
    let host = |r: u64| format!("www{}.example-{:x}.com", r % 100, r >> 24);
    let path = |r: u64| format!("/app{}/{:x}/", r % 100, r >> 32);
    let word = |r: u64| format!("{:x}", r >> 20);
    let net = |r: u64| {
        let addr = Ipv4Addr::from_bits((r >> 32) as u32);
        format!(
            "{addr}/{}",
            [16, 20, 22, 24, 24, 24, 28, 32][(r % 8) as usize]
        )
    };
    let text = |s: String| Value::Str(s.into_bytes().into());
    measure(entries, "str", Match::Str, host, |k| text(k.into()));
    measure(entries, "beg", Match::Beg, path, |k| {
        text(format!("{k}index.html"))
    });
    measure(entries, "end", Match::End, host, |k| {
        text(format!("cdn.{k}"))
    });
    measure(entries, "dir", Match::Dir, word, |k| {
        text(format!("/img/{k}/logo.png"))
    });
    measure(entries, "dom", Match::Dom, word, |k| {
        text(format!("www.{k}.example.com"))
    });
    measure(entries, "sub", Match::Sub, word, |k| {
        text(format!("/img/{k}/logo.png"))
    });
    measure(entries, "ip", Match::Ip, net, |k| {
        let addr = k.split('/').next().and_then(|a| a.parse().ok());
        Value::Ipv4(addr.unwrap_or(Ipv4Addr::UNSPECIFIED))
    });
    let number = |r: u64| (r >> 16).to_string();
    measure(entries, "int", Match::Int, number, |k| {
        Value::Sint(k.parse().unwrap_or(0))
    });
    let range = |r: u64| format!("{}:{}", r >> 16, (r >> 16) + (r & 0xffff));
    measure(entries, "int ranges", Match::Int, range, |k| {
        let low = k.split(':').next().and_then(|n| n.parse().ok());
        Value::Sint(low.unwrap_or(0))
    });
    if std::env::args().nth(2).is_none() {
        let path = text("/static/js/app.js?v=17".into());
        let words = ["/api", "/img", "/css", "/fonts"];
        measure_few("str", Match::Str, words, &path);
        measure_few("beg", Match::Beg, words, &path);
        measure_few("end", Match::End, words, &path);
        measure_few("sub", Match::Sub, words, &path);
        measure_few("dir", Match::Dir, words, &path);
        measure_few(
            "reg",
            Match::Reg,
            ["^/api", "\\.png$", "^/a.*z", "x+y"],
            &path,
        );
        measure_few(
            "int",
            Match::Int,
            ["1:5", "10", "20", "500:"],
            &Value::Sint(42),
        );
        let nets = ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "::1"];
        measure_few(
            "ip",
            Match::Ip,
            nets,
            &Value::Ipv4(Ipv4Addr::new(203, 0, 113, 5)),
        );
    }
}

/// What the patterns written in an ACL cost: four of them, and a sample none of them matches.
fn measure_few(name: &str, method: Match, keys: [&str; 4], sample: &Value<'_>) {
    let list = List::new(keys.iter().map(|k| (k.as_bytes(), &b""[..])));
    let kind = Kind::of(method);
    if let Err((_, e)) = list.searched_by(kind, None) {
        println!("{name}: {e}");
        return;
    }
    let matcher = Matcher::new(method, vec![(list.into(), kind)]);
    let rounds = 1_000_000;
    let start = ran_ns();
    for _ in 0..rounds {
        black_box(matcher.matches(black_box(sample)));
    }
    let each = (ran_ns() - start) as f64 / f64::from(rounds);
    println!("four in an ACL {name:<6} {each:>6.1} ns");
}

fn measure(
    entries: usize,
    name: &str,
    method: Match,
    key: impl Fn(u64) -> String,
    sample: impl Fn(&str) -> Value<'static>,
) {
    let only = std::env::args().nth(2);
    if only.as_deref().is_some_and(|o| o != name) {
        return;
    }
    let mut random = Random(1);
    let keys: Vec<String> = (0..entries).map(|_| key(random.next())).collect();
    let file: String = keys.iter().map(|k| format!("{k} value-of-it\n")).collect();
    let texts: usize = keys.iter().map(|k| k.len() + "value-of-it".len()).sum();
    let kind = Kind::of(method);
    // A sample that is there and one that is not, in random order so that the caches see what traffic would.
    let pick = |r: &mut Random| &keys[r.next() as usize % entries];
    let hits: Vec<Value<'_>> = (0..300_000).map(|_| sample(pick(&mut random))).collect();
    let misses: Vec<Value<'_>> = (0..300_000).map(|_| sample(&key(random.next()))).collect();

    let before = resident();
    let start = ran_ns();
    let lines = file.lines().filter_map(|l| l.split_once(' '));
    let list = List::new(lines.map(|(k, v)| (k.as_bytes(), v.as_bytes())));
    if let Err((_, e)) = list.searched_by(kind, None) {
        println!("{name}: {e}");
        return;
    }
    let load = (ran_ns() - start) as f64 / 1e9;
    let rss = resident().saturating_sub(before);

    let lookups = |samples: &[Value<'_>]| {
        let start = ran_ns();
        let found = samples
            .iter()
            .filter(|s| list.matches(kind, black_box(s)))
            .count();
        let each = (ran_ns() - start) as f64 / samples.len() as f64;
        (found, each)
    };
    let (found, hit_ns) = lookups(&hits);
    assert_eq!(found, hits.len(), "{name}: an entry was not found");
    let (_, miss_ns) = lookups(&misses);
    let memory = list.index_memory();

    // The index by which entries are found to be changed is made at the first change.
    let _ = list.delete(None, b"");
    let start = ran_ns();
    let changes = 5000;
    for i in 0..changes {
        let new = key(random.next());
        let done = list.put(new.as_bytes(), b"changed");
        if i % 2 == 0 && done.is_ok() {
            let _ = list.delete(None, new.as_bytes());
        }
    }
    let change_us = (ran_ns() - start) as f64 / 1000.0 / (f64::from(changes) * 1.5);
    println!(
        "{name:<14} {:>6.2} s {:>8} B {:>10} B {hit_ns:>7.0} ns {miss_ns:>7.0} ns {change_us:>7.1} us",
        load,
        memory / entries,
        match only {
            Some(_) => (rss.saturating_sub(texts) / entries).to_string(),
            None => "-".into(),
        },
    );
}
