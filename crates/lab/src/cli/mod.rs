//! The command line: what people type becomes the tools' options.

mod judge;
mod tools;

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
    Inject(tools::InjectArgs),
    /// The floor: the smallest possible TCP relay
    Relay(tools::RelayArgs),
    /// Transfers of many objects through a proxy, every byte verified
    Integrity(judge::IntegrityArgs),
    /// CPU time per request against haproxy, nginx and the floor: the targets of this project
    Bench(judge::CompareArgs),
    /// The same work through several proxies, in turns, with tables
    Compare(judge::CompareArgs),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    crate::sys::catch_interrupts();
    crate::host::raise_fd_limit();
    let result = match Cli::parse().command {
        Command::Origin(args) => args.run(),
        Command::Inject(args) => args.run(),
        Command::Relay(args) => args.run(),
        Command::Integrity(args) => args.run(),
        Command::Bench(args) | Command::Compare(args) => args.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sluice-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
