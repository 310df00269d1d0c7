//! AES converters: `aes_gcm_*` with authentication, `aes_cbc_*` with PKCS#7 padding. Keys, nonces and tags are base64, or
//! variables holding base64.

use std::borrow::Cow;

use aws_lc_rs::cipher::{
    self, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::base64;
use crate::conv::gcm;
use crate::conv::operand::{
    Base64Operand, int_arg, need_var, on_bytes, prepared, set_prepared, str_arg,
};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};
use crate::vars::VarRef;

converters! {
    "aes_gcm_dec" (Sint, Str, Str, Str; Str) Bin -> Bin, gcm_dec, prepare prepare_gcm_dec
        => "Decrypts AES-GCM of 128, 192 or 256 bits with a nonce, a key, a tag and additional data; nothing when the tag \
            does not match.";
    "aes_gcm_enc" (Sint, Str, Str, Str; Str) Bin -> Bin, gcm_enc, prepare prepare_gcm_enc
        => "Encrypts with AES-GCM of 128, 192 or 256 bits, a nonce and a key; the tag goes in base64 to the variable named, and \
            additional data may follow.";
    "aes_cbc_dec" (Sint, Str, Str; Str) Bin -> Bin, cbc_dec, prepare prepare_cbc
        => "Decrypts AES-CBC of 128, 192 or 256 bits with an initialization vector and a key; nothing when the padding is wrong.";
    "aes_cbc_enc" (Sint, Str, Str; Str) Bin -> Bin, cbc_enc, prepare prepare_cbc
        => "Encrypts with AES-CBC of 128, 192 or 256 bits, an initialization vector and a key.";
}

/// The arguments common to all: the key is one of the size wanted, or known only when it runs.
struct Params {
    key_len: usize,
    nonce: Base64Operand,
    key: Base64Operand,
    /// Made of a key that is written in the configuration.
    gcm: Option<gcm::Key>,
    aad: Option<Base64Operand>,
}

impl Params {
    fn parse(args: &[Arg], aad_index: usize) -> Result<Params, BadArg> {
        let key_len = match int_arg(args, 0) {
            Some(bits @ (128 | 192 | 256)) => bits as usize / 8,
            _ => return Err(BadArg::new(0, "AES has keys of 128, 192 or 256 bits")),
        };
        let key = Base64Operand::parse(args, 2)?;
        let gcm = match &key {
            Base64Operand::Literal(bytes) if bytes.len() < key_len => {
                return Err(BadArg::new(
                    2,
                    format!("the key has {} bytes, {key_len} are needed", bytes.len()),
                ));
            }
            Base64Operand::Literal(bytes) => gcm::Key::new(&bytes[..key_len]),
            Base64Operand::Var(_) => None,
        };
        let aad = match str_arg(args, aad_index) {
            b"" => None,
            _ => Some(Base64Operand::parse(args, aad_index)?),
        };
        Ok(Params {
            key_len,
            nonce: Base64Operand::parse(args, 1)?,
            key,
            gcm,
            aad,
        })
    }

    /// The key's first bytes: HAProxy takes a longer key so.
    fn key_bytes(&self, env: &dyn Env) -> Option<Cow<'_, [u8]>> {
        let key = self.key.now(env)?;
        (key.len() >= self.key_len).then_some(key)
    }

    fn with_gcm<R>(
        &self,
        env: &dyn Env,
        run: impl FnOnce(&gcm::Key, &[u8], &[u8]) -> Option<R>,
    ) -> Option<R> {
        let nonce = self.nonce.now(env)?;
        let aad = match &self.aad {
            Some(aad) => aad.now(env)?,
            None => Cow::Borrowed(&[][..]),
        };
        match &self.gcm {
            Some(key) => run(key, &nonce, &aad),
            None => run(
                &gcm::Key::new(self.key_bytes(env)?.get(..self.key_len)?)?,
                &nonce,
                &aad,
            ),
        }
    }

    fn cbc_key(&self, env: &dyn Env) -> Option<(UnboundCipherKey, [u8; 16])> {
        let algorithm = match self.key_len {
            16 => &cipher::AES_128,
            24 => &cipher::AES_192,
            _ => &cipher::AES_256,
        };
        let key =
            UnboundCipherKey::new(algorithm, self.key_bytes(env)?.get(..self.key_len)?).ok()?;
        let iv = self.nonce.now(env)?.get(..16)?.try_into().ok()?;
        Some((key, iv))
    }
}

fn prepare_gcm_dec(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let params = Params::parse(args, 4)?;
    let tag = Base64Operand::parse(args, 3)?;
    set_prepared(args, 0, params);
    set_prepared(args, 3, tag);
    Ok(())
}

fn prepare_gcm_enc(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let params = Params::parse(args, 4)?;
    let tag = need_var(args, 3)?;
    set_prepared(args, 0, params);
    set_prepared(args, 3, tag);
    Ok(())
}

fn prepare_cbc(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let params = Params::parse(args, 3)?;
    if params.aad.is_some() {
        return Err(BadArg::new(
            3,
            "CBC authenticates nothing, so it has no additional data; GCM has",
        ));
    }
    set_prepared(args, 0, params);
    Ok(())
}

fn gcm_dec<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let params = prepared::<Params>(args, 0)?;
        let tag = prepared::<Base64Operand>(args, 3)?.now(env)?;
        let mut text = s.into_owned();
        params.with_gcm(env, |key, nonce, aad| key.open(nonce, aad, &tag, &mut text))?;
        Some(Value::Bin(Cow::Owned(text)))
    })
}

fn gcm_enc<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let params = prepared::<Params>(args, 0)?;
        let mut text = s.into_owned();
        let tag = params.with_gcm(env, |key, nonce, aad| key.seal(nonce, aad, &mut text))?;
        let tag = Value::Str(Cow::Owned(base64::encode(&tag)));
        env.set_var(prepared::<VarRef>(args, 3)?, Some(tag))
            .then_some(Value::Bin(Cow::Owned(text)))
    })
}

fn cbc_dec<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let (key, iv) = prepared::<Params>(args, 0)?.cbc_key(env)?;
        let mut text = s.into_owned();
        let len = decrypt_cbc(key, iv, &mut text)?;
        text.truncate(len);
        Some(Value::Bin(Cow::Owned(text)))
    })
}

/// Decrypts in place and gives the length without padding.
pub fn decrypt_cbc(key: UnboundCipherKey, iv: [u8; 16], text: &mut [u8]) -> Option<usize> {
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
    let plain = key
        .decrypt(text, cipher::DecryptionContext::Iv128(iv.into()))
        .ok()?;
    Some(plain.len())
}

fn cbc_enc<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let (key, iv) = prepared::<Params>(args, 0)?.cbc_key(env)?;
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?;
        let mut text = s.into_owned();
        key.less_safe_encrypt(&mut text, cipher::EncryptionContext::Iv128(iv.into()))
            .ok()?;
        Some(Value::Bin(Cow::Owned(text)))
    })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_new, check_refused};

    #[test]
    fn gcm_decrypts() {
        check_all(&[
            (
                "bin(d3d3d9db4f597120abedac),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,YqA4UKZbuJCWY6DMQTBwcQ==)",
                Some("hello world"),
            ),
            (
                "bin(6c4c2702eebf960feb9bb9),aes_gcm_dec(192,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODxAREhMUFRYX,b/u/9mdZzYxSHLcLqnd2eQ==)",
                Some("hello world"),
            ),
            (
                "bin(5f743e1f3907fe68e55337),aes_gcm_dec(256,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=,NRLyC6ZuqlqBzdMd9XsHiA==)",
                Some("hello world"),
            ),
            (
                "bin(5beecd4ce070c4),aes_gcm_dec(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==,gBRn4Ht3Aw22h8BvM96FkA==)",
                Some("sixteen"),
            ),
            (
                "bin(9cf970ffae911c04e66acfe0ecd2ad9c),aes_gcm_dec(128,MDEyMzQ1Njc=,AAECAwQFBgcICQoLDA0ODw==,9sIgLAEmjs3mGE+JCOtzew==)",
                Some("eight byte nonce"),
            ),
            (
                "bin(83de706c1de65c667ab300d208ed6004ace28338457245d36f7ee35dfdde5f4388280d1be7fe68435af4156f8af8ab0d8e964f7bf1c95c25c2d337229d5c4624e6bbf9947edc22737286d0aadf3de80a4541f242ef),aes_gcm_dec(128,MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=,AAECAwQFBgcICQoLDA0ODw==,g2f8rPPN5Hz32wHpJeSJXg==)",
                Some(
                    "long nonce, more than one block!!! and long text too, to see the counter go on and on",
                ),
            ),
            (
                "str(),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,BNLeD0lepBj8P6xhTBJpIw==)",
                Some(""),
            ),
            (
                "bin(d9d7d1),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,LlWXHr0FVpNM4e1gr35AxA==)",
                None,
            ),
            (
                "bin(c8dedac55459722ebe),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,+3fgtuDl1oBAGnr0)",
                Some("short tag"),
            ),
            (
                "bin(d5d995c3411e),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,)",
                None,
            ),
            (
                "bin(d7d9dbd0000d6728),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,3v49o8XSVOM7zEZOvMYIK3g=)",
                None,
            ),
            (
                "bin(d7d9dbd000126336),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=,MX8EuzEzklm18e4rIZDvlA==)",
                Some("long key"),
            ),
            (
                "str(x),aes_gcm_dec(128,txn.nonce,AAECAwQFBgcICQoLDA0ODw==,AAAA)",
                None,
            ),
            (
                "str(x),aes_gcm_dec(128,,AAECAwQFBgcICQoLDA0ODw==,AAAA)",
                None,
            ),
        ]);
    }

    /// HAProxy takes 4 bytes of tag, and reads past the end of a key that is too short.
    #[test]
    fn short_tags_and_keys_are_not_taken() {
        check_new(&[
            (
                "bin(c8dedac5541c746fade0af),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,eD3ujA==)",
                None,
            ),
            (
                "bin(d5d995c3411e),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,)",
                None,
            ),
        ]);
    }

    #[test]
    fn bad_arguments_are_refused() {
        check_refused(&[
            (
                "str(x),aes_gcm_dec(64,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,AAAA)",
                "128, 192 or 256",
            ),
            (
                "str(x),aes_gcm_dec(128,!!,AAECAwQFBgcICQoLDA0ODw==,AAAA)",
                "base64",
            ),
            (
                "str(x),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,!)",
                "base64",
            ),
            ("str(x),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,%,AAAA)", "base64"),
            (
                "str(x),aes_gcm_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,tag)",
                "tag",
            ),
            (
                "str(x),aes_cbc_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,AAAA)",
                "GCM",
            ),
        ]);
    }

    #[test]
    fn gcm_encrypts_and_stores_its_tag() {
        check_new(&[
            (
                "str(hello),aes_gcm_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag,bW9yZQ==),hex",
                Some("D3D3D9DB4F"),
            ),
            (
                "str(hello),aes_gcm_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag,bW9yZQ==),length,concat(-,txn.tag)",
                Some("5-rr8leYH896k9VAr5thhLFA=="),
            ),
            (
                "str(hello),aes_gcm_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag,bW9yZQ==),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag,bW9yZQ==)",
                Some("hello"),
            ),
            (
                "str(hello),aes_gcm_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag,bW9yZQ==),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag)",
                None,
            ),
            (
                "str(hello),aes_gcm_enc(128,MDE=,AAECAwQFBgcICQoLDA0ODw==,txn.tag),aes_gcm_dec(128,MDE=,AAECAwQFBgcICQoLDA0ODw==,txn.tag)",
                Some("hello"),
            ),
            (
                "str(),aes_gcm_enc(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag),aes_gcm_dec(128,MDEyMzQ1Njc4OWFi,AAECAwQFBgcICQoLDA0ODw==,txn.tag)",
                Some(""),
            ),
        ]);
    }

    #[test]
    fn cbc() {
        check_new(&[
            (
                "str(\"hello world, more than a block\"),aes_cbc_enc(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==),hex",
                Some("0F336E3528437D88E65D78886BD6C677605881CCFA02B288A26AF26168A3580D"),
            ),
            (
                "bin(0f336e3528437d88e65d78886bd6c677605881ccfa02b288a26af26168a3580d),aes_cbc_dec(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==)",
                Some("hello world, more than a block"),
            ),
            (
                "str(\"hello world, more than a block\"),aes_cbc_enc(192,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODxAREhMUFRYX),hex",
                Some("C8E418FE749DE3EF7887E767C5B5088A422CF52AF93765D883C2E9D0441902CF"),
            ),
            (
                "bin(c8e418fe749de3ef7887e767c5b5088a422cf52af93765d883c2e9d0441902cf),aes_cbc_dec(192,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODxAREhMUFRYX)",
                Some("hello world, more than a block"),
            ),
            (
                "str(\"hello world, more than a block\"),aes_cbc_enc(256,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=),hex",
                Some("2B6A9CBAFD80F0A918C808F90D822115DB5B04C25DE9E81EF68325D68CCB91AA"),
            ),
            (
                "bin(2b6a9cbafd80f0a918c808f90d822115db5b04c25de9e81ef68325d68ccb91aa),aes_cbc_dec(256,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=)",
                Some("hello world, more than a block"),
            ),
            (
                "str(),aes_cbc_enc(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==),length",
                Some("16"),
            ),
            (
                "bin(00112233445566778899aabbccddeeff),aes_cbc_dec(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==)",
                None,
            ),
            (
                "bin(0011),aes_cbc_dec(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==)",
                None,
            ),
            (
                "str(),aes_cbc_dec(128,MDEyMzQ1Njc4OWFiY2RlZg==,AAECAwQFBgcICQoLDA0ODw==)",
                None,
            ),
            (
                "str(x),aes_cbc_enc(128,MDE=,AAECAwQFBgcICQoLDA0ODw==)",
                None,
            ),
        ]);
    }
}
