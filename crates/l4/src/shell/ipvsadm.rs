//! ipvsadm(8) for fingers and scripts that know it: every listing and editing verb, answered with its words, columns and exit
//! statuses. [`parse`] reads the command line, [`listing`] prints, [`names`] knows ports and hosts. Left out: IPVS's synchronization daemon,
//! persistence engines (`--pe`), tunnels other than IPIP.

use super::control::{self, Request};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod listing;
mod names;
mod parse;

pub use parse::parse;

#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    /// `-L`, of one virtual server, if named.
    List {
        service: Option<String>,
        style: Style,
    },
    /// `-L -c`: every connection.
    Connections(Style),
    /// `-L --timeout`
    Timeouts,
    /// `-L --daemon`: there is none.
    Daemons,
    /// `-S`: as lines that `-R` reads.
    Save(Style),
    /// `-R`: every line of the standard input is a command line.
    Restore,
    Version,
    Help,
    Change(Request),
}

/// What of servers a listing shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Plain,
    /// What went through since the counts began.
    Stats,
    /// What goes through in a second.
    Rate,
    /// How many connections servers may have.
    Thresholds,
    PersistentConnections,
    TunnelInfo,
}

/// How a listing is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    pub view: View,
    /// No names for addresses and ports.
    pub numeric: bool,
    /// Large numbers in full.
    pub exact: bool,
    /// In the order of the director; servers as IPVS walks them.
    pub unsorted: bool,
}

/// Why not, and the exit status: 2 for a command line that is wrong, 255 for what the director refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub words: String,
    pub status: u8,
}

/// Does what a command line says, at the director of this socket; gives what is to be printed.
pub fn carry_out(args: &[String], socket: &Path) -> Result<String, Refused> {
    let (args, elsewhere) = without_socket(args);
    let socket = elsewhere.as_deref().unwrap_or(socket);
    match parse(&args)? {
        Verb::Restore => {
            for line in std::io::stdin().lines() {
                let line = line.map_err(refused)?;
                let args: Vec<String> = line.split_whitespace().map(String::from).collect();
                if !args.is_empty() {
                    one(parse(&args)?, socket)?;
                }
            }
            Ok(String::new())
        }
        verb => one(verb, socket),
    }
}

/// `--socket PATH` may stand among ipvsadm's own words too.
fn without_socket(args: &[String]) -> (Vec<String>, Option<PathBuf>) {
    let (mut rest, mut socket) = (Vec::new(), None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--socket") {
            Some("") => socket = args.next().map(PathBuf::from),
            Some(path) if path.starts_with('=') => socket = Some(PathBuf::from(&path[1..])),
            _ => rest.push(arg.clone()),
        }
    }
    (rest, socket)
}

fn refused(e: impl std::fmt::Display) -> Refused {
    Refused {
        words: format!("{e:#}"),
        status: 255,
    }
}

/// Rates are of so long a time.
const RATE_TIME: Duration = Duration::from_secs(1);

fn one(verb: Verb, socket: &Path) -> Result<String, Refused> {
    let ask = |request| control::ask(socket, &request).map_err(refused);
    Ok(match verb {
        Verb::List { service, style } => {
            let before = match style.view {
                View::Rate => {
                    let before = ask(Request::Show)?;
                    std::thread::sleep(RATE_TIME);
                    Some(before)
                }
                _ => None,
            };
            let mut now = ask(Request::Show)?;
            if style.view == View::PersistentConnections {
                now["persistent"] = ask(Request::PersistentConnections)?;
            }
            let listed = listing::services(&now, before.as_ref(), style);
            match service {
                None => listing::all(&listed, style, listing::size(&now)),
                Some(name) => listing::one(&listed, style, &name).ok_or(Refused {
                    words: "No such service".into(),
                    status: 1,
                })?,
            }
        }
        Verb::Connections(style) => {
            listing::connections(&ask(Request::Flows { limit: usize::MAX })?, style)
        }
        Verb::Save(style) => listing::save(&listing::services(&ask(Request::Show)?, None, style)),
        Verb::Timeouts => listing::timeouts(&ask(Request::Show)?),
        // Inside a restore it would read what is being read.
        Verb::Daemons | Verb::Restore => String::new(),
        Verb::Version => parse::VERSION.into(),
        Verb::Help => parse::usage(),
        Verb::Change(request) => {
            ask(request)?;
            String::new()
        }
    })
}
