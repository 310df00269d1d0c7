//! Keys to numbers: the functions of `hash-type` (manual 4.2), the same as the converters of those names.

use std::net::IpAddr;

use sluice_config::model::{HashFunction, HashType};
pub use sluice_expr::conv::hash::avalanche;
use sluice_expr::conv::hash::{crc32, djb2, sdbm, wt6};

/// The hash of a key under `hash-type`.
pub fn of_bytes(key: &[u8], kind: HashType) -> u32 {
    let h = match kind.function {
        HashFunction::Sdbm => sdbm(key),
        HashFunction::Djb2 => djb2(key),
        HashFunction::Wt6 => wt6(key),
        HashFunction::Crc32 => crc32(key),
        HashFunction::None => number(key),
    };
    if kind.avalanche { avalanche(h) } else { h }
}

/// The hash of an address: its 32-bit words combined, mixed only if `hash-type` asks for an avalanche.
pub fn of_ip(ip: IpAddr, kind: HashType) -> u32 {
    let h = match ip {
        IpAddr::V4(a) => u32::from(a),
        IpAddr::V6(a) => {
            let bits = u128::from(a);
            (0..4).fold(0, |h, word| h ^ (bits >> (32 * word)) as u32)
        }
    };
    if kind.avalanche { avalanche(h) } else { h }
}

/// The number a key begins with, its low 32 bits (`hash-type ... none`).
fn number(key: &[u8]) -> u32 {
    let (negative, digits) = match key {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, key),
    };
    let n = digits
        .iter()
        .map_while(|b| char::from(*b).to_digit(10))
        .fold(0i64, |n, d| {
            n.saturating_mul(10).saturating_add(i64::from(d))
        });
    (if negative { -n } else { n }) as u32
}
