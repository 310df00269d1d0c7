//! The datapath's table: opened, attached to interfaces, written from the pools, and kept true.

use super::*;
use crate::datapath::director::{Service, Vip};
use std::collections::HashSet;

pub(super) fn open_director(options: &RunOptions, settings: Settings) -> Result<Director> {
    let sizes = Sizes {
        flows: 1 << options.conn_tab_bits,
        ..Sizes::default()
    };
    Ok(Director::new(sizes, settings)?)
}

pub(super) fn settings(options: &RunOptions, config: &Config) -> Settings {
    let g = &config.globals;
    let default = Settings::default();
    Settings {
        timeout_s: [
            0,
            default.timeout_s[1],
            g.timeout_tcp_s,
            g.timeout_tcp_fin_s,
            default.timeout_s[4],
            g.timeout_udp_s,
        ],
        new_flows_max: options.new_flows_max,
        nat: default.nat,
    }
}

/// The same said of many addresses: the first few by name.
fn say_some(addresses: &[std::net::IpAddr], what: &str) {
    for ip in addresses.iter().take(8) {
        println!("{ip}: {what}");
    }
    if addresses.len() > 8 {
        println!("{} more: {what}", addresses.len() - 8);
    }
}

fn say_found(found: Result<Found>) {
    match found {
        Ok(found) => {
            say_some(&found.lost, "no next hop yet");
            say_some(&found.resolved, "next hop found");
        }
        Err(e) => println!("neighbours: {e:#}"),
    }
}

/// What firewall marks stand for now.
fn marked(pools: &BTreeMap<String, Pool>) -> HashSet<Vip> {
    let marks = pools.values().filter(|p| p.mark().is_some());
    marks.flat_map(|p| p.vips.iter().copied()).collect()
}

/// As in IPVS, a packet that is marked is its mark's service's, whatever service its address and port have.
fn below(pool: &mut Pool, marked: &HashSet<Vip>) -> Service {
    let mut service = pool.service();
    if pool.mark().is_none() && !marked.is_empty() {
        let of_a_mark = |v: &Vip| marked.contains(v) || marked.contains(&Vip { port: 0, ..*v });
        service.vips.retain(|v| !of_a_mark(v));
    }
    service
}

impl Work {
    /// The file's, but for what a command has set.
    pub(super) fn settings(&self) -> Settings {
        let mut settings = settings(&self.options, &self.config);
        for (to, set) in TIMEOUTS_SET.into_iter().zip(self.timeouts_s) {
            settings.timeout_s[to] = set.unwrap_or(settings.timeout_s[to]);
        }
        settings
    }

    /// Interfaces that packets come in on: given, or those the configuration names, or all with a carrier.
    pub(super) fn interfaces(&self, all: &[crate::netlink::Link]) -> Vec<String> {
        if !self.options.interfaces.is_empty() {
            return self.options.interfaces.clone();
        }
        let mut names: Vec<String> = Vec::new();
        for i in &self.config.instances {
            names.extend(i.interface.clone());
            names.extend(
                i.addresses
                    .iter()
                    .chain(&i.excluded)
                    .filter_map(|a| a.device.clone()),
            );
        }
        if names.is_empty() {
            names = all
                .iter()
                .filter(|l| l.up && l.name != "lo")
                .map(|l| l.name.clone())
                .collect();
        }
        names.sort();
        names.dedup();
        names
    }

    pub(super) fn attach(&mut self) -> Result<()> {
        if self.director.is_none() {
            return Ok(());
        }
        let links = Netlink::open()?.links()?;
        let names = self.interfaces(&links);
        let Some(director) = &mut self.director else {
            return Ok(());
        };
        for name in names {
            if self.attached.contains(&name) {
                continue;
            }
            let link = links
                .iter()
                .find(|l| l.name == name)
                .with_context(|| format!("no interface {name}"))?;
            // What XDP sends out of a veth vanishes unless the other end has a program too.
            let modes = match self.options.mode {
                Some(mode) => vec![mode],
                None if link.kind.is_empty() => vec![Mode::Driver, Mode::Generic],
                None => vec![Mode::Generic],
            };
            let mut last = None;
            for mode in modes {
                match director.programs.attach("director", &name, mode) {
                    Ok(_) => {
                        println!(
                            "{name}: XDP attached ({})",
                            if mode == Mode::Driver {
                                "driver"
                            } else {
                                "generic"
                            }
                        );
                        last = None;
                        self.attached.push(name.clone());
                        break;
                    }
                    Err(e) => last = Some(e),
                }
            }
            if let Some(e) = last {
                return Err(e).with_context(|| format!("cannot attach to {name}"));
            }
        }
        Ok(())
    }

    /// Takes a configuration into pools, table and checks.
    pub(super) fn load(&mut self, config: Arc<Config>) -> Result<()> {
        self.take_pools(&config);
        self.config = config;
        self.tell_of_marks();
        crate::check::http::forget_identities();
        self.bfds.apply(&self.config)?;
        self.checks.apply(&self.config, &self.bfds);
        self.heed_checks();
        let settings = self.settings();
        if let Some(director) = &mut self.director {
            director.set_settings(settings)?;
        }
        self.apply()?;
        self.resolve_new();
        Ok(())
    }

    pub(super) fn apply(&mut self) -> Result<usize> {
        let Some(director) = &mut self.director else {
            return Ok(0);
        };
        let marked = marked(&self.pools);
        let services: Vec<_> = self.pools.values_mut().map(|p| below(p, &marked)).collect();
        let written = director.apply(&services)?;
        Ok(written)
    }

    /// Applies these virtual servers and says what could not be.
    pub(super) fn apply_some(&mut self, names: &BTreeSet<String>) {
        let Some(director) = &mut self.director else {
            return;
        };
        let marked = marked(&self.pools);
        let services: Vec<_> = names
            .iter()
            .filter_map(|n| Some(below(self.pools.get_mut(n)?, &marked)))
            .collect();
        if let Err(e) = director.update(&services) {
            println!("the table could not be written: {e:#}");
        }
    }

    pub(super) fn refresh(&mut self) {
        let Some(director) = &mut self.director else {
            return;
        };
        say_found(self.neighbours.refresh(director));
    }

    pub(super) fn resolve_new(&mut self) {
        if let Some(director) = &mut self.director {
            say_found(self.neighbours.resolve_new(director));
        }
    }

    pub(super) fn sweep(&mut self) {
        let Some(director) = &mut self.director else {
            return;
        };
        // The flow table's clock is CLOCK_MONOTONIC too.
        match director.sweep(now_us() * 1000) {
            Ok(n) => self.flows = n,
            Err(e) => println!("flows: {e}"),
        }
    }
}
