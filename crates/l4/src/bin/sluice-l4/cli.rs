//! What the command line may say.

use clap::{Parser, Subcommand, ValueEnum};
use sluice_l4::datapath::Mode;
use sluice_l4::shell::control::DEFAULT_SOCKET;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "sluice-l4",
    version,
    about = "The packet director: virtual servers, direct routing and VRRP on XDP"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
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
pub(crate) enum Change {
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
pub(crate) enum XdpMode {
    /// The driver's where there is one, generic on veth and other virtual interfaces
    Auto,
    Driver,
    Generic,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Checksum {
    /// With an IPv4 pseudo-header, as keepalived
    Keepalived,
    /// The message only
    Rfc9568,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Topic {
    All,
    Servers,
    Vrrp,
    Counters,
    Flows,
}

impl XdpMode {
    pub(crate) fn fixed(self) -> Option<Mode> {
        match self {
            XdpMode::Auto => None,
            XdpMode::Driver => Some(Mode::Driver),
            XdpMode::Generic => Some(Mode::Generic),
        }
    }
}
