//! Where a round goes on when the servers change, as IPVS does it: rr with the one after the server that had the last
//! turn; wrr with the level of weights it had reached, from its beginning.
//!
//! keepalived gives IPVS one server after the other, and IPVS looks at its level each time: a new virtual server starts with
//! what that leaves, which is seldom the highest level.

use super::{divisor, levels, round_robin};

/// A server known across changes, with its weight. Lists are in walking order.
pub type Turn<Id> = (Id, u32);

fn weights<Id>(servers: &[Turn<Id>]) -> Vec<u32> {
    servers.iter().map(|(_, w)| *w).collect()
}

/// The turn of `new`'s rr ring that follows on `taken` turns of `old`'s.
pub fn after_round_robin<Id: PartialEq>(old: &[Turn<Id>], taken: u32, new: &[Turn<Id>]) -> u32 {
    let ring = round_robin(&weights(old));
    let (Some(before), false) = (taken.checked_sub(1), ring.is_empty()) else {
        return 0;
    };
    let last = ring[before as usize % ring.len()] as usize;
    // A server that went hands its place back to the nearest before it that stays; the head of the list is before all.
    let stays = |i: &usize| new.iter().any(|(id, _)| *id == old[*i].0);
    let anchor = (0..=last).rev().find(stays);
    let from = match anchor {
        Some(i) => new
            .iter()
            .position(|(id, _)| *id == old[i].0)
            .map_or(0, |p| p + 1),
        None => 0,
    };
    let next = (from..new.len()).chain(0..from).find(|i| new[*i].1 > 0);
    let new_ring = round_robin(&weights(new));
    next.and_then(|i| new_ring.iter().position(|r| *r as usize == i))
        .map_or(0, |p| p as u32)
}

/// IPVS's current weight after a change of the servers.
fn level_after(level: u32, weights: &[u32]) -> u32 {
    let unit = divisor(weights);
    let Some(max) = weights.iter().max().filter(|m| **m > 0) else {
        return 0;
    };
    let top = max - (unit - 1);
    if level > top || level == 0 {
        top
    } else if unit > 1 {
        level / unit * unit + 1
    } else {
        level
    }
}

/// The turn at which the round of this level (IPVS's current weight) begins.
fn turn_of_level(level: u32, weights: &[u32]) -> u32 {
    let rounds = levels(weights);
    let unit = divisor(weights).max(1);
    // The rounds may be scaled; their number then stands for the heaviest weight.
    let steps = u64::from(weights.iter().max().copied().unwrap_or(0) / unit).max(1);
    let step = u64::from(level.div_ceil(unit)).clamp(1, steps);
    let skipped = (steps - step) * rounds.len() as u64 / steps;
    rounds
        .iter()
        .take(skipped as usize)
        .map(Vec::len)
        .sum::<usize>() as u32
}

/// The level of the turn that was had last.
fn level_of_turn(taken: u32, weights: &[u32]) -> Option<u32> {
    let rounds = levels(weights);
    let turns: usize = rounds.iter().map(Vec::len).sum();
    let mut at = (taken.checked_sub(1)? as usize).checked_rem(turns)?;
    let unit = divisor(weights).max(1);
    let steps = u64::from(weights.iter().max()? / unit);
    for (i, round) in rounds.iter().enumerate() {
        if at < round.len() {
            let step = steps - i as u64 * steps / rounds.len() as u64;
            return u32::try_from((step - 1) * u64::from(unit) + 1).ok();
        }
        at -= round.len();
    }
    None
}

/// The first turn of a new wrr service whose servers came one by one, the last of the list first.
pub fn first_weighted<Id>(servers: &[Turn<Id>]) -> u32 {
    let all = weights(servers);
    let level = (0..all.len())
        .rev()
        .fold(0, |level, from| level_after(level, &all[from..]));
    turn_of_level(level, &all)
}

/// The turn of `new`'s wrr ring that follows on `taken` turns of `old`'s.
pub fn after_weighted<Id>(old: &[Turn<Id>], taken: u32, new: &[Turn<Id>]) -> u32 {
    let level = level_of_turn(taken, &weights(old)).unwrap_or(0);
    let all = weights(new);
    turn_of_level(level_after(level, &all), &all)
}

#[cfg(test)]
mod tests {
    use super::super::weighted_round_robin;
    use super::*;

    /// `A1B2`: servers A and B of weights 1 and 2.
    fn list(text: &str) -> Vec<Turn<char>> {
        let c: Vec<char> = text.chars().collect();
        c.chunks(2)
            .map(|p| (p[0], p[1].to_digit(10).unwrap()))
            .collect()
    }

    /// The next turns after the change.
    fn check_rr(old: &str, taken: u32, new: &str, expect: &str) {
        let (old, new) = (list(old), list(new));
        let ring = round_robin(&weights(&new));
        let start = after_round_robin(&old, taken, &new) as usize;
        let got: String = (0..expect.len())
            .map(|i| new[ring[(start + i) % ring.len()] as usize].0)
            .collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn rr_goes_on_after_the_last() {
        check_rr("A1B1C1", 0, "A1B1C1", "ABC");
        check_rr("A1B1C1", 1, "A1B1C1", "BCA");
        check_rr("A1B1C1", 3, "D1A1B1C1", "DABC");
        check_rr("A1B1C1", 1, "A1B0C1", "CAC");
        // The one with the last turn goes: on with the one after it.
        check_rr("A1B1C1", 2, "A1C1", "CA");
        check_rr("A1B1C1", 1, "B1C1", "BC");
    }

    fn check_wrr(first: &str, expect: &str) {
        let servers = list(first);
        let ring = weighted_round_robin(&weights(&servers));
        let start = first_weighted(&servers) as usize;
        let got: String = (0..expect.len())
            .map(|i| servers[ring[(start + i) % ring.len()] as usize].0)
            .collect();
        assert_eq!(got, expect);
    }

    /// What the kernel was seen to do (tests/ipvs.rs).
    #[test]
    fn wrr_starts_where_ipvs_does() {
        check_wrr("D1C2B3A4", "DCBAABACBADCB");
        check_wrr("D4C0B2A6", "DBAADADBAADAD");
    }

    #[test]
    fn levels_and_turns_agree() {
        let w = [1, 2, 3, 4];
        for level in 1..=4 {
            let turn = turn_of_level(level, &w);
            assert_eq!(level_of_turn(turn + 1, &w), Some(level));
        }
        assert_eq!(level_of_turn(0, &w), None);
        assert_eq!(level_of_turn(1, &[]), None);
    }
}
