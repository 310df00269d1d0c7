//! Maglev lookup tables: which server a hash belongs to, the same on every director that knows the same servers.
//!
//! Source: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4.
//! Weights by the number of turns a server gets. The table depends on nothing but (servers, weights, size): not on the
//! order the servers are given in, so that directors that learnt of them differently agree. The virtual server's address
//! takes part in the flow's hash, not in the table, so a group of addresses shares one.

use std::net::IpAddr;

/// Seed of the permutations: fixed, since all directors must have the same.
const SEED: u64 = 0x736c_7569_6365_6c34;
/// Smallest table, as IPVS's default for mh.
pub const SIZE_MIN: usize = 4099;
/// Primes to choose a size from: about 100 entries a server keep shares within a percent.
const SIZES: [usize; 6] = [4099, 16411, 65537, 262_147, 1_048_583, 4_194_319];

/// A server as Maglev sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backend {
    pub address: IpAddr,
    pub port: u16,
    pub weight: u32,
}

/// The size for a number of servers.
pub fn size_for(servers: usize) -> usize {
    SIZES
        .into_iter()
        .find(|s| *s >= servers.saturating_mul(100))
        .unwrap_or(4_194_319)
}

/// Builds a table of `size` entries (a prime): indices into `backends`. Servers of weight 0 get none; all zero or none at
/// all gives an empty table.
pub fn table(backends: &[Backend], size: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..backends.len() as u32)
        .filter(|i| backends[*i as usize].weight > 0)
        .collect();
    order.sort_by_key(|i| {
        let b = &backends[*i as usize];
        (b.address, b.port)
    });
    let Some(weight_max) = order.iter().map(|i| backends[*i as usize].weight).max() else {
        return Vec::new();
    };
    let m = size as u64;
    struct Turn {
        index: u32,
        offset: u64,
        skip: u64,
        next: u64,
        weight: u64,
        credit: u64,
    }
    let mut turns: Vec<Turn> = order
        .iter()
        .map(|&index| {
            let b = &backends[index as usize];
            let h = hash_server(b);
            Turn {
                index,
                offset: mix(h ^ SEED) % m,
                skip: mix(h.wrapping_add(SEED)) % (m - 1) + 1,
                next: 0,
                weight: u64::from(b.weight),
                credit: 0,
            }
        })
        .collect();
    const FREE: u32 = u32::MAX;
    let mut table = vec![FREE; size];
    let mut filled = 0;
    loop {
        for turn in &mut turns {
            // The heaviest server takes part in every round, one of half its weight in every second.
            turn.credit += turn.weight;
            if turn.credit < u64::from(weight_max) {
                continue;
            }
            turn.credit -= u64::from(weight_max);
            loop {
                let slot = ((turn.offset + turn.next * turn.skip) % m) as usize;
                turn.next += 1;
                if table[slot] == FREE {
                    table[slot] = turn.index;
                    filled += 1;
                    break;
                }
            }
            if filled == size {
                return table;
            }
        }
    }
}

fn hash_server(b: &Backend) -> u64 {
    let mut h = SEED;
    let mut eat = |v: u64| h = mix(h ^ v);
    match b.address {
        IpAddr::V4(ip) => eat(u64::from(u32::from(ip))),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            eat((bits >> 64) as u64);
            eat(bits as u64);
        }
    }
    eat(u64::from(b.port));
    h
}

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn servers(weights: &[u32]) -> Vec<Backend> {
        weights
            .iter()
            .enumerate()
            .map(|(i, w)| Backend {
                address: IpAddr::from([10, 0, 0, i as u8]),
                port: 80,
                weight: *w,
            })
            .collect()
    }

    /// Share of each server, in entries.
    fn shares(table: &[u32], n: usize) -> Vec<usize> {
        (0..n as u32)
            .map(|i| table.iter().filter(|t| **t == i).count())
            .collect()
    }

    #[test]
    fn equal_weights_share_equally() {
        let t = table(&servers(&[1; 10]), 4099);
        for share in shares(&t, 10) {
            assert!((409..=411).contains(&share), "{share}");
        }
    }

    #[test]
    fn weights_divide_the_table() {
        let s = shares(&table(&servers(&[1, 2, 4, 0]), 4099), 4);
        assert_eq!(s[3], 0);
        let unit = 4099.0 / 7.0;
        for (share, weight) in s.iter().zip([1.0, 2.0, 4.0]) {
            assert!((*share as f64 - unit * weight).abs() < 8.0, "{s:?}");
        }
    }

    #[test]
    fn a_lost_server_moves_little_else() {
        let all = servers(&[1; 20]);
        let before = table(&all, 16411);
        let mut fewer = all.clone();
        fewer[7].weight = 0;
        let after = table(&fewer, 16411);
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(b, a)| **b != 7 && b != a)
            .count();
        // The paper's figure 12: a few percent beyond the share of the lost server.
        assert!(moved < 16411 / 20, "{moved}");
    }

    #[test]
    fn no_weight_no_table() {
        assert!(table(&servers(&[0, 0]), 4099).is_empty());
        assert!(table(&[], 4099).is_empty());
    }

    #[test]
    fn sizes_are_prime_and_sufficient() {
        for s in SIZES {
            assert!((2..).take_while(|d| d * d <= s).all(|d| s % d != 0), "{s}");
        }
        assert_eq!(size_for(3), 4099);
        assert!(size_for(500) >= 50_000);
    }

    proptest! {
        #[test]
        fn the_order_of_servers_is_no_matter(weights in prop::collection::vec(0u32..5, 1..12), seed in any::<u64>()) {
            let all = servers(&weights);
            let mut shuffled = all.clone();
            let n = shuffled.len();
            for i in 0..n {
                shuffled.swap(i, (mix(seed ^ i as u64) % n as u64) as usize);
            }
            let a: Vec<_> = table(&all, 4099).into_iter().map(|i| all[i as usize].address).collect();
            let b: Vec<_> = table(&shuffled, 4099).into_iter().map(|i| shuffled[i as usize].address).collect();
            prop_assert_eq!(a, b);
        }
    }
}
