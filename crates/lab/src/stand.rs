//! The stand of an experiment: origin, proxies and load on their CPUs, on the loopback or on three hosts of their own.

use crate::compare::config::Job;
use crate::compare::peer::{self, Peer, Programs, Running};
use crate::host::{CpuList, Stop};
use crate::inject::{self, Load};
use crate::measure::{Sample, Span, measure};
use crate::netns::{CLIENT_SIDE, ORIGIN_SIDE, Topology};
use crate::origin::{self, Origin};
use crate::process::{WorkDir, free_port};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// What a stand is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the proxies' programs are.
    pub programs: Programs,
    /// CPUs of the proxy.
    pub proxy_cpus: CpuList,
    /// CPUs of load and origin.
    pub load_cpus: CpuList,
    /// MTU on the client's and on the origin's side: then client, proxy and origin are hosts of their own.
    pub mtu: Option<(u32, u32)>,
    /// Origin servers.
    pub servers: u16,
}

impl Options {
    /// The first CPU for the proxy, the others for the load, everything on the loopback.
    #[must_use]
    pub fn new(programs: Programs) -> Self {
        let (proxy_cpus, load_cpus) = split_cpus();
        Self {
            programs,
            proxy_cpus,
            load_cpus,
            mtu: None,
            servers: 1,
        }
    }
}

/// The usual split of the CPUs: the first for the proxy, the rest for load and origin.
#[must_use]
pub fn split_cpus() -> (CpuList, CpuList) {
    let mut all = CpuList::of_process().0;
    if all.len() < 2 {
        return (CpuList(all.clone()), CpuList(all));
    }
    let rest = all.split_off(1);
    (CpuList(all), CpuList(rest))
}

/// Packets per request on either cable.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PerCable {
    /// Between client and proxy.
    pub client: f64,
    /// Between proxy and origin.
    pub origin: f64,
}

/// A running stand; dropping it takes everything down.
pub struct Stand {
    /// How it was made.
    pub options: Options,
    /// The origin behind the proxies.
    pub origin: Origin,
    /// The three hosts, when there are.
    pub hosts: Option<Topology>,
    dir: WorkDir,
    log: LogSink,
    started: Cell<u16>,
}

impl Stand {
    /// Builds it. The calling thread, and so everything it starts, is kept on the load's CPUs.
    ///
    /// # Errors
    /// One clear line about what could not be had.
    pub fn new(options: &Options) -> Result<Self> {
        options.load_cpus.pin()?;
        let hosts = options
            .mtu
            .map(|(client, origin)| Topology::new(client, origin))
            .transpose()?;
        let ip = if hosts.is_some() {
            Topology::ORIGIN
        } else {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        };
        let origin_options = origin::Options {
            listen: SocketAddr::new(ip, 0),
            servers: options.servers,
            threads: options.load_cpus.0.len().max(1),
            cpus: options.load_cpus.clone(),
            ..origin::Options::default()
        };
        let origin = match &hosts {
            Some(hosts) => hosts.origin.enter(|| Origin::start(&origin_options))??,
            None => Origin::start(&origin_options)?,
        };
        // Logs go over the proxy's own loopback.
        let log = match &hosts {
            Some(hosts) => hosts.proxy.enter(LogSink::start)??,
            None => LogSink::start()?,
        };
        let dir = WorkDir::new()?;
        Ok(Self {
            options: options.clone(),
            origin,
            hosts,
            dir,
            log,
            started: Cell::new(0),
        })
    }

    /// The plain job (keep-alive forwarding) on an address of its own, to be changed as the experiment wants.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn job(&self) -> Result<Job> {
        let listen = match &self.hosts {
            Some(_) => {
                // Nobody else lives on that host: ports are simply counted.
                const FIRST_PORT: u16 = 10_000;
                self.started.set(self.started.get() + 1);
                SocketAddr::new(Topology::PROXY, FIRST_PORT + self.started.get())
            }
            None => SocketAddr::from(([127, 0, 0, 1], free_port()?)),
        };
        Ok(Job::new(listen, self.origin.addrs.clone()))
    }

    /// Folder for files that jobs refer to.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where log datagrams may be sent.
    #[must_use]
    pub fn log(&self) -> SocketAddr {
        self.log.addr
    }

    /// Starts a proxy for a job.
    ///
    /// # Errors
    /// As [`peer::start`].
    pub fn start(&self, peer: Peer, job: &Job) -> Result<Running> {
        let dir = self
            .dir
            .path()
            .join(format!("{}-{}", peer.name(), job.listen.port()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let start = || {
            peer::start(
                peer,
                &self.options.programs,
                job,
                &self.options.proxy_cpus,
                &dir,
            )
        };
        match &self.hosts {
            Some(hosts) => hosts.proxy.enter(start)?,
            None => start(),
        }
    }

    /// Runs `work` where the client is.
    ///
    /// # Errors
    /// When the client's host cannot be entered, and those of `work`.
    pub fn at_client<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.hosts {
            Some(hosts) => hosts.client.enter(work)?,
            None => work(),
        }
    }

    /// Starts a load; threads and CPUs are the stand's.
    ///
    /// # Errors
    /// As [`Load::start`].
    pub fn load(&self, mut options: inject::Options) -> Result<Load> {
        options.threads = self.options.load_cpus.0.len().max(1);
        options.cpus = self.options.load_cpus.clone();
        self.at_client(|| Load::start(&options))
    }

    /// Packets per request, both directions together, on the client's and on the origin's cable; the requests come one
    /// after the other, so that nothing is merged with a neighbour's. `None` on the loopback, where there is no cable.
    ///
    /// # Errors
    /// When the load cannot be started or nothing was answered.
    pub fn packets(&self, load: inject::Options, requests: u64) -> Result<Option<PerCable>> {
        let Some(hosts) = &self.hosts else {
            return Ok(None);
        };
        let read = || -> Result<[u64; 2]> {
            let client = hosts.client.packets(CLIENT_SIDE)?;
            let origin = hosts.origin.packets(ORIGIN_SIDE)?;
            Ok([client, origin].map(|p| p.received + p.sent))
        };
        let before = read()?;
        let load = inject::Options {
            conns: 1,
            requests_max: Some(requests),
            ..load
        };
        let report = self.load(load)?.wait(|_| {})?;
        let after = read()?;
        let answered = report.counts.requests;
        ensure!(
            answered > 0,
            "no packets to count: {}",
            report.reason().unwrap_or_default()
        );
        let each = |n: usize| (after[n] - before[n]) as f64 / answered as f64;
        Ok(Some(PerCable {
            client: each(0),
            origin: each(1),
        }))
    }

    /// Loads a proxy and measures it; once more when nothing came of it though the proxy lives, because on a busy machine
    /// anybody may stand still for a moment.
    ///
    /// # Errors
    /// As [`measure`], of the second try.
    pub fn measure(
        &self,
        proxy: &mut Running,
        load: inject::Options,
        span: Span,
    ) -> Result<Sample> {
        let cpus = &self.options.proxy_cpus;
        match measure(self.load(load.clone())?, proxy, cpus, span) {
            Err(_) if !crate::sys::interrupted() && proxy.process.check_alive().is_ok() => {
                measure(self.load(load)?, proxy, cpus, span)
            }
            result => result,
        }
    }
}

/// Takes log datagrams and throws them away.
struct LogSink {
    addr: SocketAddr,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LogSink {
    fn start() -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").context("no port for the log")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (addr, stop) = (socket.local_addr()?, Stop::new()?);
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("log-sink".to_owned())
            .spawn(move || {
                let mut line = [0; 4096];
                while !seen.is_set() {
                    let _ = socket.recv(&mut line);
                }
            })?;
        Ok(Self {
            addr,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
