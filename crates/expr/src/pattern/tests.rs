//! Lists against a model that tries every entry, for every match method, while entries come and go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::value::Value;

/// One entry of the model.
#[derive(Debug, Clone)]
struct Entry {
    key: String,
    value: String,
}

fn lower(s: &[u8], ignore_case: bool) -> Vec<u8> {
    match ignore_case {
        true => s.to_ascii_lowercase(),
        false => s.to_vec(),
    }
}

/// Manual 7.1.3: the pattern between delimiters, without those around it.
fn has_word(sample: &[u8], key: &[u8], delims: &[u8]) -> bool {
    let is = |b: &u8| delims.contains(b);
    let from = key.iter().position(|b| !is(b));
    let Some(from) = from else {
        return false;
    };
    let to = key.iter().rposition(|b| !is(b)).unwrap_or(from);
    let key = &key[from..=to];
    (0..sample.len()).any(|i| {
        let begins = i == 0 || is(&sample[i - 1]);
        let rest = &sample[i..];
        begins && rest.starts_with(key) && rest.get(key.len()).is_none_or(is)
    })
}

fn v4_of(ip: IpAddr) -> Option<u32> {
    match ip {
        IpAddr::V4(a) => Some(a.to_bits()),
        IpAddr::V6(a) => network::v4_inside(a),
    }
}

fn v6_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// The value of the entry a sample matches.
fn model(kind: Kind, entries: &[Entry], sample: &Value<'_>) -> Option<String> {
    let text = sample.bytes().map(|b| lower(b, kind.ignore_case));
    let text = text.as_deref();
    let keys = || {
        entries
            .iter()
            .map(|e| (lower(e.key.as_bytes(), kind.ignore_case), e))
    };
    let first = |test: &dyn Fn(&[u8]) -> bool| keys().find(|(k, _)| test(k)).map(|(_, e)| e);
    let number = |n: i64| {
        entries
            .iter()
            .find(|e| parse_number(&e.key, Notation::Plain).is_ok_and(|range| range.contains(&n)))
    };
    let found = match kind.method {
        Match::Str => first(&|k| k == text.unwrap()),
        Match::Beg => {
            let fitting = keys().filter(|(k, _)| text.unwrap().starts_with(k));
            let longest = fitting.clone().map(|(k, _)| k.len()).max();
            fitting
                .filter(|(k, _)| Some(k.len()) == longest)
                .map(|(_, e)| e)
                .next()
        }
        Match::End => first(&|k| text.unwrap().ends_with(k)),
        Match::Sub => first(&|k| k.is_empty() || text.unwrap().windows(k.len()).any(|w| w == k)),
        Match::Dir => first(&|k| has_word(text.unwrap(), k, b"/?")),
        Match::Dom => first(&|k| has_word(text.unwrap(), k, b"/?.:")),
        Match::Bin => first(&|k| {
            let hex: String = text.unwrap().iter().map(|b| format!("{b:02x}")).collect();
            k.eq_ignore_ascii_case(hex.as_bytes())
        }),
        Match::Len => number(text.unwrap().len() as i64),
        Match::Int => number(sample.int().unwrap()),
        Match::Reg => entries.iter().find(|e| {
            Regex::new(&e.key, kind.ignore_case).is_ok_and(|r| r.is_match(sample.bytes().unwrap()))
        }),
        Match::Ip => {
            let ip = match sample {
                Value::Ipv4(a) => IpAddr::V4(*a),
                Value::Ipv6(a) => IpAddr::V6(*a),
                _ => unreachable!("an address"),
            };
            model_ip(entries, ip)
        }
        Match::Found | Match::Bool => None,
    };
    found.map(|e| e.value.clone())
}

fn model_ip(entries: &[Entry], ip: IpAddr) -> Option<&Entry> {
    let parsed = || entries.iter().map(|e| (parse_network(&e.key).unwrap(), e));
    let best = |test: &dyn Fn(Network) -> Option<u8>| {
        let fitting: Vec<(u8, &Entry)> =
            parsed().filter_map(|(n, e)| Some((test(n)?, e))).collect();
        let longest = fitting.iter().map(|(len, _)| *len).max()?;
        fitting
            .iter()
            .find(|(len, _)| *len == longest)
            .map(|(_, e)| *e)
    };
    let (v4, v6) = (v4_of(ip), v6_of(ip));
    let in_v4 = || {
        best(&|n| match n {
            Network::V4 { addr, len } => (v4? & network::mask4(len) == addr).then_some(len),
            _ => None,
        })
    };
    let in_v6 = || {
        best(&|n| match n {
            Network::V6 { addr, len } => (v6 & network::mask6(len) == addr).then_some(len),
            _ => None,
        })
    };
    let in_masked = || {
        parsed()
            .find(|(n, _)| matches!(n, Network::Masked { addr, mask } if v4.is_some_and(|v| v & mask == *addr)))
            .map(|(_, e)| e)
    };
    match ip {
        IpAddr::V4(_) => in_v4().or_else(in_v6).or_else(in_masked),
        IpAddr::V6(_) => in_v6().or_else(in_v4).or_else(in_masked),
    }
}

/// A change of a list.
#[derive(Debug, Clone)]
enum Op {
    Add(String),
    Delete(usize),
    Set(usize),
    /// A version of its own with these patterns.
    Replace(Vec<String>),
    Clear,
}

fn ops(key: BoxedStrategy<String>) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => key.clone().prop_map(Op::Add),
        4 => (0..40usize).prop_map(Op::Delete),
        2 => (0..40usize).prop_map(Op::Set),
        1 => proptest::collection::vec(key, 0..6).prop_map(Op::Replace),
        1 => Just(Op::Clear),
    ];
    proptest::collection::vec(op, 0..40)
}

/// Applies changes to a list and to the model, and compares what both find after each.
fn compare(kind: Kind, start: Vec<String>, ops: Vec<Op>, samples: &[Value<'_>]) {
    let mut serial = 0;
    let mut value = || {
        serial += 1;
        format!("v{serial}")
    };
    let mut entries: Vec<Entry> = start
        .into_iter()
        .map(|key| Entry {
            key,
            value: value(),
        })
        .collect();
    let list = List::new(
        entries
            .iter()
            .map(|e| (e.key.as_bytes(), e.value.as_bytes())),
    );
    list.searched_by(kind, None).unwrap();
    let list = Arc::new(list);
    // An ACL made before the changes, which keeps a copy of few patterns, and one made after each.
    let matcher = || Matcher::new(kind.method, vec![(list.clone(), kind)]);
    let early = matcher();
    // `None` first: the list as it was loaded.
    for op in std::iter::once(None).chain(ops.into_iter().map(Some)) {
        match op.clone() {
            None => {}
            Some(Op::Add(key)) => {
                let value = value();
                list.add(None, key.as_bytes(), value.as_bytes()).unwrap();
                entries.push(Entry { key, value });
            }
            Some(Op::Delete(at)) => {
                let Some(key) = entries.get(at).map(|e| e.key.clone()) else {
                    continue;
                };
                list.delete(None, key.as_bytes()).unwrap();
                entries.retain(|e| e.key != key);
            }
            Some(Op::Set(at)) => {
                let Some(key) = entries.get(at).map(|e| e.key.clone()) else {
                    continue;
                };
                let new = value();
                list.set(None, key.as_bytes(), new.as_bytes()).unwrap();
                for e in entries.iter_mut().filter(|e| e.key == key) {
                    e.value = new.clone();
                }
            }
            Some(Op::Replace(keys)) => {
                let version = list.prepare();
                entries.clear();
                for key in keys {
                    let value = value();
                    list.add(Some(version), key.as_bytes(), value.as_bytes())
                        .unwrap();
                    entries.push(Entry { key, value });
                }
                list.commit(version).unwrap();
            }
            Some(Op::Clear) => {
                list.clear(None).unwrap();
                entries.clear();
            }
        }
        assert_eq!(list.len(), entries.len());
        for sample in samples {
            let got = list.find(kind, sample, |_, v| String::from_utf8_lossy(v).into_owned());
            let want = model(kind, &entries, sample);
            let say = |acl: &Matcher| acl.matches(sample) == want.is_some();
            assert!(
                say(&early) && say(&matcher()),
                "{kind:?} {sample:?} after {op:?} in {entries:#?}"
            );
            assert_eq!(
                got, want,
                "{kind:?} {sample:?} after {op:?} in {entries:#?}"
            );
        }
    }
}

fn text(s: &str) -> Value<'_> {
    Value::Str(s.as_bytes().into())
}

/// Short texts over few letters, so that they often meet.
fn words() -> BoxedStrategy<String> {
    "[abAB/.?:]{0,5}".boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn texts(
        method in prop::sample::select(vec![
            Match::Str, Match::Beg, Match::End, Match::Sub, Match::Dir, Match::Dom,
        ]),
        ignore_case in any::<bool>(),
        start in proptest::collection::vec(words(), 0..30),
        ops in ops(words()),
        samples in proptest::collection::vec("[abAB/.?:]{0,9}", 1..12),
    ) {
        let kind = Kind { ignore_case, ..Kind::of(method) };
        let samples: Vec<Value<'_>> = samples.iter().map(|s| text(s)).collect();
        compare(kind, start, ops, &samples);
    }

    #[test]
    fn bytes(
        start in proptest::collection::vec("([0-9a-f]{2}|[0-9A-F]{2}){1,2}", 0..30),
        ops in ops("([0-9a-f]{2}){1,2}".boxed()),
        samples in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..3), 1..12),
    ) {
        let samples: Vec<Value<'_>> = samples.iter().map(|s| Value::Bin(s.as_slice().into())).collect();
        compare(Kind::of(Match::Bin), start, ops, &samples);
    }

    #[test]
    fn numbers(
        len in any::<bool>(),
        start in proptest::collection::vec(ranges(), 0..30),
        ops in ops(ranges()),
        samples in proptest::collection::vec(-3..14i64, 1..12),
    ) {
        if len {
            let texts: Vec<String> = samples.iter().map(|n| "x".repeat(n.unsigned_abs() as usize)).collect();
            let samples: Vec<Value<'_>> = texts.iter().map(|t| text(t)).collect();
            compare(Kind::of(Match::Len), start, ops, &samples);
        } else {
            let samples: Vec<Value<'_>> = samples.into_iter().map(Value::Sint).collect();
            compare(Kind::of(Match::Int), start, ops, &samples);
        }
    }

    #[test]
    fn networks(
        start in proptest::collection::vec(network_text(), 0..30),
        ops in ops(network_text()),
        samples in proptest::collection::vec(address(), 1..16),
    ) {
        let samples: Vec<Value<'_>> = samples
            .into_iter()
            .map(|a| match a {
                IpAddr::V4(a) => Value::Ipv4(a),
                IpAddr::V6(a) => Value::Ipv6(a),
            })
            .collect();
        compare(Kind::of(Match::Ip), start, ops, &samples);
    }

    #[test]
    fn expressions(
        ignore_case in any::<bool>(),
        start in proptest::collection::vec("(\\^)?[ab.]{1,2}[+*]?", 0..6),
        ops in ops("(\\^)?[ab.]{1,2}[+*]?".boxed()),
        samples in proptest::collection::vec("[abAB]{0,4}", 1..6),
    ) {
        let kind = Kind { ignore_case, ..Kind::of(Match::Reg) };
        let samples: Vec<Value<'_>> = samples.iter().map(|s| text(s)).collect();
        compare(kind, start, ops, &samples);
    }

    /// Whatever a pattern file holds, loading and searching it ends well.
    #[test]
    fn any_file(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..13usize) {
        for columns in [Columns::Pattern, Columns::PatternAndValue] {
            let list = List::new(file::entries(&bytes, columns));
            let kind = Kind::of(Match::ALL[at]);
            if list.searched_by(kind, None).is_ok() {
                list.matches(kind, &Value::Str(bytes.as_slice().into()));
                list.matches(kind, &Value::Sint(5));
                list.matches(kind, &Value::Ipv4(Ipv4Addr::LOCALHOST));
            }
        }
    }
}

/// Besides its text. The example `patterns` shows the same of a million entries.
#[test]
fn an_entry_costs_at_most_sixty_bytes() {
    let n = 30_000u64;
    let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let check = |method: Match, key: &dyn Fn(u64) -> String| {
        let keys: Vec<String> = (0..n).map(|i| key(spread(i))).collect();
        let list = List::new(keys.iter().map(|k| (k.as_bytes(), &b"value"[..])));
        list.searched_by(Kind::of(method), None).unwrap();
        let each = list.index_memory() as f64 / n as f64;
        assert!(each <= 60.0, "{method:?}: {each} bytes");
    };
    for method in [
        Match::Str,
        Match::Beg,
        Match::End,
        Match::Sub,
        Match::Dir,
        Match::Dom,
    ] {
        check(method, &|r| format!("/{r:x}/{}", r % 100));
    }
    check(Match::Bin, &|r| format!("{r:016x}"));
    check(Match::Int, &|r| (r >> 16).to_string());
    check(Match::Int, &|r| {
        format!("{}:{}", r >> 16, (r >> 16) + r % 1000)
    });
    // Networks as routing tables have them: near each other in a few blocks.
    check(Match::Ip, &|r| {
        let block = [10u32 << 24, 80 << 24, 193 << 24][(r >> 62) as usize % 3];
        format!(
            "{}/24",
            Ipv4Addr::from_bits(block | (r >> 40) as u32 & 0x00ff_ff00)
        )
    });
}

fn ranges() -> BoxedStrategy<String> {
    prop_oneof![
        3 => (0..12i64).prop_map(|n| n.to_string()),
        2 => (0..12i64, 0..6i64).prop_map(|(low, more)| format!("{low}:{}", low + more)),
        1 => (0..12i64).prop_map(|n| format!("{n}:")),
        1 => (-2..12i64).prop_map(|n| format!(":{n}")),
    ]
    .boxed()
}

/// Addresses that differ in a few bits here and there.
fn address() -> BoxedStrategy<IpAddr> {
    let v4 = (0..4u32, 0..4u32).prop_map(|(a, b)| Ipv4Addr::from_bits(a << 30 | b << 7 | b));
    let v6 = (0..4u128, 0..4u128, 0..3u32).prop_map(|(a, b, form)| {
        Ipv6Addr::from_bits(match form {
            0 => a << 126 | b << 31 | b,
            1 => 0xffff_0000_0000 | a << 30 | b << 7 | b,
            _ => 0x2002 << 112 | (a << 30 | b << 7 | b) << 80,
        })
    });
    prop_oneof![v4.prop_map(IpAddr::V4), v6.prop_map(IpAddr::V6)].boxed()
}

/// Few lengths, so that one network is often written in several ways.
fn network_text() -> BoxedStrategy<String> {
    let v4 = prop::sample::select(vec![0, 1, 2, 24, 31, 32u8]);
    let v6 = prop::sample::select(vec![0, 1, 16, 96, 98, 127, 128u8]);
    (address(), v4, v6, 0..6u8)
        .prop_map(|(a, v4, v6, form)| match a {
            IpAddr::V4(a) if form == 0 => format!("{a}/192.0.1.{v6}"),
            IpAddr::V4(a) => format!("{a}/{v4}"),
            IpAddr::V6(a) => format!("{a}/{v6}"),
        })
        .boxed()
}

/// What is in all versions is found at every moment, while entries, values and versions change.
#[test]
fn readers_never_miss_what_is_there() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let list = List::new([(&b"kept"[..], &b"0"[..]), (b"other", b"0")].into_iter());
    let kinds = [
        Kind::of(Match::Str),
        Kind::of(Match::Beg),
        Kind::of(Match::Reg),
    ];
    for kind in kinds {
        list.searched_by(kind, None).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for kind in kinds {
                        let found = list.find(kind, &text("kept"), |k, v| (k.to_vec(), v.to_vec()));
                        let (key, value) = found.expect("an entry of every version");
                        assert_eq!(key, b"kept");
                        assert!(value.iter().all(u8::is_ascii_digit));
                    }
                }
            });
        }
        for round in 0..60u32 {
            let number = round.to_string();
            list.set(None, b"kept", number.as_bytes()).unwrap();
            for i in 0..20 {
                let key = format!("k{i}");
                list.put(key.as_bytes(), number.as_bytes()).unwrap();
                if i % 3 == 0 {
                    list.delete(None, key.as_bytes()).unwrap();
                }
            }
            let version = list.prepare();
            list.add(Some(version), b"kept", number.as_bytes()).unwrap();
            list.commit(version).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(list.versions(), (60, 60));
}
