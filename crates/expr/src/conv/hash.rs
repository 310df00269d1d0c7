//! Hashes and checksums that are not for security: CRC32, CRC32c, DJB2, SDBM, WT6, xxHash. The functions are public
//! because the consistent hashing of the balancing algorithms must give the same results.

use xxhash_rust::{xxh3, xxh32, xxh64};

use crate::args::Arg;
use crate::conv::operand::{int_arg, on_bytes};
use crate::value::{Fetched, Sample, Value};

converters! {
    "crc32" (; Sint) Bin -> Sint, |args, s, _| hash32(args, s, crc32)
        => "CRC-32 as in Ethernet and gzip; an argument of 1 adds a full avalanche.";
    "crc32c" (; Sint) Bin -> Sint, |args, s, _| hash32(args, s, crc32c)
        => "CRC-32C as in RFC 4960 appendix B; an argument of 1 adds a full avalanche.";
    "djb2" (; Sint) Bin -> Sint, |args, s, _| hash32(args, s, djb2)
        => "The DJB2 hash of 32 bits; an argument of 1 adds a full avalanche.";
    "sdbm" (; Sint) Bin -> Sint, |args, s, _| hash32(args, s, sdbm)
        => "The SDBM hash of 32 bits; an argument of 1 adds a full avalanche.";
    "wt6" (; Sint) Bin -> Sint, |args, s, _| hash32(args, s, wt6)
        => "The WT6 hash of 32 bits; an argument of 1 adds a full avalanche.";
    "xxh32" (; Sint) Bin -> Sint, |args, s, _| seeded(args, s, |s, seed| i64::from(xxh32::xxh32(s, seed as u32)))
        => "xxHash of 32 bits; the argument is the seed.";
    "xxh64" (; Sint) Bin -> Sint, |args, s, _| seeded(args, s, |s, seed| xxh64::xxh64(s, seed as u64) as i64)
        => "xxHash of 64 bits, signed; the argument is the seed.";
    "xxh3" (; Sint) Bin -> Sint, |args, s, _| seeded(args, s, |s, seed| xxh3::xxh3_64_with_seed(s, seed as u64) as i64)
        => "XXH3 of 64 bits, signed; the argument is the seed.";
}

fn hash32<'a>(args: &[Arg], sample: Sample<'a>, hash: fn(&[u8]) -> u32) -> Fetched<'a> {
    let spread = int_arg(args, 0).unwrap_or(0) != 0;
    on_bytes(sample, |s| {
        let h = hash(&s);
        Some(Value::Sint(i64::from(if spread {
            avalanche(h)
        } else {
            h
        })))
    })
}

fn seeded<'a>(args: &[Arg], sample: Sample<'a>, hash: fn(&[u8], i64) -> i64) -> Fetched<'a> {
    let seed = int_arg(args, 0).unwrap_or(0);
    on_bytes(sample, |s| Some(Value::Sint(hash(&s, seed))))
}

/// Bob Jenkins' full avalanche of 32 bits, then a multiplication by a large prime so that close values part.
pub fn avalanche(a: u32) -> u32 {
    let a = a.wrapping_add(0x7ed5_5d16).wrapping_add(a << 12);
    let a = (a ^ 0xc761_c23c) ^ (a >> 19);
    let a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    let a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    let a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    let a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(3_221_225_473)
}

/// The table of a reflected CRC of 32 bits.
const fn crc_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ polynomial
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

fn crc(table: &[u32; 256], bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, b| {
        crc >> 8 ^ table[usize::from(crc as u8 ^ b)]
    })
}

/// CRC-32 (IEEE 802.3).
pub fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: [u32; 256] = crc_table(0xedb8_8320);
    crc(&TABLE, bytes)
}

/// CRC-32C (Castagnoli).
pub fn crc32c(bytes: &[u8]) -> u32 {
    static TABLE: [u32; 256] = crc_table(0x82f6_3b78);
    crc(&TABLE, bytes)
}

/// D. J. Bernstein's hash, multiplying by 33.
pub fn djb2(bytes: &[u8]) -> u32 {
    bytes.iter().fold(5381, |h: u32, b| {
        h.wrapping_mul(33).wrapping_add(u32::from(*b))
    })
}

/// The hash of the sdbm library, multiplying by 65599.
pub fn sdbm(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |h: u32, b| {
        h.wrapping_mul(65599).wrapping_add(u32::from(*b))
    })
}

/// W. Tarreau's hash, whose rotations depend on the data.
pub fn wt6(bytes: &[u8]) -> u32 {
    let (mut h0, mut h1): (u32, u32) = (0xa53c_965a, 0x5ca6_953a);
    let (mut step0, mut step1) = (6, 18);
    for b in bytes {
        let t = u32::from(*b);
        h0 = !(h0 ^ t);
        h1 = !h1.wrapping_add(t);
        (h0, h1) = (h1.rotate_left(step0), h0.rotate_left(step1));
        let t = (h0 >> 16 ^ h1) & 0xffff;
        step0 = t & 0x1f;
        step1 = t >> 11;
    }
    h0 ^ h1
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::check_all;

    #[test]
    fn plain() {
        check_all(&[
            ("str(abc),crc32", Some("891568578")),
            ("str(),crc32", Some("0")),
            ("int(5),crc32", Some("357051366")),
            ("str(abc),crc32c", Some("910901175")),
            (
                "str(The quick brown fox jumps over the lazy dog),crc32c",
                Some("576848900"),
            ),
            ("str(abc),djb2", Some("193485963")),
            ("bin(ff80fe),djb2", Some("193659170")),
            ("str(),djb2", Some("5381")),
            ("str(abc),sdbm", Some("807794786")),
            ("bin(ff80fe),sdbm", Some("2115080701")),
            ("str(),sdbm", Some("0")),
            ("str(abc),wt6", Some("2483038440")),
            ("bin(ff80fe),wt6", Some("3563764952")),
            ("str(),wt6", Some("4187620192")),
            (
                "str(The quick brown fox jumps over the lazy dog),wt6",
                Some("3840389189"),
            ),
        ]);
    }

    #[test]
    fn with_avalanche() {
        check_all(&[
            ("str(abc),crc32(0)", Some("891568578")),
            ("str(abc),crc32(1)", Some("930845320")),
            ("str(abc),crc32(2)", Some("930845320")),
            ("str(),crc32(1)", Some("2874071335")),
            ("str(abc),crc32c(1)", Some("1285784220")),
            ("str(abc),djb2(1)", Some("2235766107")),
            ("str(abc),sdbm(1)", Some("659243622")),
            ("str(abc),wt6(1)", Some("266135527")),
        ]);
    }

    #[test]
    fn xxhash() {
        check_all(&[
            ("str(abc),xxh32", Some("852579327")),
            ("str(abc),xxh32(7)", Some("1473238068")),
            ("str(abc),xxh32(-1)", Some("2989167648")),
            ("str(abc),xxh32(4294967297)", Some("2856167679")),
            ("str(),xxh32", Some("46947589")),
            ("str(abc),xxh64", Some("4952883123889572249")),
            ("str(abc),xxh64(7)", Some("-7028621457359472937")),
            ("str(abc),xxh64(-1)", Some("2895935887265243510")),
            ("str(),xxh64", Some("-1205034819632174695")),
            ("str(abc),xxh3", Some("8696274497037089104")),
            ("str(abc),xxh3(7)", Some("5260018501835528466")),
            ("str(abc),xxh3(-1)", Some("2962310483463817673")),
            ("str(),xxh3", Some("3244421341483603138")),
            (
                "str(The quick brown fox jumps over the lazy dog The quick brown fox jumps over the lazy dog The quick brown \
                fox jumps over the lazy dog The quick brown fox jumps over the lazy dog The quick brown fox jumps over \
                the lazy dog The quick brown fox jumps over the lazy dog),xxh3",
                Some("2596873632820298898"),
            ),
        ]);
    }
}
