//! What routers, and the file's static blocks, have on the host: addresses, routes, policy rules, announcements and the firewall
//! of addresses that accept nothing. A thread of its own puts it there and takes it away, in the order it is told: the kernel
//! changes such things under one lock that others may hold for long, and adverts shall not wait for it.
//!
//! It also tells the rest of the program what happened to a router, after what that brought with it: a notify script finds
//! the addresses in place. An address that somebody else removes is put back.

use super::{Notice, now_us};
use crate::announce;
use crate::config::model::{Firewall, Route, Rule, VirtualAddress};
use crate::netlink::firewall::{self, Closed};
use crate::netlink::{Link, Monitor, Netlink};
use crate::sys;
use crate::vrrp::machine::Micros;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// What one owner has on the host while it is in office.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Placement {
    /// The instance, or "static".
    pub owner: String,
    /// Each with its interface.
    pub addresses: Vec<(VirtualAddress, String)>,
    pub routes: Vec<Route>,
    pub rules: Vec<Rule>,
    /// Time between announcements of one address and the next, IPv4 and IPv6.
    pub pace_us: [Micros; 2],
    /// Announced again after each such time: interfaces that no advert keeps fresh in the switches.
    pub refresh: Option<(Micros, BTreeSet<String>)>,
}

pub(super) enum Job {
    /// The host's interfaces are these now.
    Links(Arc<Vec<Link>>),
    Put(Arc<Placement>),
    Take(Arc<Placement>),
    Announce(Arc<Placement>, u32),
    Close(Firewall, BTreeSet<Closed>),
    RemoveLink(String),
    Tell(Notice),
    /// Answered when everything before is done.
    Settle(Sender<()>),
}

/// The handle of the thread; it ends, with all its jobs done, when the handle goes.
pub(super) struct Place {
    jobs: Option<Sender<Job>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Place {
    pub(super) fn start(
        notices: Box<dyn Fn(Notice) + Send>,
        priority: Option<u8>,
    ) -> io::Result<Self> {
        let (jobs, receiver) = channel();
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let mut work = Work {
            notices,
            netlink: Netlink::open()?,
            monitor: Monitor::addresses()?,
            frames: socket_with(
                AddressFamily::PACKET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                None,
            )?,
            links: Arc::default(),
            there: BTreeMap::new(),
            announcements: VecDeque::new(),
            said: HashSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("place".into())
            .spawn(move || {
                if let Some(priority) = priority {
                    // The VRRP thread says what is wrong with it.
                    let _ = sys::set_realtime(priority);
                }
                work.run(&receiver, woken);
            })?;
        Ok(Place {
            jobs: Some(jobs),
            wake,
            thread: Some(thread),
        })
    }

    pub(super) fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A full pipe means that the thread will wake anyway; a closed channel that it has ended.
            let _ = jobs.send(job);
            let _ = (&self.wake).write(&[1]);
        }
    }

    /// Waits until everything that was sent is done.
    pub(super) fn settle(&self) {
        let (sender, receiver) = channel();
        self.send(Job::Settle(sender));
        let _ = receiver.recv_timeout(std::time::Duration::from_secs(10));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = (&self.wake).write(&[1]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Work {
    notices: Box<dyn Fn(Notice) + Send>,
    netlink: Netlink,
    monitor: Monitor,
    frames: OwnedFd,
    links: Arc<Vec<Link>>,
    /// What is on the host now, by owner, and when it is announced again.
    there: BTreeMap<String, (Arc<Placement>, Option<Micros>)>,
    /// Announcements that wait for their turn.
    announcements: VecDeque<Announcement>,
    /// Failures that have been told, so that a static address without interface is told of once.
    said: HashSet<String>,
}

struct Announcement {
    at: Micros,
    owner: String,
    ifindex: u32,
    frame: Vec<u8>,
}

impl Work {
    fn run(&mut self, jobs: &Receiver<Job>, mut woken: UnixStream) {
        loop {
            self.timers(now_us());
            self.wait(&woken);
            let mut bytes = [0; 64];
            while woken.read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
            loop {
                match jobs.try_recv() {
                    Ok(job) => self.carry_out(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            // After the jobs: what we took away ourselves is no longer in `there`.
            if self.monitor.drain().addresses_gone {
                self.put_back();
            }
        }
    }

    fn wait(&self, woken: &UnixStream) {
        let announcement = self.announcements.front().map(|a| a.at);
        let refresh = self.there.values().filter_map(|(_, at)| *at).min();
        let next = announcement.into_iter().chain(refresh).min();
        let timeout = next.map(|at| {
            let left = at.saturating_sub(now_us());
            Timespec {
                tv_sec: (left / 1_000_000) as i64,
                tv_nsec: (left % 1_000_000 * 1000) as i64,
            }
        });
        let mut fds = [
            PollFd::new(woken, PollFlags::IN),
            PollFd::from_borrowed_fd(self.monitor.fd(), PollFlags::IN),
        ];
        // An interruption is as good as a wake-up.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    fn carry_out(&mut self, job: Job) {
        match job {
            Job::Links(links) => {
                self.links = links;
                self.put_static();
                // IPv6 addresses go with a link and do not come back with it.
                self.put_back();
            }
            Job::Put(placement) => {
                self.place(&placement, true);
                let again = placement
                    .refresh
                    .as_ref()
                    .map(|(every, _)| now_us() + every);
                self.there
                    .insert(placement.owner.clone(), (placement, again));
            }
            Job::Take(placement) => {
                self.there.remove(&placement.owner);
                self.announcements.retain(|a| a.owner != placement.owner);
                self.place(&placement, false);
            }
            Job::Announce(placement, repeat) => {
                for _ in 0..repeat {
                    self.announce(&placement, |_| true);
                }
            }
            Job::Close(options, closed) => {
                if let Err(e) = firewall::replace(&options, &closed)
                    && !closed.is_empty()
                {
                    self.say(format!("no_accept: the firewall cannot be set: {e}"));
                }
            }
            Job::RemoveLink(name) => {
                let links = self.netlink.links().unwrap_or_default();
                if let Some(link) = links.iter().find(|l| l.name == name && l.kind == "macvlan")
                    && let Err(e) = self.netlink.remove_link(link.index)
                {
                    self.say(format!("cannot remove {name}: {e}"));
                }
            }
            Job::Tell(notice) => (self.notices)(notice),
            Job::Settle(done) => drop(done.send(())),
        }
    }

    fn say(&self, text: String) {
        (self.notices)(Notice::Log(text));
    }

    fn index(&self, device: &str) -> Option<u32> {
        self.links
            .iter()
            .find(|l| l.name == device)
            .map(|l| l.index)
    }

    /// Puts addresses, routes and rules in place, or takes them away in the opposite order.
    fn place(&mut self, p: &Placement, add: bool) {
        let mut failures = Vec::new();
        if !add {
            self.rules(p, false, &mut failures);
            // Routes may refer to addresses that were never there: their absence is no news.
            self.routes(p, false, &mut Vec::new());
        }
        for (address, device) in &p.addresses {
            let Some(ifindex) = self.index(device) else {
                failures.push(format!("{}: no interface {device}", address.ip));
                continue;
            };
            let result = if add {
                self.netlink.add_address(ifindex, address)
            } else {
                self.netlink.remove_address(ifindex, address)
            };
            if let Err(e) = result {
                failures.push(format!("{} on {device}: {e}", address.ip));
            }
        }
        if add {
            self.routes(p, true, &mut failures);
            self.rules(p, true, &mut failures);
        }
        for failure in failures {
            let text = format!("({}) {failure}", p.owner);
            if p.owner != STATIC || self.said.insert(text.clone()) {
                self.say(text);
            }
        }
    }

    fn routes(&mut self, p: &Placement, add: bool, failures: &mut Vec<String>) {
        for route in &p.routes {
            let links = self.links.clone();
            let index = |name: &str| links.iter().find(|l| l.name == name).map(|l| l.index);
            let result = if add {
                self.netlink.add_route(route, &index)
            } else {
                self.netlink.remove_route(route, &index)
            };
            if let Err(e) = result {
                failures.push(format!("route {}: {e}", destination(route)));
            }
        }
    }

    fn rules(&mut self, p: &Placement, add: bool, failures: &mut Vec<String>) {
        for rule in &p.rules {
            let result = match add {
                true => self.netlink.add_rule(rule),
                false => self.netlink.remove_rule(rule),
            };
            if let Err(e) = result {
                failures.push(format!("rule {}: {e}", rule.priority));
            }
        }
    }

    /// An interface came, or came back: what is static goes where it belongs.
    fn put_static(&mut self) {
        if let Some((placement, _)) = self.there.get(STATIC).cloned() {
            self.place(&placement, true);
        }
    }

    /// Somebody else removed an address, or it went with its link: it is put back and announced, as soon as the link is up,
    /// unless the file says that nobody minds (no_track).
    fn put_back(&mut self) {
        if self.there.is_empty() {
            return;
        }
        // The links are looked at after the addresses, and here: what `self.links` says may be older than the loss, and an
        // address that went with its link shall wait for it. When the link comes, so does a job with the links.
        let Ok(there) = self.netlink.addresses() else {
            return;
        };
        match self.netlink.links() {
            Ok(links) => self.links = Arc::new(links),
            Err(_) => return,
        }
        let there: HashSet<(u32, IpAddr)> = there.iter().map(|(i, ip, _)| (*i, *ip)).collect();
        let placements: Vec<_> = self.there.values().map(|(p, _)| p.clone()).collect();
        for p in placements {
            for (address, device) in p.addresses.iter().filter(|(a, _)| !a.no_track) {
                let Some(link) = self.links.iter().find(|l| l.name == *device).cloned() else {
                    continue;
                };
                if !link.up || there.contains(&(link.index, address.ip)) {
                    continue;
                }
                match self.netlink.add_address(link.index, address) {
                    Ok(()) => {
                        self.say(format!(
                            "({}) {} was gone from {device}: it is put back",
                            p.owner, address.ip
                        ));
                        let frame = announce::frame(link.mac, address.ip);
                        let _ = sys::send_frame(&self.frames, link.index, &frame);
                    }
                    Err(e) => self.say(format!("({}) {} on {device}: {e}", p.owner, address.ip)),
                }
            }
        }
    }

    /// Announces the addresses on those interfaces, paced by vrrp_garp_interval and vrrp_gna_interval.
    fn announce(&mut self, p: &Placement, on: impl Fn(&str) -> bool) {
        let last = self.announcements.back().map(|a| a.at);
        let mut at = last.unwrap_or(0).max(now_us());
        for (address, device) in p.addresses.iter().filter(|(_, device)| on(device)) {
            let Some(link) = self.links.iter().find(|l| l.name == *device) else {
                continue;
            };
            let frame = announce::frame(link.mac, address.ip);
            match p.pace_us[usize::from(address.ip.is_ipv6())] {
                0 => drop(sys::send_frame(&self.frames, link.index, &frame)),
                interval => {
                    self.announcements.push_back(Announcement {
                        at,
                        owner: p.owner.clone(),
                        ifindex: link.index,
                        frame,
                    });
                    at += interval;
                }
            }
        }
    }

    fn timers(&mut self, now: Micros) {
        while self.announcements.front().is_some_and(|a| a.at <= now) {
            if let Some(a) = self.announcements.pop_front() {
                // A full queue loses an announcement; others follow.
                let _ = sys::send_frame(&self.frames, a.ifindex, &a.frame);
            }
        }
        let mut due = Vec::new();
        for (placement, again) in self.there.values_mut() {
            if let (Some(at), Some((every, _))) = (again, &placement.refresh)
                && *at <= now
            {
                *at = now + every;
                due.push(placement.clone());
            }
        }
        for placement in due {
            if let Some((_, devices)) = &placement.refresh {
                self.announce(&placement, |d| devices.contains(d));
            }
        }
    }
}

/// Who owns what `static_ipaddress`, `static_routes` and `static_rules` say.
pub(super) const STATIC: &str = "static";

fn destination(route: &Route) -> String {
    match route.destination {
        Some((ip, prefix)) => format!("{ip}/{prefix}"),
        None => "default".into(),
    }
}
