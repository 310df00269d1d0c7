//! The VRRP thread: all virtual routers, their timers and sockets, in one loop that does nothing else. Adverts leave on
//! time whatever the checkers, the tables and the scripts are busy with; what masters put into the host, another thread does
//! ([`place`]).

mod commands;
mod place;
pub mod vmac;
mod wishes;
mod work;

use super::router::{Readings, Router};
use super::router_socket::is_v6;
use crate::config::model::Config;
use crate::netlink::firewall::Closed;
use crate::netlink::{Link, Monitor, Netlink};
use crate::vrrp::machine::{Micros, State};
use crate::vrrp::packet::ChecksumForm;
use place::{Place, Placement};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What the rest of the program tells the thread.
pub enum Command {
    Script(String, bool),
    File(String, i64),
    Process(String, bool),
    Bfd(String, bool),
    Reload(Arc<Config>),
    Show(Sender<Vec<RouterView>>),
    Stop,
}

/// What the thread tells the rest of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Entered {
        instance: String,
        state: State,
        priority: u8,
    },
    Stopped {
        instance: String,
        was: State,
        priority: u8,
    },
    LowerAdvert {
        instance: String,
        priority: u8,
    },
    Priority {
        instance: String,
        state: State,
        priority: u8,
    },
    Log(String),
}

/// A router for `show`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RouterView {
    pub name: String,
    pub state: &'static str,
    pub interface: Option<String>,
    pub virtual_router_id: u8,
    pub version: u8,
    pub priority: u8,
    pub master_priority: u8,
    pub last_master: Option<IpAddr>,
    pub addresses: usize,
    pub since_ms: Option<u64>,
    pub counts: super::router::Counts,
}

/// The handle of the running thread.
pub struct Routers {
    commands: Sender<Command>,
    wake: UnixStream,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How the routers are to behave, beside the configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub checksum: ChecksumForm,
}

impl Routers {
    /// Starts the threads. `notices` is called from one of them and must not block.
    pub fn start(
        config: Arc<Config>,
        options: Options,
        notices: impl Fn(Notice) + Send + 'static,
    ) -> io::Result<Self> {
        let (commands, receiver) = channel();
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let mut work = Work::new(config, options, Box::new(notices))?;
        let thread = std::thread::Builder::new()
            .name("vrrp".into())
            .spawn(move || work.run(&receiver, woken))?;
        Ok(Routers {
            commands,
            wake,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn send(&self, command: Command) {
        // A full pipe means that the thread will wake anyway; a closed channel that it has ended.
        let _ = self.commands.send(command);
        let _ = (&self.wake).write(&[1]);
    }

    pub fn show(&self) -> Vec<RouterView> {
        let (sender, receiver) = channel();
        self.send(Command::Show(sender));
        receiver
            .recv_timeout(std::time::Duration::from_secs(2))
            .unwrap_or_default()
    }

    /// Ends all routers, telling the peers, and waits for it.
    pub fn stop(&self) {
        self.send(Command::Stop);
        let thread = self.thread.lock().ok().and_then(|mut t| t.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Microseconds of CLOCK_MONOTONIC.
pub fn now_us() -> Micros {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

/// The thread's own.
struct Work {
    config: Arc<Config>,
    options: Options,
    routers: Vec<Router>,
    links: Arc<Vec<Link>>,
    readings: Readings,
    netlink: Netlink,
    monitor: Monitor,
    /// What is put into the host, and what is told, goes through it, in order.
    place: Place,
    /// `static_ipaddress`, `static_routes`, `static_rules`, as they are in place.
    fixed: Arc<Placement>,
    started: Micros,
    /// What the firewall's table says.
    closed: BTreeSet<Closed>,
}

/// Whether any instance of the file speaks IPv6.
pub fn any_v6(config: &Config) -> bool {
    config.instances.iter().any(is_v6)
}
