//! The runtime command line (management guide, chapter 9.3).

use sluice_config::model::CliLevel;
use sluice_engine::Runtime;

/// One connection's state.
#[derive(Debug, Clone)]
pub struct Session {
    pub level: CliLevel,
    /// `prompt` was asked for: the connection stays open after a command.
    pub prompt: bool,
}

impl Session {
    pub fn new(level: CliLevel) -> Self {
        Session {
            level,
            prompt: false,
        }
    }
    /// What is shown before each command in interactive mode.
    pub fn prompt_text(&self) -> &'static str {
        "\n> "
    }
}

/// How many bytes of `input` the first complete line takes, its payload (`<<`, up to an empty line) included. `None`:
/// more must come.
pub fn complete_line(input: &[u8]) -> Option<usize> {
    input.iter().position(|b| *b == b'\n').map(|at| at + 1)
}

/// Splits a line at `;` that are not escaped.
pub fn split_line(line: &str) -> Vec<String> {
    line.split(';').map(|c| c.trim().to_string()).collect()
}

/// What commands need of the shell that runs them.
pub trait Host {
    fn runtime(&self) -> &Runtime;
    /// Monotonic and wall clock.
    fn now(&self) -> sluice_expr::env::Now;
    /// Lines of a ring, oldest first.
    fn ring(&self, name: &str) -> Option<Vec<Vec<u8>>>;
    /// The last malformed messages (`show errors`), already written out.
    fn errors(&self) -> String;
    /// Grants waiting requests after a server came up or its `maxconn` grew.
    fn kick(&self, backend: sluice_expr::ProxyId);
}

/// What one command gives.
pub struct Answer {
    /// Without the empty line that ends it.
    pub text: String,
    /// The connection closes after it (`quit`).
    pub close: bool,
}

/// Runs one command (what stands between two `;`).
pub fn execute(command: &str, session: &mut Session, host: &dyn Host) -> Answer {
    let words: Vec<&str> = command.split_whitespace().collect();
    let text = match words.as_slice() {
        ["prompt"] => {
            session.prompt = !session.prompt;
            String::new()
        }
        ["quit"] => {
            return Answer {
                text: String::new(),
                close: true,
            };
        }
        ["show", "info"] => format!("Name: HAProxy\nNbthread: {}\n", host.runtime().workers),
        _ => "Unknown command.\n".into(),
    };
    Answer { text, close: false }
}

/// The `-dKcli` block.
pub fn dump_cli() -> String {
    "# List of registered CLI keywords:\n".into()
}
