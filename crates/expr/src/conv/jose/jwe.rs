//! `jwt_decrypt_*`: encrypted JSON Web Tokens (RFC 7516, compact serialization).
//!
//! Keys are managed as RFC 7518 section 4 says: `dir`, AES key wrap with and without GCM, RSA, and ECDH-ES. Whatever goes
//! wrong gives nothing, so that nobody learns from the answer what it was.

use std::borrow::Cow;
use std::sync::Arc;

use aws_lc_rs::agreement;
use aws_lc_rs::cipher::{self, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey,
    Pkcs1PrivateDecryptingKey, PrivateDecryptingKey,
};

use super::{der, keys};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{
    Base64Operand, as_var, on_bytes, prepared, set_prepared, str_arg, text_arg, var_bytes,
};
use crate::conv::{aes, base64, digest, gcm};
use crate::env::Env;
use crate::value::{Fetched, Sample, Type, Value};
use crate::vars::VarRef;

type Json = serde_json::Value;

/// What decrypts, as the configuration gives it.
enum Source {
    Secret(Base64Operand),
    File(Arc<keys::KeyFile>),
    FileVar(VarRef),
    Jwk(Key),
    JwkVar(VarRef),
}

/// A key that can decrypt.
enum Key {
    Secret(Vec<u8>),
    Rsa(Box<PrivateDecryptingKey>),
    Ec(Curve, agreement::PrivateKey),
}

/// A key for as long as one token needs it.
enum Borrowed<'k> {
    Secret(&'k [u8]),
    Rsa(&'k PrivateDecryptingKey),
    Ec(&'k Curve, &'k agreement::PrivateKey),
}

impl Key {
    fn borrow(&self) -> Borrowed<'_> {
        match self {
            Key::Secret(secret) => Borrowed::Secret(secret),
            Key::Rsa(key) => Borrowed::Rsa(key),
            Key::Ec(curve, key) => Borrowed::Ec(curve, key),
        }
    }
}

/// A curve of RFC 7518 section 6.2.1.1.
struct Curve {
    name: &'static str,
    len: usize,
    algorithm: &'static agreement::Algorithm,
}

const CURVES: [Curve; 3] = [
    Curve {
        name: "P-256",
        len: 32,
        algorithm: &agreement::ECDH_P256,
    },
    Curve {
        name: "P-384",
        len: 48,
        algorithm: &agreement::ECDH_P384,
    },
    Curve {
        name: "P-521",
        len: 66,
        algorithm: &agreement::ECDH_P521,
    },
];

pub fn prepare_secret(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let secret = Base64Operand::parse(args, 0)?;
    set_prepared(args, 0, Source::Secret(secret));
    Ok(())
}

pub fn prepare_certificate(args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    let source = match as_var(str_arg(args, 0)) {
        Some(var) => Source::FileVar(var),
        None => {
            let path = text_arg(args, 0)?;
            let file = keys::load(path, ctx).map_err(|e| BadArg::new(0, e))?;
            if file.private.is_none() {
                return Err(BadArg::new(0, format!("'{path}' holds no RSA private key")));
            }
            Source::File(file)
        }
    };
    set_prepared(args, 0, source);
    Ok(())
}

pub fn prepare_jwk(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let text = str_arg(args, 0);
    let source = match as_var(text) {
        Some(var) => Source::JwkVar(var),
        None => Source::Jwk(parse_jwk(text).ok_or_else(|| {
            BadArg::new(
                0,
                "this is no JSON Web Key of type `oct`, `RSA` (with its primes) or `EC` (with `d`)",
            )
        })?),
    };
    set_prepared(args, 0, source);
    Ok(())
}

/// RFC 7518 section 6.
fn parse_jwk(text: &[u8]) -> Option<Key> {
    let jwk: Json = serde_json::from_slice(text).ok()?;
    let number = |name: &str| base64::decode_url(jwk.get(name)?.as_str()?.as_bytes());
    match jwk.get("kty")?.as_str()? {
        "oct" => number("k").map(Key::Secret),
        "RSA" => {
            let mut numbers = Vec::with_capacity(8);
            for name in ["n", "e", "d", "p", "q", "dp", "dq", "qi"] {
                numbers.push(number(name)?);
            }
            let private = der::rsa_private_key(&numbers.try_into().ok()?);
            let key = PrivateDecryptingKey::from_pkcs8(&der::pkcs8_of_rsa(&private)).ok()?;
            Some(Key::Rsa(Box::new(key)))
        }
        "EC" => {
            let name = jwk.get("crv")?.as_str()?;
            let curve = CURVES.into_iter().find(|c| c.name == name)?;
            let key =
                agreement::PrivateKey::from_private_key(curve.algorithm, &number("d")?).ok()?;
            Some(Key::Ec(curve, key))
        }
        _ => None,
    }
}

pub fn decrypt<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |token| {
        let plain = match prepared::<Source>(args, 0)? {
            Source::Secret(secret) => open(&token, &Borrowed::Secret(&secret.now(env)?)),
            Source::File(file) => open(&token, &Borrowed::Rsa(file.private.as_ref()?)),
            Source::FileVar(var) => {
                let file = keys::known(&var_bytes(var, env, Type::Str)?)?;
                open(&token, &Borrowed::Rsa(file.private.as_ref()?))
            }
            Source::Jwk(key) => open(&token, &key.borrow()),
            Source::JwkVar(var) => open(
                &token,
                &parse_jwk(&var_bytes(var, env, Type::Str)?)?.borrow(),
            ),
        };
        plain.map(|p| Value::Bin(Cow::Owned(p)))
    })
}

/// The plaintext of a token.
fn open(token: &[u8], key: &Borrowed<'_>) -> Option<Vec<u8>> {
    let mut parts = token.split(|c| *c == b'.');
    let header_text = parts.next()?;
    let mut part = || base64::decode_url(parts.next()?);
    let (wrapped, iv, mut text, tag) = (part()?, part()?, part()?, part()?);
    if parts.next().is_some() {
        return None;
    }
    let header: Json = serde_json::from_slice(&base64::decode_url(header_text)?).ok()?;
    // Compressed plaintext and extensions that must be understood are not.
    if header.get("zip").is_some() || header.get("crit").is_some() {
        return None;
    }
    let enc = Encryption::named(header.get("enc")?.as_str()?)?;
    let content_key = content_key(&header, &enc, key, &wrapped)?;
    enc.open(&content_key, &iv, header_text, &mut text, &tag)?;
    Some(text)
}

/// How the content is encrypted (section 5.1): GCM, or CBC with a MAC whose key is the first half.
struct Encryption {
    key_len: usize,
    mac: Option<digest::Algorithm>,
}

impl Encryption {
    fn named(name: &str) -> Option<Encryption> {
        let (key_len, mac) = match name {
            "A128GCM" => (16, None),
            "A192GCM" => (24, None),
            "A256GCM" => (32, None),
            "A128CBC-HS256" => (32, Some(digest::Algorithm::SHA256)),
            "A192CBC-HS384" => (48, Some(digest::Algorithm::SHA384)),
            "A256CBC-HS512" => (64, Some(digest::Algorithm::SHA512)),
            _ => return None,
        };
        Some(Encryption { key_len, mac })
    }

    fn open(
        &self,
        key: &[u8],
        iv: &[u8],
        aad: &[u8],
        text: &mut Vec<u8>,
        tag: &[u8],
    ) -> Option<()> {
        if key.len() != self.key_len {
            return None;
        }
        let Some(mac) = self.mac else {
            let standard = iv.len() == 12 && tag.len() == gcm::TAG_LEN;
            return standard
                .then(|| gcm::Key::new(key)?.open(iv, aad, tag, text))
                .flatten();
        };
        let (mac_key, key) = key.split_at(key.len() / 2);
        let bits = (aad.len() as u64 * 8).to_be_bytes();
        let authentic = mac.hmac(mac_key, &[aad, iv, text, &bits]);
        verify_slices_are_equal(authentic.as_ref().get(..mac_key.len())?, tag).ok()?;
        let len = aes::decrypt_cbc(block_key(key)?, iv.try_into().ok()?, text)?;
        text.truncate(len);
        Some(())
    }
}

fn block_key(key: &[u8]) -> Option<UnboundCipherKey> {
    let algorithm = match key.len() {
        16 => &cipher::AES_128,
        24 => &cipher::AES_192,
        32 => &cipher::AES_256,
        _ => return None,
    };
    UnboundCipherKey::new(algorithm, key).ok()
}

/// The key of the content by the header's `alg`.
fn content_key(
    header: &Json,
    enc: &Encryption,
    key: &Borrowed<'_>,
    wrapped: &[u8],
) -> Option<Vec<u8>> {
    let alg = header.get("alg")?.as_str()?;
    match (alg, key) {
        ("dir", Borrowed::Secret(secret)) => wrapped.is_empty().then(|| secret.to_vec()),
        ("A128KW" | "A192KW" | "A256KW", Borrowed::Secret(secret)) => (secret.len()
            == wrap_key_len(alg)?)
        .then(|| unwrap_key(secret, wrapped))
        .flatten(),
        ("A128GCMKW" | "A192GCMKW" | "A256GCMKW", Borrowed::Secret(secret)) => {
            let member = |name: &str| base64::decode_url(header.get(name)?.as_str()?.as_bytes());
            let (iv, tag) = (member("iv")?, member("tag")?);
            if secret.len() != wrap_key_len(alg)? || iv.len() != 12 || tag.len() != gcm::TAG_LEN {
                return None;
            }
            let mut content_key = wrapped.to_vec();
            gcm::Key::new(secret)?.open(&iv, &[], &tag, &mut content_key)?;
            Some(content_key)
        }
        ("RSA-OAEP" | "RSA-OAEP-256", Borrowed::Rsa(key)) => {
            let padding = if alg == "RSA-OAEP" {
                &OAEP_SHA1_MGF1SHA1
            } else {
                &OAEP_SHA256_MGF1SHA256
            };
            let key = OaepPrivateDecryptingKey::new(PrivateDecryptingKey::clone(key)).ok()?;
            let mut out = vec![0; key.min_output_size()];
            Some(key.decrypt(padding, wrapped, &mut out, None).ok()?.to_vec())
        }
        ("RSA1_5", Borrowed::Rsa(key)) => {
            // A wrong padding goes on with a random key (RFC 7516 section 11.5), so that it fails where a wrong tag does.
            let mut content_key = vec![0; enc.key_len];
            aws_lc_rs::rand::fill(&mut content_key).ok()?;
            let key = Pkcs1PrivateDecryptingKey::new(PrivateDecryptingKey::clone(key)).ok()?;
            let mut out = vec![0; key.min_output_size()];
            if let Ok(plain) = key.decrypt(wrapped, &mut out)
                && plain.len() == enc.key_len
            {
                content_key.copy_from_slice(plain);
            }
            Some(content_key)
        }
        ("ECDH-ES", Borrowed::Ec(curve, key)) => {
            let id = header.get("enc")?.as_str()?;
            wrapped
                .is_empty()
                .then(|| agree(header, curve, key, id, enc.key_len))
                .flatten()
        }
        ("ECDH-ES+A128KW" | "ECDH-ES+A192KW" | "ECDH-ES+A256KW", Borrowed::Ec(curve, key)) => {
            let len = wrap_key_len(alg.strip_prefix("ECDH-ES+")?)?;
            unwrap_key(&agree(header, curve, key, alg, len)?, wrapped)
        }
        _ => None,
    }
}

/// The bits in the name of an AES key wrap.
fn wrap_key_len(alg: &str) -> Option<usize> {
    alg.get(1..4)?.parse::<usize>().ok().map(|bits| bits / 8)
}

/// AES key wrap backwards (RFC 3394 section 2.2.2).
fn unwrap_key(key: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    const HALF: usize = 8;
    const CHECK: [u8; HALF] = [0xa6; HALF];
    let count = wrapped.len() / HALF;
    if !wrapped.len().is_multiple_of(HALF) || count < 3 {
        return None;
    }
    let aes = DecryptingKey::ecb(block_key(key)?).ok()?;
    let (head, tail) = wrapped.split_at(HALF);
    let mut register = u64::from_be_bytes(head.try_into().ok()?);
    let mut out = tail.to_vec();
    for round in (0..6).rev() {
        for at in (0..count - 1).rev() {
            let step = ((count - 1) * round + at + 1) as u64;
            let half = &mut out[at * HALF..(at + 1) * HALF];
            let mut block = [0; 2 * HALF];
            block[..HALF].copy_from_slice(&(register ^ step).to_be_bytes());
            block[HALF..].copy_from_slice(half);
            aes.decrypt(&mut block, DecryptionContext::None).ok()?;
            half.copy_from_slice(&block[HALF..]);
            register = u64::from_be_bytes(block[..HALF].try_into().ok()?);
        }
    }
    verify_slices_are_equal(&register.to_be_bytes(), &CHECK).ok()?;
    Some(out)
}

/// ECDH-ES (RFC 7518 section 4.6): agreement with the ephemeral key of the header, then the concatenation KDF.
fn agree(
    header: &Json,
    curve: &Curve,
    key: &agreement::PrivateKey,
    id: &str,
    len: usize,
) -> Option<Vec<u8>> {
    let peer = header.get("epk")?;
    let member = |from: &Json, name: &str| base64::decode_url(from.get(name)?.as_str()?.as_bytes());
    let (x, y) = (member(peer, "x")?, member(peer, "y")?);
    if peer.get("crv")?.as_str()? != curve.name || x.len() != curve.len || y.len() != curve.len {
        return None;
    }
    let info = |name: &str| match header.get(name) {
        Some(_) => member(header, name),
        None => Some(Vec::new()),
    };
    let (party_u, party_v) = (info("apu")?, info("apv")?);
    let with_len = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let other_info = [
        with_len(id.as_bytes()),
        with_len(&party_u),
        with_len(&party_v),
        (len as u32 * 8).to_be_bytes().to_vec(),
    ]
    .concat();
    let point = [&[4][..], &x, &y].concat();
    let peer = agreement::UnparsedPublicKey::new(curve.algorithm, point);
    agreement::agree(key, peer, (), |secret| {
        let mut out = Vec::with_capacity(len + 32);
        for round in 1..=len.div_ceil(32) as u32 {
            let hash = digest::Algorithm::SHA256.hash(&[&round.to_be_bytes(), secret, &other_info]);
            out.extend_from_slice(hash.as_ref());
        }
        out.truncate(len);
        Ok(out)
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conv::testing::{World, check_refused};

    const TOKENS: &str = include_str!("../../../testdata/jwt/jwe.txt");
    const PLAIN: &[u8] = b"{\"sub\":\"sluice\",\"n\":7}";

    fn jwks() -> Json {
        serde_json::from_str(include_str!("../../../testdata/jwt/jwk.json")).unwrap()
    }

    /// Algorithm, encryption, key's name and token.
    fn tokens() -> impl Iterator<Item = [&'static str; 4]> {
        TOKENS.lines().filter(|l| !l.starts_with('#')).map(|l| {
            let words: Vec<&str> = l.split(' ').collect();
            words.try_into().expect("four words")
        })
    }

    #[test]
    fn every_algorithm_by_its_jwk() {
        let jwks = jwks();
        for [alg, enc, name, token] in tokens() {
            let world = World::new(token.as_bytes());
            let jwk = jwks[name].to_string();
            let got = world.run(&format!("hdr,jwt_decrypt_jwk('{jwk}')")).unwrap();
            let compressed = String::from_utf8_lossy(
                &base64::decode_url(token.split('.').next().unwrap().as_bytes()).unwrap(),
            )
            .contains("zip");
            assert_eq!(
                got,
                (!compressed).then(|| PLAIN.to_vec()),
                "{alg} {enc} {name}"
            );
        }
    }

    #[test]
    fn secrets_and_files() {
        for [alg, enc, name, token] in tokens() {
            let world = World::new(token.as_bytes());
            let expr = match name {
                "rsa" => concat!(
                    "hdr,jwt_decrypt_cert(",
                    env!("CARGO_MANIFEST_DIR"),
                    "/testdata/jwt/rsa-bundle.pem)"
                )
                .to_string(),
                name if name.starts_with("oct") => {
                    let secret: Vec<u8> = (0..name[3..].parse().unwrap()).collect();
                    format!(
                        "hdr,jwt_decrypt_secret({})",
                        String::from_utf8(base64::encode(&secret)).unwrap()
                    )
                }
                _ => continue,
            };
            let compressed = world
                .run("hdr,jwt_header_query('$.zip')")
                .unwrap()
                .is_some();
            assert_eq!(
                world.run(&expr).unwrap(),
                (!compressed).then(|| PLAIN.to_vec()),
                "{alg} {enc} {name}"
            );
            // The wrong key opens nothing.
            assert_eq!(
                world
                    .run("hdr,jwt_decrypt_secret(QUFBQUFBQUFBQUFBQUFBQQ==)")
                    .unwrap(),
                None,
                "{alg} {enc}"
            );
        }
    }

    /// Whatever is changed, nothing comes out.
    #[test]
    fn changed_tokens_are_refused() {
        let jwks = jwks();
        for [alg, enc, name, token] in tokens() {
            let Some(key) = parse_jwk(jwks[name].to_string().as_bytes()) else {
                panic!("{name}")
            };
            for (part, text) in token.split('.').enumerate() {
                let mut bytes = base64::decode_url(text.as_bytes()).unwrap();
                let Some(byte) = bytes.last_mut() else {
                    continue;
                };
                *byte ^= 1;
                let changed: Vec<String> = token
                    .split('.')
                    .enumerate()
                    .map(|(i, t)| {
                        if i == part {
                            base64::encode_url(&bytes)
                        } else {
                            t.to_string()
                        }
                    })
                    .collect();
                assert_eq!(
                    open(changed.join(".").as_bytes(), &key.borrow()),
                    None,
                    "{alg} {enc}: part {part}"
                );
            }
            let (short, _) = token.rsplit_once('.').unwrap();
            assert_eq!(open(short.as_bytes(), &key.borrow()), None);
            assert_eq!(open(format!("{token}.x").as_bytes(), &key.borrow()), None);
        }
    }

    /// RFC 7518 appendix C.
    #[test]
    fn the_agreement_of_the_rfc() {
        let jwk = br#"{"kty":"EC","crv":"P-256","x":"weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ",
            "y":"e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"}"#;
        let header: Json = serde_json::from_str(
            r#"{"alg":"ECDH-ES","enc":"A128GCM","apu":"QWxpY2U","apv":"Qm9i","epk":{"kty":"EC","crv":"P-256",
            "x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0","y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps"}}"#,
        )
        .unwrap();
        let Some(Key::Ec(curve, key)) = parse_jwk(jwk) else {
            panic!("an EC key")
        };
        let derived = agree(&header, &curve, &key, "A128GCM", 16).unwrap();
        assert_eq!(base64::encode_url(&derived), "VqqN6vgjbSBcIijNcacQGg");
    }

    /// RFC 3394 section 4.6.
    #[test]
    fn the_key_wrap_of_the_rfc() {
        let key: Vec<u8> = (0..32).collect();
        let wrapped = [
            0x28, 0xC9, 0xF4, 0x04, 0xC4, 0xB8, 0x10, 0xF4, 0xCB, 0xCC, 0xB3, 0x5C, 0xFB, 0x87,
            0xF8, 0x26, 0x3F, 0x57, 0x86, 0xE2, 0xD8, 0x0E, 0xD3, 0x26, 0xCB, 0xC7, 0xF0, 0xE7,
            0x1A, 0x99, 0xF4, 0x3B, 0xFB, 0x98, 0x8B, 0x9B, 0x7A, 0x02, 0xDD, 0x21,
        ];
        let plain = unwrap_key(&key, &wrapped).unwrap();
        let expect: Vec<u8> = (0..8)
            .map(|i| i * 0x11)
            .chain((8..16).map(|i| i * 0x11))
            .chain(0..16)
            .collect();
        assert_eq!(plain, expect);
    }

    #[test]
    fn bad_keys_are_refused() {
        check_refused(&[
            ("str(a),jwt_decrypt_secret(!)", "base64"),
            ("str(a),jwt_decrypt_jwk('{}')", "JSON Web Key"),
            (
                "str(a),jwt_decrypt_jwk('{\"kty\":\"RSA\",\"n\":\"AQ\",\"e\":\"AQ\"}')",
                "JSON Web Key",
            ),
            ("str(a),jwt_decrypt_cert(/nowhere/x.pem)", "x.pem"),
        ]);
    }

    proptest! {
        #[test]
        fn any_token_may_be_opened(header in r#"\{"alg":"(dir|A128KW|A128GCMKW)","enc":"(A128GCM|A128CBC-HS256)"(,"iv":"AA")?\}"#, rest: [Vec<u8>; 4]) {
            let parts: Vec<String> = rest.iter().map(|r| base64::encode_url(r)).collect();
            let token = format!("{}.{}", base64::encode_url(header.as_bytes()), parts.join("."));
            prop_assert_eq!(open(token.as_bytes(), &Borrowed::Secret(&[1; 16])), None);
        }
    }
}
