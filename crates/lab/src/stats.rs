//! The statistics of every experiment: pure functions over samples, tested against known inputs.
//!
//! Owns quantiles, the drop-5-average-20 of the published series, and the bootstrap that says how far a median of
//! ratios can be trusted. Knows nothing about where the samples come from.

use serde::Serialize;

/// The `q` quantile (0 to 1) by linear interpolation between order statistics (type 7 of Hyndman and Fan, the
/// default of R and NumPy). `None` without samples.
#[must_use]
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| !x.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64))
}

/// The middle sample, or the mean of the two in the middle.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// Arithmetic mean.
#[must_use]
pub fn mean(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        None
    } else {
        Some(samples.iter().sum::<f64>() / samples.len() as f64)
    }
}

/// How the 2008 and 2009 series make one figure of the samples of a minute: the `drop` best are taken for flukes,
/// the next `keep` are averaged. With fewer samples the same shares are dropped and kept (of 60: 5 and 20).
#[must_use]
pub fn drop_best_average(samples: &[f64], drop: usize, keep: usize) -> Option<f64> {
    const FULL: usize = 60;
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| !x.is_nan()).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (drop, keep) = if sorted.len() >= drop + keep {
        (drop, keep)
    } else {
        let share = |n: usize| n * sorted.len() / FULL;
        (share(drop), share(keep).max(1))
    };
    let kept = sorted.get(drop..(drop + keep).min(sorted.len()))?;
    mean(kept)
}

/// A figure with the interval that it lies in, 19 times of 20.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The median of the samples.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the samples show no difference from `value`.
    #[must_use]
    pub fn covers(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Resamples taken for an interval: enough for two stable digits (fewer under test, where debug builds are slow).
const RESAMPLES: usize = if cfg!(test) { 400 } else { 4000 };

/// Median of `samples` with its 95 % bootstrap interval (percentile method, fixed seed: the same samples always
/// give the same interval). `None` without samples; a single sample is its own, meaningless, interval.
#[must_use]
pub fn bootstrap_median(samples: &[f64]) -> Option<Interval> {
    let middle = median(samples)?;
    let mut random = Random(0x5EED);
    let mut medians = Vec::with_capacity(RESAMPLES);
    let mut draw = vec![0.0; samples.len()];
    for _ in 0..RESAMPLES {
        for place in &mut draw {
            *place = samples[random.below(samples.len())];
        }
        draw.sort_by(f64::total_cmp);
        medians.push(quantile_of_sorted(&draw, 0.5)?);
    }
    medians.sort_by(f64::total_cmp);
    Some(Interval {
        median: middle,
        low: quantile_of_sorted(&medians, 0.025)?,
        high: quantile_of_sorted(&medians, 0.975)?,
    })
}

/// The ratios `a[i] / b[i]` of interleaved rounds: what both halves of a round share (clock speed, neighbours)
/// cancels out. Rounds where one side is missing, zero or not a number are left out.
#[must_use]
pub fn paired_ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter()
        .zip(b)
        .filter(|(a, b)| a.is_finite() && b.is_finite() && **b > 0.0)
        .map(|(a, b)| a / b)
        .collect()
}

/// A small generator (splitmix64): for resampling and for drawing sizes, not for secrets.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Evenly from `0..n`; 0 for `n` of 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Evenly from `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_as_r_gives_them() {
        let data = [7.0, 15.0, 36.0, 39.0, 40.0, 41.0];
        let check = |q: f64, expect: f64| {
            assert!((quantile(&data, q).unwrap() - expect).abs() < 1e-9, "{q}")
        };
        check(0.0, 7.0);
        check(0.25, 20.25);
        check(0.5, 37.5);
        check(0.75, 39.75);
        check(1.0, 41.0);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn drop_five_average_twenty() {
        // 1..=60: the best five are 60..56, the next twenty 55..36, whose mean is 45.5.
        let minute: Vec<f64> = (1..=60).map(f64::from).collect();
        assert_eq!(drop_best_average(&minute, 5, 20), Some(45.5));
        // A short run of 12 drops one (12*5/60) and averages four (12*20/60): 11, 10, 9, 8.
        let short: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(drop_best_average(&short, 5, 20), Some(9.5));
        assert_eq!(drop_best_average(&[5.0], 5, 20), Some(5.0));
        assert_eq!(drop_best_average(&[], 5, 20), None);
    }

    #[test]
    fn bootstrap_of_known_inputs() {
        let same = bootstrap_median(&[0.8; 9]).unwrap();
        assert_eq!((same.low, same.median, same.high), (0.8, 0.8, 0.8));
        assert!(!same.covers(1.0));
        // The exact 95 % interval of the median of 1..=21 by order statistics is (6, 16); the bootstrap agrees
        // within one rank.
        let ranks: Vec<f64> = (1..=21).map(f64::from).collect();
        let interval = bootstrap_median(&ranks).unwrap();
        assert_eq!(interval.median, 11.0);
        assert!((5.0..=8.0).contains(&interval.low), "{interval:?}");
        assert!((14.0..=17.0).contains(&interval.high), "{interval:?}");
        assert_eq!(bootstrap_median(&[]), None);
    }

    #[test]
    fn a_true_difference_is_shown_and_a_false_one_seldom() {
        let mut random = Random(1);
        let mut noisy = |centre: f64| -> Vec<f64> {
            (0..15)
                .map(|_| centre * (0.95 + 0.1 * random.unit()))
                .collect()
        };
        let mut wrong = 0;
        for _ in 0..100 {
            let (a, b, c) = (noisy(10.0), noisy(10.0), noisy(8.0));
            let same = bootstrap_median(&paired_ratios(&a, &b)).unwrap();
            wrong += usize::from(!same.covers(1.0));
            let shown = bootstrap_median(&paired_ratios(&c, &b)).unwrap();
            assert!(
                !shown.covers(1.0) && shown.covers(shown.median),
                "{shown:?}"
            );
        }
        // 5 in 100 are expected of a 95 % interval; the median's is a little rougher with 15 rounds.
        assert!(wrong <= 12, "{wrong} of 100 false differences");
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_and_stays_within_the_samples(data in prop::collection::vec(0.01f64..1e6, 1..30)) {
            let interval = bootstrap_median(&data).unwrap();
            let (least, most) = (quantile(&data, 0.0).unwrap(), quantile(&data, 1.0).unwrap());
            prop_assert!(least <= interval.low && interval.low <= interval.median);
            prop_assert!(interval.median <= interval.high && interval.high <= most);
        }

        #[test]
        fn below_is_below(seed: u64, n in 1usize..1000) {
            prop_assert!(Random(seed).below(n) < n);
        }
    }
}
