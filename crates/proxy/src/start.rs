//! Starting and stopping the data path: one thread a worker runs the sockets that `bind` made.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use sluice_config::model::Model;
use sluice_engine::Runtime;
use tokio::sync::{mpsc, watch};

use crate::accept;
use crate::bind::{Listeners, Ready};
use crate::forward;
use crate::inside;
use crate::logs::{LogSender, Rings};
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
