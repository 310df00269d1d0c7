//! What the datapath has counted and remembers, by the names of services and servers; flows past their time go.

use super::*;

impl Director {
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.installed.values().map(|i| &i.service)
    }

    pub fn service_tally(&self, name: &str) -> Tally {
        self.installed
            .get(name)
            .and_then(|i| Some(self.programs.service_tally(i.id).ok()?.since(i.base)))
            .unwrap_or_default()
    }

    pub fn server_counts(&self, name: &str, ip: IpAddr, port: u16) -> ServerCounts {
        let Some((index, slot)) = self.slots.get(&(name.to_string(), ip, port)) else {
            return ServerCounts::default();
        };
        let (active, inactive) = self.programs.load_of(*index).unwrap_or_default();
        ServerCounts {
            active,
            inactive,
            tally: self
                .programs
                .server_tally(*index)
                .unwrap_or_default()
                .since(slot.base),
        }
    }

    /// Counts of this service and its servers (of all, without a name) begin anew.
    pub fn zero(&mut self, name: Option<&str>) -> Result<(), LoadError> {
        let meant = |n: &str| name.is_none_or(|wanted| wanted == n);
        for (n, installed) in &mut self.installed {
            if meant(n) {
                installed.base = self.programs.service_tally(installed.id)?;
            }
        }
        for ((n, _, _), (index, slot)) in &mut self.slots {
            if meant(n) {
                slot.base = self.programs.server_tally(*index)?;
            }
        }
        Ok(())
    }

    /// Which server a slot holds: service name, address, port.
    pub fn server_at(&self, index: u32) -> Option<(&str, IpAddr, u16)> {
        self.slots
            .iter()
            .find(|(_, (i, _))| *i == index)
            .map(|((name, ip, port), _)| (name.as_str(), *ip, *port))
    }

    /// Address, port and generation of the server in each slot.
    pub fn servers_by_slot(&self) -> HashMap<u32, (IpAddr, u16, u16)> {
        self.slots
            .iter()
            .map(|((_, ip, port), (index, slot))| (*index, (*ip, *port, slot.entry.generation)))
            .collect()
    }

    /// The server of every client that persistence holds now: service name, address, port. `now_ns` is CLOCK_MONOTONIC.
    pub fn persistent(&self, now_ns: u64) -> Vec<(&str, IpAddr, u16)> {
        let servers: HashMap<u32, (&ServerKey, u16)> = self
            .slots
            .iter()
            .map(|(key, (index, slot))| (*index, (key, slot.entry.generation)))
            .collect();
        let timeouts: HashMap<&str, u64> = self
            .installed
            .iter()
            .filter_map(|(name, i)| Some((name.as_str(), u64::from(i.service.persistence?.0))))
            .collect();
        let held = self.programs.templates().filter_map(|t| {
            let ((name, ip, port), generation) = servers.get(&t.server)?;
            let timeout_ns = timeouts.get(name.as_str())? * 1_000_000_000;
            let lives = now_ns.saturating_sub(t.seen_ns) < timeout_ns;
            (lives && t.generation == *generation).then_some((name.as_str(), *ip, *port))
        });
        held.collect()
    }

    /// Service, slot and generation for a flow to a server, as it would be written here.
    pub fn place_of(
        &self,
        key: &layout::FlowKey,
        ip: IpAddr,
        port: u16,
    ) -> Option<(u32, u32, u16)> {
        let ours = |v: &Vip| {
            v.ip == key.vip
                && (v.port == key.vip_port || v.port == 0)
                && v.protocol.number() == key.protocol
        };
        let installed = self
            .installed
            .values()
            .find(|i| i.service.vips.iter().any(ours))?;
        let (index, slot) = self
            .slots
            .get(&(installed.service.name.clone(), ip, port))?;
        Some((installed.id, *index, slot.entry.generation))
    }

    /// Drops flows past their time and counts the others, so that lc and its kin see what is. `now_ns` is CLOCK_MONOTONIC.
    /// Gives the number of flows that live.
    pub fn sweep(&mut self, now_ns: u64) -> Result<usize, LoadError> {
        let mut dead = Vec::new();
        let mut counts: HashMap<u32, (u32, u32)> = HashMap::new();
        let mut alive = 0;
        for (key, flow) in self.programs.flows() {
            let timeout = self
                .settings
                .timeout_s
                .get(usize::from(flow.state))
                .copied()
                .unwrap_or(0);
            if now_ns.saturating_sub(flow.seen_ns) > u64::from(timeout) * 1_000_000_000 {
                dead.push(key);
                continue;
            }
            alive += 1;
            let count = counts.entry(flow.server).or_default();
            if flow.active() {
                count.0 += 1;
            } else {
                count.1 += 1;
            }
        }
        for key in dead {
            self.programs.remove_flow(&key)?;
        }
        // Nothing was counted and nothing was before: thousands of idle servers need no writing.
        if counts.is_empty() && !self.loaded {
            return Ok(alive);
        }
        self.loaded = !counts.is_empty();
        for (index, slot) in self.slots.values() {
            let (active, inactive) = counts.get(index).copied().unwrap_or_default();
            self.programs
                .set_load(*index, active, inactive, slot.entry.conns_max > 0)?;
        }
        Ok(alive)
    }
}
