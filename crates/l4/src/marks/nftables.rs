//! What `nft list ruleset` prints: chains that are hooked to prerouting.

use super::{Marks, Rule, mark};

impl Marks {
    /// Takes the rules of every chain that sees packets before they are routed, in the order of the chains' priorities.
    pub fn read_nftables(&mut self, text: &str) {
        let mut chains: Vec<(i64, Vec<&str>)> = Vec::new();
        let mut chain: Option<(Option<i64>, Vec<&str>)> = None;
        let mut depth = 0;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.starts_with("chain ") {
                chain = Some((None, Vec::new()));
            } else if let Some((priority, rules)) = &mut chain {
                if let Some(hook) = line.strip_prefix("type ") {
                    *priority = priority_of(hook);
                } else if line == "}" {
                    if let Some((Some(priority), rules)) = chain.take() {
                        chains.push((priority, rules));
                    }
                } else if !line.is_empty() {
                    rules.push(line);
                }
            } else {
                depth += line.matches('{').count();
                depth -= line.matches('}').count().min(depth);
            }
        }
        chains.sort_by_key(|(priority, _)| *priority);
        for line in chains.iter().flat_map(|(_, rules)| rules) {
            let rule = read(line);
            self.add(&rule, line);
        }
    }
}

/// `filter hook prerouting priority mangle; policy accept;`
fn priority_of(hook: &str) -> Option<i64> {
    let (_, rest) = hook.split_once("hook prerouting priority ")?;
    let text = rest.split(';').next()?.trim();
    let (base, offset) = match text.split_once(' ') {
        Some((base, offset)) => (base, offset.replace(' ', "")),
        None => (text, String::new()),
    };
    let base = match base {
        "raw" => -300,
        "mangle" => -150,
        "dstnat" => -100,
        "filter" => 0,
        "security" => 50,
        "srcnat" => 100,
        number => number.parse().ok()?,
    };
    Some(base + offset.trim_start_matches('+').parse::<i64>().unwrap_or(0))
}

fn read(line: &str) -> Rule {
    let mut rule = Rule::default();
    // Sets are written `{ 80, 443 }`.
    let spaced = line.replace(['{', '}', ','], " ");
    let braces = line.contains('{');
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    // The values of a match: one, or all up to the next word that is none.
    let values = |from: usize| {
        let all = words.get(from..).unwrap_or_default();
        let is_value = |w: &&&str| {
            w.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':') && !WORDS.contains(*w)
        };
        let count = match braces {
            true => all.iter().take_while(is_value).count().max(1),
            false => 1,
        };
        &all[..count.min(all.len())]
    };
    while let Some(word) = words.get(at) {
        let next = words.get(at + 1).copied().unwrap_or_default();
        let third = words.get(at + 2).copied().unwrap_or_default();
        match (*word, next) {
            ("ip" | "ip6", "daddr") => {
                let some = values(at + 2);
                some.iter().for_each(|v| rule.destination(v));
                at += 2 + some.len();
            }
            ("tcp" | "udp" | "sctp" | "th", "dport") => {
                if *word != "th" && rule.protocols.is_empty() {
                    rule.protocol(word);
                }
                let some = values(at + 2);
                some.iter().for_each(|v| rule.port(v));
                at += 2 + some.len();
            }
            ("ip", "protocol") | ("ip6", "nexthdr") | ("meta", "l4proto") => {
                let some: Vec<&str> = words[at + 2..]
                    .iter()
                    .copied()
                    .take_while(|w| super::protocol_named(w).is_some())
                    .collect();
                if some.is_empty() {
                    rule.protocol(third);
                }
                some.iter().for_each(|v| rule.protocol(v));
                // `meta l4proto tcp tcp dport 80`: the second begins the next match.
                let second = words.get(at + 3).is_some_and(|w| *w == third)
                    && words.get(at + 4).is_some_and(|w| *w == "dport");
                let taken = match second {
                    true => 1,
                    false => some.len().max(1),
                };
                rule.protocols.dedup();
                at += 2 + taken;
            }
            ("meta", "mark") if third == "set" => {
                let text = words.get(at + 3).copied().unwrap_or_default();
                rule.mark = mark(text).or(Some(0));
                if mark(text).is_none() {
                    rule.doubt(format!("'{text}' is no whole mark"));
                }
                at += 4;
            }
            ("counter", "packets") => at += 5,
            ("counter", _) => at += 1,
            ("accept", _) => {
                rule.last = true;
                at += 1;
            }
            ("comment", _) => break,
            (other, _) => {
                rule.doubt(format!("{other} asks for more than a destination"));
                at += 1;
            }
        }
    }
    rule
}

/// Words that begin like a number in hexadecimal.
const WORDS: [&str; 6] = ["accept", "counter", "comment", "drop", "ct", "fib"];
