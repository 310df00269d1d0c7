//! The packet director's command line.

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, Subcommand, ValueEnum};
use sluice_l4::config::{self, Severity};
use sluice_l4::datapath::{Mode, Programs, Sizes};
use sluice_l4::host::Machine;
use sluice_l4::shell::control::{DEFAULT_SOCKET, Request, ask};
use sluice_l4::shell::{doctor, ipvsadm, run, show};
use sluice_l4::vrrp::packet::ChecksumForm;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
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
    /// Directs packets as a keepalived.conf says
    Run {
        #[arg(short, long, default_value = "/etc/keepalived/keepalived.conf")]
        file: String,
        /// What @ID lines are compared with; the host's name if not given
        #[arg(short = 'i', long)]
        config_id: Option<String>,
        /// Interface packets come in on (may be repeated); those the file names if not given
        #[arg(long)]
        interface: Vec<String>,
        #[arg(long, value_enum, default_value = "auto")]
        xdp_mode: XdpMode,
        #[arg(long, env = "SLUICE_L4_SOCKET", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
        /// The flow table holds 2 to this power
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(8..=26))]
        conn_tab_bits: u32,
        /// New flows a core keeps in a second; above that they are hashed and not kept. 0: no limit
        #[arg(long, default_value_t = 0)]
        new_flows_max: u32,
        /// Form of VRRPv3 checksums sent over IPv4
        #[arg(long, value_enum, default_value = "keepalived")]
        vrrp_checksum: Checksum,
        /// Serve Prometheus metrics here
        #[arg(long)]
        metrics: Option<SocketAddr>,
        /// Serve the flow table to a twin director here
        #[arg(long)]
        sync: Option<SocketAddr>,
        /// Pull the flow table of the twin director there, before VRRP starts and ever after
        #[arg(long)]
        sync_peer: Option<SocketAddr>,
    },
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
    /// Shows what a running director does
    Show {
        #[arg(value_enum, default_value = "all")]
        what: Topic,
        #[arg(long)]
        json: bool,
        /// Most flows shown
        #[arg(long, default_value_t = 1000)]
        limit: usize,
        #[arg(long, env = "SLUICE_L4_SOCKET", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Changes a running director; virtual servers are named as show does, or by ADDRESS:PORT
    Set {
        #[command(subcommand)]
        change: Change,
        #[arg(long, env = "SLUICE_L4_SOCKET", default_value = DEFAULT_SOCKET, global = true)]
        socket: PathBuf,
    },
    /// Reads the configuration again and applies the difference
    Reload {
        #[arg(long, env = "SLUICE_L4_SOCKET", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// ipvsadm's verbs: -L [-n] [--stats|--thresholds|-c], -S, -R, -A, -E, -D, -C, -Z, -a, -e, -d
    #[command(disable_help_flag = true)]
    Ipvsadm {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
        #[arg(long, env = "SLUICE_L4_SOCKET", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Looks at an interface and says what would stop packets
    Doctor { interface: String },
    /// On a real server: unwraps tunnelled packets
    Decap {
        interface: String,
        /// Address that tunnels end at (may be repeated); the interface's own if not given
        #[arg(long)]
        address: Vec<IpAddr>,
        #[arg(long, value_enum, default_value = "auto")]
        xdp_mode: XdpMode,
    },
    /// Lists every keyword with its arguments and whether it works
    Keywords,
}

#[derive(Subcommand)]
enum Change {
    /// Sets a server's weight
    Weight {
        virtual_server: String,
        server: SocketAddr,
        weight: u32,
    },
    /// Gives a server no new connections; its flows stay
    Drain {
        virtual_server: String,
        server: SocketAddr,
    },
    /// Adds a server
    Add {
        virtual_server: String,
        server: SocketAddr,
        #[arg(default_value_t = 1)]
        weight: u32,
        /// NAT, DR or TUN; the virtual server's if not given
        #[arg(long)]
        forwarding: Option<String>,
    },
    /// Deletes a server
    Delete {
        virtual_server: String,
        server: SocketAddr,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum XdpMode {
    /// The driver's where there is one, generic on veth and other virtual interfaces
    Auto,
    Driver,
    Generic,
}

#[derive(Clone, Copy, ValueEnum)]
enum Checksum {
    /// With an IPv4 pseudo-header, as keepalived
    Keepalived,
    /// The message only
    Rfc9568,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Topic {
    All,
    Servers,
    Vrrp,
    Counters,
    Flows,
}

impl XdpMode {
    fn fixed(self) -> Option<Mode> {
        match self {
            XdpMode::Auto => None,
            XdpMode::Driver => Some(Mode::Driver),
            XdpMode::Generic => Some(Mode::Generic),
        }
    }
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
