//! The listening sockets, bound before the workers start: those of `bind` lines and of `log-forward` sections, inherited from
//! the old process where it gave them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::model::{ListenAddr, Model, Shards};

use crate::forward;
use crate::handover::{Inherited, Offered};
use crate::net::listen::{self, Bound};

/// A listening address that could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot bind socket ({error}) for [{addr}] in proxy '{proxy}'")]
pub struct BindError {
    pub proxy: String,
    pub addr: String,
    pub file: Arc<str>,
    pub line: u32,
    pub error: io::Error,
}

impl BindError {
    /// What happened, in HAProxy's words.
    pub fn sentence(&self) -> String {
        let text = self.error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default();
        format!("cannot bind socket ({reason}) for [{}]", self.addr)
    }
}

/// Listening sockets, one set a worker.
pub struct Listeners {
    pub(crate) by_worker: Vec<Vec<Ready>>,
    /// Those of `log-forward` sections.
    pub(crate) forwards: Vec<Vec<forward::Ready>>,
}

/// A socket and the frontend's line it is of.
pub(crate) struct Ready {
    pub proxy: usize,
    pub listener: usize,
    pub bind: usize,
    pub bound: Bound,
}

/// How long finding an address in use is retried: the old process may be about to leave it.
const RETRY: Duration = Duration::from_millis(2000);
const RETRY_STEP: Duration = Duration::from_millis(10);

/// Takes over from the old process what it gave, and binds the rest. All failures are reported, not the first. `pause`
/// is called once when an address is in use, to ask the old process for it.
pub fn bind_all(
    model: &Model,
    workers: u32,
    inherited: &mut Inherited,
    mut pause: impl FnMut(),
) -> Result<Listeners, Vec<BindError>> {
    let mut by_worker: Vec<Vec<Ready>> = (0..workers).map(|_| Vec::new()).collect();
    let mut errors = Vec::new();
    let mut patience = Patience {
        until: None,
        pause: &mut pause,
    };
    for (p, proxy) in model.proxies.iter().enumerate() {
        if proxy.disabled || !proxy.is_frontend() {
            continue;
        }
        let mut listener = 0;
        for (b, bind) in proxy.binds.iter().enumerate() {
            for addr in &bind.addrs {
                let threads = effective_threads(&bind.threads, &bind.process, workers);
                let tune = &model.global.tune;
                let line = Line {
                    terms: proxy.as_ref().into(),
                    bind,
                    addr,
                    share: matches!(addr, ListenAddr::Tcp(_)) && !model.global.noreuseport,
                    tune,
                };
                match line.sockets(threads.len(), inherited, &mut patience) {
                    Ok(sockets) => {
                        // more than workers when the old process had more: none of them may be left alone
                        for (k, bound) in sockets.into_iter().enumerate() {
                            by_worker[threads[k % threads.len()] as usize].push(Ready {
                                proxy: p,
                                listener,
                                bind: b,
                                bound,
                            });
                        }
                    }
                    Err(error) => errors.push(BindError {
                        proxy: proxy.name.to_string(),
                        addr: describe(addr),
                        file: bind.origin.file.clone(),
                        line: bind.origin.line,
                        error,
                    }),
                }
                listener += 1;
            }
        }
    }
    let mut forwards: Vec<Vec<forward::Ready>> = (0..workers).map(|_| Vec::new()).collect();
    for place in forward::places(model) {
        let threads = effective_threads(&place.bind.threads, &place.bind.process, workers);
        let first = |act: &dyn Fn() -> io::Result<forward::Ready>| patience.try_until(act);
        match place.sockets(threads.len(), model, first) {
            Ok(sockets) => {
                for (ready, thread) in sockets.into_iter().zip(&threads) {
                    forwards[*thread as usize].push(ready);
                }
            }
            Err(error) => errors.push(BindError {
                proxy: place.forward.name.clone(),
                addr: describe(place.addr),
                file: place.bind.origin.file.clone(),
                line: place.bind.origin.line,
                error,
            }),
        }
    }
    if errors.is_empty() {
        Ok(Listeners {
            by_worker,
            forwards,
        })
    } else {
        Err(errors)
    }
}

impl Listeners {
    /// What another process can be given: a descriptor of each socket.
    pub fn offered(&self, model: &Model) -> io::Result<Vec<Offered>> {
        let ready = self.by_worker.iter().flatten();
        ready
            .map(|r| {
                let bind = &model.proxies[r.proxy].binds[r.bind];
                Ok(Offered {
                    fd: r.bound.descriptor()?,
                    frontend: Some(model.proxies[r.proxy].id),
                    interface: bind.interface.clone(),
                    namespace: bind.namespace.clone(),
                })
            })
            .collect()
    }
}

/// One address of a `bind` line, to be had.
struct Line<'a> {
    terms: listen::Terms,
    bind: &'a sluice_config::model::Bind,
    addr: &'a ListenAddr,
    /// The kernel can share the port: each worker accepts from a queue of its own, and a new process beside this one.
    share: bool,
    tune: &'a sluice_config::model::Tune,
}

impl Line<'_> {
    /// A socket for each of `n` workers, at least.
    fn sockets(
        &self,
        n: usize,
        inherited: &mut Inherited,
        patience: &mut Patience<'_>,
    ) -> io::Result<Vec<Bound>> {
        let mut out: Vec<Bound> = inherited
            .claim(self.addr, Some(self.bind))
            .into_iter()
            .map(|s| listen::adopt(s, &self.terms, self.bind, self.addr, self.tune))
            .collect::<io::Result<_>>()?;
        while out.len() < n {
            let own = out.len() < self.shards(n);
            let next = match out.get(out.len() % self.shards(n)) {
                Some(shared) if !own => shared.try_clone()?,
                _ => self.one_more(out.first(), patience)?,
            };
            out.push(next);
        }
        Ok(out)
    }

    fn one_more(&self, first: Option<&Bound>, patience: &mut Patience<'_>) -> io::Result<Bound> {
        match first {
            // the old process may not have shared the port: then its socket serves all
            Some(first) => self.bind().or_else(|_| first.try_clone()),
            None => patience.try_until(|| self.bind()),
        }
    }

    /// How many sockets `n` workers have between them.
    fn shards(&self, n: usize) -> usize {
        let default = self.tune.default_shards;
        let wanted = match self.bind.shards.unwrap_or(default) {
            Shards::ByThread => n,
            // there is one group
            Shards::ByGroup => 1,
            Shards::Count(k) => k as usize,
        };
        if self.share { wanted.clamp(1, n) } else { 1 }
    }

    fn bind(&self) -> io::Result<Bound> {
        listen::bind(&self.terms, self.bind, self.addr, self.share, self.tune)
    }
}

/// Retries while addresses are in use, for all of them together no longer than [`RETRY`].
struct Patience<'a> {
    until: Option<std::time::Instant>,
    pause: &'a mut dyn FnMut(),
}

impl Patience<'_> {
    fn try_until<T>(&mut self, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match act() {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                    let until = *self.until.get_or_insert_with(|| {
                        (self.pause)();
                        std::time::Instant::now() + RETRY
                    });
                    if std::time::Instant::now() >= until {
                        return Err(e);
                    }
                    std::thread::sleep(RETRY_STEP);
                }
                done => return done,
            }
        }
    }
}

/// Workers that serve a `bind` line: its `thread` words, or `process` words of old files as workers.
fn effective_threads(threads: &[u32], process: &[u32], workers: u32) -> Vec<u32> {
    let wanted = if threads.is_empty() { process } else { threads };
    let mut out: Vec<u32> = wanted.iter().map(|t| t % workers).collect();
    out.sort_unstable();
    out.dedup();
    if out.is_empty() {
        (0..workers).collect()
    } else {
        out
    }
}

/// An address as messages name it.
pub fn describe(addr: &ListenAddr) -> String {
    match addr {
        ListenAddr::Tcp(a) => a.to_string(),
        ListenAddr::Unix(path) => path.clone(),
        ListenAddr::Abstract { name, .. } => format!("abns@{name}"),
        ListenAddr::Fd(fd) => format!("fd@{fd}"),
    }
}
