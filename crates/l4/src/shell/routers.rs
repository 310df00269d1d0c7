//! The VRRP thread: all virtual routers, their timers and sockets, in one loop that does nothing else. Adverts leave on
//! time whatever the checkers, the tables and the scripts are busy with.

use super::router::{Readings, Router};
use super::router_socket::{RouterSocket, is_v6};
use crate::announce;
use crate::config::model::{Config, SyncGroup};
use crate::netlink::{Link, Monitor, Netlink};
use crate::sys;
use crate::vrrp::machine::{Action, Micros, State};
use crate::vrrp::packet::{Advert, ChecksumForm};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What the rest of the program tells the thread.
pub enum Command {
    Script(String, bool),
    File(String, i64),
    Process(String, bool),
    Reload(Arc<Config>),
    Show(Sender<Vec<RouterView>>),
    Stop,
}

/// What the thread tells the rest of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Entered {
        instance: String,
        state: State,
        priority: u8,
    },
    Stopped {
        instance: String,
        was: State,
        priority: u8,
    },
    LowerAdvert {
        instance: String,
        priority: u8,
    },
    Priority {
        instance: String,
        state: State,
        priority: u8,
    },
    Log(String),
}

/// A router for `show`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RouterView {
    pub name: String,
    pub state: &'static str,
    pub interface: Option<String>,
    pub virtual_router_id: u8,
    pub version: u8,
    pub priority: u8,
    pub master_priority: u8,
    pub last_master: Option<IpAddr>,
    pub addresses: usize,
    pub since_ms: Option<u64>,
    pub counts: super::router::Counts,
}

/// The handle of the running thread.
pub struct Routers {
    commands: Sender<Command>,
    wake: UnixStream,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How the routers are to behave, beside the configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub checksum: ChecksumForm,
}

impl Routers {
    /// Starts the thread. `notices` is called from it and must not block.
    pub fn start(
        config: Arc<Config>,
        options: Options,
        notices: impl Fn(Notice) + Send + 'static,
    ) -> io::Result<Self> {
        let (commands, receiver) = channel();
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let mut work = Work::new(config, options, Box::new(notices))?;
        let thread = std::thread::Builder::new()
            .name("vrrp".into())
            .spawn(move || work.run(&receiver, woken))?;
        Ok(Routers {
            commands,
            wake,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn send(&self, command: Command) {
        // A full pipe means that the thread will wake anyway; a closed channel that it has ended.
        let _ = self.commands.send(command);
        let _ = (&self.wake).write(&[1]);
    }

    pub fn show(&self) -> Vec<RouterView> {
        let (sender, receiver) = channel();
        self.send(Command::Show(sender));
        receiver
            .recv_timeout(std::time::Duration::from_secs(2))
            .unwrap_or_default()
    }

    /// Ends all routers, telling the peers, and waits for it.
    pub fn stop(&self) {
        self.send(Command::Stop);
        let thread = self.thread.lock().ok().and_then(|mut t| t.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Microseconds of CLOCK_MONOTONIC.
pub fn now_us() -> Micros {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

struct Work {
    config: Arc<Config>,
    options: Options,
    routers: Vec<Router>,
    links: Vec<Link>,
    readings: Readings,
    netlink: Netlink,
    monitor: Monitor,
    frames: OwnedFd,
    /// Announcements that wait for their turn: when, interface, frame.
    announcements: VecDeque<(Micros, u32, Vec<u8>)>,
    notices: Box<dyn Fn(Notice) + Send>,
    started: Micros,
}

impl Work {
    fn new(
        config: Arc<Config>,
        options: Options,
        notices: Box<dyn Fn(Notice) + Send>,
    ) -> io::Result<Self> {
        let frames = socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut work = Work {
            options,
            routers: config
                .instances
                .iter()
                .map(|i| Router::new(i, &config))
                .collect(),
            config,
            links: Vec::new(),
            readings: Readings::default(),
            netlink: Netlink::open()?,
            monitor: Monitor::links()?,
            frames,
            announcements: VecDeque::new(),
            notices,
            started: now_us(),
        };
        work.links = work.netlink.links()?;
        Ok(work)
    }

    fn say(&self, text: impl Into<String>) {
        (self.notices)(Notice::Log(text.into()));
    }

    fn run(&mut self, commands: &Receiver<Command>, mut woken: UnixStream) {
        if let Some(priority) = self.config.globals.vrrp_rt_priority
            && let Err(e) = sys::set_realtime(priority)
        {
            self.say(format!("no real-time priority for VRRP: {e}"));
        }
        for i in 0..self.routers.len() {
            self.prepare(i);
        }
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
            if self.monitor.drain() {
                self.links_changed();
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
        let announcement = self.announcements.front().map(|(at, _, _)| *at);
        let startup = (startup_delay > 0
            && self
                .routers
                .iter()
                .any(|r| r.machine.state() == State::Init))
        .then_some(self.started + startup_delay);
        let next = timers.chain(announcement).chain(startup).min();
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

    /// What must be there before a router can run: its macvlan; and what must not: addresses left by a killed process.
    fn prepare(&mut self, i: usize) {
        let router = &self.routers[i];
        if let (Some(name), Some(base)) = (router.vmac.clone(), router.config.interface.clone()) {
            let mac = router.virtual_mac();
            if let Some(link) = self.links.iter().find(|l| l.name == base) {
                let made = self.netlink.add_macvlan(link.index, &name, mac);
                if let Err(e) = made {
                    self.say(format!("cannot make the macvlan {name} over {base}: {e}"));
                }
                vmac_settings(&name, &base);
                self.links = self.netlink.links().unwrap_or_default();
            }
        }
        self.addresses(i, false);
    }

    /// Opens a router's socket when it can be opened.
    fn connect(&mut self, i: usize) {
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

    /// Looks at interfaces and trackers again and tells the machines.
    fn judge(&mut self) {
        for i in 0..self.routers.len() {
            self.connect(i);
            let verdict = self.routers[i].verdict(
                &self.links,
                &self.readings,
                self.group_of(i),
                &self.config,
            );
            let router = &mut self.routers[i];
            router.able = !verdict.fault && router.socket.is_some();
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
                (self.notices)(notice);
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
            Ok(links) => self.links = links,
            Err(e) => return self.say(format!("cannot list interfaces: {e}")),
        }
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
            if self.routers[i]
                .machine
                .next_timer()
                .is_some_and(|at| at <= now)
            {
                let actions = self.routers[i].machine.timer(now);
                self.act(i, actions);
            }
        }
        while let Some((at, _, _)) = self.announcements.front() {
            if *at > now {
                break;
            }
            if let Some((_, ifindex, frame)) = self.announcements.pop_front() {
                // A full queue loses an announcement; others follow.
                let _ = sys::send_frame(&self.frames, ifindex, &frame);
            }
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

    fn act(&mut self, i: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { priority } => self.advertise(i, priority),
                Action::AddAddresses => self.addresses(i, true),
                Action::RemoveAddresses => self.addresses(i, false),
                Action::Announce { repeat } => self.announce(i, repeat),
                Action::LowerAdvertHeard => {
                    let r = &self.routers[i];
                    (self.notices)(Notice::LowerAdvert {
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
        (self.notices)(notice);
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

    /// Puts addresses and routes in place, or takes them away (routes first).
    fn addresses(&mut self, i: usize, add: bool) {
        let default = self.config.globals.default_interface.clone();
        let index: HashMap<&str, u32> = self
            .links
            .iter()
            .map(|l| (l.name.as_str(), l.index))
            .collect();
        let router = &self.routers[i];
        let mut failures = Vec::new();
        let routes = |netlink: &mut Netlink, failures: &mut Vec<String>| {
            for route in &router.config.routes {
                let device = route.device.as_deref().and_then(|d| index.get(d)).copied();
                let result = if add {
                    netlink.add_route(route, device)
                } else {
                    netlink.remove_route(route, device)
                };
                if let Err(e) = result {
                    failures.push(format!(
                        "({}) route {:?}: {e}",
                        router.config.name, route.destination
                    ));
                }
            }
        };
        if !add {
            // Routes may refer to addresses that were never there: their absence is no news.
            routes(&mut self.netlink, &mut Vec::new());
        }
        for address in router.addresses() {
            let device = router.device_of(address, &default);
            let Some(ifindex) = index.get(device) else {
                failures.push(format!(
                    "({}) {}: no interface {device}",
                    router.config.name, address.ip
                ));
                continue;
            };
            let result = if add {
                self.netlink.add_address(*ifindex, address)
            } else {
                self.netlink.remove_address(*ifindex, address)
            };
            if let Err(e) = result {
                failures.push(format!(
                    "({}) {} on {device}: {e}",
                    router.config.name, address.ip
                ));
            }
        }
        if add {
            routes(&mut self.netlink, &mut failures);
        }
        for failure in failures {
            self.say(failure);
        }
    }

    /// Announces every address `repeat` times, paced by vrrp_garp_interval and vrrp_gna_interval.
    fn announce(&mut self, i: usize, repeat: u32) {
        let g = &self.config.globals;
        let router = &self.routers[i];
        let mut at = now_us();
        for _ in 0..repeat {
            for address in router.addresses() {
                let device = router.device_of(address, &g.default_interface);
                let Some(link) = self.links.iter().find(|l| l.name == device) else {
                    continue;
                };
                let interval = if address.ip.is_ipv6() {
                    g.gna_interval_us
                } else {
                    g.garp_interval_us
                };
                let frame = announce::frame(link.mac, address.ip);
                if interval == 0 {
                    let _ = sys::send_frame(&self.frames, link.index, &frame);
                } else {
                    self.announcements.push_back((at, link.index, frame));
                    at += interval;
                }
            }
        }
    }

    /// True if the thread shall end.
    fn command(&mut self, command: Command) -> bool {
        match command {
            Command::Script(name, ok) => drop(self.readings.scripts.insert(name, ok)),
            Command::File(name, value) => drop(self.readings.files.insert(name, value)),
            Command::Process(name, ok) => drop(self.readings.processes.insert(name, ok)),
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
        if let Some(name) = self.routers[i].vmac.clone()
            && let Some(link) = self
                .links
                .iter()
                .find(|l| l.name == name && l.kind == "macvlan")
            && let Err(e) = self.netlink.remove_link(link.index)
        {
            self.say(format!("cannot remove {name}: {e}"));
        }
        let r = &self.routers[i];
        (self.notices)(Notice::Stopped {
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
        for instance in &config.instances {
            if !self.routers.iter().any(|r| r.config.name == instance.name) {
                self.routers.push(Router::new(instance, &config));
                self.prepare(self.routers.len() - 1);
            }
        }
        self.judge();
    }
}

/// ARP for the virtual addresses is answered by the macvlan alone.
fn vmac_settings(vmac: &str, base: &str) {
    let set = |interface: &str, key: &str, value: &str| {
        // Best effort: doctor tells what is not as it should be.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{interface}/{key}"), value);
    };
    set(vmac, "accept_local", "1");
    set(vmac, "rp_filter", "0");
    set(vmac, "arp_ignore", "1");
    set(base, "arp_ignore", "1");
    set(base, "arp_filter", "1");
}

/// Whether any instance of the file speaks IPv6.
pub fn any_v6(config: &Config) -> bool {
    config.instances.iter().any(is_v6)
}
