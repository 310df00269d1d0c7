//! The table of cases: a backend each, and steps with what they answer.

use std::collections::BTreeMap;
use std::path::Path;

/// What a proxy answered, by the step's line.
pub type Answers = BTreeMap<usize, String>;

#[derive(Debug, Default)]
pub struct Case {
    pub name: String,
    /// Lines of the backend.
    pub conf: Vec<String>,
    /// The settings of each server.
    pub servers: Vec<String>,
    pub steps: Vec<Step>,
}

/// A line of a case: what is done, how often, and what comes of it.
#[derive(Debug)]
pub struct Step {
    /// Counted from 1.
    pub line: usize,
    pub text: String,
    /// Its repetitions; `{n}` in it counts them from 0.
    pub times: u32,
    pub action: Action,
    /// `None` for `?`: not recorded yet.
    pub expect: Option<String>,
    /// What Sluice answers if not the same (`| sluice ANSWER` behind haproxy's).
    pub ours: Option<String>,
}

#[derive(Debug)]
pub enum Action {
    /// Which server answers each request.
    Ask(Request),
    /// The same, and the requests stay unfinished.
    Hold(Request),
    /// How many of the requests each server gets: give or take what chance does.
    Share(Request),
    /// The same of turns that may begin anywhere: give or take one.
    Tally(Request),
    /// Requests that have to wait for a server. Answers where they wait: in the servers' queues, and the backend's.
    Queue(Request),
    /// A client that waits leaves, by its number.
    Leave(usize),
    /// Who served the waiting requests.
    Done,
    /// The order in which the waiting requests were served.
    Order,
    /// Finishes held requests, by their numbers or all.
    Free(Vec<usize>),
    /// A runtime command; waits for the answer that is expected if it may come late.
    Command { text: String, late: bool },
    /// What the agent of a server says from now on.
    Agent { server: usize, says: String },
}

#[derive(Debug, Default)]
pub struct Request {
    pub method: String,
    pub uri: String,
    /// The client's address.
    pub from: String,
    pub headers: Vec<String>,
    pub body: String,
}

impl Step {
    /// Whether an answer is the one expected; the error shows it.
    pub fn holds(&self, got: &str, is_sluice: bool) -> Result<(), String> {
        let ours = self.ours.as_ref().filter(|_| is_sluice);
        let expect = ours.or(self.expect.as_ref());
        let expect = expect.map_or("(nothing recorded)", String::as_str);
        let near = |most: fn(f64) -> f64| {
            let pairs = shares(got).into_iter().zip(shares(expect));
            let mut off = pairs.map(|(g, e)| (g - e).abs() - most(e));
            off.all(|o| o <= 0.0)
        };
        let same = match self.action {
            Action::Share(_) => near(|e| 5.0 * e.sqrt()),
            Action::Tally(_) => near(|_| 1.0),
            Action::Agent { .. } => true,
            _ => got == expect,
        };
        if same {
            return Ok(());
        }
        Err(format!("gives {got:?}\n    not {expect:?}"))
    }
}

fn shares(text: &str) -> Vec<f64> {
    text.split(' ')
        .map(|n| n.parse().unwrap_or(f64::NAN))
        .collect()
}

pub fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let mut cases: Vec<Case> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let name = name.to_owned();
            cases.push(Case {
                name,
                ..Case::default()
            });
            continue;
        }
        let fail = |why: &str| -> ! { panic!("{path:?}:{}: {why}: {line}", at + 1) };
        let Some(case) = cases.last_mut() else {
            fail("a case begins with its [name]");
        };
        if let Some(rest) = line.strip_prefix("conf ") {
            case.conf.push(rest.to_owned());
        } else if let Some(rest) = line.strip_prefix("servers ") {
            case.servers = rest.split(';').map(|s| s.trim().to_owned()).collect();
        } else {
            let step = step(at + 1, line).unwrap_or_else(|| fail("a step is WHAT = ANSWER"));
            case.steps.push(step);
        }
    }
    cases
}

/// Writes the answers into the table's file; shares are written by hand.
pub fn record(path: &Path, answers: &Answers) {
    let text = std::fs::read_to_string(path).expect("the table");
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for case in read(path) {
        for step in case.steps {
            if matches!(step.action, Action::Share(_) | Action::Agent { .. }) {
                continue;
            }
            if let Some(answer) = answers.get(&step.line) {
                let answer = answer.escape_default();
                let mut line = format!("{} = {answer}", step.text);
                if let Some(ours) = step.ours {
                    line += &format!(" | sluice {ours}");
                }
                lines[step.line - 1] = line.trim_end().into();
            }
        }
    }
    std::fs::write(path, lines.join("\n") + "\n").expect("write the table");
}

fn step(line: usize, whole: &str) -> Option<Step> {
    let (text, expect) = match whole.rsplit_once(" =") {
        Some((text, expect)) => (text, expect.trim_start()),
        None => (whole, "?"),
    };
    let (expect, ours) = match expect.split_once(" | sluice ") {
        Some((expect, ours)) => (expect, Some(ours.to_owned())),
        None => (expect, None),
    };
    let (count, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (times, what) = match count.parse() {
        Ok(times) => (times, rest),
        Err(_) => (1, text),
    };
    let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
    let command = |late| Action::Command {
        text: rest.to_owned(),
        late,
    };
    let action = match word {
        "hold" => Action::Hold(request(rest)?),
        "share" => Action::Share(request(rest)?),
        "tally" => Action::Tally(request(rest)?),
        "queue" => Action::Queue(request(rest)?),
        "leave" => Action::Leave(rest.parse().ok()?),
        "done" => Action::Done,
        "order" => Action::Order,
        "cli" => command(false),
        "late" => command(true),
        "free" => Action::Free(rest.split(' ').filter_map(|n| n.parse().ok()).collect()),
        "agent" => {
            let (server, says) = rest.split_once(' ')?;
            Action::Agent {
                server: server.parse().ok()?,
                says: says.to_owned(),
            }
        }
        _ => Action::Ask(request(what)?),
    };
    Some(Step {
        line,
        text: text.to_owned(),
        times,
        action,
        ours,
        expect: (expect != "?").then(|| expect.replace("\\n", "\n").replace("\\'", "'")),
    })
}

/// `[from ADDRESS] METHOD URI [; Header: value]... [<< body]`
fn request(text: &str) -> Option<Request> {
    let mut r = Request {
        from: "10.0.0.1".into(),
        ..Request::default()
    };
    let (text, body) = text.split_once(" << ").unwrap_or((text, ""));
    r.body = body.to_owned();
    let mut parts = text.split("; ");
    let mut words = parts.next()?.split_whitespace();
    r.method = words.next()?.to_owned();
    if r.method == "from" {
        r.from = words.next()?.to_owned();
        r.method = words.next()?.to_owned();
    }
    r.uri = words.next()?.to_owned();
    r.headers = parts.map(String::from).collect();
    Some(r)
}
