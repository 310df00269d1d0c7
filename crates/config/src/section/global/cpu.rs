//! Workers and the CPUs they run on: `nbthread`, `nbproc`, `cpu-map` (manual chapter 3.1).

use std::sync::Arc;

use super::{first_time, only_uint};
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{CpuMap, CpuRule};
use crate::raw::RawCpuMap;
use crate::registry::{Keyword, Sections, harmless, kw, later, obsolete};

const G: Sections = Sections::GLOBAL;

/// Most workers. HAProxy 2.6 takes 64 threads, 3.x up to 1024 in groups.
pub(crate) const WORKERS_MAX: u32 = 1024;

/// Highest CPU number, as Linux's default `cpu_set_t` has it.
const CPU_MAX: u32 = 1023;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("nbthread", G, "<number>", "number of workers; without it, one for each CPU", |cx, line| {
        let Some(n) = only_uint(cx, line, 1, WORKERS_MAX) else { return };
        if let Some(before) = cx.raw.global.nbthread && before != n {
            cx.warn(line, 0, format!("'nbthread' was {before} already; it is {n} now"), None);
        }
        cx.global().nbthread = Some(n);
    }),
    obsolete("nbproc", G, "there is one process: write 'nbthread' to have as many workers", Some(|cx, line| {
        let Some(n) = only_uint(cx, line, 1, WORKERS_MAX) else { return };
        if first_time(cx, line, cx.raw.global.nbproc.is_some()) { cx.global().nbproc = Some(n); }
    })).doc("<number>", "number of workers, in old files"),
    kw("cpu-map", G, "[auto:]<process>[/<threads>] <cpu-set>...", "CPUs workers run on", cpu_map),
    later("cpu-affinity", G, "automatic CPU binding"),
    kw("cpu-policy", G, "{ none | first-usable-node | group-by-* }", "CPUs that are used where nothing says which", cpu_policy),
    kw("cpu-set", G, "{ reset | { only | drop }-{ cpu | node } <set> }...", "CPUs that the process keeps to", cpu_set),
    harmless("numa-cpu-mapping", G, "Sluice binds workers only where 'cpu-map' says so").no(),
    kw("thread-groups", G, "<number>", "number of groups of workers; they form one of any size", |cx, line| {
        let Some(n) = only_uint(cx, line, 1, WORKERS_MAX) else { return };
        if n > 1 { cx.no_effect(line, 0, "Sluice's workers form one group of any size"); }
    }),
    harmless("thread-group", G, "Sluice's workers form one group of any size"),
    harmless("max-threads-per-group", G, "Sluice's workers form one group of any size"),
    kw("thread-hard-limit", G, "<number>", "upper bound of the number of workers", |cx, line| {
        if let Some(n) = only_uint(cx, line, 1, WORKERS_MAX) { cx.global().thread_hard_limit = Some(n); }
    }),
];

/// Numbers from 1 as cpu-map names processes and threads.
fn numbers(text: &str, max: u32) -> Result<Vec<u32>, String> {
    match text {
        "all" => return Ok((1..=max).collect()),
        "odd" => return Ok((1..=max).step_by(2).collect()),
        "even" => return Ok((2..=max).step_by(2).collect()),
        _ => {}
    }
    let wrong = || format!("'{text}' is not a valid number/range.");
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let low: u32 = low.parse().map_err(|_| wrong())?;
    let high: u32 = match high {
        "" => max,
        high => high.parse().map_err(|_| wrong())?,
    };
    if low == 0 || low.max(high) > max {
        return Err(format!("{} It supports numbers from 1 to {max}.", wrong()));
    }
    Ok((low.min(high)..=low.max(high)).collect())
}

/// `0`, `0-3`, `0-`, several of them by commas.
fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let low: u32 = low.parse().ok()?;
        let high: u32 = match high {
            "" => 63.max(low),
            high => high.parse().ok()?,
        };
        if low.max(high) > CPU_MAX {
            return None;
        }
        found.extend(low.min(high)..=low.max(high));
    }
    Some(found)
}

fn cpu_policy(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    let Some(name) = cx.need(line, at, "a policy") else {
        return;
    };
    match name {
        "none" => cx.global().first_cpu_node = false,
        "first-usable-node" => cx.global().first_cpu_node = true,
        "group-by-cluster"
        | "group-by-2-clusters"
        | "group-by-3-clusters"
        | "group-by-4-clusters"
        | "group-by-ccx"
        | "group-by-2-ccx"
        | "group-by-3-ccx"
        | "group-by-4-ccx" => {
            cx.no_effect(line, at, "Sluice's workers form one group of any size");
        }
        "efficiency" | "performance" | "resource" => {
            cx.not_yet(line, at, name, "automatic CPU binding");
        }
        other => {
            let message = format!("'cpu-policy' : unknown policy '{other}'");
            return cx.error_at(line, at, message);
        }
    }
    cx.no_more(line, at + 1);
}

fn cpu_set(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let mut at = line.keyword_len;
    if cx
        .need(line, at, "a directive such as 'only-cpu'")
        .is_none()
    {
        return;
    }
    let mut rules = Vec::new();
    while line.has(at) {
        let make: fn(Vec<u32>) -> CpuRule = match line.word(at) {
            "reset" => {
                rules.push(CpuRule::Reset);
                at += 1;
                continue;
            }
            "only-cpu" => CpuRule::OnlyCpu,
            "drop-cpu" => CpuRule::DropCpu,
            "only-node" => CpuRule::OnlyNode,
            "drop-node" => CpuRule::DropNode,
            name @ ("only-cluster" | "drop-cluster" | "only-core" | "drop-core" | "only-thread"
            | "drop-thread") => {
                return cx.not_yet(line, at, name, "automatic CPU binding");
            }
            other => {
                let message = format!("'cpu-set' : unknown directive '{other}'");
                let among = ["reset", "only-cpu", "drop-cpu", "only-node", "drop-node"];
                let hint = format!("it is {}", crate::proxy::list(&among));
                return cx.error(line, at, 0..0, message, Some(hint));
            }
        };
        let Some(set) = cpus(line.word(at + 1)) else {
            let message = format!(
                "'cpu-set' : '{}' is not a set such as 0-3,8",
                line.word(at + 1)
            );
            return cx.error_at(line, at + 1, message);
        };
        rules.push(make(set));
        at += 2;
    }
    cx.global().cpu_set.extend(rules);
}

fn cpu_map(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    if line.arg(0).is_empty() || line.arg(1).is_empty() {
        cx.error_at(
            line,
            line.words.len(),
            format!(
                "cpu-map expects a process number  ('all', 'odd', 'even', a number from 1 to {WORKERS_MAX} or a range),  \
                 followed by a list of CPU ranges with numbers from 0 to {CPU_MAX}."
            ),
        );
        return;
    }
    let (auto, who) = match line.arg(0).strip_prefix("auto:") {
        Some(rest) => (true, rest),
        None => (false, line.arg(0)),
    };
    let (processes, threads) = match who.split_once('/') {
        Some((processes, threads)) => (processes, Some(threads)),
        None => (who, None),
    };
    let sets = numbers(processes, WORKERS_MAX).and_then(|processes| {
        let threads = threads.map(|t| numbers(t, WORKERS_MAX)).transpose()?;
        Ok((processes, threads))
    });
    let (processes, threads) = match sets {
        Ok(sets) => sets,
        Err(message) => return cx.error_at(line, at, format!("cpu-map : {message}")),
    };
    let mut set = Vec::new();
    for word in at + 1..line.words.len() {
        match cpus(line.word(word)) {
            Some(more) => set.extend(more),
            None => {
                return cx.error_at(
                    line,
                    word,
                    format!("cpu-map : '{}' is not a CPU range.", line.word(word)),
                );
            }
        }
    }
    set.sort_unstable();
    set.dedup();
    if auto {
        let several = threads.as_ref().map_or(processes.len(), Vec::len);
        let open = who.ends_with('-')
            || matches!(
                threads
                    .as_ref()
                    .map_or(who, |_| who.rsplit('/').next().unwrap_or(who)),
                "all" | "odd" | "even"
            );
        let both = processes.len() > 1 && threads.as_ref().is_some_and(|t| t.len() > 1);
        if both || (!open && several != set.len()) {
            cx.error_at(
                line,
                at,
                "cpu-map : PROC/THREAD range and CPU sets must have the same size to be automatically bound",
            );
            return;
        }
    }
    cx.raw.cpu_maps.push(RawCpuMap {
        auto,
        processes,
        threads,
        cpus: set,
        line: line.clone(),
    });
}

/// What the `cpu-map` lines mean for each worker (numbered from 0), once it is known whether the file speaks of processes
/// (`nbproc`) or of threads. Later lines replace earlier ones.
pub(crate) fn expand(maps: &[RawCpuMap], nbproc: Option<u32>, workers: u32) -> Vec<CpuMap> {
    let mut found: Vec<CpuMap> = Vec::new();
    for map in maps {
        let members: Vec<u32> = match (&map.threads, nbproc) {
            // Files of old: each process was given its CPU. Workers stand for processes.
            (None, Some(_)) => map.processes.iter().map(|p| p - 1).collect(),
            // One process: threads of other processes do not exist.
            _ if !map.processes.contains(&1) => continue,
            (None, None) => (0..workers).collect(),
            (Some(threads), _) => threads.iter().map(|t| t - 1).collect(),
        };
        for (n, worker) in members.into_iter().filter(|w| *w < workers).enumerate() {
            let each = map.threads.is_some() || nbproc.is_some();
            let cpus = match (map.auto && each, map.cpus.get(n)) {
                (true, Some(cpu)) => vec![*cpu],
                (true, None) => continue,
                (false, _) => map.cpus.clone(),
            };
            found.retain(|m| m.worker != worker);
            found.push(CpuMap {
                worker,
                cpus,
                origin: map.line.origin(),
            });
        }
    }
    found.sort_by_key(|m| m.worker);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, read};

    fn check(text: &str, nbproc: Option<u32>, workers: u32, expect: &[(u32, &[u32])]) {
        let (raw, diagnostics) = read(&format!("global\n{text}"));
        assert!(diagnostics.is_empty(), "{text}: {diagnostics:?}");
        let found = expand(&raw.cpu_maps, nbproc, workers);
        let found: Vec<(u32, &[u32])> = found
            .iter()
            .map(|m| (m.worker, m.cpus.as_slice()))
            .collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn threads_get_their_cpus() {
        check("cpu-map 1 0-1\n", None, 2, &[(0, &[0, 1]), (1, &[0, 1])]);
        check("cpu-map 2 5\n", None, 2, &[]);
        check(
            "cpu-map auto:1/1-4 3 2 1 0\n",
            None,
            4,
            &[(0, &[0]), (1, &[1]), (2, &[2]), (3, &[3])],
        );
        check(
            "cpu-map auto:1/all 0-63\n",
            None,
            2,
            &[(0, &[0]), (1, &[1])],
        );
        check(
            "cpu-map auto:1/even 0-31\n",
            None,
            4,
            &[(1, &[0]), (3, &[1])],
        );
        check(
            "cpu-map 1/1- 0-1\ncpu-map 1/2 7\n",
            None,
            2,
            &[(0, &[0, 1]), (1, &[7])],
        );
    }

    /// The file of 2019: a process each on a CPU of its own.
    #[test]
    fn workers_stand_for_processes() {
        check(
            "cpu-map 1 0\ncpu-map 2 2\ncpu-map 3 4\n",
            Some(3),
            3,
            &[(0, &[0]), (1, &[2]), (2, &[4])],
        );
        check(
            "cpu-map auto:1-2 4-5\n",
            Some(2),
            2,
            &[(0, &[4]), (1, &[5])],
        );
    }

    #[test]
    fn wrong_sets_are_refused() {
        let check =
            |text: &str, expect: &str| assert_eq!(messages(&format!("global\n{text}\n")), [expect]);
        check(
            "cpu-map foo 3",
            "A2: cpu-map : 'foo' is not a valid number/range.",
        );
        check("cpu-map 1 x", "A2: cpu-map : 'x' is not a CPU range.");
        check(
            "cpu-map 1/0 1",
            "A2: cpu-map : '0' is not a valid number/range. It supports numbers from 1 to 1024.",
        );
        check(
            "cpu-map auto:1/1-4 0-2",
            "A2: cpu-map : PROC/THREAD range and CPU sets must have the same size to be automatically bound",
        );
    }
}
