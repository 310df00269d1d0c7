//! The deterministic content that makes a transfer verifiable: byte `i` of the object with seed `s` is a
//! pure function of `(s, i)`, so either end can make or check any piece of it without storing it.
//!
//! Words of eight bytes come from a splitmix-style mixer over the word's index: lost, repeated, reordered or
//! shifted bytes all show, whatever the block size they happen at (a repeating block of random bytes would hide
//! a loss of exactly one period). Costs about as much as a memory copy.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn word(seed: u64, index: u64) -> u64 {
    let mut x = seed
        .wrapping_add(1)
        .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        .wrapping_add(index.wrapping_mul(GOLDEN));
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 29)
}

/// Writes the bytes of object `seed` from `offset` on into `out`.
pub fn fill(seed: u64, offset: u64, out: &mut [u8]) {
    let (head, rest) = split(offset, out.len());
    let (first, rest_out) = out.split_at_mut(head);
    if head > 0 {
        let skip = (offset % 8) as usize;
        first.copy_from_slice(&word(seed, offset / 8).to_le_bytes()[skip..skip + head]);
    }
    let mut words = rest_out.chunks_exact_mut(8);
    let mut index = rest;
    for place in &mut words {
        place.copy_from_slice(&word(seed, index).to_le_bytes());
        index = index.wrapping_add(1);
    }
    let tail = words.into_remainder();
    let len = tail.len();
    tail.copy_from_slice(&word(seed, index).to_le_bytes()[..len]);
}

/// Compares `data` with the bytes of object `seed` from `offset` on; the index in `data` of the first that
/// differs, or `None` when all are right.
#[must_use]
pub fn mismatch(seed: u64, offset: u64, data: &[u8]) -> Option<usize> {
    let mut expect = [0u8; 4096];
    let mut done = 0;
    for piece in data.chunks(expect.len()) {
        let expect = &mut expect[..piece.len()];
        fill(seed, offset.wrapping_add(done as u64), expect);
        if expect != piece {
            let at = expect
                .iter()
                .zip(piece)
                .position(|(a, b)| a != b)
                .unwrap_or(0);
            return Some(done + at);
        }
        done += piece.len();
    }
    None
}

/// Bytes up to the next word boundary (at most `len`) and the index of the first whole word.
fn split(offset: u64, len: usize) -> (usize, u64) {
    let head = ((8 - offset % 8) % 8) as usize;
    (head.min(len), offset.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_piece_equals_that_piece_of_the_whole(seed: u64, start in 0usize..200, len in 0usize..300) {
            let mut whole = vec![0; 600];
            fill(seed, 0, &mut whole);
            let mut piece = vec![0; len];
            fill(seed, start as u64, &mut piece);
            prop_assert_eq!(&piece, &whole[start..start + len]);
            prop_assert_eq!(mismatch(seed, start as u64, &piece), None);
        }

        #[test]
        fn one_wrong_byte_is_found_where_it_is(seed: u64, offset: u32, at in 0usize..9000) {
            let mut data = vec![0; 9000];
            fill(seed, u64::from(offset), &mut data);
            data[at] ^= 0x20;
            prop_assert_eq!(mismatch(seed, u64::from(offset), &data), Some(at));
        }
    }

    #[test]
    fn a_lost_block_shows_at_every_usual_block_size() {
        for block in [1, 512, 1448, 4096, 16384, 65536, 1 << 20] {
            let mut data = vec![0; 64];
            fill(7, block, &mut data);
            assert!(
                mismatch(7, 0, &data).is_some(),
                "a loss of {block} bytes went unseen"
            );
        }
    }
}
