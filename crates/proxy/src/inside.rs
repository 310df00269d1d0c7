//! What commands ask about the workers and the process's descriptors (`show activity`, `show fd`).

use std::collections::HashMap;
use std::rc::Rc;

use sluice_control::inside::{DescriptorRow, IdleRow, Stock, WorkerRow};
use sluice_engine::Runtime;

use crate::net::buf::READ_SIZE;
use crate::start::Asker;
use crate::stream::Stream;
use crate::worker::Worker;
use crate::{clock, sys};

/// One thread's part in `Tasks` of `show info`.
#[derive(Default)]
pub struct Tasks {
    counted: u64,
}

impl Tasks {
    /// Brings this thread's part up to date.
    pub fn look(&mut self, rt: &Runtime) {
        let alive = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks() as u64;
        // the sum of all parts wraps nowhere, though a difference may
        rt.counters.tasks.add(alive.wrapping_sub(self.counted));
        self.counted = alive;
    }
}

/// All workers, in their order.
pub fn workers(asker: &Asker) -> Vec<WorkerRow> {
    let mut rows = asker.ask(row);
    rows.sort_by_key(|r| r.id);
    rows
}

fn row(w: &Rc<Worker>) -> WorkerRow {
    let loop_ = tokio::runtime::Handle::current().metrics();
    let (accepted, streams) = w.live.counted();
    // each lent buffer holds the stock it goes back to
    let lent = Rc::strong_count(&w.bufs).saturating_sub(1);
    let (runners, runner_size) = w.runners.kept();
    let idle = w.pools.kept().filter(|(_, conns)| !conns.is_empty());
    WorkerRow {
        id: w.id,
        thread: rustix::thread::gettid().as_raw_nonzero().get(),
        tasks: vec![
            ("session", w.sessions.get()),
            ("listener", w.accepting.borrow().len()),
        ],
        alive: loop_.num_alive_tasks(),
        loops: loop_.worker_park_count(0),
        busy_us: loop_.worker_total_busy_duration(0).as_micros() as u64,
        cpu_us: clock::thread_cpu_us(),
        accepted,
        streams,
        taken_over: w.taken_over.get(),
        stocks: vec![
            Stock {
                name: "stream",
                size: size_of::<Stream>(),
                used: w.live.busy(),
                kept: w.streams_kept(),
            },
            Stock {
                name: "runner",
                size: runner_size,
                used: w.live.busy(),
                kept: runners,
            },
            Stock {
                name: "buffer",
                size: READ_SIZE,
                used: lent,
                kept: w.bufs.kept(),
            },
        ],
        idle: idle
            .map(|(server, conns)| IdleRow {
                server,
                reused: conns.iter().filter(|(_, reused)| *reused).count() as u32,
            })
            .collect(),
    }
}

/// A worker's part of the descriptors, by number.
fn of_worker(w: &Rc<Worker>) -> Vec<DescriptorRow> {
    let rt = w.runtime();
    let of = |number| DescriptorRow {
        number,
        worker: Some(w.id),
        ..DescriptorRow::default()
    };
    let server = |id: sluice_expr::ServerId| {
        let (backend, server) = (rt.proxy(id.backend), rt.server(id));
        Some(format!("{}/{}", backend.name, server.name))
    };
    let mut rows = Vec::new();
    for (client, frontend, at) in w.live.descriptors() {
        let frontend = Some(rt.proxy(frontend).name.to_string());
        rows.push(DescriptorRow {
            frontend,
            ..of(client)
        });
        if let Some((fd, id)) = at {
            rows.push(DescriptorRow {
                server: server(id),
                ..of(fd)
            });
        }
    }
    for (id, conns) in w.pools.kept() {
        rows.extend(conns.into_iter().map(|(fd, _)| DescriptorRow {
            server: server(id),
            is_idle: true,
            ..of(fd)
        }));
    }
    rows
}

/// The process's descriptors: what the kernel says of each, and whose it is. A listening socket is named by the address
/// it listens on.
pub fn descriptors(rt: &Runtime, asker: &Asker) -> Vec<DescriptorRow> {
    let owned = asker.ask(of_worker).into_iter().flatten();
    let mut owned: HashMap<i32, DescriptorRow> = owned.map(|r| (r.number, r)).collect();
    let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = numbers.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut rows = Vec::new();
    for number in numbers {
        // the directory itself was open while it was read
        let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{number}")) else {
            continue;
        };
        let mut row = owned.remove(&number).unwrap_or(DescriptorRow {
            number,
            ..DescriptorRow::default()
        });
        row.target = target.to_string_lossy().into_owned();
        if let Some(ends) = sys::socket_ends(number) {
            (row.local, row.peer) = (ends.local, ends.peer);
            (row.is_unix, row.listens) = (ends.is_unix, ends.listens);
        }
        if row.listens && row.frontend.is_none() {
            row.frontend = listener_of(rt, &row);
        }
        rows.push(row);
    }
    rows
}

fn listener_of(rt: &Runtime, row: &DescriptorRow) -> Option<String> {
    use sluice_config::model::ListenAddr;
    let found = row.local.and_then(|local| {
        let listens = |a: &ListenAddr| matches!(a, ListenAddr::Tcp(a) if *a == local);
        let mut proxies = rt.proxies.iter();
        proxies.find(|p| p.listeners.iter().any(|l| listens(&l.addr)))
    });
    match (found, row.is_unix) {
        (Some(p), _) => Some(p.name.to_string()),
        (None, true) => Some("GLOBAL".into()),
        (None, false) => None,
    }
}
