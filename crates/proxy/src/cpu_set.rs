//! The CPUs the process keeps to (`cpu-set`, `cpu-policy first-usable-node`): those it was started on, less what the
//! configuration takes away. Without `nbthread` there is a worker for each of them.

use std::collections::BTreeSet;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sluice_config::model::{CpuRule, Global};

/// Binds the calling thread, and so all that it starts later.
pub fn keep_to(global: &Global) -> io::Result<()> {
    if global.cpu_set.is_empty() && !global.first_cpu_node {
        return Ok(());
    }
    let bound = numbers(&sched_getaffinity(None)?);
    let kept = choose(global, bound, &online(), &nodes());
    if kept.is_empty() {
        let why = "no CPU is left to run on";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut set = CpuSet::new();
    kept.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

/// What the configuration leaves of the CPUs the process was `bound` to.
fn choose(
    global: &Global,
    bound: BTreeSet<u32>,
    online: &BTreeSet<u32>,
    nodes: &[BTreeSet<u32>],
) -> BTreeSet<u32> {
    let mut kept = bound;
    let of_nodes = |wanted: &[u32]| -> BTreeSet<u32> {
        let found = wanted.iter().filter_map(|n| nodes.get(*n as usize));
        found.flatten().copied().collect()
    };
    for rule in &global.cpu_set {
        match rule {
            CpuRule::Reset => kept.clone_from(online),
            CpuRule::OnlyCpu(set) => kept.retain(|cpu| set.contains(cpu)),
            CpuRule::DropCpu(set) => kept.retain(|cpu| !set.contains(cpu)),
            CpuRule::OnlyNode(set) => {
                let set = of_nodes(set);
                kept.retain(|cpu| set.contains(cpu));
            }
            CpuRule::DropNode(set) => {
                let set = of_nodes(set);
                kept.retain(|cpu| !set.contains(cpu));
            }
        }
    }
    if global.first_cpu_node
        && let Some(first) = nodes.iter().find(|node| !node.is_disjoint(&kept))
    {
        kept.retain(|cpu| first.contains(cpu));
    }
    kept
}

fn numbers(set: &CpuSet) -> BTreeSet<u32> {
    (0..CpuSet::MAX_CPU as u32)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}

fn online() -> BTreeSet<u32> {
    list("/sys/devices/system/cpu/online")
}

/// The CPUs of each node of memory; none where the kernel does not tell of nodes.
fn nodes() -> Vec<BTreeSet<u32>> {
    let nodes = list("/sys/devices/system/node/online");
    (0..=nodes.last().copied().unwrap_or(0))
        .map(|n| list(&format!("/sys/devices/system/node/node{n}/cpulist")))
        .collect()
}

fn list(path: &str) -> BTreeSet<u32> {
    parse_list(&std::fs::read_to_string(path).unwrap_or_default())
}

/// The kernel's lists: `0-3,8`.
fn parse_list(text: &str) -> BTreeSet<u32> {
    let parts = text.trim().split(',').filter_map(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<u32>().ok()?..=high.parse::<u32>().ok()?)
    });
    parts.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_taken_away_in_order() {
        let nodes = [parse_list("0-1,8\n"), parse_list("2-3")];
        let online = parse_list("0-3,8");
        let check = |rules: &[CpuRule], first: bool, expect: &str| {
            let global = Global {
                cpu_set: rules.to_vec(),
                first_cpu_node: first,
                ..Global::default()
            };
            let kept = choose(&global, parse_list("1-3"), &online, &nodes);
            assert_eq!(kept, parse_list(expect), "{rules:?} {first}");
        };
        use CpuRule::*;
        check(&[], true, "1");
        check(&[OnlyCpu(vec![2, 3, 8])], false, "2-3");
        check(&[DropCpu(vec![1])], true, "2-3");
        check(&[Reset, DropNode(vec![1])], false, "0-1,8");
        check(&[Reset, OnlyNode(vec![0]), DropCpu(vec![0])], false, "1,8");
        check(&[OnlyNode(vec![7])], false, "");
    }
}
