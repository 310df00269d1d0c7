//! The packet director's command line.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use sluice_l4::config::{self, Severity};
use sluice_l4::host::Machine;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "sluice-l4",
    version,
    about = "The packet director: virtual servers, direct routing and VRRP on XDP"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Says whether a keepalived.conf is right, as keepalived -t would, and what of it cannot run here
    Check {
        file: String,
        /// What @ID lines are compared with; the host's name if not given
        #[arg(short = 'i', long)]
        config_id: Option<String>,
        /// Reject what `run` would refuse, not only what keepalived -t rejects
        #[arg(long)]
        run: bool,
    },
    /// Lists every keyword with its arguments and whether it works
    Keywords,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("sluice-l4: {e:#}");
            ExitCode::from(1)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Check {
            file,
            config_id,
            run,
        } => check(&file, config_id, run),
        Command::Keywords => {
            for (block, name, args, status, help) in config::reference() {
                let status = match status {
                    config::keyword::Status::Works => "works",
                    config::keyword::Status::NoEffect(_) => "no effect",
                    config::keyword::Status::NotYet(_) => "not yet",
                };
                println!("{block}\t{name}\t{args}\t{status}\t{help}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Exit code 5, as keepalived's, for a configuration that is rejected.
fn check(file: &str, config_id: Option<String>, run: bool) -> Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let (_, diagnostics) =
        config::parse(&Machine, file, &text, &config_id.unwrap_or_else(host_name));
    for d in &diagnostics {
        eprintln!("{d}");
    }
    let good = config::accepted(&diagnostics);
    let runs = config::runnable(&diagnostics);
    let refused = diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Unsupported)
        .count();
    println!(
        "{file}: {}{}",
        if good {
            "configuration is valid"
        } else {
            "configuration is rejected"
        },
        match (runs, refused) {
            (true, _) => String::new(),
            (false, 0) => "; run would refuse it".into(),
            (false, n) => format!("; run would refuse it ({n} cannot run)"),
        }
    );
    Ok(if good && (runs || !run) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(5)
    })
}

/// The first part of the node name, as keepalived's config-id.
fn host_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    name.split('.').next().unwrap_or_default().to_string()
}
