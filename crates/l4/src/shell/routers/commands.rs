//! What the rest of the program asks of the thread, and a reload.

use super::place::Job;
use super::{Command, Notice, RouterView, Work, now_us};
use crate::config::model::{Config, VrrpInstance};
use crate::shell::router::Router;
use std::collections::HashSet;
use std::sync::Arc;

impl Work {
    /// True if the thread shall end.
    pub(super) fn command(&mut self, command: Command) -> bool {
        match command {
            Command::Script(name, ok) => drop(self.readings.scripts.insert(name, ok)),
            Command::File(name, value) => drop(self.readings.files.insert(name, value)),
            Command::Process(name, ok) => drop(self.readings.processes.insert(name, ok)),
            Command::Bfd(name, up) => drop(self.readings.bfds.insert(name, up)),
            Command::Reload(config) => {
                self.reload(config);
                return false;
            }
            Command::Show(reply) => {
                let _ = reply.send(self.routers.iter().map(|r| self.view(r)).collect());
                return false;
            }
            Command::Stop => {
                for i in 0..self.routers.len() {
                    self.end(i);
                }
                self.place.send(Job::Take(self.fixed.clone()));
                return true;
            }
        }
        self.judge();
        false
    }

    fn view(&self, r: &Router) -> RouterView {
        RouterView {
            name: r.config.name.clone(),
            state: r.machine.state().name(),
            interface: r.config.interface.clone(),
            virtual_router_id: r.machine.settings.vrid,
            version: r.machine.settings.version,
            priority: r.machine.priority(),
            master_priority: r.machine.master_priority(),
            last_master: r.last_master,
            addresses: r.addresses().count(),
            since_ms: r
                .machine
                .last_transition
                .map(|t| now_us().saturating_sub(t) / 1000),
            counts: r.counts.clone(),
        }
    }

    /// Ends one router: the peers hear of it, its addresses and macvlan go.
    fn end(&mut self, i: usize) {
        let was = self.routers[i].machine.state();
        let actions = self.routers[i].machine.stop(now_us());
        self.act(i, actions);
        for m in &self.routers[i].macvlans {
            self.place.send(Job::RemoveLink(m.name.clone()));
        }
        let r = &self.routers[i];
        self.tell(Notice::Stopped {
            instance: r.config.name.clone(),
            was,
            priority: r.machine.priority(),
        });
    }

    /// Routers that are the same go on untouched; the others are ended and begun.
    fn reload(&mut self, config: Arc<Config>) {
        let old_globals = self.config.globals.clone();
        let same =
            |r: &Router| old_globals == config.globals && config.instances.contains(&r.config);
        for i in 0..self.routers.len() {
            if !same(&self.routers[i]) {
                self.end(i);
            }
        }
        self.routers.retain(|r| same(r));
        self.config = config.clone();
        self.put_static();
        let beginning: Vec<&VrrpInstance> = config
            .instances
            .iter()
            .filter(|i| !self.routers.iter().any(|r| r.config.name == i.name))
            .collect();
        if !beginning.is_empty() {
            // What was ended is gone, and what is static is there, before anything begins. Where nothing does, adverts do not
            // wait for it.
            self.place.settle();
            self.links = Arc::new(self.netlink.links().unwrap_or_default());
        }
        let mut names: HashSet<String> = self
            .routers
            .iter()
            .flat_map(|r| r.macvlans.iter().map(|m| m.name.clone()))
            .collect();
        for instance in beginning {
            self.routers
                .push(Router::new(instance, &config, &mut names));
            self.prepare(self.routers.len() - 1);
        }
        self.judge();
    }
}
