//! The command line: what people type becomes the tools' options.

mod inject;
mod judge;
mod lab;
mod tools;

use crate::experiments;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Load generator, origin server and the published experiments that judge a load balancer.
#[derive(Debug, Parser)]
#[command(name = "sluice-lab", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The server behind the proxies: answers as the request's query string asks
    Origin(tools::OriginArgs),
    /// The load generator: closed loop, or open loop at a constant rate
    Inject(inject::InjectArgs),
    /// The floor: the smallest possible TCP relay
    Relay(tools::RelayArgs),
    /// Transfers of many objects through a proxy, every byte verified
    Integrity(judge::IntegrityArgs),
    /// CPU time per request against haproxy, nginx and the floor: the targets of this project
    Bench(judge::CompareArgs),
    /// The same work through several proxies, in turns, with tables
    Compare(judge::CompareArgs),
    /// Hits and data rate over object sizes (2008, 2009)
    Sweep(lab::SweepArgs),
    /// Set-up and teardown rates, packets per session (2009)
    Sessions(lab::ExperimentArgs),
    /// TCP mode with and without splice (2012)
    Splice(lab::ExperimentArgs),
    /// What more workers bring (2019)
    Workers(lab::ExperimentArgs),
    /// Many connections, idle connections, slow readers
    Limits(lab::ExperimentArgs),
    /// The generator itself, beside wrk and h2load: what it costs, its rates, and a stall
    Generators(lab::ExperimentArgs),
    /// Looks at this host: what should be set otherwise for a measurement, how, and why
    Doctor(lab::DoctorArgs),
    /// Every experiment, and a page that leads to them
    All(lab::ExperimentArgs),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    crate::sys::catch_interrupts();
    crate::host::raise_fd_limit();
    // Asked here, before anything is pinned.
    let _ = crate::host::CpuList::of_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let result = match cli.command {
        Command::Origin(args) => args.run(),
        Command::Inject(args) => args.run(),
        Command::Relay(args) => args.run(),
        Command::Integrity(args) => args.run(),
        Command::Bench(args) | Command::Compare(args) => args.run(),
        Command::Sweep(args) => args.run(),
        Command::Sessions(args) => args.run(experiments::sessions::run),
        Command::Splice(args) => args.run(experiments::splice::run),
        Command::Workers(args) => args.run(experiments::workers::run),
        Command::Limits(args) => args.run(experiments::limits::run),
        Command::Generators(args) => args.run(experiments::generators::run),
        Command::Doctor(args) => args.run(),
        Command::All(args) => args.run_all(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sluice-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The exit status of what measures.
fn verdict(failed: bool) -> ExitCode {
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// What clap has to say: help as it is, a mistake in one line.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nobody listens: nothing can be done about it.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() {
            WRONG_ARGUMENTS
        } else {
            0
        });
    }
    eprintln!("sluice-lab: {}", one_line(&error.to_string()));
    ExitCode::from(WRONG_ARGUMENTS)
}

/// Exit status for wrong arguments, as clap's own.
const WRONG_ARGUMENTS: u8 = 2;

/// A message of several lines, without its heading and the usage, as one.
fn one_line(text: &str) -> String {
    let telling = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty());
    let text = telling
        .collect::<Vec<_>>()
        .join(" ")
        .replace(" tip: ", "; ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    format!("{text} (--help tells more)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistake_is_one_line() {
        let check = |args: &[&str], expect: &str| {
            let error = Cli::try_parse_from(args).unwrap_err();
            assert_eq!(
                one_line(&error.to_string()),
                format!("{expect} (--help tells more)")
            );
        };
        check(
            &["lab", "inject"],
            "the following required arguments were not provided: <URL>",
        );
        check(
            &["lab", "inject", "u", "-c", "many"],
            "invalid value 'many' for '--conns <N>': 'many' is not a number above 0, such as 500, 10k or 1.5m",
        );
        check(
            &["lab", "inject", "u", "--conn", "1"],
            "unexpected argument '--conn' found; a similar argument exists: '--conns'",
        );
    }
}
