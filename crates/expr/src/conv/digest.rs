//! Message digests and authentication codes: `sha1`, `sha2`, `digest`, `hmac`.

use std::borrow::Cow;

use aws_lc_rs::digest as aws;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::md5::Md5;
use crate::conv::operand::{Base64Operand, int_arg, on_bytes, prepared, set_prepared, str_arg};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "sha1" () Bin -> Bin, |_, s, _| on_bytes(s, |s| Some(bin(Algorithm::SHA1.hash(&[&s])))) => "The SHA-1 digest, 20 bytes.";
    "sha2" (; Sint) Bin -> Bin, digest, prepare prepare_sha2
        => "A SHA-2 digest of 224, 256 (the default), 384 or 512 bits.";
    "digest" (Str) Bin -> Bin, digest, prepare prepare_digest => "The digest by the algorithm of that name, like `sha256`.";
    "hmac" (Str, Str) Bin -> Bin, hmac, prepare prepare_hmac
        => "The message authentication code (RFC 2104) by a digest and a key, which is base64 or a variable holding base64.";
}

/// What a server answers to a `Sec-WebSocket-Key` to prove that it took part in the handshake (RFC 6455 section 4.2.2).
pub fn websocket_accept(key: &[u8]) -> String {
    use base64::Engine;
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let hash = Algorithm::SHA1.hash(&[key, GUID]);
    base64::engine::general_purpose::STANDARD.encode(hash.as_ref())
}

/// A digest algorithm.
#[derive(Clone, Copy)]
pub enum Algorithm {
    Md5,
    Aws(&'static aws::Algorithm),
}

/// A digest, kept on the stack.
pub struct Hash {
    bytes: [u8; aws::MAX_OUTPUT_LEN],
    len: usize,
}

impl Hash {
    fn of(bytes: &[u8]) -> Hash {
        let mut hash = Hash {
            bytes: [0; aws::MAX_OUTPUT_LEN],
            len: bytes.len(),
        };
        hash.bytes[..bytes.len()].copy_from_slice(bytes);
        hash
    }
}

impl AsRef<[u8]> for Hash {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The names that OpenSSL and so HAProxy know them by, in lower case; the first of each is shown.
const NAMES: &[(&[&str], Algorithm)] = &[
    (&["md5", "ssl3-md5"], Algorithm::Md5),
    (&["sha1", "sha-1", "ssl3-sha1"], Algorithm::SHA1),
    (
        &["sha224", "sha2-224", "sha-224"],
        Algorithm::Aws(&aws::SHA224),
    ),
    (&["sha256", "sha2-256", "sha-256"], Algorithm::SHA256),
    (
        &["sha384", "sha2-384", "sha-384"],
        Algorithm::Aws(&aws::SHA384),
    ),
    (
        &["sha512", "sha2-512", "sha-512"],
        Algorithm::Aws(&aws::SHA512),
    ),
    (
        &["sha512-256", "sha2-512/256", "sha-512/256"],
        Algorithm::Aws(&aws::SHA512_256),
    ),
    (&["sha3-256"], Algorithm::Aws(&aws::SHA3_256)),
    (&["sha3-384"], Algorithm::Aws(&aws::SHA3_384)),
    (&["sha3-512"], Algorithm::Aws(&aws::SHA3_512)),
];

/// The largest input block of the algorithms (SHA3-256's); HMAC pads its key to it.
const BLOCK_MAX: usize = 136;

/// A message to be authenticated comes in up to this many parts.
const MESSAGE_PARTS_MAX: usize = 4;

impl Algorithm {
    pub const SHA1: Algorithm = Algorithm::Aws(&aws::SHA1_FOR_LEGACY_USE_ONLY);
    pub const SHA256: Algorithm = Algorithm::Aws(&aws::SHA256);
    pub const SHA384: Algorithm = Algorithm::Aws(&aws::SHA384);
    pub const SHA512: Algorithm = Algorithm::Aws(&aws::SHA512);

    /// The algorithm of that OpenSSL name, in any case.
    pub fn named(name: &str) -> Option<Algorithm> {
        let name = name.to_ascii_lowercase();
        NAMES
            .iter()
            .find_map(|(names, algorithm)| names.contains(&name.as_str()).then_some(*algorithm))
    }

    /// The digest of the parts joined.
    pub fn hash(self, parts: &[&[u8]]) -> Hash {
        match self {
            Algorithm::Md5 => {
                let mut md5 = Md5::new();
                parts.iter().for_each(|p| md5.update(p));
                Hash::of(&md5.finish())
            }
            Algorithm::Aws(algorithm) => {
                let mut context = aws::Context::new(algorithm);
                parts.iter().for_each(|p| context.update(p));
                Hash::of(context.finish().as_ref())
            }
        }
    }

    fn block_len(self) -> usize {
        match self {
            Algorithm::Md5 => Md5::BLOCK_LEN,
            Algorithm::Aws(algorithm) => algorithm.block_len(),
        }
    }

    /// RFC 2104, of a message in up to four parts.
    pub fn hmac(self, key: &[u8], message: &[&[u8]]) -> Hash {
        debug_assert!(self.block_len() <= BLOCK_MAX);
        debug_assert!(message.len() <= MESSAGE_PARTS_MAX);
        let hashed;
        let key = if key.len() > self.block_len() {
            hashed = self.hash(&[key]);
            hashed.as_ref()
        } else {
            key
        };
        let pad = |byte: u8| {
            let mut block = [byte; BLOCK_MAX];
            for (b, k) in block.iter_mut().zip(key) {
                *b ^= k;
            }
            block
        };
        let (inner, outer) = (pad(0x36), pad(0x5c));
        let mut parts = [&[][..]; 1 + MESSAGE_PARTS_MAX];
        parts[0] = &inner[..self.block_len()];
        for (slot, part) in parts[1..].iter_mut().zip(message) {
            *slot = part;
        }
        let inner = self.hash(&parts);
        self.hash(&[&outer[..self.block_len()], inner.as_ref()])
    }
}

fn bin(hash: Hash) -> Value<'static> {
    Value::Bin(Cow::Owned(hash.as_ref().to_vec()))
}

fn prepare_sha2(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let algorithm = match int_arg(args, 0).unwrap_or(256) {
        bits @ (224 | 256 | 384 | 512) => Algorithm::named(&format!("sha{bits}")),
        _ => None,
    };
    let algorithm =
        algorithm.ok_or_else(|| BadArg::new(0, "SHA-2 has 224, 256, 384 or 512 bits"))?;
    set_prepared(args, 0, algorithm);
    Ok(())
}

fn prepare_digest(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let name = String::from_utf8_lossy(str_arg(args, 0)).into_owned();
    let algorithm = Algorithm::named(&name).ok_or_else(|| {
        let known: Vec<&str> = NAMES
            .iter()
            .filter_map(|(names, _)| names.first().copied())
            .collect();
        BadArg::new(
            0,
            format!(
                "no message digest is called '{name}'; there are {}",
                known.join(", ")
            ),
        )
    })?;
    set_prepared(args, 0, algorithm);
    Ok(())
}

fn prepare_hmac(args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    prepare_digest(args, ctx)?;
    let key = Base64Operand::parse(args, 1)?;
    set_prepared(args, 1, key);
    Ok(())
}

fn digest<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        Some(bin(prepared::<Algorithm>(args, 0)?.hash(&[&s])))
    })
}

fn hmac<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let key = prepared::<Base64Operand>(args, 1)?.now(env)?;
        Some(bin(prepared::<Algorithm>(args, 0)?.hmac(&key, &[&s])))
    })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_refused};

    #[test]
    fn digests() {
        check_all(&[
            (
                "str(abc),sha1,hex",
                Some("A9993E364706816ABA3E25717850C26C9CD0D89D"),
            ),
            (
                "str(),sha1,hex",
                Some("DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"),
            ),
            (
                "str(abc),sha2,hex",
                Some("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            ),
            (
                "str(abc),sha2(224),hex",
                Some("23097D223405D8228642A477BDA255B32AADBCE4BDA0B3F7E36C9DA7"),
            ),
            ("str(abc),sha2(384),hex,length", Some("96")),
            ("str(abc),sha2(512),xxh64", Some("-58470345853189853")),
            (
                "str(abc),digest(SHA-256),hex",
                Some("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            ),
            ("str(abc),digest(SHA2-256),crc32", Some("4118156274")),
            ("str(abc),digest(sha1),crc32", Some("3044858200")),
            ("str(abc),digest(sha224),crc32", Some("2470813021")),
            ("str(abc),digest(sha384),crc32", Some("529558914")),
            ("str(abc),digest(sha512),crc32", Some("1654057427")),
            (
                "str(abc),digest(sha512-256),hex",
                Some("53048E2681941EF99B2E29B76B4C7DABE4C2D0C634FC6D46E0E2F13107E7AF23"),
            ),
            (
                "str(abc),digest(sha3-256),hex",
                Some("3A985DA74FE225B2045C172D6BD390BD855F086E3E9D525B46BFE24511431532"),
            ),
            ("str(abc),digest(sha3-384),crc32", Some("3503550497")),
            ("str(abc),digest(sha3-512),crc32", Some("1445694876")),
            ("int(1),digest(sha1),crc32", Some("2032632051")),
            ("bool(true),sha1,crc32", Some("2032632051")),
        ]);
        check_refused(&[
            ("str(a),sha2(1)", "224, 256"),
            ("str(a),digest(nope)", "nope"),
        ]);
    }

    #[test]
    fn md5() {
        check_all(&[
            (
                "str(abc),digest(md5),hex",
                Some("900150983CD24FB0D6963F7D28E17F72"),
            ),
            (
                "str(),digest(MD5),hex",
                Some("D41D8CD98F00B204E9800998ECF8427E"),
            ),
            (
                "str(1234567890123456789012345678901234567890123456789012345),digest(md5),hex",
                Some("C9CCF168914A1BCFC3229F1948E67DA0"),
            ),
            (
                "str(12345678901234567890123456789012345678901234567890123456),digest(md5),hex",
                Some("49F193ADCE178490E34D1B3A4EC0064C"),
            ),
            (
                "str(1234567890123456789012345678901234567890123456789012345678901234),digest(md5),hex",
                Some("EB6C4179C0A7C82CC2828C1E6338E165"),
            ),
            (
                "str(12345678901234567890123456789012345678901234567890123456789012345678901234567890),digest(md5),hex",
                Some("57EDF4A22BE3C955AC49DA2E2107B67A"),
            ),
        ]);
    }

    #[test]
    fn codes() {
        check_all(&[
            (
                "str(abc),hmac(sha256,a2V5),hex",
                Some("9C196E32DC0175F86F4B1CB89289D6619DE6BEE699E4C378E68309ED97A1A6AB"),
            ),
            (
                "str(abc),hmac(sha256,txn.str),hex",
                Some("8826C3CA8C22B2DA8CD3B458BB00B7500303F711AE331984F35DE6523F5D4C62"),
            ),
            (
                "str(abc),hmac(sha256,),hex",
                Some("FD7ADB152C05EF80DCCF50A1FA4C05D5A3EC6DA95575FC312AE7C5D091836351"),
            ),
            (
                "str(abc),hmac(md5,a2V5),hex",
                Some("D2FE98063F876B03193AFB49B4979591"),
            ),
            (
                "str(abc),hmac(sha1,a2V5),hex",
                Some("4FD0B215276EF12F2B3E4C8ECAC2811498B656FC"),
            ),
            (
                "str(abc),hmac(sha3-256,a2V5),hex",
                Some("09B6DBAB8D11795CA7C8D82F1CF91682013C7CB980ABBB25473BE4AE7F7B5683"),
            ),
            ("str(abc),hmac(sha3-512,a2V5),crc32", Some("2377753404")),
            ("str(abc),hmac(sha512-256,a2V5),crc32", Some("1621266181")),
            (
                "str(abc),hmac(sha1,QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB),hex",
                Some("9F335B1FBF716FA4AE31712A6CEC47494D4F8CD6"),
            ),
            ("str(abc),hmac(sha256,txn.missing),hex", None),
            ("str(abc),hmac(sha256,txn.num),hex", None),
        ]);
        check_refused(&[
            ("str(a),hmac(sha256,key)", "base64"),
            ("str(a),hmac(nope,a2V5)", "nope"),
        ]);
    }
}
