//! Loading the XDP programs, attaching them, and their maps as typed calls.

use super::layout::{
    self, FLOW, FLOW_KEY, FlowEntry, FlowKey, LOAD, PERSIST, PERSIST_KEY, SERVER, SERVICE,
    SETTINGS, ServerEntry, ServiceEntry, Settings, TALLY, Tally, Template, VIP_KEY,
};
use crate::netlink::Netlink;
use crate::sys;
use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use aya::programs::{TestRun as _, TestRunAttrs, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use thiserror::Error;

/// The object built by build.rs; empty if clang was missing.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/director.bpf.o"));

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "this sluice-l4 was built without its XDP programs: install clang, libbpf-dev and linux-libc-dev and build it again"
    )]
    NotBuilt,
    #[error("cannot load the XDP programs (root or CAP_BPF and CAP_NET_ADMIN are needed): {0}")]
    Load(#[from] aya::EbpfError),
    #[error("the kernel refused the program {name}: {source}")]
    Program {
        name: &'static str,
        source: aya::programs::ProgramError,
    },
    #[error("cannot attach XDP to {interface}: {source}")]
    Attach {
        interface: String,
        source: std::io::Error,
    },
    #[error("the XDP object has no {0}")]
    Missing(&'static str),
    #[error("map {name}: {source}")]
    Map {
        name: &'static str,
        source: aya::maps::MapError,
    },
}

/// How XDP is run on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver.
    Driver,
    /// In the network stack, for every interface; slower.
    Generic,
}

/// Sizes of the maps, in entries.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub flows: u32,
    pub vips: u32,
    pub servers: u32,
    pub rings: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            flows: 1 << 20,
            vips: 1 << 16,
            servers: 1 << 16,
            rings: 1 << 20,
        }
    }
}

impl Sizes {
    /// Small maps for tests.
    pub fn small() -> Self {
        Sizes {
            flows: 1 << 12,
            vips: 256,
            servers: 1 << 10,
            rings: 1 << 16,
        }
    }
}

type Bytes<const N: usize> = [u8; N];

/// All programs of the object.
const PROGRAMS: [&str; 7] = [
    "director",
    "decap",
    "pass",
    "drop",
    "generate",
    "direct_new",
    "tunnel_again",
];

/// The loaded programs and their maps. Dropping it detaches what it attached; a process that is killed leaves its
/// programs forwarding by the last tables (see [`Netlink::set_xdp`]).
pub struct Programs {
    ebpf: Ebpf,
    /// Interface index, and whether in generic mode.
    attached: Vec<(u32, bool)>,
    vips: HashMap<MapData, Bytes<VIP_KEY>, Bytes<SERVICE>>,
    servers: Array<MapData, Bytes<SERVER>>,
    loads: Array<MapData, Bytes<LOAD>>,
    rings: Array<MapData, u32>,
    cursors: Array<MapData, u32>,
    flows: HashMap<MapData, Bytes<FLOW_KEY>, Bytes<FLOW>>,
    flows_fd: OwnedFd,
    templates: HashMap<MapData, Bytes<PERSIST_KEY>, Bytes<PERSIST>>,
    settings: Array<MapData, Bytes<SETTINGS>>,
    server_tallies: PerCpuArray<MapData, Bytes<TALLY>>,
    service_tallies: PerCpuArray<MapData, Bytes<TALLY>>,
    counters: PerCpuArray<MapData, u64>,
    tunnel_ends: HashMap<MapData, Bytes<VIP_KEY>, u32>,
    generator: PerCpuArray<MapData, u64>,
}

mod entries;

/// What a test run gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// XDP_DROP 1, XDP_PASS 2, XDP_TX 3, XDP_REDIRECT 4.
    pub verdict: u32,
    pub frame: Vec<u8>,
    /// Of one packet.
    pub duration: Duration,
}

impl Programs {
    /// Whether the programs were compiled in.
    pub fn built() -> bool {
        !OBJECT.is_empty()
    }

    pub fn load(sizes: Sizes) -> Result<Self, LoadError> {
        if !Self::built() {
            return Err(LoadError::NotBuilt);
        }
        let mut ebpf = EbpfLoader::new()
            .map_max_entries("flows", sizes.flows)
            .map_max_entries("replies", sizes.flows / 4)
            .map_max_entries("templates", sizes.flows / 4)
            .map_max_entries("vips", sizes.vips)
            .map_max_entries("localities", sizes.vips)
            .map_max_entries("servers", sizes.servers)
            .map_max_entries("loads", sizes.servers)
            .map_max_entries("server_tallies", sizes.servers)
            .map_max_entries("rings", sizes.rings)
            .load(OBJECT)?;
        for name in PROGRAMS {
            program(&mut ebpf, name)?
                .load()
                .map_err(|source| LoadError::Program { name, source })?;
        }
        // Kept beside the typed map, which does not give its descriptor away.
        let flows_fd = match ebpf.map("flows") {
            Some(Map::LruHashMap(data)) => data.fd().as_fd().try_clone_to_owned(),
            _ => return Err(LoadError::Missing("flows")),
        }
        .map_err(|e| LoadError::Attach {
            interface: "the flow table".into(),
            source: e,
        })?;
        Ok(Programs {
            flows_fd,
            vips: take(&mut ebpf, "vips")?,
            servers: take(&mut ebpf, "servers")?,
            loads: take(&mut ebpf, "loads")?,
            rings: take(&mut ebpf, "rings")?,
            cursors: take(&mut ebpf, "cursors")?,
            flows: take(&mut ebpf, "flows")?,
            templates: take(&mut ebpf, "templates")?,
            settings: take(&mut ebpf, "settings")?,
            server_tallies: take(&mut ebpf, "server_tallies")?,
            service_tallies: take(&mut ebpf, "service_tallies")?,
            counters: take(&mut ebpf, "counters")?,
            tunnel_ends: take(&mut ebpf, "tunnel_ends")?,
            generator: take(&mut ebpf, "generator")?,
            ebpf,
            attached: Vec::new(),
        })
    }

    /// Attaches a program ("director", "decap" or "pass") to an interface, in place of what a killed process left there.
    pub fn attach(
        &mut self,
        name: &'static str,
        interface: &str,
        mode: Mode,
    ) -> Result<(), LoadError> {
        let failed = |source| LoadError::Attach {
            interface: interface.into(),
            source,
        };
        let mut netlink = Netlink::open().map_err(failed)?;
        let link = netlink
            .link(interface)
            .map_err(failed)?
            .ok_or_else(|| failed(std::io::Error::other("no such interface")))?;
        if let Some(other) = link.xdp.filter(|id| !ours(*id)) {
            let why = format!(
                "another program (id {other}) is there; detach it first: ip link set dev {interface} xdp off"
            );
            return Err(failed(std::io::Error::other(why)));
        }
        let fd = program(&mut self.ebpf, name)?
            .fd()
            .map_err(|source| LoadError::Program { name, source })?;
        let generic = mode == Mode::Generic;
        // A program left in the other mode would bar this one.
        let _ = netlink.set_xdp(link.index, None, !generic);
        netlink
            .set_xdp(link.index, Some(fd.as_fd()), generic)
            .map_err(failed)?;
        self.attached.push((link.index, generic));
        Ok(())
    }

    /// Runs a program over one frame, `repeat` times (the frame is not restored in between).
    pub fn test_run(
        &mut self,
        name: &'static str,
        frame: &[u8],
        repeat: u32,
    ) -> Result<Ran, LoadError> {
        let mut out = vec![0; frame.len() + 256];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat,
            ..TestRunOptions::new()
        };
        let ran = program(&mut self.ebpf, name)?
            .test_run(options)
            .map_err(|source| LoadError::Program { name, source })?;
        out.truncate(ran.data_size_out as usize);
        Ok(Ran {
            verdict: ran.return_value,
            frame: out,
            duration: ran.duration,
        })
    }

    /// Sends a frame through a program as if it had come in on the context's interface, `count` times, verdicts carried out.
    pub fn live_frames(
        &mut self,
        name: &'static str,
        frame: &[u8],
        context: &[u8],
        count: u32,
    ) -> Result<Duration, LoadError> {
        let options = TestRunOptions {
            data_in: Some(frame),
            ctx_in: Some(context),
            repeat: count,
            attrs: TestRunAttrs::new().xdp_live_frames(64),
            ..TestRunOptions::new()
        };
        let ran = program(&mut self.ebpf, name)?
            .test_run(options)
            .map_err(|source| LoadError::Program { name, source })?;
        Ok(ran.duration)
    }
}

/// Whether a program in the kernel is one of this file's, by its name.
fn ours(id: u32) -> bool {
    aya::programs::loaded_programs()
        .filter_map(Result::ok)
        .any(|p| p.id() == id && p.name_as_str().is_some_and(|n| PROGRAMS.contains(&n)))
}

impl Drop for Programs {
    fn drop(&mut self) {
        if self.attached.is_empty() {
            return;
        }
        if let Ok(mut netlink) = Netlink::open() {
            for (ifindex, generic) in &self.attached {
                // The interface may have gone before us.
                let _ = netlink.set_xdp(*ifindex, None, *generic);
            }
        }
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp, LoadError> {
    ebpf.program_mut(name)
        .and_then(|p| p.try_into().ok())
        .ok_or(LoadError::Missing(name))
}

fn take<M: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<M, LoadError> {
    let map = ebpf.take_map(name).ok_or(LoadError::Missing(name))?;
    // Key and value sizes are compared here: a layout that differs does not load.
    M::try_from(map).map_err(|source| LoadError::Map { name, source })
}

fn map(name: &'static str) -> impl Fn(aya::maps::MapError) -> LoadError {
    move |source| LoadError::Map { name, source }
}

/// Removing what is not there is no error.
fn absent(result: Result<(), aya::maps::MapError>) -> Result<(), aya::maps::MapError> {
    match result {
        Err(aya::maps::MapError::KeyNotFound) => Ok(()),
        Err(aya::maps::MapError::SyscallError(e))
            if e.io_error.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(())
        }
        other => other,
    }
}
