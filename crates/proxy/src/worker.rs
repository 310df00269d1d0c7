//! A worker: one thread, one event loop, and everything that is its own (buffers, pipes, pools, random numbers).
//!
//! Between workers only the [`Runtime`]'s atomics and the model are shared.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use sluice_config::model::Model;
use sluice_engine::Runtime;
use sluice_expr::ProxyId;
use sluice_expr::vars::ProcVars;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::admission::Admission;
use crate::backend::pool::Pools;
use crate::clock;
use crate::live::Sessions;
use crate::logs::LogSender;
use crate::net::{BufPool, Deadline, PipePool, since};
use crate::start::Asker;
use crate::stream::Stream;
use crate::stream::runner::Runners;

/// Stream records kept for the next request.
const STREAMS_KEPT: usize = 1024;

/// What all workers share.
pub struct Shared {
    pub runtime: Arc<Runtime>,
    pub proc_vars: ProcVars,
}

impl Shared {
    /// Evaluates `set-var` lines of the global section, once, before traffic.
    pub fn set_process_vars(&self) {
        use sluice_config::model::SetVarSource;
        use sluice_expr::env::Nowhere;
        let env = Nowhere {
            now: crate::clock::read(),
        };
        for (var, source) in &self.runtime.model.global.set_vars {
            let value = match source {
                SetVarSource::Expr(e) => e.eval(&env).ok().map(|s| s.value.into_owned()),
                SetVarSource::Format(f) => {
                    let mut text = Vec::new();
                    f.write(&env, &mut text);
                    Some(sluice_expr::Value::Str(text.into()))
                }
            };
            self.proc_vars.set(var.index, value);
        }
    }
}

/// One thread's world.
pub struct Worker {
    pub id: u32,
    pub shared: Arc<Shared>,
    pub bufs: Rc<BufPool>,
    pub pipes: Rc<PipePool>,
    pub pools: Pools,
    pub logs: LogSender,
    #[allow(clippy::vec_box)] // lent and returned without moving two kilobytes
    streams: RefCell<Vec<Box<Stream>>>,
    pub runners: Runners,
    random: Cell<u64>,
    stopping: Cell<bool>,
    /// When the soft stop began, monotonic µs.
    stopped_at: Cell<Option<u64>>,
    /// Tells the listeners that the soft stop begins.
    pub stopped: Notify,
    /// Sessions that wait between requests now and then, to be woken when a soft stop begins.
    idle: RefCell<slab::Slab<Waker>>,
    /// The tasks that accept, and for which frontend.
    pub accepting: RefCell<Vec<(ProxyId, AbortHandle)>>,
    /// The other workers, by number.
    pub peers: Asker,
    /// Server connections taken from them.
    pub taken_over: Cell<u64>,
    /// The sessions, as commands see them.
    pub live: Sessions,
    /// Sessions alive.
    pub sessions: Cell<usize>,
    /// Which requests begin now.
    pub admission: Admission,
}

impl Worker {
    pub fn new(id: u32, shared: Arc<Shared>, logs: LogSender, seed: u64, peers: Asker) -> Rc<Self> {
        let runtime = &shared.runtime;
        let pipes = PipePool::new(runtime.model.global.tune.pipesize, runtime.clone());
        Rc::new(Worker {
            id,
            bufs: Rc::default(),
            pipes,
            pools: Pools::new(runtime),
            logs,
            streams: RefCell::default(),
            runners: Runners::default(),
            random: Cell::new(seed | 1),
            stopping: Cell::new(false),
            stopped_at: Cell::new(None),
            stopped: Notify::new(),
            idle: RefCell::default(),
            accepting: RefCell::default(),
            peers,
            taken_over: Cell::new(0),
            live: Sessions::default(),
            sessions: Cell::new(0),
            admission: Admission::default(),
            shared,
        })
    }

    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.shared.runtime
    }
    pub fn model(&self) -> &Arc<Model> {
        &self.shared.runtime.model
    }

    /// The next number of xorshift64*: good enough to spread load, not for secrets.
    pub fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A stream record, used before or new.
    pub fn lend_stream(self: &Rc<Self>) -> Box<Stream> {
        self.streams
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Box::new(Stream::new(self.clone())))
    }

    /// Takes a stream record back and gives the session's part of it.
    pub fn return_stream(&self, mut stream: Box<Stream>) -> Box<crate::session::SessionData> {
        stream.forget();
        let spare = stream.spare_sess.take().unwrap_or_default();
        let sess = std::mem::replace(&mut stream.sess, spare);
        let mut free = self.streams.borrow_mut();
        if free.len() < STREAMS_KEPT {
            free.push(stream);
        }
        sess
    }

    /// Stream records kept for the next request.
    pub fn streams_kept(&self) -> usize {
        self.streams.borrow().len()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Closes the listening sockets of a frontend (`shutdown frontend`).
    pub fn stop_frontend(&self, id: ProxyId) {
        self.accepting.borrow_mut().retain(|(of, task)| {
            if *of == id {
                task.abort();
            }
            *of != id
        });
    }

    /// Begins the soft stop: sessions that wait for a request end.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.stopped_at.set(Some(clock::read().mono_us));
        self.stopped.notify_waiters();
        for waker in self.idle.borrow().iter().map(|(_, w)| w) {
            waker.wake_by_ref();
        }
    }

    /// `close-spread-time`
    fn spread_ms(&self) -> Option<u64> {
        self.model()
            .global
            .close_spread_time_ms
            .filter(|ms| *ms > 0)
    }

    /// Whether connections may outlast their response during the soft stop.
    pub fn lingers(&self) -> bool {
        self.spread_ms().is_some()
    }

    /// Whether a response that is sent now is the connection's last one because of the soft stop: during
    /// `close-spread-time` more and more of them are.
    pub fn closes_now(&self) -> bool {
        if !self.is_stopping() {
            return false;
        }
        match (self.spread_ms(), self.stopped_at.get()) {
            (Some(u64::MAX), _) => false,
            (Some(spread), Some(at_us)) => {
                self.random() % spread < (clock::now_us() - at_us) / 1000
            }
            _ => true,
        }
    }

    /// When an idle connection of a client is closed because of the soft stop: at a moment of `close-spread-time`, at
    /// once (`None`) without it. With `infinite` its own timeout ends it.
    pub fn leave_at(&self) -> Deadline {
        match (self.spread_ms(), self.stopped_at.get()) {
            (Some(u64::MAX), _) => Some(u64::MAX),
            (Some(spread), Some(at_us)) => since(at_us, Some(self.random() % spread)),
            _ => None,
        }
    }

    /// Registers a session, once, before it first waits between requests.
    pub fn enter_idle(self: &Rc<Self>, waker: &Waker) -> Idle {
        Idle {
            key: self.idle.borrow_mut().insert(waker.clone()),
            worker: self.clone(),
        }
    }
}

/// A session's registration for the soft stop.
pub struct Idle {
    key: usize,
    worker: Rc<Worker>,
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.worker.idle.borrow_mut().remove(self.key);
    }
}
