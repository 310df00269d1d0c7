//! Requests of the control socket, answered.

use super::Work;
use crate::datapath::layout::FLOW_STATES;
use crate::shell::control::{Answer, Request};
use crate::shell::routers::now_us;
use crate::shell::show;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Work {
    pub(super) fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Show => Ok(self.show()),
            Request::Flows { limit } => Ok(self.show_flows(limit)),
            Request::PersistentConnections => Ok(self.persistent()),
            Request::Reload => self
                .reload()
                .map(|()| json!("reloaded"))
                .map_err(|e| format!("{e:#}")),
            other => self.obey(other),
        }
    }

    /// SIGUSR1, SIGUSR2: the state goes to the log.
    pub(super) fn log_state(&self) {
        let state = self.show();
        let parts = [
            show::servers(&state),
            show::routers(&state),
            show::bfds(&state),
            show::counters(&state),
        ];
        println!("{}", parts.join("\n").trim_end());
    }

    fn show(&self) -> Value {
        let director = self.director.as_ref();
        let virtual_servers: Vec<Value> = self
            .pools
            .values()
            .map(|p| {
                let servers: Vec<Value> = p
                    .members
                    .iter()
                    .map(|m| {
                        let counts = director.map(|d| d.server_counts(&p.name, m.ip, m.port)).unwrap_or_default();
                        let next_hop = director.and_then(|d| d.egress(m.ip)).map(|e| match e.local {
                            true => "this host".to_string(),
                            false => e.next_hop.map(|b| format!("{b:02x}")).join(":"),
                        });
                        json!({
                            "address": m.ip, "port": m.port, "forwarding": m.forwarding.name(), "weight": m.weight, "up": m.up, "conns_max": m.conns_max, "conns_min": m.conns_min,
                            "next_hop": next_hop, "active": counts.active, "inactive": counts.inactive,
                            "connections": counts.tally.connections, "packets": counts.tally.packets, "bytes": counts.tally.bytes,
                        })
                    })
                    .collect();
                let tally = director.map(|d| d.service_tally(&p.name)).unwrap_or_default();
                let vips: Vec<String> = p.vips.iter().map(|v| std::net::SocketAddr::new(v.ip, v.port).to_string()).collect();
                json!({
                    "name": p.name, "fwmark": p.mark(), "addresses": vips, "protocol": p.config.protocol.map(|p| p.name()),
                    "scheduler": p.terms.scheduler.name(), "persistence_s": p.terms.persistence_timeout_s,
                    "persistence_prefix": p.terms.persistence_prefix, "flags": p.terms.flags(), "one_packet": p.terms.one_packet,
                    "by_command": p.by_command,
                    "quorum": p.has_quorum(), "connections": tally.connections, "packets": tally.packets, "bytes": tally.bytes,
                    "servers": servers,
                })
            })
            .collect();
        let counters: BTreeMap<&str, u64> = director
            .and_then(|d| d.programs.counters().ok())
            .unwrap_or_default()
            .into_iter()
            .collect();
        let settings = self.settings();
        let timeouts_s = super::TIMEOUTS_SET.map(|at| settings.timeout_s[at]);
        json!({
            "flows_max": 1u64 << self.options.conn_tab_bits, "timeouts_s": timeouts_s,
            "virtual_servers": virtual_servers, "routers": self.routers.show(), "bfd": self.bfds.show(), "counters": counters,
            "flows": self.flows, "checks": self.checks.count(), "interfaces": self.attached,
        })
    }

    /// How many clients persistence holds at each server, by virtual server and server.
    fn persistent(&self) -> Value {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (name, ip, port) in self
            .director
            .iter()
            .flat_map(|d| d.persistent(now_us() * 1000))
        {
            let server = std::net::SocketAddr::new(ip, port);
            *counts.entry(format!("{name} {server}")).or_default() += 1;
        }
        json!(counts)
    }

    fn show_flows(&self, limit: usize) -> Value {
        let Some(director) = &self.director else {
            return json!([]);
        };
        let now = now_us() * 1000;
        let timeouts = self.settings().timeout_s;
        let servers = director.servers_by_slot();
        let flows: Vec<Value> = director
            .programs
            .flows()
            .take(limit)
            .map(|(k, f)| {
                let server = servers.get(&f.server).map(|(ip, port, _)| std::net::SocketAddr::new(*ip, *port).to_string());
                json!({
                    "client": std::net::SocketAddr::new(k.client, k.client_port).to_string(),
                    "virtual": std::net::SocketAddr::new(k.vip, k.vip_port).to_string(), "protocol": k.protocol,
                    "server": server, "state": FLOW_STATES.get(usize::from(f.state)), "idle_ms": now.saturating_sub(f.seen_ns) / 1_000_000,
                    "expires_s": timeouts.get(usize::from(f.state)).map(|t| u64::from(*t).saturating_sub(now.saturating_sub(f.seen_ns) / 1_000_000_000)),
                })
            })
            .collect();
        json!(flows)
    }
}
