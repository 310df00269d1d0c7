//! Turns: `roundrobin` and `static-rr`, the map of `hash-type map-based`, and requests that have no key to hash.
//!
//! Both orders are computed for a whole round in advance, so that a request only moves a cursor. Round robin spreads each
//! server's turns evenly over the round, the heaviest server first; the static map gives the first server of the
//! configuration the first turn. A cursor that finds servers full passes them: their turns are spent.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Choice;
use crate::servers::Servers;
use crate::state::WEIGHT_SCALE;

/// Longest round computed. Weights whose round is longer are reduced in proportion.
const ROUND_MAX: u64 = 1 << 14;

/// Largest configured weight, in effective units, and the number of weights.
const WEIGHT_MAX: u64 = 256 * WEIGHT_SCALE as u64;
const WEIGHT_STEPS: u64 = 257;

/// The next server in turn that is free; the one to avoid only when there is no other.
pub(super) fn take_turn(
    cx: &Choice<'_>,
    cursor: &AtomicU64,
    n: usize,
    at: impl Fn(usize) -> u32,
) -> Option<u32> {
    if n == 0 {
        return None;
    }
    let mut start = cursor.load(Relaxed);
    loop {
        // a round that became shorter begins anew
        let first = usize::try_from(start).ok().filter(|f| *f < n).unwrap_or(0);
        let mut avoided = None;
        let found = (0..n).find_map(|k| {
            let i = at((first + k) % n);
            if !cx.is_free(i) {
                return None;
            }
            if cx.ask.avoid == Some(i) {
                avoided = avoided.or(Some((k, i)));
                return None;
            }
            Some((k, i))
        });
        let (k, i) = found.or(avoided)?;
        let next = ((first + k) % n + 1) as u64;
        match cursor.compare_exchange_weak(start, next, Relaxed, Relaxed) {
            Ok(_) => return Some(i),
            Err(now) => start = now,
        }
    }
}

/// The map of the static algorithms: at each place stands the server that is furthest behind its share, the first
/// of the configuration among equals. Weights are reduced by their common divisor.
pub(super) fn static_map(servers: &Servers, usable: &[u32]) -> Vec<u32> {
    let divisor = servers.iter().map(|s| s.conf.weight).fold(0, gcd).max(1);
    let mut due: Vec<(u32, i64, i64)> = usable
        .iter()
        .map(|&i| {
            let w = servers[i as usize].user_weight.load(Relaxed);
            (i, i64::from(w.div_ceil(divisor)), 0)
        })
        .collect();
    let total: i64 = due.iter().map(|d| d.1).sum();
    let mut map = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let mut best: Option<(i64, usize)> = None;
        for (k, (_, weight, score)) in due.iter_mut().enumerate() {
            *score += *weight;
            // whole shares count, not fractions; a score is above -total, so this is never negative
            let behind = (*score + total) / total;
            if best.is_none_or(|(most, _)| behind > most) {
                best = Some((behind, k));
            }
        }
        if let Some((_, k)) = best {
            due[k].2 -= total;
            map.push(due[k].0);
        }
    }
    map
}

/// The round of `roundrobin`, as short as it can be said.
pub(super) fn smooth_turns(usable: &[u32], weights: &[u32]) -> Vec<u32> {
    let mut weights: Vec<u64> = weights.iter().map(|&w| u64::from(w)).collect();
    let total: u64 = weights.iter().sum();
    if total > ROUND_MAX {
        let divisor = weights.iter().fold(0, |a, &b| gcd(a, b)).max(1);
        let shrink = (total / divisor).div_ceil(ROUND_MAX).max(1);
        for w in &mut weights {
            *w = (*w / divisor / shrink).max(1);
        }
    }
    let (lead, round) = Group::new(&weights).play();
    let period = period(&round);
    let in_step = (0..lead.len()).all(|k| {
        let back = (lead.len() - k) % period.max(1);
        lead[k] == round[(period - back) % period]
    });
    let mut turns = round;
    turns.truncate(period);
    if in_step && period > 0 {
        let shift = lead.len() % period;
        turns.rotate_right(shift);
    }
    turns.into_iter().map(|k| usable[k]).collect()
}

/// Servers that take turns by position: each use moves a server ahead by the total weight over its own, the remainder
/// kept, and the lowest position is next. Servers start in order of weight.
struct Group {
    weights: Vec<u64>,
    total: u64,
    /// Where the next turn is.
    now: u64,
    /// The total weight while this window lasts.
    position: Vec<u64>,
    remainder: Vec<u64>,
    /// Of this window: not used yet, heaviest first; used, by position.
    fresh: BTreeSet<(u64, u64, usize)>,
    current: BTreeSet<(u64, u64, usize)>,
    /// Of the next window.
    next: BTreeSet<(u64, u64, usize)>,
    arrivals: u64,
}

impl Group {
    fn new(weights: &[u64]) -> Self {
        let mut g = Group {
            weights: weights.to_vec(),
            total: weights.iter().sum(),
            now: 0,
            position: vec![0; weights.len()],
            remainder: vec![0; weights.len()],
            fresh: BTreeSet::new(),
            current: BTreeSet::new(),
            next: BTreeSet::new(),
            arrivals: 0,
        };
        for (k, &w) in weights.iter().enumerate() {
            g.fresh.insert((WEIGHT_MAX.saturating_sub(w), k as u64, k));
        }
        g.arrivals = weights.len() as u64;
        g
    }

    /// The turns before the order begins to repeat, and those that repeat.
    fn play(mut self) -> (Vec<usize>, Vec<usize>) {
        let mut turns = Vec::new();
        // where each window began, and with what order
        let mut windows: Vec<(usize, Vec<usize>)> = Vec::new();
        while self.total > 0 {
            if let Some(k) = self.turn() {
                turns.push(k);
                continue;
            }
            std::mem::swap(&mut self.fresh, &mut self.next);
            self.now = self.total;
            let order: Vec<usize> = self.fresh.iter().map(|f| f.2).collect();
            if let Some((began, _)) = windows.iter().find(|w| w.1 == order) {
                let round = turns.split_off(*began);
                return (turns, round);
            }
            if turns.len() as u64 > 16 * ROUND_MAX {
                break;
            }
            windows.push((turns.len(), order));
        }
        (Vec::new(), turns)
    }

    /// The server whose turn it is, moved ahead; `None` when the window is over.
    fn turn(&mut self) -> Option<usize> {
        let due = self.current.first().copied();
        let k = match due {
            Some(d) if self.position[d.2] <= self.now => {
                self.current.pop_first();
                d.2
            }
            _ => match self.fresh.pop_first() {
                Some(f) => {
                    self.position[f.2] = 0;
                    self.remainder[f.2] = 0;
                    f.2
                }
                None => self.current.pop_first()?.2,
            },
        };
        self.advance(k);
        self.now += 1;
        self.file(k);
        Some(k)
    }

    fn advance(&mut self, k: usize) {
        let w = self.weights[k].max(1);
        if self.position[k] == 0 {
            self.position[k] = self.now;
        }
        self.position[k] += self.total / w;
        self.remainder[k] += self.total % w;
        if self.remainder[k] >= w {
            self.remainder[k] -= w;
            self.position[k] += 1;
        }
    }

    /// Into this window by position, or into the next by weight.
    fn file(&mut self, k: usize) {
        self.arrivals += 1;
        if self.position[k] >= 2 * self.total {
            self.position[k] -= self.total;
            let key = WEIGHT_MAX.saturating_sub(self.weights[k]);
            self.next.insert((key, self.arrivals, k));
        } else {
            let fine = (WEIGHT_MAX + self.remainder[k]).saturating_sub(self.weights[k]);
            let key = (WEIGHT_STEPS - 1) * self.position[k] + fine / u64::from(WEIGHT_SCALE);
            self.current.insert((key, self.arrivals, k));
        }
    }
}

/// The shortest prefix whose repetition is the whole.
fn period(turns: &[usize]) -> usize {
    let n = turns.len();
    // the longest border of each prefix, as in Knuth, Morris and Pratt's search
    let mut border = vec![0; n];
    for i in 1..n {
        let mut k: usize = border[i - 1];
        while k > 0 && turns[i] != turns[k] {
            k = border[k - 1];
        }
        border[i] = k + usize::from(turns[i] == turns[k]);
    }
    let shortest = n - border.last().copied().unwrap_or(0);
    if shortest > 0 && n.is_multiple_of(shortest) {
        shortest
    } else {
        n
    }
}

fn gcd<T: Copy + Default + PartialEq + std::ops::Rem<Output = T>>(a: T, b: T) -> T {
    if b == T::default() { a } else { gcd(b, a % b) }
}
