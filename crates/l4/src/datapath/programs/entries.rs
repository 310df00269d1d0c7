//! The maps' entries as typed calls.

use super::*;

impl Programs {
    pub fn set_vip(
        &mut self,
        ip: IpAddr,
        port: u16,
        protocol: u8,
        entry: &ServiceEntry,
    ) -> Result<(), LoadError> {
        self.vips
            .insert(layout::vip_key(ip, port, protocol), entry.bytes(), 0)
            .map_err(map("vips"))
    }
    pub fn remove_vip(&mut self, ip: IpAddr, port: u16, protocol: u8) -> Result<(), LoadError> {
        absent(self.vips.remove(&layout::vip_key(ip, port, protocol))).map_err(map("vips"))
    }
    pub fn set_server(&mut self, index: u32, entry: &ServerEntry) -> Result<(), LoadError> {
        self.servers
            .set(index, entry.bytes(), 0)
            .map_err(map("servers"))
    }
    pub fn set_ring(&mut self, start: u32, ring: &[u32]) -> Result<(), LoadError> {
        for (at, server) in (start..).zip(ring) {
            self.rings.set(at, *server, 0).map_err(map("rings"))?;
        }
        Ok(())
    }
    /// How many turns of its ring a service has had.
    pub fn cursor(&self, id: u32) -> Result<u32, LoadError> {
        self.cursors.get(&id, 0).map_err(map("cursors"))
    }
    pub fn set_cursor(&mut self, id: u32, turns: u32) -> Result<(), LoadError> {
        self.cursors.set(id, turns, 0).map_err(map("cursors"))
    }
    pub fn set_settings(&mut self, settings: &Settings) -> Result<(), LoadError> {
        self.settings
            .set(0, settings.bytes(), 0)
            .map_err(map("settings"))
    }
    pub fn set_tunnel_end(&mut self, ip: IpAddr) -> Result<(), LoadError> {
        self.tunnel_ends
            .insert(layout::vip_key(ip, 0, 0), 1, 0)
            .map_err(map("tunnel_ends"))
    }

    /// How many clients the program "generate" plays, a power of two.
    pub fn set_generator(&mut self, clients: u64) -> Result<(), LoadError> {
        let all = aya::util::nr_cpus().map_err(|(_, e)| LoadError::Attach {
            interface: "all cores".into(),
            source: e,
        })?;
        let values = aya::maps::PerCpuValues::try_from(vec![clients - 1; all]).map_err(|e| {
            LoadError::Attach {
                interface: "all cores".into(),
                source: e,
            }
        })?;
        self.generator.set(1, values, 0).map_err(map("generator"))
    }

    /// Active and inactive connections of a server.
    pub fn load_of(&self, index: u32) -> Result<(u32, u32), LoadError> {
        let bytes = self.loads.get(&index, 0).map_err(map("loads"))?;
        Ok((layout::u32_at(&bytes, 0), layout::u32_at(&bytes, 4)))
    }
    /// `limited`: the server has a limit, and whether it was full is kept.
    pub fn set_load(
        &mut self,
        index: u32,
        active: u32,
        inactive: u32,
        limited: bool,
    ) -> Result<(), LoadError> {
        let mut bytes = match limited {
            true => self.loads.get(&index, 0).map_err(map("loads"))?,
            false => [0; LOAD],
        };
        bytes[..4].copy_from_slice(&active.to_ne_bytes());
        bytes[4..8].copy_from_slice(&inactive.to_ne_bytes());
        self.loads.set(index, bytes, 0).map_err(map("loads"))
    }

    pub fn flow(&self, key: &FlowKey) -> Result<Option<FlowEntry>, LoadError> {
        match self.flows.get(&key.bytes(), 0) {
            Ok(bytes) => Ok(Some(FlowEntry::read(&bytes))),
            Err(aya::maps::MapError::KeyNotFound) => Ok(None),
            Err(source) => Err(LoadError::Map {
                name: "flows",
                source,
            }),
        }
    }
    pub fn set_flow(&mut self, key: &FlowKey, flow: &FlowEntry) -> Result<(), LoadError> {
        self.flows
            .insert(key.bytes(), flow.bytes(), 0)
            .map_err(map("flows"))
    }
    pub fn remove_flow(&mut self, key: &FlowKey) -> Result<(), LoadError> {
        absent(self.flows.remove(&key.bytes())).map_err(map("flows"))
    }
    /// All flows; an entry that changes meanwhile may be missed or come twice.
    pub fn flows(&self) -> impl Iterator<Item = (FlowKey, FlowEntry)> + '_ {
        FlowBatches {
            map: &self.flows_fd,
            position: None,
            keys: vec![0; FLOW_KEY * FLOWS_AT_ONCE],
            values: vec![0; FLOW * FLOWS_AT_ONCE],
            filled: 0,
            at: 0,
            ended: false,
        }
    }

    /// What persistence remembers of clients.
    pub fn templates(&self) -> impl Iterator<Item = Template> + '_ {
        let values = self.templates.iter().filter_map(Result::ok);
        values.map(|(_, value)| Template::read(&value))
    }

    pub fn server_tally(&self, index: u32) -> Result<Tally, LoadError> {
        sum(&self.server_tallies, index).map_err(map("server_tallies"))
    }
    pub fn service_tally(&self, id: u32) -> Result<Tally, LoadError> {
        sum(&self.service_tallies, id).map_err(map("service_tallies"))
    }
    /// The counters by name.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, LoadError> {
        layout::COUNTERS
            .iter()
            .zip(0u32..)
            .map(|(name, at)| {
                Ok((
                    *name,
                    self.counters
                        .get(&at, 0)
                        .map_err(map("counters"))?
                        .iter()
                        .sum(),
                ))
            })
            .collect()
    }
    pub fn counter(&self, name: &str) -> u64 {
        self.counters()
            .ok()
            .and_then(|all| all.into_iter().find(|(n, _)| *n == name))
            .map_or(0, |(_, v)| v)
    }
}

/// Flows read by one system call: a million are walked in a fraction of a second. More than any bucket of the map holds.
const FLOWS_AT_ONCE: usize = 4096;

struct FlowBatches<'a> {
    map: &'a OwnedFd,
    position: Option<[u8; 8]>,
    keys: Vec<u8>,
    values: Vec<u8>,
    filled: usize,
    at: usize,
    ended: bool,
}

impl Iterator for FlowBatches<'_> {
    type Item = (FlowKey, FlowEntry);

    fn next(&mut self) -> Option<Self::Item> {
        while self.at == self.filled {
            if self.ended {
                return None;
            }
            let read = sys::map_entries(
                self.map,
                &mut self.position,
                &mut self.keys,
                FLOW_KEY,
                &mut self.values,
                FLOW,
            );
            // A kernel that will not is a table that cannot be looked at: the datapath goes on without.
            let (filled, ended) = read.unwrap_or((0, true));
            (self.filled, self.at, self.ended) = (filled, 0, ended);
        }
        let key = self.keys.get(self.at * FLOW_KEY..)?.first_chunk()?;
        let value = self.values.get(self.at * FLOW..)?.first_chunk()?;
        self.at += 1;
        Some((FlowKey::read(key), FlowEntry::read(value)))
    }
}

fn sum(map: &PerCpuArray<MapData, Bytes<TALLY>>, index: u32) -> Result<Tally, aya::maps::MapError> {
    let mut tally = Tally::default();
    for core in map.get(&index, 0)?.iter() {
        tally.add(core);
    }
    Ok(tally)
}
