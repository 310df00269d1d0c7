//! The files of cases: see `exchanges/README.md`.

use std::path::Path;

use super::text::unescape;

/// A file of cases, with the lines for all of them.
#[derive(Default)]
pub struct File {
    pub defaults: Vec<String>,
    pub global: Vec<String>,
    /// Sections that several cases use (`\n` between lines).
    pub sections: Vec<String>,
    pub cases: Vec<Case>,
    /// The file's lines before the first case.
    head: Vec<String>,
}

/// One exchange.
#[derive(Default)]
pub struct Case {
    pub name: String,
    pub section: Vec<String>,
    /// The `defaults` section of its proxies.
    pub from: String,
    pub conf: Vec<String>,
    pub back: Vec<String>,
    pub bind: String,
    pub server: String,
    pub client: Vec<Step>,
    /// What the server does on its first, second, ... connection; the last is for all further ones.
    pub servers: Vec<Vec<Step>>,
    /// How long nothing must happen before the outcome is final, ms, when it is recorded.
    pub quiet_ms: u64,
    /// Why Sluice's outcome is not haproxy's; what is recorded is Sluice's then.
    pub differs: Option<String>,
    pub expect: Vec<String>,
    /// Its lines in the file, outcomes left out.
    lines: Vec<String>,
}

/// One step of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Send(Vec<u8>),
    WaitMs(u64),
    /// Reads a head (server: `@head`, and with `@req` the body it announces; client: up to the next empty line).
    Head,
    Request,
    /// Reads something.
    Any,
    /// Reads to the end.
    All,
    Shut,
    Close,
    Reset,
    /// Client: another connection, or back to the nth.
    New,
    Use(usize),
    /// Client: notes whether the connection is open.
    Peek,
}

impl Step {
    fn parse(text: &str) -> Step {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("@wait", ms) => Step::WaitMs(ms.parse().expect("@wait takes milliseconds")),
            ("@use", n) => Step::Use(n.parse().expect("@use takes a number")),
            ("@head", "") => Step::Head,
            ("@req", "") => Step::Request,
            ("@any" | "@some", "") => Step::Any,
            ("@all", "") => Step::All,
            ("@shut", "") => Step::Shut,
            ("@close", "") => Step::Close,
            ("@rst", "") => Step::Reset,
            ("@new", "") => Step::New,
            ("@peek", "") => Step::Peek,
            _ => Step::Send(unescape(text)),
        }
    }
}

impl File {
    pub fn read(path: &Path) -> File {
        let text = std::fs::read_to_string(path).expect("the cases");
        let mut file = File::default();
        for line in text.lines() {
            let name = line.strip_prefix('[').and_then(|l| l.strip_suffix(']'));
            if let Some(name) = name {
                file.cases.push(Case {
                    name: name.to_string(),
                    from: "all".to_string(),
                    quiet_ms: 350,
                    servers: vec![Vec::new()],
                    ..Case::default()
                });
            }
            let Some(case) = file.cases.last_mut() else {
                let into = match line.split_once(' ') {
                    Some(("defaults", rest)) => Some((&mut file.defaults, rest)),
                    Some(("global", rest)) => Some((&mut file.global, rest)),
                    Some(("section", rest)) => Some((&mut file.sections, rest)),
                    _ => None,
                };
                if let Some((into, rest)) = into {
                    into.push(rest.to_string());
                }
                file.head.push(line.to_string());
                continue;
            };
            if name.is_some() || !case.take(line) {
                case.lines.push(line.to_string());
            }
        }
        file
    }

    /// Writes the file with these outcomes.
    pub fn write(&self, path: &Path, outcomes: impl Iterator<Item = Vec<String>>) {
        let mut out = self.head.join("\n");
        for (case, outcome) in self.cases.iter().zip(outcomes) {
            out.push_str(if out.is_empty() { "" } else { "\n" });
            let mut lines: Vec<&str> = case.lines.iter().map(String::as_str).collect();
            while lines.last().is_some_and(|l| l.is_empty()) {
                lines.pop();
            }
            for line in lines {
                out.push_str(line);
                out.push('\n');
            }
            for line in outcome {
                out.push_str(&format!("= {line}\n"));
            }
        }
        std::fs::write(path, out).expect("the cases");
    }
}

impl Case {
    /// Reads a line; true when it is an outcome.
    fn take(&mut self, line: &str) -> bool {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "conf" => self.conf.push(rest.to_string()),
            "back" => self.back.push(rest.to_string()),
            "section" => self.section.push(rest.to_string()),
            "from" => self.from = rest.to_string(),
            "bind" => self.bind = rest.to_string(),
            "serv" => self.server = rest.to_string(),
            "quiet" => self.quiet_ms = rest.parse().expect("quiet takes milliseconds"),
            ">" => self.client.push(Step::parse(rest)),
            "<" => self
                .servers
                .last_mut()
                .expect("one")
                .push(Step::parse(rest)),
            "<---" => self.servers.push(Vec::new()),
            "!" => self.differs = Some(rest.trim_start_matches("because ").to_string()),
            "=" => {
                self.expect.push(rest.to_string());
                return true;
            }
            "" | "#" => {}
            _ => panic!("[{}]: what is '{line}'?", self.name),
        }
        false
    }
}
