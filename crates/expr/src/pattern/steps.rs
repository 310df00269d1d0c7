//! A sorted list of numbers with something behind each, made to be searched with cold caches.
//!
//! Halving a list of millions touches a cache line at each of the last ten steps or so. Here each step looks at sixteen
//! numbers that lie together: of a million there are five steps, and all but the last two stay in the caches.

/// Numbers of a step: two cache lines of them.
const WIDTH: usize = 16;

/// The numbers of the list, and what is behind each beside them. Unfilled places hold the greatest number.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Leaf {
    keys: [i64; WIDTH],
    values: [u32; WIDTH],
}

/// The first numbers of as many blocks below.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Branch([i64; WIDTH]);

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps {
    leaves: Box<[Leaf]>,
    /// From the one above the leaves up to one of a single block.
    branches: Vec<Box<[Branch]>>,
    len: usize,
}

impl Steps {
    /// Takes numbers in ascending order.
    pub(super) fn new(sorted: &[(i64, u32)]) -> Self {
        let leaf = |part: &[(i64, u32)]| {
            let mut leaf = Leaf {
                keys: [i64::MAX; WIDTH],
                values: [u32::MAX; WIDTH],
            };
            for (at, (key, value)) in part.iter().enumerate() {
                (leaf.keys[at], leaf.values[at]) = (*key, *value);
            }
            leaf
        };
        let leaves: Box<[Leaf]> = sorted.chunks(WIDTH).map(leaf).collect();
        let mut firsts: Vec<i64> = leaves.iter().map(|l| l.keys[0]).collect();
        let mut branches = Vec::new();
        while firsts.len() > 1 {
            let branch = |part: &[i64]| {
                let mut keys = [i64::MAX; WIDTH];
                keys[..part.len()].copy_from_slice(part);
                Branch(keys)
            };
            let level: Box<[Branch]> = firsts.chunks(WIDTH).map(branch).collect();
            firsts = level.iter().map(|b| b.0[0]).collect();
            branches.push(level);
        }
        Steps {
            leaves,
            branches,
            len: sorted.len(),
        }
    }

    /// What is behind the greatest number that is not above `n`.
    #[inline]
    pub(super) fn at_or_below(&self, n: i64) -> Option<u32> {
        // Unfilled places are not above the greatest number there is: then the last block is meant.
        let mut block = 0;
        for level in self.branches.iter().rev() {
            let at = block.min(level.len().checked_sub(1)?);
            block = at * WIDTH + not_above(&level.get(at)?.0, n).saturating_sub(1);
        }
        let last = self.len.checked_sub(1)?;
        let block = block.min(last / WIDTH);
        let filled = (self.len - block * WIDTH).min(WIDTH);
        let leaf = self.leaves.get(block)?;
        let at = not_above(&leaf.keys, n).min(filled).checked_sub(1)?;
        leaf.values.get(at).copied()
    }

    pub(super) fn memory(&self) -> usize {
        let branches = self.branches.iter().map(|level| level.len());
        self.leaves.len() * size_of::<Leaf>() + branches.sum::<usize>() * size_of::<Branch>()
    }
}

/// How many are not above `n`, without a branch.
#[inline]
fn not_above(keys: &[i64; WIDTH], n: i64) -> usize {
    keys.iter().map(|key| usize::from(*key <= n)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(mut keys: Vec<i64>, asked: &[i64]) {
        keys.sort_unstable();
        keys.dedup();
        let sorted: Vec<(i64, u32)> = keys.iter().zip(0..).map(|(k, v)| (*k, v)).collect();
        let steps = Steps::new(&sorted);
        for n in keys.iter().chain(asked).flat_map(|n| {
            [
                n.saturating_sub(1),
                *n,
                n.saturating_add(1),
                i64::MIN,
                i64::MAX,
            ]
        }) {
            let want = sorted.iter().rfind(|(k, _)| *k <= n).map(|(_, v)| *v);
            assert_eq!(steps.at_or_below(n), want, "{n} in {} numbers", keys.len());
        }
    }

    #[test]
    fn all_sizes_around_full_blocks() {
        for len in (0..40).chain([255, 256, 257, 271, 272, 273, 1000]) {
            check((0..len).map(|k| k * 3).collect(), &[-5]);
            check((0..len).map(|k| i64::MAX - k * 3).collect(), &[0]);
        }
        check(vec![i64::MIN, i64::MAX], &[0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn as_a_sorted_list(
            keys in proptest::collection::vec(-3000..3000i64, 0..600),
            asked in proptest::collection::vec(-3100..3100i64, 1..8),
        ) {
            check(keys, &asked);
        }
    }
}
