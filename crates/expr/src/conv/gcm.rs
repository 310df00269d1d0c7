//! AES-GCM (NIST SP 800-38D) for any length of nonce and for tags cut short. The crypto library does the common form,
//! 12 bytes of nonce and 16 of tag; the rest is built here from its AES, because HAProxy takes it.

use std::ops::Range;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, EncryptingKey, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;

const BLOCK: usize = 16;
pub const TAG_LEN: usize = 16;

/// Tags shorter than SP 800-38D's general minimum are refused: with 4 bytes, which HAProxy would take, a forgery
/// succeeds once in 4 billion attempts, with 1 byte once in 256.
const TAG_LENS: Range<usize> = 12..TAG_LEN + 1;

/// A key for AES-128, AES-192 or AES-256, by its length.
pub struct Key {
    aead: LessSafeKey,
    block: EncryptingKey,
}

impl Key {
    /// `None` when the key has not 16, 24 or 32 bytes.
    pub fn new(key: &[u8]) -> Option<Key> {
        let (aead, block) = match key.len() {
            16 => (&aead::AES_128_GCM, &cipher::AES_128),
            24 => (&aead::AES_192_GCM, &cipher::AES_192),
            32 => (&aead::AES_256_GCM, &cipher::AES_256),
            _ => return None,
        };
        Some(Key {
            aead: LessSafeKey::new(UnboundKey::new(aead, key).ok()?),
            block: EncryptingKey::ecb(UnboundCipherKey::new(block, key).ok()?).ok()?,
        })
    }

    /// Decrypts in place; `None` when the tag does not match.
    pub fn open(&self, nonce: &[u8], aad: &[u8], tag: &[u8], text: &mut [u8]) -> Option<()> {
        if let (Ok(nonce), TAG_LEN) = (Nonce::try_assume_unique_for_key(nonce), tag.len()) {
            return self
                .aead
                .open_in_place_separate_tag(nonce, Aad::from(aad), tag, text)
                .ok()
                .map(|_| ());
        }
        if !TAG_LENS.contains(&tag.len()) {
            return None;
        }
        let first = self.first_counter(nonce)?;
        let expected = self.tag(first, aad, text)?;
        verify_slices_are_equal(&expected[..tag.len()], tag).ok()?;
        self.counter_mode(first, text)
    }

    /// Encrypts in place and gives the tag.
    pub fn seal(&self, nonce: &[u8], aad: &[u8], text: &mut [u8]) -> Option<[u8; TAG_LEN]> {
        if let Ok(nonce) = Nonce::try_assume_unique_for_key(nonce) {
            let tag = self
                .aead
                .seal_in_place_separate_tag(nonce, Aad::from(aad), text)
                .ok()?;
            return tag.as_ref().try_into().ok();
        }
        let first = self.first_counter(nonce)?;
        self.counter_mode(first, text)?;
        self.tag(first, aad, text)
    }

    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Option<()> {
        self.block
            .less_safe_encrypt(blocks, cipher::EncryptionContext::None)
            .ok()
            .map(|_| ())
    }

    /// The hash key H, then the pre-counter block of section 7.1 step 2.
    fn hash_key(&self) -> Option<u128> {
        let mut h = [0; BLOCK];
        self.encrypt_blocks(&mut h)?;
        Some(u128::from_be_bytes(h))
    }

    fn first_counter(&self, nonce: &[u8]) -> Option<u128> {
        if nonce.is_empty() {
            return None;
        }
        let mut padded = [0; BLOCK];
        if nonce.len() == 12 {
            padded[..12].copy_from_slice(nonce);
            padded[15] = 1;
            return Some(u128::from_be_bytes(padded));
        }
        let hash = ghash(self.hash_key()?, 0, nonce);
        Some(multiply(hash ^ (nonce.len() as u128 * 8), self.hash_key()?))
    }

    /// Exclusive or with the encrypted counters after `first`, whose low 32 bits count.
    fn counter_mode(&self, first: u128, text: &mut [u8]) -> Option<()> {
        let mut stream = Vec::with_capacity(text.len().next_multiple_of(BLOCK));
        for i in 1..=text.len().div_ceil(BLOCK) as u32 {
            stream.extend_from_slice(&count(first, i).to_be_bytes());
        }
        if !stream.is_empty() {
            self.encrypt_blocks(&mut stream)?;
        }
        for (c, s) in text.iter_mut().zip(stream) {
            *c ^= s;
        }
        Some(())
    }

    fn tag(&self, first: u128, aad: &[u8], ciphertext: &[u8]) -> Option<[u8; TAG_LEN]> {
        let h = self.hash_key()?;
        let hash = ghash(h, ghash(h, 0, aad), ciphertext);
        let lengths = ((aad.len() as u128 * 8) << 64) | (ciphertext.len() as u128 * 8);
        let hash = multiply(hash ^ lengths, h);
        let mut mask = first.to_be_bytes();
        self.encrypt_blocks(&mut mask)?;
        Some((hash ^ u128::from_be_bytes(mask)).to_be_bytes())
    }
}

fn count(first: u128, i: u32) -> u128 {
    let low = (first as u32).wrapping_add(i);
    first & !u128::from(u32::MAX) | u128::from(low)
}

/// GHASH over the text padded with zeros to whole blocks.
fn ghash(h: u128, mut hash: u128, text: &[u8]) -> u128 {
    for chunk in text.chunks(BLOCK) {
        let mut block = [0; BLOCK];
        block[..chunk.len()].copy_from_slice(chunk);
        hash = multiply(hash ^ u128::from_be_bytes(block), h);
    }
    hash
}

/// Multiplication in GF(2^128) as section 6.3 writes it, without branches on the data.
fn multiply(x: u128, y: u128) -> u128 {
    const R: u128 = 0xe1 << 120;
    let (mut z, mut v) = (0, y);
    for bit in (0..128).rev() {
        z ^= v & (x >> bit & 1).wrapping_neg();
        v = v >> 1 ^ R & (v & 1).wrapping_neg();
    }
    z
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Both ways of one key.
    fn by_hand(key: &Key, nonce: &[u8], aad: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let first = key.first_counter(nonce).unwrap();
        key.counter_mode(first, text).unwrap();
        key.tag(first, aad, text).unwrap()
    }

    proptest! {
        /// Where the library can do it, both give the same.
        #[test]
        fn as_the_library(key: [u8; 32], nonce: [u8; 12], aad: Vec<u8>, text: Vec<u8>) {
            let key = Key::new(&key).unwrap();
            let (mut mine, mut theirs) = (text.clone(), text.clone());
            let tag = key.seal(&nonce, &aad, &mut theirs).unwrap();
            prop_assert_eq!(by_hand(&key, &nonce, &aad, &mut mine), tag);
            prop_assert_eq!(&mine, &theirs);
            prop_assert_eq!(key.open(&nonce, &aad, &tag, &mut mine), Some(()));
            prop_assert_eq!(mine, text);
        }

        #[test]
        fn any_nonce_opens_what_it_sealed(key: [u8; 16], nonce in prop::collection::vec(any::<u8>(), 1..40), text: Vec<u8>) {
            let key = Key::new(&key).unwrap();
            let mut sealed = text.clone();
            let tag = key.seal(&nonce, b"", &mut sealed).unwrap();
            let mut opened = sealed.clone();
            prop_assert_eq!(key.open(&nonce, b"", &tag[..12], &mut opened), Some(()));
            prop_assert_eq!(opened, text);
            let mut bad = tag;
            bad[3] ^= 4;
            prop_assert_eq!(key.open(&nonce, b"", &bad, &mut sealed), None);
        }
    }
}
