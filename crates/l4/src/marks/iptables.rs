//! What iptables-save(8) and ip6tables-save(8) print of the table mangle.

use super::{Marks, Rule, mark};

impl Marks {
    /// Takes the rules of PREROUTING.
    pub fn read_iptables(&mut self, text: &str) {
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("-A PREROUTING ") else {
                continue;
            };
            let rule = read(&words(rest));
            self.add(&rule, line);
        }
    }
}

/// Words, of which some are quoted.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => all.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    all.push(word);
    all.retain(|w| !w.is_empty());
    all
}

fn read(words: &[String]) -> Rule {
    let mut rule = Rule::default();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let mut value = || rest.next().unwrap_or_default();
        match word {
            "-d" | "--destination" => rule.destination(value()),
            "--dst-range" => rule.destination(value()),
            "-p" | "--protocol" => rule.protocol(value()),
            "--dport" | "--destination-port" => rule.port(value()),
            "--dports" | "--destination-ports" => value().split(',').for_each(|p| rule.port(p)),
            // What a match is called says nothing; its own words do.
            "-m" | "--match" | "-c" => drop(value()),
            "--comment" => drop(value()),
            "-j" | "--jump" => match value() {
                "MARK" => {}
                other => rule.doubt(format!("-j {other}")),
            },
            "--set-mark" | "--set-xmark" => {
                let text = value();
                // The mark is named where it can be read, for what is told of it.
                rule.mark = mark(text).or(Some(0));
                if mark(text).is_none() {
                    rule.doubt(format!("'{text}' sets a part of the mark"));
                }
            }
            "--or-mark" | "--and-mark" | "--xor-mark" => {
                rule.mark = Some(0);
                rule.doubt(format!("{word} sets a part of the mark"));
            }
            other => rule.doubt(format!("{other} asks for more than a destination")),
        }
    }
    rule
}
