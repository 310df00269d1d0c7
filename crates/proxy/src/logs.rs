//! Sending log lines: the envelope of each target (`log ... format`), sampling, and the sockets they leave through.
//!
//! Nothing here waits: a target that does not take a message at once loses it, and the loss is counted.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, PoisonError};

use sluice_config::model::{
    Balance, Global, LogFormatKind, LogForward, LogProfile, LogStep, LogTarget, PeerAddr, PortSpec,
    Proxy,
};
use sluice_engine::Runtime;
use sluice_engine::balance::{Ask, hash};
use sluice_expr::env::{Env, Now};
use sluice_expr::vars::VarRef;
use sluice_expr::{ProxyId, Type, Value};
use tokio::sync::Notify;

use crate::forward::message::{Around, Message};
use crate::net::datagrams::{Datagrams, Posted};
use crate::net::outbox;
use crate::stream::Stream;
use crate::{clock, zone};

/// syslog's port, for targets without one.
const SYSLOG_PORT: u16 = 514;

/// A worker's way of sending logs.
pub struct LogSender {
    runtime: Arc<Runtime>,
    rings: Arc<Rings>,
    udp: Datagrams,
    /// Lines for `udp` wait until the worker's turn ends.
    gathers: Cell<bool>,
    unix: Option<UnixDatagram>,
    buf: RefCell<Vec<u8>>,
    line: RefCell<Vec<u8>>,
    /// What stood before the last line of each target: it stays the same for a second.
    envelopes: RefCell<Vec<Sealed>>,
    /// Messages seen by each sampling target, by its address in memory.
    samples: RefCell<HashMap<usize, u32>>,
    /// Random numbers for log backends.
    draws: Cell<u64>,
}

/// Memory rings, shared by all workers.
#[derive(Default)]
pub struct Rings {
    rings: Mutex<HashMap<String, Ring>>,
}

struct Ring {
    size: usize,
    used: usize,
    lines: std::collections::VecDeque<Vec<u8>>,
    /// Lines that ever came.
    count: u64,
    /// Told of each, where somebody waits for them.
    arrived: Option<Arc<Notify>>,
}

impl Rings {
    pub fn new(model: &sluice_config::model::Model) -> Arc<Self> {
        let ring = |size, is_followed: bool| Ring {
            arrived: is_followed.then(Arc::default),
            size,
            used: 0,
            lines: Default::default(),
            count: 0,
        };
        let mut rings: HashMap<_, _> = model
            .rings
            .iter()
            .map(|r| {
                (
                    r.name.clone(),
                    ring(r.size_bytes as usize, !r.servers.is_empty()),
                )
            })
            .collect();
        // the ring that is always there
        rings
            .entry("buf0".into())
            .or_insert_with(|| ring(1 << 20, false));
        Arc::new(Rings {
            rings: Mutex::new(rings),
        })
    }

    pub fn push(&self, name: &str, line: &[u8]) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(r) = rings.get_mut(name) else { return };
        r.used += line.len();
        r.count += 1;
        r.lines.push_back(line.to_vec());
        while r.used > r.size {
            match r.lines.pop_front() {
                Some(l) => r.used -= l.len(),
                None => break,
            }
        }
        if let Some(arrived) = &r.arrived {
            arrived.notify_waiters();
        }
    }

    /// What is told of each line of a ring that has servers.
    pub fn arrivals(&self, name: &str) -> Option<Arc<Notify>> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.get(name)?.arrived.clone()
    }

    /// What came into a ring after its first `seen` lines, as far as it is still there, and how many came by now.
    pub fn since(&self, name: &str, seen: u64) -> Option<(Vec<Vec<u8>>, u64)> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let r = rings.get(name)?;
        let new = usize::try_from(r.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let known = r.lines.len().saturating_sub(new);
        Some((r.lines.iter().skip(known).cloned().collect(), r.count))
    }

    /// All lines of a ring, oldest first; `None` when there is no such ring.
    pub fn lines(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.get(name).map(|r| r.lines.iter().cloned().collect())
    }
}

/// An envelope as it was written for a target, and what it depended on.
struct Sealed {
    /// The target's address in memory.
    target: usize,
    secs: i64,
    level: u8,
    tag: String,
    text: Vec<u8>,
}

/// What goes around a message.
pub struct Envelope<'a> {
    pub format: LogFormatKind,
    pub facility: u8,
    pub level: u8,
    pub tag: &'a str,
    pub hostname: &'a str,
    pub pid: u32,
    pub wall_us: i64,
    /// RFC 5424 structured data.
    pub structured: &'a [u8],
}

/// What still waits when the worker ends is sent.
impl Drop for LogSender {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LogSender {
    pub fn new(runtime: Arc<Runtime>, rings: Arc<Rings>) -> Self {
        let unix = UnixDatagram::unbound()
            .ok()
            .filter(|s| s.set_nonblocking(true).is_ok());
        LogSender {
            runtime,
            rings,
            udp: Datagrams::default(),
            gathers: Cell::new(false),
            unix,
            buf: RefCell::default(),
            line: RefCell::default(),
            envelopes: RefCell::default(),
            samples: RefCell::default(),
            draws: Cell::new(clock::read().mono_us | 1),
        }
    }

    /// A line of the `debug` converter, for `stdout`, `stderr` or a ring. A sink that does not take it loses it.
    pub fn event(&self, sink: &[u8], line: &[u8]) {
        let line = [line, b"\n"].concat();
        let _ = match sink {
            b"stdout" => io::stdout().lock().write_all(&line),
            b"stderr" => io::stderr().lock().write_all(&line),
            ring => {
                self.rings.push(&String::from_utf8_lossy(ring), &line);
                Ok(())
            }
        };
    }

    /// The line of a stream at a step of it, most often its end.
    pub fn stream(&self, s: &Stream, fe: &Proxy, level: u8, step: LogStep) {
        let mut line = self.line.borrow_mut();
        line.clear();
        match &fe.log.error_format {
            Some(f) if step == LogStep::Error => f.write(s, &mut line),
            _ => fe.log.format.write(s, &mut line),
        }
        let mut structured = Vec::new();
        if let Some(f) = &fe.log.sd_format {
            f.write(s, &mut structured);
        }
        self.send(
            &fe.log.targets,
            fe.log.tag.as_deref(),
            level,
            s.now.wall_us,
            &line,
            &structured,
        );
    }

    /// The same where targets, or the rule that asks for a line, have profiles: each target gets what its profile says of
    /// the step. `text`: the line of those that say nothing; `None`: there is none.
    pub fn profiled(
        &self,
        s: &Stream,
        fe: &Proxy,
        level: u8,
        (step, wanted): (LogStep, Option<&LogProfile>),
        text: Option<&[u8]>,
    ) {
        for target in &fe.log.targets {
            let profile = wanted.or(target.profile.as_deref());
            let say = profile.and_then(|p| p.at(step));
            if say.is_some_and(|say| say.drop) {
                continue;
            }
            let mut line = Vec::new();
            match (say.and_then(|say| say.format.as_ref()), text) {
                (Some(format), _) => format.write(s, &mut line),
                (None, Some(text)) => line.extend_from_slice(text),
                (None, None) => continue,
            }
            let mut structured = Vec::new();
            let sd = say.and_then(|say| say.sd.as_ref());
            if let Some(f) = sd.or(fe.log.sd_format.as_ref()) {
                f.write(s, &mut structured);
            }
            let tag = profile.and_then(|p| p.tag.as_deref());
            self.send(
                std::slice::from_ref(target),
                tag.or(fe.log.tag.as_deref()),
                level,
                s.now.wall_us,
                &line,
                &structured,
            );
        }
    }

    /// A line of a frontend that is no stream's.
    pub fn line(&self, fe: &Proxy, level: u8, text: &[u8]) {
        let (targets, tag) = (&fe.log.targets, fe.log.tag.as_deref());
        self.send(targets, tag, level, clock::now().wall_us, text, b"");
    }

    /// A message of the process: a server went down, a listener started.
    pub fn notice(&self, targets: &[LogTarget], tag: Option<&str>, level: u8, text: &str) {
        self.send(
            targets,
            tag,
            level,
            clock::read().wall_us,
            text.as_bytes(),
            b"",
        );
    }

    /// Sends to every target that wants the level.
    pub fn send(
        &self,
        targets: &[LogTarget],
        tag: Option<&str>,
        level: u8,
        wall_us: i64,
        msg: &[u8],
        structured: &[u8],
    ) {
        let g: &Global = &self.runtime.model.global;
        let hostname = g
            .log_send_hostname
            .as_deref()
            .filter(|h| !h.is_empty())
            .unwrap_or(&self.runtime.hostname);
        for target in targets {
            if level > target.level || !self.sampled(target) {
                continue;
            }
            let format = match target.format {
                LogFormatKind::Unspecified if g.log_send_hostname.is_some() => {
                    LogFormatKind::Rfc3164
                }
                LogFormatKind::Unspecified => LogFormatKind::Local,
                other => other,
            };
            let envelope = Envelope {
                format,
                facility: target.facility,
                level: level.max(target.min_level),
                tag: tag.or(g.log_tag.as_deref()).unwrap_or("haproxy"),
                hostname: match format {
                    _ if g.log_send_hostname.is_some() => hostname,
                    // a dash is for what is not told
                    LogFormatKind::Rfc5424 => "-",
                    _ => "localhost",
                },
                pid: self.runtime.pid,
                wall_us,
                structured,
            };
            // HAProxy cuts before the line feed, and has one byte less where no envelope is
            let spare = usize::from(format == LogFormatKind::Raw);
            self.dispatch(target, target.max_len.saturating_sub(spare), msg, |out| {
                self.seal(target, &envelope, out);
                out.extend_from_slice(msg);
            });
        }
    }

    /// A message that came in, to the targets of its section.
    pub fn forward(&self, section: &LogForward, message: &Message<'_>, sender: &str) {
        let g: &Global = &self.runtime.model.global;
        let hostname = match &g.log_send_hostname {
            Some(name) if !name.is_empty() => name.as_str(),
            Some(_) => &self.runtime.hostname,
            None => "localhost",
        };
        for target in &section.targets {
            if message.level() > target.level || !self.sampled(target) {
                continue;
            }
            let around = Around {
                facility: target.facility,
                level: message.level().max(target.min_level),
                hostname,
                host: section.host,
                sender,
                wall_us: clock::now().wall_us,
            };
            self.dispatch(target, target.max_len, message.text, |out| {
                message.write(target.format, &around, out);
            });
        }
    }

    /// Sends what `write` appends, cut to a length, as a line. `text`: the message alone, by which a server may be chosen.
    fn dispatch(
        &self,
        target: &LogTarget,
        most: usize,
        text: &[u8],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let write = |out: &mut Vec<u8>| {
            let start = out.len();
            write(out);
            out.truncate(start + most);
            out.push(b'\n');
        };
        if let PeerAddr::Ip { ip, port } = &target.addr {
            return self.post(*ip, port, write);
        }
        if let PeerAddr::Backend { id, .. } = &target.addr {
            return self.balance(*id, text, write);
        }
        let mut buf = self.buf.borrow_mut();
        buf.clear();
        write(&mut buf);
        if self.deliver(&target.addr, &buf).is_err() {
            self.runtime.counters.dropped_logs.inc();
        }
    }

    /// Sends a line to one of a log backend's servers.
    fn balance(&self, id: ProxyId, text: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let state = self.runtime.proxy(id);
        let backend = self.runtime.model.proxy(id);
        let hash = match &backend.balance {
            Balance::LogHash(key) => {
                let env = OneMessage(text);
                let key = key.eval_as(&env, Type::Bin).ok();
                key.and_then(|k| Some(hash::of_bytes(k.value.bytes()?, backend.hash_type)))
            }
            _ => None,
        };
        self.draws.set(xorshift(self.draws.get()));
        let ask = Ask {
            hash,
            random: self.draws.get(),
            ..Ask::default()
        };
        let chosen = state.balancer.choose(&state.servers, &ask);
        let Some(server) = chosen.and_then(|i| state.servers.get(i as usize)) else {
            return self.runtime.counters.dropped_logs.inc();
        };
        server.counters.lb_total.inc();
        state.be.lb_total.inc();
        let addr = server.addr.load();
        match &**addr {
            PeerAddr::Ip { ip, port } if server.conf.datagrams => self.post(*ip, port, write),
            addr => {
                let mut buf = self.buf.borrow_mut();
                buf.clear();
                write(&mut buf);
                match server.conf.datagrams {
                    true if self.deliver(addr, &buf).is_err() => {
                        self.runtime.counters.dropped_logs.inc();
                    }
                    true => {}
                    false => self.rings.push(&server.conf.log_ring(&backend.name), &buf),
                }
            }
        }
    }

    /// Sends a line as a datagram, together with others where the worker's turn has an end.
    fn post(&self, ip: std::net::IpAddr, port: &PortSpec, write: impl FnOnce(&mut Vec<u8>)) {
        let port = match port {
            PortSpec::Fixed(p) if *p != 0 => *p,
            _ => SYSLOG_PORT,
        };
        let waits = match self.udp.post(SocketAddr::new(ip, port), write) {
            Posted::First => self.gathers.get() && outbox::call(),
            Posted::Behind => true,
            Posted::Full => false,
        };
        if !waits {
            self.flush();
        }
    }

    /// Appends the envelope, from memory where only the second tells one from the next.
    fn seal(&self, target: &LogTarget, e: &Envelope<'_>, out: &mut Vec<u8>) {
        if !matches!(e.format, LogFormatKind::Local | LogFormatKind::Rfc3164) {
            return write_envelope(e, out);
        }
        let target = std::ptr::from_ref(target) as usize;
        let secs = e.wall_us.div_euclid(1_000_000);
        let mut known = self.envelopes.borrow_mut();
        let at = known.iter().position(|s| s.target == target);
        if let Some(s) = at.map(|at| &known[at])
            && s.secs == secs
            && s.level == e.level
            && s.tag == e.tag
        {
            return out.extend_from_slice(&s.text);
        }
        let start = out.len();
        write_envelope(e, out);
        let sealed = Sealed {
            target,
            secs,
            level: e.level,
            tag: e.tag.to_owned(),
            text: out[start..].to_vec(),
        };
        match at {
            Some(at) => known[at] = sealed,
            None => known.push(sealed),
        }
    }

    /// From now on lines to other machines wait for the end of the worker's turn.
    pub fn gather(&self) {
        self.gathers.set(true);
    }

    /// Sends what waits.
    pub fn flush(&self) {
        let lost = self.udp.flush();
        self.runtime.counters.dropped_logs.add(lost as u64);
    }

    fn sampled(&self, t: &LogTarget) -> bool {
        let Some(sample) = &t.sample else { return true };
        let mut samples = self.samples.borrow_mut();
        let n = samples.entry(std::ptr::from_ref(t) as usize).or_insert(0);
        *n = *n % sample.size + 1;
        sample
            .ranges
            .iter()
            .any(|(low, high)| (*low..=*high).contains(n))
    }

    fn deliver(&self, addr: &PeerAddr, line: &[u8]) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::NotConnected);
        match addr {
            // goes its own way
            PeerAddr::Ip { .. } | PeerAddr::Backend { .. } => Ok(()),
            PeerAddr::Unix(path) => self
                .unix
                .as_ref()
                .ok_or_else(missing)?
                .send_to(line, path)
                .map(drop),
            PeerAddr::Abstract { name, .. } => {
                use std::os::linux::net::SocketAddrExt;
                let addr = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                self.unix
                    .as_ref()
                    .ok_or_else(missing)?
                    .send_to_addr(line, &addr)
                    .map(drop)
            }
            PeerAddr::Fd(1) => io::stdout().lock().write_all(line),
            PeerAddr::Fd(2) => io::stderr().lock().write_all(line),
            PeerAddr::Fd(fd) => crate::sys::write_fd(*fd, line),
            PeerAddr::Ring(name) => {
                self.rings.push(name, line);
                Ok(())
            }
            PeerAddr::Unresolved { .. } => Err(missing()),
        }
    }
}

/// The next number of a sequence that looks random (xorshift64).
fn xorshift(mut n: u64) -> u64 {
    n ^= n << 13;
    n ^= n >> 7;
    n ^ n << 17
}

/// What `balance log-hash` sees: the message, as the only variable.
struct OneMessage<'a>(&'a [u8]);

impl Env for OneMessage<'_> {
    fn now(&self) -> Now {
        clock::now()
    }
    fn random(&self) -> u64 {
        0
    }
    fn var(&self, _: &VarRef) -> Option<Value<'_>> {
        Some(Value::Str(Cow::Borrowed(self.0)))
    }
}

/// Writes what stands before the message (manual, `log`, `format`).
pub fn write_envelope(e: &Envelope<'_>, out: &mut Vec<u8>) {
    let priority = u32::from(e.facility) * 8 + u32::from(e.level);
    let secs = e.wall_us.div_euclid(1_000_000);
    let micros = e.wall_us.rem_euclid(1_000_000);
    // writing to memory cannot fail
    let _ = match e.format {
        LogFormatKind::Raw => Ok(()),
        LogFormatKind::Short => write!(out, "<{}>", e.level),
        LogFormatKind::Priority => write!(out, "<{priority}>"),
        LogFormatKind::Timed => write!(out, "<{}>{} ", e.level, iso(secs, micros)),
        LogFormatKind::Iso => write!(out, "{} ", iso(secs, micros)),
        LogFormatKind::Rfc3164 => write!(
            out,
            "<{priority}>{} {} {}[{}]: ",
            bsd_date(secs),
            e.hostname,
            e.tag,
            e.pid
        ),
        LogFormatKind::Rfc5424 => {
            let sd = if e.structured.is_empty() {
                "-".into()
            } else {
                String::from_utf8_lossy(e.structured)
            };
            write!(
                out,
                "<{priority}>1 {} {} {} {} - {sd} ",
                iso(secs, micros),
                e.hostname,
                e.tag,
                e.pid
            )
        }
        LogFormatKind::Local | LogFormatKind::Unspecified => {
            write!(out, "<{priority}>{} {}[{}]: ", bsd_date(secs), e.tag, e.pid)
        }
    };
}

pub const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `Mmm dd hh:mm:ss`, local time.
pub fn bsd_date(secs: i64) -> String {
    let (_, month, day, h, m, s) = civil(secs + i64::from(zone::at(secs).0));
    format!(
        "{} {day:2} {h:02}:{m:02}:{s:02}",
        MONTHS[month as usize - 1]
    )
}

/// `dd/Mmm/yyyy:hh:mm:ss.mmm`, local time: the date of traffic logs.
pub fn log_date(wall_us: i64) -> String {
    let secs = wall_us.div_euclid(1_000_000);
    let (y, month, day, h, m, s) = civil(secs + i64::from(zone::at(secs).0));
    let ms = wall_us.rem_euclid(1_000_000) / 1000;
    format!(
        "{day:02}/{}/{y}:{h:02}:{m:02}:{s:02}.{ms:03}",
        MONTHS[month as usize - 1]
    )
}

/// `Sun, 22 Nov 2026 06:37:41 +0000 (UTC)`, local time: the date of a mail (RFC 5322 section 3.3).
pub fn mail_date(wall_us: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let secs = wall_us.div_euclid(1_000_000);
    let (offset, zone) = zone::at(secs);
    let local = secs + i64::from(offset);
    let (y, month, day, h, m, s) = civil(local);
    // the epoch was a Thursday
    let weekday = WEEKDAYS[local.div_euclid(86_400).rem_euclid(7) as usize];
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs() / 60;
    format!(
        "{weekday}, {day:02} {} {y} {h:02}:{m:02}:{s:02} {sign}{:02}{:02} ({zone})",
        MONTHS[month as usize - 1],
        minutes / 60,
        minutes % 60
    )
}

/// ISO 8601 with microseconds and the local offset.
pub fn iso(secs: i64, micros: i64) -> String {
    let offset = zone::at(secs).0;
    let (y, month, day, h, m, s) = civil(secs + i64::from(offset));
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs() / 60;
    format!(
        "{y:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}{sign}{:02}:{:02}",
        minutes / 60,
        minutes % 60
    )
}

/// Year, month, day, hour, minute, second of a moment (proleptic Gregorian calendar).
pub fn civil(secs: i64) -> (i64, u32, u32, u32, u32, u32) {
    let (days, rest) = (secs.div_euclid(86_400), secs.rem_euclid(86_400) as u32);
    // days since 0000-03-01, in eras of 400 years
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month, day, rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_right() {
        assert_eq!(civil(0), (1970, 1, 1, 0, 0, 0));
        assert_eq!(civil(951_782_399), (2000, 2, 28, 23, 59, 59));
        assert_eq!(civil(951_782_400), (2000, 2, 29, 0, 0, 0));
        assert_eq!(civil(4_102_444_799), (2099, 12, 31, 23, 59, 59));
    }

    #[test]
    fn envelopes() {
        let check = |format, expect: &str| {
            let mut out = Vec::new();
            let e = Envelope {
                format,
                facility: 16,
                level: 6,
                tag: "t",
                hostname: "h",
                pid: 7,
                wall_us: 0,
                structured: b"",
            };
            write_envelope(&e, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(LogFormatKind::Raw, "");
        check(LogFormatKind::Short, "<6>");
        check(LogFormatKind::Priority, "<134>");
    }
}
