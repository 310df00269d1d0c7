//! Network cards, their interrupts and where they are.

use super::{Finding, Host};
use crate::sys::CardFlag;

/// Whether the daemon that moves interrupts runs.
pub fn irqbalance(host: &Host) -> Finding {
    let is_it = |pid: &String| {
        host.read(&format!("proc/{pid}/comm"))
            .is_some_and(|comm| comm == "irqbalance")
    };
    let running = host
        .names("proc")
        .iter()
        .filter(|name| name.bytes().all(|c| c.is_ascii_digit()))
        .any(is_it);
    let found = if running { "running" } else { "not running" };
    Finding::new(
        Some(!running),
        found,
        "not running during tests",
        "systemctl stop irqbalance",
    )
}

/// Whether the cards' interrupts go to different CPUs.
pub fn irq_affinity(host: &Host) -> Finding {
    let table = host.read("proc/interrupts").unwrap_or_default();
    let cards = host.cards();
    let of_card = |line: &&str| {
        cards.iter().any(|card| line.contains(card.as_str())) || line.contains("virtio")
    };
    let irqs = table
        .lines()
        .filter(of_card)
        .filter_map(|line| line.trim().split_once(':').map(|(irq, _)| irq));
    let mut cpus: Vec<String> = irqs
        .filter_map(|irq| host.read(&format!("proc/irq/{irq}/effective_affinity_list")))
        .collect();
    let count = cpus.len();
    cpus.sort();
    cpus.dedup();
    if count == 0 {
        return Finding::absent("no card's interrupts found");
    }
    let wanted = count.min(host.cpus());
    let command = "echo CPU > /proc/irq/N/smp_affinity_list for each queue";
    Finding::new(
        Some(cpus.len() >= wanted),
        format!("{count} interrupts on CPU {}", cpus.join(",")),
        format!("on {wanted} CPUs"),
        command,
    )
}

/// Whether each card has a queue for each CPU.
pub fn receive_queues(host: &Host) -> Finding {
    let cards = host.cards();
    let queues = |card: &String| {
        host.names(&format!("sys/class/net/{card}/queues"))
            .iter()
            .filter(|q| q.starts_with("rx-"))
            .count()
    };
    let Some(fewest) = cards.iter().map(queues).min() else {
        return Finding::absent("no network card");
    };
    let found: Vec<_> = cards
        .iter()
        .map(|card| format!("{card}: {}", queues(card)))
        .collect();
    let cpus = host.cpus();
    let command = format!("ethtool -L {} combined {cpus}", cards[0]);
    Finding::new(
        Some(fewest >= cpus),
        found.join(", "),
        format!("{cpus} (the CPUs)"),
        command,
    )
}

/// Whether the cards take large frames.
pub fn mtu(host: &Host) -> Finding {
    let cards = host.cards();
    if cards.is_empty() {
        return Finding::absent("no network card");
    }
    let mtu = |card: &String| {
        host.read(&format!("sys/class/net/{card}/mtu"))
            .unwrap_or_default()
    };
    let found: Vec<_> = cards
        .iter()
        .map(|card| format!("{card}: {}", mtu(card)))
        .collect();
    let ok = cards
        .iter()
        .all(|card| mtu(card).parse().is_ok_and(|mtu: u32| mtu >= 9000));
    Finding::new(
        Some(ok),
        found.join(", "),
        "9000, if the whole path has it",
        format!("ip link set {} mtu 9000", cards[0]),
    )
}

/// Whether segments are merged, and only in the way that can be undone.
pub fn offloads(host: &Host) -> Finding {
    let cards = host.cards();
    let Some(card) = cards.first() else {
        return Finding::absent("no network card");
    };
    let flags = host
        .flag(card, CardFlag::Gro)
        .zip(host.flag(card, CardFlag::Lro));
    let Some((gro, lro)) = flags else {
        return Finding::absent("the card does not tell");
    };
    let word = |on| if on { "on" } else { "off" };
    Finding::new(
        Some(gro && !lro),
        format!("{card}: GRO {}, LRO {}", word(gro), word(lro)),
        "GRO on, LRO off",
        format!("ethtool -K {card} gro on lro off"),
    )
}

/// On which node the cards are.
pub fn numa(host: &Host) -> Finding {
    let nodes = host
        .names("sys/devices/system/node")
        .iter()
        .filter(|n| n.starts_with("node"))
        .count()
        .max(1);
    if nodes == 1 {
        return Finding::new(Some(true), "one node", "workers on the card's node", "");
    }
    let node = |card: &String| {
        host.read(&format!("sys/class/net/{card}/device/numa_node"))
            .unwrap_or_default()
    };
    let cards: Vec<_> = host
        .cards()
        .iter()
        .map(|card| format!("{card} on {}", node(card)))
        .collect();
    Finding::new(
        None,
        format!("{nodes} nodes; {}", cards.join(", ")),
        "workers on the card's node",
        "cpu-map in global",
    )
}
