//! What happens to servers and virtual routers, told to log, scripts and fifos with keepalived's words.

use super::Work;
use crate::pool::Event;
use crate::shell::routers::Notice;
use crate::shell::scripts;
use crate::vrrp::machine::State;

impl Work {
    /// Log, scripts and fifo of a pool's event.
    pub(super) fn event(&self, name: &str, event: &Event) {
        let Some(pool) = self.pools.get(name) else {
            return;
        };
        let config = &self.config;
        let g = &config.globals;
        let fifos = || g.notify_fifo.iter().chain(&g.lvs_notify_fifo);
        let server = |ip, port| {
            pool.config
                .real_servers
                .iter()
                .find(move |r| r.address == ip && r.port == port)
        };
        let key = name.split_once(' ').map_or(name, |(_, k)| k);
        match event {
            Event::ServerUp(ip, port) | Event::ServerDown(ip, port) => {
                let up = matches!(event, Event::ServerUp(..));
                let word = if up { "UP" } else { "DOWN" };
                println!("{name}: server {ip}:{port} is {word}");
                let own = server(*ip, *port).and_then(|r| r.smtp_alert);
                if g.mail.checker(own.or(pool.config.smtp_alert)) {
                    let subject =
                        format!("Realserver [{ip}]:{port} of virtual server [{key}] - {word}");
                    let how = if up { "succeed" } else { "failed" };
                    self.mailer
                        .alert(g, &subject, &format!("=> CHECK {how} on service <="));
                }
                scripts::write_fifos(fifos(), &format!("RS [{ip}]:{port} [{key}] {word}\n"));
                if let Some(script) = server(*ip, *port).and_then(|r| {
                    if up {
                        r.notify_up.as_ref()
                    } else {
                        r.notify_down.as_ref()
                    }
                }) {
                    scripts::notify(script, &[], config);
                }
            }
            Event::QuorumGained | Event::QuorumLost => {
                let up = *event == Event::QuorumGained;
                println!("{name}: quorum {}", if up { "gained" } else { "lost" });
                if g.mail.checker(pool.config.smtp_alert) {
                    let word = if up { "UP" } else { "DOWN" };
                    let how = if up { "Gained" } else { "Lost" };
                    self.mailer.alert(
                        g,
                        &format!("Virtual server [{key}] - {word}"),
                        &format!("=> {how} quorum {} <=", pool.config.quorum),
                    );
                }
                scripts::write_fifos(
                    fifos(),
                    &format!("VS [{key}] {}\n", if up { "UP" } else { "DOWN" }),
                );
                if let Some(script) = if up {
                    &pool.config.quorum_up
                } else {
                    &pool.config.quorum_down
                } {
                    scripts::notify(script, &[], config);
                }
            }
            Event::LastTableKept => {
                println!("{name}: every server is down; the last table is kept")
            }
        }
    }

    pub(super) fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Log(text) => println!("{text}"),
            Notice::Entered {
                instance,
                state,
                priority,
            } => {
                println!("({instance}) entered {} state", state.name());
                self.states.insert(instance.clone(), *state);
                self.vrrp_event(instance, state.name(), *priority);
                let g = &self.config.globals;
                let config = self.config.instances.iter().find(|i| i.name == *instance);
                if config.is_some_and(|i| g.mail.vrrp(i.smtp_alert)) {
                    self.mailer
                        .router(g, &format!("VRRP Instance {instance}"), *state);
                }
                self.group_event(instance, *state);
            }
            Notice::Stopped {
                instance, priority, ..
            } => {
                println!("({instance}) stopped");
                self.states.remove(instance);
                self.vrrp_event(instance, "STOP", *priority);
            }
            Notice::LowerAdvert { instance, priority } => {
                self.vrrp_event(instance, "MASTER_RX_LOWER_PRI", *priority)
            }
            Notice::Priority {
                instance,
                state,
                priority,
            } => {
                let g = &self.config.globals;
                let word = if *state == State::Master {
                    "MASTER_PRIORITY"
                } else {
                    "BACKUP_PRIORITY"
                };
                scripts::write_fifos(
                    g.notify_fifo.iter().chain(&g.vrrp_notify_fifo),
                    &format!("INSTANCE \"{instance}\" {word} {priority}\n"),
                );
            }
        }
    }

    /// The scripts and the fifo of an instance; the arguments are keepalived's.
    fn vrrp_event(&self, name: &str, word: &str, priority: u8) {
        let config = &self.config;
        let g = &config.globals;
        scripts::write_fifos(
            g.notify_fifo.iter().chain(&g.vrrp_notify_fifo),
            &format!("INSTANCE \"{name}\" {word} {priority}\n"),
        );
        let Some(i) = config.instances.iter().find(|i| i.name == name) else {
            return;
        };
        let n = &i.notify;
        let own = match word {
            "MASTER" => &n.master,
            "BACKUP" => &n.backup,
            "FAULT" => &n.fault,
            "STOP" => &n.stop,
            _ => &n.master_rx_lower_pri,
        };
        if let Some(script) = own {
            scripts::notify(script, &[], config);
        }
        if let Some(script) = n.any.as_ref().filter(|_| word != "MASTER_RX_LOWER_PRI") {
            scripts::notify(
                script,
                &["INSTANCE", name, word, &priority.to_string()],
                config,
            );
        }
    }

    /// A group has changed when its last member has.
    fn group_event(&self, instance: &str, state: State) {
        let Some(group) = self
            .config
            .sync_groups
            .iter()
            .find(|g| g.members.iter().any(|m| m == instance))
        else {
            return;
        };
        if !group
            .members
            .iter()
            .all(|m| self.states.get(m) == Some(&state))
        {
            return;
        }
        let g = &self.config.globals;
        let word = state.name();
        if g.mail.vrrp(group.smtp_alert) {
            self.mailer
                .router(g, &format!("VRRP Group {}", group.name), state);
        }
        let priority = self
            .config
            .instances
            .iter()
            .find(|i| i.name == instance)
            .and_then(|i| i.priority)
            .unwrap_or(100);
        scripts::write_fifos(
            g.notify_fifo.iter().chain(&g.vrrp_notify_fifo),
            &format!("GROUP \"{}\" {word} {priority}\n", group.name),
        );
        let own = match state {
            State::Master => &group.notify.master,
            State::Backup => &group.notify.backup,
            _ => &group.notify.fault,
        };
        if let Some(script) = own {
            scripts::notify(script, &[], &self.config);
        }
        if let Some(script) = &group.notify.any {
            scripts::notify(
                script,
                &["GROUP", &group.name, word, &priority.to_string()],
                &self.config,
            );
        }
    }
}
