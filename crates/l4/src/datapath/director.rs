//! The table of virtual servers in the datapath: what shall be there is compared with what is, and the difference is
//! written. Packets see a service before or after its change, never in between: servers and ring first, then the entry
//! of the virtual address, and room that was given up rests until the next change.

use super::layout::{self, ServerEntry, ServiceEntry, Settings, Tally};
use super::programs::{LoadError, Programs, Sizes};
use super::ring::{Range, Rings};
use crate::config::model::{Forwarding, Protocol, Scheduler};
use crate::maglev;
use crate::sched::{self, Load, Pick, turns};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Vip {
    pub ip: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
}

/// A real server as it shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    pub ip: IpAddr,
    pub port: u16,
    pub forwarding: Forwarding,
    /// 0 drains: flows stay, none are added.
    pub weight: u32,
    pub conns_max: u32,
    /// Once full, it gets none until it has fewer; 0: than three quarters of `conns_max`.
    pub conns_min: u32,
}

/// A virtual server as it shall be: all addresses of a group share servers and ring.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// What it is known by between changes.
    pub name: String,
    pub vips: Vec<Vip>,
    pub scheduler: Scheduler,
    pub hash_port: bool,
    pub hash_fallback: bool,
    pub one_packet: bool,
    /// Seconds and prefix length.
    pub persistence: Option<(u32, u8)>,
    pub servers: Vec<Server>,
}

/// How a server is reached: the neighbour table's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Egress {
    pub ifindex: u32,
    pub next_hop: [u8; 6],
    pub own_mac: [u8; 6],
    /// Our address towards it, for tunnels.
    pub source: IpAddr,
    /// Longest packet the interface takes; 0 is not known.
    pub mtu: u32,
    /// This machine itself: what is for it is passed on as it is.
    pub local: bool,
}

type ServerKey = (String, IpAddr, u16);

struct Slot {
    entry: ServerEntry,
    /// What the slot had counted when the server came, or when its counts were set to zero.
    base: Tally,
}

struct Installed {
    service: Service,
    id: u32,
    ring: Range,
    /// As a slot's.
    base: Tally,
}

/// Counts of one server.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct ServerCounts {
    pub active: u32,
    pub inactive: u32,
    #[serde(flatten)]
    pub tally: Tally,
}

pub struct Director {
    pub programs: Programs,
    installed: BTreeMap<String, Installed>,
    slots: HashMap<ServerKey, (u32, Slot)>,
    generations: Vec<u16>,
    free_slots: Vec<u32>,
    free_ids: Vec<u32>,
    ids_used: u32,
    rings: Rings,
    egress: HashMap<IpAddr, Egress>,
    settings: Settings,
    servers_max: u32,
    /// The last sweep, or a packet since, may have left connections on some server.
    loaded: bool,
}

/// As many services as the maps `cursors` and `service_tallies` hold.
const SERVICES_MAX: u32 = 16384;

mod looks;
mod plan;

use plan::{next_turn, ring};

impl Director {
    pub fn new(sizes: Sizes, settings: Settings) -> Result<Self, LoadError> {
        let mut programs = Programs::load(sizes)?;
        programs.set_settings(&settings)?;
        Ok(Director {
            programs,
            installed: BTreeMap::new(),
            slots: HashMap::new(),
            generations: Vec::new(),
            free_slots: Vec::new(),
            free_ids: Vec::new(),
            ids_used: 0,
            rings: Rings::new(sizes.rings),
            egress: HashMap::new(),
            settings,
            servers_max: sizes.servers,
            loaded: true,
        })
    }

    pub fn set_settings(&mut self, settings: Settings) -> Result<(), LoadError> {
        self.settings = Settings {
            nat: self.settings.nat,
            ..settings
        };
        self.programs.set_settings(&self.settings)
    }

    /// Makes the datapath serve exactly these services. Gives how many were written (the rest were as they should be).
    pub fn apply(&mut self, services: &[Service]) -> Result<usize, LoadError> {
        self.rings.settle();
        let wanted: std::collections::HashSet<&str> =
            services.iter().map(|s| s.name.as_str()).collect();
        let gone: Vec<String> = self
            .installed
            .keys()
            .filter(|n| !wanted.contains(n.as_str()))
            .cloned()
            .collect();
        for name in gone {
            self.remove(&name)?;
        }
        self.write(services)
    }

    /// Makes these services as they shall be and leaves the others; gives how many were written.
    pub fn update(&mut self, services: &[Service]) -> Result<usize, LoadError> {
        self.rings.settle();
        self.write(services)
    }

    fn write(&mut self, services: &[Service]) -> Result<usize, LoadError> {
        self.look_for_nat(services)?;
        let mut written = 0;
        for service in services {
            written += usize::from(self.install_if_changed(service)?);
        }
        Ok(written)
    }

    fn install_if_changed(&mut self, service: &Service) -> Result<bool, LoadError> {
        let installed = self.installed.get(&service.name);
        if installed.is_some_and(|i| i.service == *service) {
            return Ok(false);
        }
        self.install(service)?;
        Ok(true)
    }

    /// Replies of servers are looked for as soon as one is reached by NAT.
    fn look_for_nat(&mut self, services: &[Service]) -> Result<(), LoadError> {
        let mut servers = services.iter().flat_map(|s| &s.servers);
        if !self.settings.nat && servers.any(|s| s.forwarding == Forwarding::Nat) {
            self.settings.nat = true;
            self.programs.set_settings(&self.settings)?;
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), LoadError> {
        let Some(old) = self.installed.remove(name) else {
            return Ok(());
        };
        for vip in &old.service.vips {
            self.programs
                .remove_vip(vip.ip, vip.port, vip.protocol.number())?;
        }
        for server in &old.service.servers {
            self.release(name, server)?;
        }
        self.rings.give_back(old.ring);
        self.free_ids.push(old.id);
        Ok(())
    }

    fn release(&mut self, name: &str, server: &Server) -> Result<(), LoadError> {
        let Some((index, mut slot)) =
            self.slots
                .remove(&(name.to_string(), server.ip, server.port))
        else {
            return Ok(());
        };
        slot.entry.present = false;
        self.programs.set_server(index, &slot.entry)?;
        self.programs.set_load(index, 0, 0, false)?;
        self.free_slots.push(index);
        Ok(())
    }

    fn install(&mut self, service: &Service) -> Result<(), LoadError> {
        let mut indices = Vec::with_capacity(service.servers.len());
        for server in &service.servers {
            indices.push(self.place(&service.name, server)?);
        }
        let (pick, load, order) = ring(service);
        let ring: Vec<u32> = order
            .iter()
            .filter_map(|i| indices.get(*i as usize).copied())
            .collect();
        let range = self
            .rings
            .take(ring.len() as u32)
            .ok_or(LoadError::Missing("room for another ring; raise --rings"))?;
        self.programs.set_ring(range.start, &ring)?;
        let (id, base) = match self.installed.get(&service.name) {
            Some(old) => (old.id, old.base),
            None => match self.free_ids.pop() {
                Some(id) => (id, self.programs.service_tally(id)?),
                None if self.ids_used < SERVICES_MAX => {
                    self.ids_used += 1;
                    (self.ids_used - 1, Tally::default())
                }
                None => return Err(LoadError::Missing("room for another virtual server")),
            },
        };
        let old = self.installed.get(&service.name).map(|i| &i.service);
        if let Some(turn) = next_turn(old, service, || self.programs.cursor(id).unwrap_or(0)) {
            self.programs.set_cursor(id, turn)?;
        }
        let mut flags = 0;
        for (set, bit) in [
            (service.hash_port, layout::SERVICE_HASH_PORT),
            (service.hash_fallback, layout::SERVICE_FALLBACK),
            (service.one_packet, layout::SERVICE_ONE_PACKET),
            (service.persistence.is_some(), layout::SERVICE_PERSISTENT),
        ] {
            flags |= if set { bit } else { 0 };
        }
        let (persist_timeout_s, persist_prefix) = service.persistence.unwrap_or_default();
        let entry = ServiceEntry {
            id,
            pick,
            load,
            flags,
            persist_prefix,
            ring_start: range.start,
            ring_length: range.length,
            persist_timeout_s,
        };
        for vip in &service.vips {
            self.programs
                .set_vip(vip.ip, vip.port, vip.protocol.number(), &entry)?;
        }
        let installed = Installed {
            service: service.clone(),
            id,
            ring: range,
            base,
        };
        if let Some(old) = self.installed.insert(service.name.clone(), installed) {
            for vip in old
                .service
                .vips
                .iter()
                .filter(|v| !service.vips.contains(v))
            {
                self.programs
                    .remove_vip(vip.ip, vip.port, vip.protocol.number())?;
            }
            let gone = old.service.servers.iter().filter(|s| {
                !service
                    .servers
                    .iter()
                    .any(|n| (n.ip, n.port) == (s.ip, s.port))
            });
            for server in gone {
                self.release(&service.name, server)?;
            }
            self.rings.give_back(old.ring);
        }
        Ok(())
    }

    /// Writes a server's entry, into its slot or a new one.
    fn place(&mut self, name: &str, server: &Server) -> Result<u32, LoadError> {
        let key = (name.to_string(), server.ip, server.port);
        let (index, generation, base) = match self.slots.get(&key) {
            Some((index, slot)) => (*index, slot.entry.generation, slot.base),
            None => {
                let mut base = Tally::default();
                let index = match self.free_slots.pop() {
                    Some(i) => {
                        base = self.programs.server_tally(i)?;
                        i
                    }
                    None if (self.generations.len() as u32) < self.servers_max => {
                        self.generations.push(0);
                        self.generations.len() as u32 - 1
                    }
                    None => {
                        return Err(LoadError::Missing(
                            "room for another server; raise --servers",
                        ));
                    }
                };
                let generation = &mut self.generations[index as usize];
                *generation = generation.wrapping_add(1);
                (index, *generation, base)
            }
        };
        let egress = self.egress.get(&server.ip);
        let entry = ServerEntry {
            address: server.ip,
            tunnel_source: egress.map(|e| e.source),
            ifindex: egress.map_or(0, |e| e.ifindex),
            weight: server.weight,
            conns_max: server.conns_max,
            conns_min: server.conns_min,
            port: server.port,
            generation,
            kind: match server.forwarding {
                Forwarding::Nat => layout::KIND_NAT,
                Forwarding::DirectRouting => layout::KIND_DIRECT,
                Forwarding::Tunnel => layout::KIND_TUNNEL,
            },
            present: true,
            local: egress.is_some_and(|e| e.local),
            next_hop: egress.map_or([0; 6], |e| e.next_hop),
            own_mac: egress.map_or([0; 6], |e| e.own_mac),
            mtu: egress.map_or(0, |e| e.mtu),
        };
        let unchanged = self.slots.get(&key).is_some_and(|(_, s)| s.entry == entry);
        if !unchanged {
            self.programs.set_server(index, &entry)?;
        }
        self.slots.insert(key, (index, Slot { entry, base }));
        Ok(index)
    }

    /// The neighbour table knows (or no longer knows) the way to a server.
    pub fn set_egress(&mut self, ip: IpAddr, egress: Option<Egress>) -> Result<(), LoadError> {
        if self.egress.get(&ip) == egress.as_ref() {
            return Ok(());
        }
        match egress {
            Some(e) => self.egress.insert(ip, e),
            None => self.egress.remove(&ip),
        };
        for (index, slot) in self
            .slots
            .values_mut()
            .filter(|(_, s)| s.entry.address == ip)
        {
            slot.entry.ifindex = egress.map_or(0, |e| e.ifindex);
            slot.entry.local = egress.is_some_and(|e| e.local);
            if let Some(e) = egress {
                slot.entry.next_hop = e.next_hop;
                slot.entry.own_mac = e.own_mac;
                slot.entry.tunnel_source = Some(e.source);
                slot.entry.mtu = e.mtu;
            }
            self.programs.set_server(*index, &slot.entry)?;
        }
        Ok(())
    }

    /// The ways to many servers at once: one pass over the table however many there are.
    pub fn set_egresses(&mut self, found: HashMap<IpAddr, Egress>) -> Result<(), LoadError> {
        self.egress.extend(found);
        for (index, slot) in self.slots.values_mut() {
            let Some(e) = self.egress.get(&slot.entry.address) else {
                continue;
            };
            let entry = ServerEntry {
                ifindex: e.ifindex,
                next_hop: e.next_hop,
                own_mac: e.own_mac,
                tunnel_source: Some(e.source),
                mtu: e.mtu,
                local: e.local,
                ..slot.entry
            };
            if entry != slot.entry {
                slot.entry = entry;
                self.programs.set_server(*index, &slot.entry)?;
            }
        }
        Ok(())
    }

    pub fn egress(&self, ip: IpAddr) -> Option<&Egress> {
        self.egress.get(&ip)
    }

    /// All servers' addresses, each once.
    pub fn server_addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = self.slots.keys().map(|(_, ip, _)| *ip).collect();
        all.sort();
        all.dedup();
        all
    }
}
