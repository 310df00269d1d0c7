//! Starting and stopping the data path: sockets are bound first, then one thread a worker runs them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use sluice_config::model::{ListenAddr, Model, Shards};
use sluice_engine::Runtime;
use tokio::sync::{mpsc, watch};

use crate::accept;
use crate::forward;
use crate::handover::{Inherited, Offered};
use crate::inside;
use crate::logs::{LogSender, Rings};
use crate::net::listen::{self, Bound};
use crate::net::outbox;
use crate::session::Listener;
use crate::worker::{Shared, Worker};

/// What the workers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Run,
    /// Soft stop: no new connections, the present ones may finish.
    Drain,
    /// End now.
    Quit,
}

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
    by_worker: Vec<Vec<Ready>>,
    /// Those of `log-forward` sections.
    forwards: Vec<Vec<forward::Ready>>,
}

struct Ready {
    proxy: usize,
    listener: usize,
    bind: usize,
    bound: Bound,
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

/// What a worker is asked to do between its other work.
pub type Question = Box<dyn FnOnce(&Rc<Worker>) + Send>;

/// Asks the workers from another thread.
#[derive(Clone)]
pub struct Asker {
    to: Vec<mpsc::UnboundedSender<Question>>,
}

/// How long a worker may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

impl Asker {
    /// Puts a question to one worker, which answers by itself; false when it is gone.
    pub fn ask_one(&self, worker: u32, question: Question) -> bool {
        let to = self.to.get(worker as usize);
        to.is_some_and(|to| to.send(question).is_ok())
    }

    /// Each worker's answer, without those who have none in time.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Rc<Worker>) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let (answer, answers) = std::sync::mpsc::channel();
        for to in &self.to {
            let (answer, question) = (answer.clone(), question.clone());
            // a worker that is gone answers nothing
            let _ = to.send(Box::new(move |w| _ = answer.send(question(w))));
        }
        drop(answer);
        let until = std::time::Instant::now() + ANSWER_WITHIN;
        let left = || until.saturating_duration_since(std::time::Instant::now());
        std::iter::from_fn(|| answers.recv_timeout(left()).ok()).collect()
    }
}

/// The running workers.
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    asker: Asker,
    phase: watch::Sender<Phase>,
    alive: Arc<AtomicU32>,
}

/// Starts one thread a worker.
pub fn start(
    shared: &Arc<Shared>,
    rings: &Arc<Rings>,
    listeners: Listeners,
) -> io::Result<Workers> {
    let (phase, _) = watch::channel(Phase::Run);
    let alive = Arc::new(AtomicU32::new(0));
    let mut threads = Vec::new();
    let workers = listeners.by_worker.len();
    let mut forwards = listeners.forwards.into_iter();
    let (to, questions): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let asker = Asker { to };
    for ((id, ready), questions) in listeners.by_worker.into_iter().enumerate().zip(questions) {
        let (shared, rings, rx, alive) = (
            shared.clone(),
            rings.clone(),
            phase.subscribe(),
            alive.clone(),
        );
        alive.fetch_add(1, Relaxed);
        let peers = asker.clone();
        let ready = (ready, forwards.next().unwrap_or_default());
        let thread = std::thread::Builder::new()
            .name(format!("sluice-{}", id + 1))
            .spawn(move || {
                let _gone = Gone(alive);
                run_worker(id as u32, shared, rings, ready, rx, (peers, questions));
            })?;
        threads.push(thread);
    }
    Ok(Workers {
        threads,
        asker,
        phase,
        alive,
    })
}

/// Counts a worker out however its thread ends.
struct Gone(Arc<AtomicU32>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Workers {
    /// A way to ask them.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }
    pub fn tell(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }
    /// Workers that still run.
    pub fn alive(&self) -> u32 {
        self.alive.load(Relaxed)
    }
    /// Waits for all threads; true when one of them panicked.
    pub fn join(self) -> bool {
        let ends: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        ends.iter().any(Result::is_err)
    }
}

fn run_worker(
    id: u32,
    shared: Arc<Shared>,
    rings: Arc<Rings>,
    ready: (Vec<Ready>, Vec<forward::Ready>),
    phase: watch::Receiver<Phase>,
    (peers, questions): (Asker, mpsc::UnboundedReceiver<Question>),
) {
    pin(&shared.runtime.model, id);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // so many sessions make a turn: look at the sockets often enough that none waits, and that what a turn touches
        // stays in the caches; rarely enough that messages leave many at a time
        .event_interval(61)
        .build_local(tokio::runtime::LocalOptions::default());
    let Ok(runtime) = runtime else { return };
    let seed = crate::clock::read()
        .mono_us
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(id) << 56;
    let logs = LogSender::new(shared.runtime.clone(), rings);
    let w = Worker::new(id, shared, logs, seed, peers);
    runtime.block_on(worker(w, ready, phase, questions));
}

/// Binds the thread to its CPUs (`cpu-map`). A CPU that the machine lacks was warned about at load.
fn pin(model: &Model, id: u32) {
    let mut set = rustix::thread::CpuSet::new();
    let cpus = model
        .global
        .cpu_map
        .iter()
        .filter(|m| m.worker == id)
        .flat_map(|m| &m.cpus);
    for &cpu in cpus {
        if (cpu as usize) < rustix::thread::CpuSet::MAX_CPU {
            set.set(cpu as usize);
        }
    }
    if set.count() > 0 {
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

async fn worker(
    w: Rc<Worker>,
    (ready, forwards): (Vec<Ready>, Vec<forward::Ready>),
    mut phase: watch::Receiver<Phase>,
    mut questions: mpsc::UnboundedReceiver<Question>,
) {
    let rt: Arc<Runtime> = w.runtime().clone();
    tokio::task::spawn_local(outbox::carry());
    let admitting = w.clone();
    tokio::task::spawn_local(async move { admitting.admission.run().await });
    w.logs.gather();
    let logs = Rc::downgrade(&w);
    outbox::at_end_of_turn(move || {
        if let Some(w) = logs.upgrade() {
            w.logs.flush();
            w.admission.end_of_turn();
        }
    });
    let mut accepting = tokio::task::JoinSet::new();
    for r in ready {
        let state = rt.proxies[r.proxy].clone();
        let l = Rc::new(Listener {
            proxy: rt.model.proxies[r.proxy].clone(),
            listener: state.listeners[r.listener].clone(),
            state,
            bind: r.bind,
        });
        let id = l.proxy.id;
        let task = accepting.spawn_local(accept::run(w.clone(), l, r.bound));
        w.accepting.borrow_mut().push((id, task));
    }
    for f in forwards {
        accepting.spawn_local(forward::run(w.clone(), f));
    }
    let sweeper = tokio::task::spawn_local(sweep(w.clone()));
    let asked = w.clone();
    let answering = tokio::task::spawn_local(async move {
        let mut seen = 0;
        loop {
            let raised = std::future::poll_fn(|cx| {
                let shutdowns = &asked.runtime().shutdowns;
                shutdowns.poll_raised(asked.id as usize, &mut seen, cx)
            });
            tokio::select! {
                question = questions.recv() => match question {
                    Some(question) => question(&asked),
                    None => return,
                },
                () = raised => asked.live.shutdown_stale(asked.runtime()),
            }
        }
    });
    while *phase.borrow_and_update() == Phase::Run && phase.changed().await.is_ok() {}
    w.stop();
    while accepting.join_next().await.is_some() {}
    w.pools.clear(&w, None);
    // drain: until the last session is gone and its last answer taken, or we are told to quit
    while (w.sessions.get() > 0 || outbox::is_unfinished())
        && *phase.borrow_and_update() != Phase::Quit
    {
        tokio::select! {
            changed = phase.changed() => if changed.is_err() { break },
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    if w.sessions.get() > 0 {
        // told to quit: what is left is ended as by command, so that it is answered and logged
        w.live.shutdown_all();
        let _ = tokio::time::timeout(LAST_WORDS, async {
            while w.sessions.get() > 0 || outbox::is_unfinished() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    sweeper.abort();
    answering.abort();
    outbox::close();
}

/// How long sessions that are ended by `hard-stop-after` may take to say so.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Once a second: idle server connections.
async fn sweep(w: Rc<Worker>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut tasks = inside::Tasks::default();
    loop {
        tick.tick().await;
        tasks.look(w.runtime());
        w.pools.sweep(&w);
    }
}
