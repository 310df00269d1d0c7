//! The thread's loop: timers, sockets, trackers and links to the machines; what the machines want, to the world.

use super::place::{Job, Place, Placement, STATIC};
use super::{Command, Notice, Options, Work, now_us};
use crate::config::model::{Config, SyncGroup};
use crate::netlink::{Monitor, Netlink};
use crate::shell::router::{Readings, Router};
use crate::shell::router_socket::RouterSocket;
use crate::sys;
use crate::vrrp::machine::{Action, Micros, State};
use crate::vrrp::packet::Advert;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

impl Work {
    pub(super) fn new(
        config: Arc<Config>,
        options: Options,
        notices: Box<dyn Fn(Notice) + Send>,
    ) -> io::Result<Self> {
        let mut names = HashSet::new();
        let mut work = Work {
            options,
            routers: config
                .instances
                .iter()
                .map(|i| Router::new(i, &config, &mut names))
                .collect(),
            place: Place::start(notices, config.globals.vrrp_rt_priority)?,
            config,
            links: Arc::default(),
            readings: Readings::default(),
            netlink: Netlink::open()?,
            monitor: Monitor::links_and_addresses()?,
            fixed: Arc::new(Placement {
                owner: STATIC.into(),
                ..Placement::default()
            }),
            started: now_us(),
            closed: BTreeSet::new(),
        };
        work.links = Arc::new(work.netlink.links()?);
        Ok(work)
    }

    pub(super) fn say(&self, text: impl Into<String>) {
        self.tell(Notice::Log(text.into()));
    }

    /// After everything that was put into the host before.
    pub(super) fn tell(&self, notice: Notice) {
        self.place.send(Job::Tell(notice));
    }

    pub(super) fn run(&mut self, commands: &Receiver<Command>, mut woken: UnixStream) {
        if let Some(priority) = self.config.globals.vrrp_rt_priority
            && let Err(e) = sys::set_realtime(priority)
        {
            self.say(format!("no real-time priority for VRRP: {e}"));
        }
        self.place.send(Job::Links(self.links.clone()));
        for i in 0..self.routers.len() {
            self.prepare(i);
        }
        // A killed process leaves it behind.
        let firewall = self.config.globals.firewall.clone();
        self.place.send(Job::Close(firewall, self.closed.clone()));
        self.put_static();
        // Adverts may leave from an address that is only now put in place.
        self.place.settle();
        let delay = self.config.globals.startup_delay_us;
        if delay == 0 {
            self.judge();
        }
        loop {
            let now = now_us();
            if delay > 0
                && self
                    .routers
                    .iter()
                    .any(|r| r.machine.state() == State::Init)
                && now >= self.started + delay
            {
                self.judge();
            }
            self.timers(now);
            self.wait(&woken, delay);
            for i in 0..self.routers.len() {
                self.receive(i);
            }
            let changes = self.monitor.drain();
            if changes.links {
                self.links_changed();
            } else if (changes.addresses_new || changes.addresses_gone) && self.minds_addresses() {
                self.judge();
            }
            let mut bytes = [0; 64];
            while woken.read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
            while let Ok(command) = commands.try_recv() {
                if self.command(command) {
                    return;
                }
            }
        }
    }

    /// Sleeps until a socket, a command or a timer.
    fn wait(&self, woken: &UnixStream, startup_delay: Micros) {
        let timers = self.routers.iter().filter_map(|r| r.machine.next_timer());
        let startup = (startup_delay > 0
            && self
                .routers
                .iter()
                .any(|r| r.machine.state() == State::Init))
        .then_some(self.started + startup_delay);
        let next = timers.chain(startup).min();
        let timeout = next.map(|at| {
            let left = at.saturating_sub(now_us());
            Timespec {
                tv_sec: (left / 1_000_000) as i64,
                tv_nsec: (left % 1_000_000 * 1000) as i64,
            }
        });
        let mut fds = vec![
            PollFd::new(woken, PollFlags::IN),
            PollFd::from_borrowed_fd(self.monitor.fd(), PollFlags::IN),
        ];
        fds.extend(
            self.routers
                .iter()
                .filter_map(|r| r.socket.as_ref())
                .map(|s| PollFd::from_borrowed_fd(s.fd(), PollFlags::IN)),
        );
        // An interruption is as good as a wake-up.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// Opens a router's socket when it can be opened.
    pub(super) fn connect(&mut self, i: usize) {
        if self.routers[i].socket.is_some() {
            return;
        }
        let addresses = self.netlink.addresses().unwrap_or_default();
        let Some(endpoint) = self.routers[i].endpoint(&self.links, &addresses, &self.config) else {
            return;
        };
        match RouterSocket::open(endpoint) {
            Ok(socket) => self.routers[i].socket = Some(socket),
            Err(e) => self.say(format!(
                "({}) cannot open its socket: {e}",
                self.routers[i].config.name
            )),
        }
    }

    fn group_of(&self, i: usize) -> Option<&SyncGroup> {
        let name = &self.routers[i].config.name;
        self.config
            .sync_groups
            .iter()
            .find(|g| g.members.contains(name))
    }

    /// Whether some router waits for an address to speak from, or would stop without.
    fn minds_addresses(&self) -> bool {
        self.routers
            .iter()
            .any(|r| r.socket.is_none() || r.config.track_src_ip)
    }

    /// Whether the address that a router speaks from is on this machine; known to be where nobody asked to look.
    fn has_source(&mut self, i: usize) -> bool {
        let r = &self.routers[i];
        if !r.config.track_src_ip {
            return true;
        }
        let source = r.socket.as_ref().map(|s| s.endpoint.source);
        let there = self.netlink.addresses().unwrap_or_default();
        source.is_none_or(|ip| there.iter().any(|(_, a, _)| *a == ip))
    }

    /// Looks at interfaces and trackers again and tells the machines.
    pub(super) fn judge(&mut self) {
        for i in 0..self.routers.len() {
            self.connect(i);
            let has_source = self.has_source(i);
            let verdict = self.routers[i].verdict(
                &self.links,
                &self.readings,
                self.group_of(i),
                &self.config,
            );
            let router = &mut self.routers[i];
            router.able = !verdict.fault && router.socket.is_some() && has_source;
            let before = router.machine.priority();
            let actions = router.machine.set_priority(verdict.priority, now_us());
            if before != verdict.priority
                && router
                    .config
                    .notify_priority_changes
                    .unwrap_or(self.config.globals.notify_priority_changes)
            {
                let notice = Notice::Priority {
                    instance: router.config.name.clone(),
                    state: router.machine.state(),
                    priority: verdict.priority,
                };
                self.tell(notice);
            }
            self.act(i, actions);
        }
        for i in 0..self.routers.len() {
            let group_able = match self.group_of(i) {
                Some(g) => self
                    .routers
                    .iter()
                    .filter(|r| g.members.contains(&r.config.name))
                    .all(|r| r.able),
                None => true,
            };
            let up = self.routers[i].able && group_able;
            let actions = self.routers[i].machine.set_up(up, now_us());
            self.act(i, actions);
        }
    }

    fn links_changed(&mut self) {
        match self.netlink.links() {
            Ok(links) => self.links = Arc::new(links),
            Err(e) => return self.say(format!("cannot list interfaces: {e}")),
        }
        self.place.send(Job::Links(self.links.clone()));
        // A socket bound to an interface that went and came back must be opened anew.
        for router in &mut self.routers {
            let gone = router
                .socket
                .as_ref()
                .and_then(|s| s.endpoint.device.as_ref())
                .is_some_and(|(_, index)| !self.links.iter().any(|l| l.index == *index));
            if gone {
                router.socket = None;
            }
        }
        self.judge();
    }

    fn timers(&mut self, now: Micros) {
        for i in 0..self.routers.len() {
            let router = &mut self.routers[i];
            let Some(at) = router.machine.next_timer().filter(|at| *at <= now) else {
                continue;
            };
            router.counts.timer_late_us_max = router.counts.timer_late_us_max.max(now - at);
            let actions = router.machine.timer(now);
            self.act(i, actions);
        }
    }

    fn receive(&mut self, i: usize) {
        let mut buffer = [0; 8192];
        // Bounded, so that a flood of adverts cannot keep our own from leaving.
        for _ in 0..64 {
            let router = &mut self.routers[i];
            let Some(socket) = &router.socket else { return };
            let own = socket.endpoint.source;
            let Some(heard) = socket.receive(&mut buffer) else {
                return;
            };
            // Another router's adverts come to this socket too.
            if heard.message.get(1) != Some(&router.machine.settings.vrid)
                || heard.source == own
                || !router.admissible(&heard)
            {
                continue;
            }
            let actions = match Advert::decode(heard.message, heard.source, heard.destination) {
                Err(why) => {
                    *router.counts.malformed.entry(why.to_string()).or_default() += 1;
                    continue;
                }
                Ok(advert) => {
                    router.count_received(&advert, heard.source);
                    match router.machine.advert(&advert, heard.source, own, now_us()) {
                        Ok(actions) => actions,
                        Err(why) => {
                            *router
                                .counts
                                .ignored
                                .entry(format!("{why:?}").to_lowercase())
                                .or_default() += 1;
                            continue;
                        }
                    }
                }
            };
            self.act(i, actions);
        }
    }

    pub(super) fn act(&mut self, i: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { priority } => self.advertise(i, priority),
                Action::AddAddresses => self.addresses(i, true),
                Action::RemoveAddresses => self.addresses(i, false),
                Action::Announce { repeat } => self.announce(i, repeat),
                Action::LowerAdvertHeard => {
                    let r = &self.routers[i];
                    self.tell(Notice::LowerAdvert {
                        instance: r.config.name.clone(),
                        priority: r.machine.priority(),
                    });
                }
                Action::Entered(state) => self.entered(i, state),
            }
        }
    }

    fn entered(&mut self, i: usize, state: State) {
        let router = &mut self.routers[i];
        match state {
            State::Master => router.counts.become_master += 1,
            _ if router.counts.become_master > router.counts.release_master => {
                router.counts.release_master += 1
            }
            _ => {}
        }
        let notice = Notice::Entered {
            instance: router.config.name.clone(),
            state,
            priority: router.machine.priority(),
        };
        self.tell(notice);
        let Some(members) = self.group_of(i).map(|g| g.members.clone()) else {
            return;
        };
        for other in 0..self.routers.len() {
            if other != i && members.contains(&self.routers[other].config.name) {
                let actions = self.routers[other].machine.follow(state, now_us());
                self.act(other, actions);
            }
        }
    }

    fn advertise(&mut self, i: usize, priority: u8) {
        let form = self.options.checksum;
        let router = &mut self.routers[i];
        let Some(socket) = &router.socket else { return };
        let advert = router.machine.advert_to_send(priority);
        for destination in &socket.endpoint.destinations {
            let bytes = advert.encode(socket.endpoint.source, *destination, form);
            match socket.send(*destination, &bytes) {
                Ok(()) => router.counts.adverts_sent += 1,
                Err(_) => router.counts.send_errors += 1,
            }
        }
        if priority == 0 {
            router.counts.priority_zero_sent += 1;
        }
    }
}
