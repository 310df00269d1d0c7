//! Algorithms that look at what servers carry: `leastconn`, `first` and `random`.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::Choice;

/// The configured weights' top in effective units: loads are compared in these steps, as HAProxy does.
const LOAD_STEPS: u64 = 4096;

impl Choice<'_> {
    /// `leastconn`: the fewest requests for its weight; idle servers are equal whatever their weight, and among equals
    /// it is the turn of the one whose load changed longest ago.
    pub(super) fn least_loaded(&self) -> Option<u32> {
        let key = |at: usize, i: u32| {
            let s = self.server(i);
            let busy = u64::from(s.served.load(Relaxed)) + u64::from(s.queue.len());
            let load = match busy {
                0 => 0,
                n => (n + 1) * LOAD_STEPS / u64::from(self.table.weights[at]).max(1),
            };
            let turn = s.load_changed_at.load(Relaxed);
            (self.ask.avoid == Some(i), load, turn)
        };
        let usable = self.table.usable.iter().copied().enumerate();
        usable
            .filter(|&(_, i)| self.is_free(i))
            .min_by_key(|&(at, i)| key(at, i))
            .map(|(_, i)| i)
    }

    /// `first`: the lowest id that has a free slot.
    pub(super) fn first_free(&self) -> Option<u32> {
        let free = || {
            self.table
                .usable
                .iter()
                .copied()
                .filter(|&i| self.is_free(i))
        };
        free()
            .find(|&i| self.ask.avoid != Some(i))
            .or_else(|| free().next())
    }

    /// `sticky`: the one that was chosen before, for as long as it can be used.
    pub(super) fn kept(&self, cursor: &AtomicU64) -> Option<u32> {
        let usable = &self.table.usable;
        let kept = usable
            .iter()
            .find(|i| u64::from(**i) == cursor.load(Relaxed));
        let chosen = *kept.or(usable.first())?;
        cursor.store(chosen.into(), Relaxed);
        Some(chosen)
    }

    /// `random(draws)`: of as many servers drawn by weight the one with the fewest requests for its weight; none when
    /// that one is full, so that the request waits for any.
    pub(super) fn drawn(&self, draws: u32) -> Option<u32> {
        let mut seed = self.ask.random;
        let mut best: Option<usize> = None;
        for _ in 0..draws {
            let at = self.draw(&mut seed)?;
            let load = |a: usize, b: usize| {
                let served = self.server(self.table.usable[a]).served.load(Relaxed);
                u64::from(served) * u64::from(self.table.weights[b])
            };
            best = match best {
                Some(b) if load(at, b) > load(b, at) => Some(b),
                _ => Some(at),
            };
        }
        best.map(|at| self.table.usable[at])
            .filter(|&i| self.is_free(i))
    }

    /// A place among the usable servers, by weight, the one to avoid left out if others remain.
    fn draw(&self, seed: &mut u64) -> Option<usize> {
        let table = self.table;
        let avoided = (table.usable.len() > 1)
            .then(|| table.usable.iter().position(|&i| self.ask.avoid == Some(i)))
            .flatten();
        let total = table.total - avoided.map_or(0, |at| u64::from(table.weights[at]));
        let mut left = next_random(seed).checked_rem(total)?;
        for (at, &w) in table.weights.iter().enumerate() {
            if avoided == Some(at) {
                continue;
            }
            if left < u64::from(w) {
                return Some(at);
            }
            left -= u64::from(w);
        }
        None
    }
}

/// SplitMix64: independent numbers from one seed.
fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*seed ^ *seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
