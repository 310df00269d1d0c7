//! The text form of a table: cases, each an exchange in one place, with a row for each answer.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_expr::pattern::Regex;

/// Answers by the line of their row.
pub type Answers = BTreeMap<usize, Option<Vec<u8>>>;

#[derive(Debug, Default)]
pub struct Table {
    /// Lines of the `global` section.
    pub global: Vec<String>,
    /// Whole sections every case can refer to.
    pub sections: Vec<String>,
    /// Files next to the configuration: name and content.
    pub files: Vec<(String, Vec<u8>)>,
    pub cases: Vec<Case>,
}

/// One exchange.
#[derive(Debug, Default)]
pub struct Case {
    pub name: String,
    /// Where its rows stand.
    pub place: String,
    /// Options of its `bind` line.
    pub bind: String,
    /// Further lines of its frontend and its backend.
    pub conf: Vec<String>,
    pub back: Vec<String>,
    /// What the client sends and, when there is a server, what that answers.
    pub request: Vec<u8>,
    pub response: Option<Vec<u8>>,
    pub items: Vec<Item>,
}

#[derive(Debug)]
pub enum Item {
    /// A line of configuration between the rows; only Sluice knows it when the flag is set.
    Line(String, bool),
    Row(Row),
}

/// Something to evaluate and what it gives.
#[derive(Debug)]
pub struct Row {
    pub line: usize,
    pub text: String,
    pub expect: Expect,
}

#[derive(Debug, Clone)]
pub enum Expect {
    /// `=`: this value; without one, nothing.
    Is(Option<Vec<u8>>),
    /// `~`: a text the regular expression matches.
    Like(String),
    /// `+`: this value, which 2.6 cannot give.
    SluiceAlone(Box<Expect>),
    /// `!`: this value, and another from haproxy, with the reason.
    Differs {
        sluice: Option<Vec<u8>>,
        haproxy: Option<Vec<u8>>,
        why: String,
    },
}

impl Row {
    /// The name at the head of the expression.
    pub fn fetch(&self) -> &str {
        let end = self.text.find(['(', ',']).unwrap_or(self.text.len());
        &self.text[..end]
    }
}

impl Expect {
    /// Whether an answer is the one expected; the error shows it.
    pub fn holds(&self, got: &Option<Vec<u8>>) -> Result<(), String> {
        let same = match self {
            Expect::Is(value) | Expect::Differs { sluice: value, .. } => got == value,
            Expect::SluiceAlone(inner) => return inner.holds(got),
            Expect::Like(regex) => {
                let regex = Regex::new(regex, false).expect("a good regular expression");
                got.as_ref().is_some_and(|v| regex.is_match(v))
            }
        };
        if same {
            Ok(())
        } else {
            Err(format!("{}, not {}", quote(got), self.show()))
        }
    }

    fn show(&self) -> String {
        match self {
            Expect::Is(value) => quote(value),
            Expect::Like(regex) => format!("~ {regex}"),
            Expect::SluiceAlone(inner) => inner.show(),
            Expect::Differs { sluice, .. } => quote(sluice),
        }
    }

    /// As the table writes it, with its operator.
    fn write(&self) -> String {
        match self {
            Expect::Is(_) => format!("= {}", self.show()),
            Expect::Like(_) => self.show(),
            Expect::SluiceAlone(inner) => match **inner {
                Expect::Like(_) => format!("+{}", inner.show()),
                _ => format!("+ {}", inner.show()),
            },
            Expect::Differs { haproxy, why, .. } => {
                format!("! {} haproxy {} because {why}", self.show(), quote(haproxy))
            }
        }
    }
}

impl Table {
    pub fn read(path: &Path) -> Table {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut table = Table::default();
        for (at, line) in text.lines().enumerate() {
            let fail = |why: &str| -> ! { panic!("{path:?}:{}: {why}: {line}", at + 1) };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                let name = name.to_string();
                table.cases.push(Case {
                    name,
                    place: "http-request".into(),
                    ..Case::default()
                });
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let Some(case) = table.cases.last_mut() else {
                match word {
                    "global" => table.global.push(rest.into()),
                    "section" => table.sections.push(rest.into()),
                    "file" => {
                        let (name, content) = rest.split_once(' ').unwrap_or((rest, ""));
                        table.files.push((name.into(), unescape(content)));
                    }
                    _ => fail("before any case only `global`, `section` and `file` lines stand"),
                }
                continue;
            };
            match word {
                "place" => case.place = rest.into(),
                "bind" => case.bind = rest.into(),
                "conf" => case.conf.push(rest.into()),
                "back" => case.back.push(rest.into()),
                ">" => case.request.extend(unescape(rest)),
                "<" => case.response.get_or_insert_default().extend(unescape(rest)),
                ":" => case.items.push(Item::Line(rest.into(), false)),
                ":+" => case.items.push(Item::Line(rest.into(), true)),
                _ => match row(line) {
                    Some((text, expect)) => {
                        let text = text.into();
                        case.items.push(Item::Row(Row {
                            line: at + 1,
                            text,
                            expect,
                        }));
                    }
                    None => fail("a row is EXPRESSION = \"value\""),
                },
            }
        }
        table
    }

    pub fn rows(&self) -> impl Iterator<Item = (&Case, &Row)> {
        let rows_of = |case| Case::rows(case).map(move |row| (case, row));
        self.cases.iter().flat_map(rows_of)
    }

    /// Writes the answers into the table's file: haproxy's, and Sluice's for `+` rows that say `?`.
    pub fn record(&self, path: &Path, ours: &Answers, theirs: &Answers) {
        let text = std::fs::read_to_string(path).expect("the table");
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        for (_, row) in self.rows() {
            let expect = match &row.expect {
                Expect::Is(_) => Expect::Is(theirs[&row.line].clone()),
                Expect::SluiceAlone(inner) if matches!(&**inner, Expect::Like(r) if r == "?") => {
                    Expect::SluiceAlone(Expect::Is(ours[&row.line].clone()).into())
                }
                _ => continue,
            };
            lines[row.line - 1] = format!("{} {}", row.text, expect.write());
        }
        std::fs::write(path, lines.join("\n") + "\n").expect("write the table");
    }
}

impl Case {
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.items.iter().filter_map(|item| match item {
            Item::Row(row) => Some(row),
            Item::Line(..) => None,
        })
    }
}

/// Splits a row at the last operator that stands between blanks and is followed by a value.
fn row(line: &str) -> Option<(&str, Expect)> {
    let starts = line.match_indices(' ').map(|(at, _)| at);
    starts
        .into_iter()
        .filter_map(|at| {
            let expect = expect(&line[at + 1..])?;
            Some((line[..at].trim_end(), expect))
        })
        .next()
}

fn expect(text: &str) -> Option<Expect> {
    let (operator, rest) = text.split_once(' ')?;
    Some(match operator {
        "=" => Expect::Is(value(rest)?),
        "~" => Expect::Like(rest.into()),
        "+" if rest == "?" => Expect::SluiceAlone(Expect::Like("?".into()).into()),
        "+" => Expect::SluiceAlone(Expect::Is(value(rest)?).into()),
        "+~" => Expect::SluiceAlone(Expect::Like(rest.into()).into()),
        "!" => {
            let (ours, rest) = rest.split_once(" haproxy ")?;
            let (theirs, why) = rest.split_once(" because ")?;
            let (sluice, haproxy) = (value(ours)?, value(theirs)?);
            Expect::Differs {
                sluice,
                haproxy,
                why: why.into(),
            }
        }
        _ => return None,
    })
}

/// A quoted text, or `none`, or `?` for what is to be recorded.
fn value(text: &str) -> Option<Option<Vec<u8>>> {
    if text == "none" || text == "?" {
        return Some(None);
    }
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(Some(unescape(inside)))
}

fn quote(value: &Option<Vec<u8>>) -> String {
    match value {
        None => "none".into(),
        Some(v) => format!("\"{}\"", v.escape_ascii()),
    }
}

/// Undoes `escape_ascii`; `\*N{text}` repeats a text.
pub fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 == bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        at += 2;
        match bytes[at - 1] {
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'0' => out.push(0),
            b'x' => {
                out.push(u8::from_str_radix(&text[at..at + 2], 16).expect("two digits"));
                at += 2;
            }
            b'*' => {
                let open = at + text[at..].find('{').expect("a brace");
                let close = open + text[open..].find('}').expect("a closing brace");
                let count: usize = text[at..open].parse().expect("a count");
                out.extend(unescape(&text[open + 1..close]).repeat(count));
                at = close + 1;
            }
            other => out.push(other),
        }
    }
    out
}
