//! A scheduler's ring, and the turn it goes on with when its servers change.

use super::*;

/// The turn a round robin goes on with when its servers change; None if nothing is to be written.
pub(super) fn next_turn(
    old: Option<&Service>,
    new: &Service,
    taken: impl Fn() -> u32,
) -> Option<u32> {
    let list = |s: &Service| -> Vec<turns::Turn<(IpAddr, u16)>> {
        let walk = s.servers.iter().rev();
        walk.map(|s| ((s.ip, s.port), s.weight)).collect()
    };
    let old = old.filter(|o| o.scheduler == new.scheduler);
    match (new.scheduler, old) {
        (Scheduler::RoundRobin, Some(o)) => {
            Some(turns::after_round_robin(&list(o), taken(), &list(new)))
        }
        (Scheduler::WeightedRoundRobin, Some(o)) => {
            Some(turns::after_weighted(&list(o), taken(), &list(new)))
        }
        (Scheduler::WeightedRoundRobin, None) => Some(turns::first_weighted(&list(new))),
        (Scheduler::RoundRobin, None) => Some(0),
        _ => None,
    }
}

/// How a service picks, and the order of its servers in the ring.
pub(super) fn ring(service: &Service) -> (u8, u8, Vec<u32>) {
    // In walking order: the last of the configuration first.
    let weights: Vec<u32> = service.servers.iter().rev().map(|s| s.weight).collect();
    let order = match service.scheduler {
        Scheduler::RoundRobin => sched::round_robin(&weights),
        // For twos a server stands in it as often as it is to be drawn.
        Scheduler::WeightedRoundRobin | Scheduler::TwoChoices => {
            sched::weighted_round_robin(&weights)
        }
        Scheduler::FailOver => sched::fail_over(&weights),
        Scheduler::SourceHash => sched::hash_slots(&weights, true),
        Scheduler::DestinationHash => sched::hash_slots(&weights, false),
        Scheduler::Maglev => {
            let backends: Vec<maglev::Backend> = service
                .servers
                .iter()
                .rev()
                .map(|s| maglev::Backend {
                    address: s.ip,
                    port: s.port,
                    weight: s.weight,
                })
                .collect();
            maglev::table(&backends, maglev::size_for(backends.len()))
        }
        _ => sched::round_robin(&weights),
    };
    let last = (service.servers.len() as u32).saturating_sub(1);
    let order = order.into_iter().map(|i| last - i).collect();
    match sched::pick(service.scheduler) {
        Pick::Counter => (layout::PICK_COUNTER, 0, order),
        Pick::Maglev => (layout::PICK_MAGLEV, 0, order),
        Pick::TwoChoices => (layout::PICK_TWO, 0, order),
        Pick::SourceSlot => (layout::PICK_SOURCE_SLOT, 0, order),
        Pick::DestinationSlot => (layout::PICK_DESTINATION_SLOT, 0, order),
        Pick::Load(load) => {
            let load = match load {
                Load::Connections => 0,
                Load::Weighted => 1,
                Load::Expected => 2,
                Load::NeverQueue => 3,
                Load::Overflow => 4,
                Load::Local => 5,
                Load::LocalReplicated => 6,
            };
            (layout::PICK_LOAD, load, order)
        }
    }
}
