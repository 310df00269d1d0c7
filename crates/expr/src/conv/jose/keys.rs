//! Keys of tokens: read from PEM when the configuration loads, and kept by path for arguments that name a path only when
//! they run.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use aws_lc_rs::rsa::PrivateDecryptingKey;
use aws_lc_rs::signature::{self, ParsedPublicKey, VerificationAlgorithm};

use super::der;
use crate::compile::ParseCtx;

/// What a PEM file holds.
#[derive(Default)]
pub struct KeyFile {
    /// The public key as each algorithm takes it that can use it.
    public: Vec<(Signature, ParsedPublicKey)>,
    pub private: Option<PrivateDecryptingKey>,
}

/// Asymmetric signature algorithms of RFC 7518 section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
}

impl Signature {
    const ALL: [Signature; 9] = [
        Signature::Rs256,
        Signature::Rs384,
        Signature::Rs512,
        Signature::Ps256,
        Signature::Ps384,
        Signature::Ps512,
        Signature::Es256,
        Signature::Es384,
        Signature::Es512,
    ];

    fn algorithm(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Signature::Rs256 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            Signature::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Signature::Rs512 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
            Signature::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Signature::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Signature::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Signature::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Signature::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Signature::Es512 => &signature::ECDSA_P521_SHA512_FIXED,
        }
    }

    /// Whether it is two numbers of the same length (RFC 7518 section 3.4).
    pub fn is_elliptic(self) -> bool {
        matches!(self, Signature::Es256 | Signature::Es384 | Signature::Es512)
    }
}

impl KeyFile {
    /// Reads PEM blocks: certificates, public keys and RSA private keys, the first of each kind.
    fn parse(pem: &[u8]) -> KeyFile {
        let mut keys = KeyFile::default();
        for (label, bytes) in der::pem_blocks(pem) {
            let public = match label.as_str() {
                "CERTIFICATE" => der::public_key_of(&bytes),
                "PUBLIC KEY" | "RSA PUBLIC KEY" => Some(bytes.as_slice()),
                _ => None,
            };
            if let Some(public) = public.filter(|_| keys.public.is_empty()) {
                let usable =
                    |s: Signature| Some((s, ParsedPublicKey::new(s.algorithm(), public).ok()?));
                keys.public = Signature::ALL.into_iter().filter_map(usable).collect();
            }
            let private = match label.as_str() {
                "PRIVATE KEY" => Some(bytes),
                "RSA PRIVATE KEY" => Some(der::pkcs8_of_rsa(&bytes)),
                _ => None,
            };
            if let Some(private) = private.filter(|_| keys.private.is_none()) {
                keys.private = PrivateDecryptingKey::from_pkcs8(&private).ok();
            }
        }
        keys
    }

    pub fn has_public(&self) -> bool {
        !self.public.is_empty()
    }

    /// The public key for an algorithm; `None` when it is of another kind or curve.
    pub fn public(&self, wanted: Signature) -> Option<&ParsedPublicKey> {
        self.public
            .iter()
            .find(|(s, _)| *s == wanted)
            .map(|(_, key)| key)
    }
}

/// Files by path. Grows only when a configuration is loaded.
static FILES: LazyLock<ArcSwap<HashMap<Vec<u8>, Arc<KeyFile>>>> = LazyLock::new(ArcSwap::default);

/// Reads a file and keeps it for [`known`]; the error is a sentence.
pub fn load(path: &str, ctx: &ParseCtx<'_>) -> Result<Arc<KeyFile>, String> {
    let file = Arc::new(KeyFile::parse(&ctx.loader.load(path)?));
    FILES.rcu(|files| {
        let mut files = HashMap::clone(files);
        files.insert(path.as_bytes().to_vec(), file.clone());
        files
    });
    Ok(file)
}

/// A file that was named in the configuration.
pub fn known(path: &[u8]) -> Option<Arc<KeyFile>> {
    FILES.load().get(path).cloned()
}
