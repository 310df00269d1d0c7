//! The packet director's command line.

mod cli;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use cli::{Change, Checksum, Cli, Command, Topic, XdpMode};
use sluice_l4::config::{self, Severity};
use sluice_l4::datapath::{Mode, Programs, Sizes};
use sluice_l4::host::Machine;
use sluice_l4::shell::control::{Request, ask};
use sluice_l4::shell::{doctor, ipvsadm, run, show};
use sluice_l4::vrrp::packet::ChecksumForm;
use std::net::IpAddr;
use std::process::ExitCode;

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
        Command::Run {
            file,
            config_id,
            interface,
            xdp_mode,
            socket,
            conn_tab_bits,
            new_flows_max,
            vrrp_checksum,
            metrics,
            sync,
            sync_peer,
        } => {
            run::run(run::RunOptions {
                file,
                config_id: config_id.unwrap_or_else(host_name),
                interfaces: interface,
                mode: xdp_mode.fixed(),
                socket,
                conn_tab_bits,
                new_flows_max,
                checksum: match vrrp_checksum {
                    Checksum::Keepalived => ChecksumForm::Keepalived,
                    Checksum::Rfc9568 => ChecksumForm::Rfc9568,
                },
                metrics,
                sync,
                sync_peer,
            })?;
        }
        Command::Check {
            file,
            config_id,
            run,
        } => return check(&file, config_id, run),
        Command::Show {
            what,
            json,
            limit,
            socket,
        } => {
            let value = match what {
                Topic::Flows => ask(&socket, &Request::Flows { limit })?,
                _ => ask(&socket, &Request::Show)?,
            };
            let text = match what {
                _ if json => serde_json::to_string_pretty(&value)?,
                Topic::Flows => show::flows(&value),
                Topic::Servers => show::servers(&value),
                Topic::Vrrp => [show::routers(&value), show::bfds(&value)].join("\n"),
                Topic::Counters => show::counters(&value),
                Topic::All => [
                    show::servers(&value),
                    show::routers(&value),
                    show::bfds(&value),
                    show::counters(&value),
                ]
                .join("\n"),
            };
            print(&format!("{}\n", text.trim_end()));
        }
        Command::Set { change, socket } => {
            let request = match change {
                Change::Weight {
                    virtual_server,
                    server,
                    weight,
                } => Request::Weight {
                    virtual_server,
                    ip: server.ip(),
                    port: server.port(),
                    weight,
                },
                Change::Drain {
                    virtual_server,
                    server,
                } => Request::Weight {
                    virtual_server,
                    ip: server.ip(),
                    port: server.port(),
                    weight: 0,
                },
                Change::Add {
                    virtual_server,
                    server,
                    weight,
                    forwarding,
                } => Request::Add {
                    virtual_server,
                    ip: server.ip(),
                    port: server.port(),
                    weight,
                    forwarding,
                    conns_max: 0,
                    conns_min: 0,
                },
                Change::Delete {
                    virtual_server,
                    server,
                } => Request::Delete {
                    virtual_server,
                    ip: server.ip(),
                    port: server.port(),
                },
            };
            ask(&socket, &request).map_err(|e| anyhow!("{request}: {e:#}{}", those(&socket)))?;
        }
        Command::Reload { socket } => drop(ask(&socket, &Request::Reload)?),
        Command::Ipvsadm { args, socket } => match ipvsadm::carry_out(&args, &socket) {
            Ok(text) => print(&text),
            Err(refused) => {
                eprintln!("{}", refused.words);
                return Ok(ExitCode::from(refused.status));
            }
        },
        Command::Doctor { interface } => {
            let findings = doctor::look(&interface)?;
            for f in &findings {
                println!("{f}");
            }
            return Ok(if findings.iter().any(|f| f.stops) {
                ExitCode::from(1)
            } else {
                ExitCode::SUCCESS
            });
        }
        Command::Decap {
            interface,
            address,
            xdp_mode,
        } => decap(&interface, address, xdp_mode)?,
        Command::Keywords => {
            for (block, name, args, status, help) in config::reference() {
                let status = match status {
                    config::keyword::Status::Works => "works",
                    config::keyword::Status::NoEffect(_) => "no effect",
                    config::keyword::Status::NotYet(_) => "not yet",
                };
                print(&format!("{block}\t{name}\t{args}\t{status}\t{help}\n"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What there is to change, for who named something else.
fn those(socket: &std::path::Path) -> String {
    let shown = ask(socket, &Request::Show).unwrap_or_default();
    let servers = shown.get("virtual_servers").and_then(|v| v.as_array());
    let names: Vec<&str> = servers
        .into_iter()
        .flatten()
        .filter_map(|v| v.get("name")?.as_str())
        .take(8)
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; the virtual servers are {}", names.join(", "))
}

/// Prints; a reader that has seen enough (`| head`) is no error.
fn print(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
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
            (true, _) if good => String::new(),
            (true, _) => ", as by keepalived -t; run goes on in spite of the complaints".into(),
            (false, 0) => "; run would refuse it".into(),
            (false, n) => format!("; run would refuse it ({n} cannot run)"),
        }
    );
    Ok(if good && (runs || !run) {
        ExitCode::SUCCESS
    } else if diagnostics
        .iter()
        .any(|d| d.message == config::SCRIPTS_AS_ROOT)
    {
        ExitCode::from(6)
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

/// Unwraps tunnels on an interface until a signal ends it.
fn decap(interface: &str, mut addresses: Vec<IpAddr>, mode: XdpMode) -> Result<()> {
    let mut netlink = sluice_l4::netlink::Netlink::open()?;
    let link = netlink
        .link(interface)?
        .with_context(|| format!("no interface {interface}"))?;
    if addresses.is_empty() {
        addresses.extend(
            netlink
                .addresses()?
                .into_iter()
                .filter(|(i, _, _)| *i == link.index)
                .map(|(_, ip, _)| ip),
        );
    }
    if addresses.is_empty() {
        bail!("{interface} has no address: name the tunnels' ends with --address");
    }
    let mut programs = Programs::load(Sizes::small())?;
    for ip in &addresses {
        programs.set_tunnel_end(*ip)?;
    }
    let mode = mode.fixed().unwrap_or(if link.kind.is_empty() {
        Mode::Driver
    } else {
        Mode::Generic
    });
    programs.attach("decap", interface, mode)?;
    println!(
        "{interface}: tunnels to {} end here",
        addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok::<_, anyhow::Error>(())
    })
}
