//! `jwt_verify`: signatures of JSON Web Tokens (RFC 7515, compact serialization).

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::keys::{self, KeyFile, Signature};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::base64;
use crate::conv::digest;
use crate::conv::operand::{
    as_var, on_bytes, prepared, set_prepared, str_arg, text_arg, var_bytes,
};
use crate::env::Env;
use crate::value::{Fetched, Sample, Type, Value};
use crate::vars::VarRef;

/// Results that the manual numbers.
const VALID: i64 = 1;
const NOT_VALID: i64 = 0;
const UNKNOWN_ALGORITHM: i64 = -1;
const INVALID_TOKEN: i64 = -3;
const UNKNOWN_CERTIFICATE: i64 = -5;

/// Algorithms of RFC 7518 section 3.1.
#[derive(Clone, Copy)]
enum Alg {
    None,
    Hmac(digest::Algorithm),
    Signed(Signature),
}

fn alg_named(name: &[u8]) -> Option<Alg> {
    Some(match name {
        b"none" => Alg::None,
        b"HS256" => Alg::Hmac(digest::Algorithm::SHA256),
        b"HS384" => Alg::Hmac(digest::Algorithm::SHA384),
        b"HS512" => Alg::Hmac(digest::Algorithm::SHA512),
        b"RS256" => Alg::Signed(Signature::Rs256),
        b"RS384" => Alg::Signed(Signature::Rs384),
        b"RS512" => Alg::Signed(Signature::Rs512),
        b"PS256" => Alg::Signed(Signature::Ps256),
        b"PS384" => Alg::Signed(Signature::Ps384),
        b"PS512" => Alg::Signed(Signature::Ps512),
        b"ES256" => Alg::Signed(Signature::Es256),
        b"ES384" => Alg::Signed(Signature::Es384),
        b"ES512" => Alg::Signed(Signature::Es512),
        _ => return None,
    })
}

enum AlgOperand {
    Literal(Alg),
    Var(VarRef),
}

/// A secret or the path of a file; which of them is known with the algorithm.
enum KeyOperand {
    Literal(Vec<u8>, Option<Arc<KeyFile>>),
    Var(VarRef),
}

pub fn prepare(args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    let name = str_arg(args, 0);
    let alg = match (alg_named(name), as_var(name)) {
        (Some(alg), _) => AlgOperand::Literal(alg),
        (None, Some(var)) => AlgOperand::Var(var),
        (None, None) => {
            let name = String::from_utf8_lossy(name);
            return Err(BadArg::new(
                0,
                format!(
                    "'{name}' is no JWT algorithm; there are HS, RS, PS and ES with 256, 384 and 512"
                ),
            ));
        }
    };
    let key = str_arg(args, 1);
    let key = match as_var(key) {
        Some(var) => KeyOperand::Var(var),
        None => {
            let file = match alg {
                AlgOperand::Literal(Alg::Signed(_)) => Some(public_key_file(args, ctx)?),
                // It may be a path as well as a secret.
                AlgOperand::Var(_) => public_key_file(args, ctx).ok(),
                AlgOperand::Literal(_) => None,
            };
            KeyOperand::Literal(key.to_vec(), file)
        }
    };
    set_prepared(args, 0, alg);
    set_prepared(args, 1, key);
    Ok(())
}

fn public_key_file(args: &[Arg], ctx: &ParseCtx<'_>) -> Result<Arc<KeyFile>, BadArg> {
    let path = text_arg(args, 1)?;
    let file = keys::load(path, ctx).map_err(|e| BadArg::new(1, e))?;
    if file.has_public() {
        Ok(file)
    } else {
        Err(BadArg::new(
            1,
            format!("'{path}' holds no public key and no certificate"),
        ))
    }
}

/// As [`prepare`], but a secret will not do.
pub fn prepare_certificate(args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    if let Some(Alg::Hmac(_) | Alg::None) = alg_named(str_arg(args, 0)) {
        return Err(BadArg::new(
            0,
            "this algorithm needs no certificate; `jwt_verify` takes secrets",
        ));
    }
    prepare(args, ctx)
}

pub fn verify<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |token| {
        let alg = match prepared::<AlgOperand>(args, 0)? {
            AlgOperand::Literal(alg) => Some(*alg),
            AlgOperand::Var(var) => alg_named(&var_bytes(var, env, Type::Str)?),
        };
        let Some(alg) = alg else {
            return Some(Value::Sint(UNKNOWN_ALGORITHM));
        };
        let key = prepared::<KeyOperand>(args, 1)?;
        check(&token, alg, key, env).map(Value::Sint)
    })
}

/// The manual's number; `None` when the key's variable is not set.
fn check(token: &[u8], alg: Alg, key: &KeyOperand, env: &dyn Env) -> Option<i64> {
    let mut parts = token.split(|c| *c == b'.');
    let (header, payload) = (parts.next()?, parts.next());
    let (Some(payload), signature, None) = (payload, parts.next(), parts.next()) else {
        return Some(INVALID_TOKEN);
    };
    let signed = &token[..header.len() + 1 + payload.len()];
    let signature = match (alg, signature) {
        // A token that needs no signature must have none.
        (Alg::None, signature) => {
            let none = signature.is_none_or(<[u8]>::is_empty);
            return Some(if none { VALID } else { NOT_VALID });
        }
        (_, signature) => signature
            .and_then(base64::decode_url)
            .filter(|s| !s.is_empty()),
    };
    let Some(signature) = signature else {
        return Some(INVALID_TOKEN);
    };
    let is_valid = match alg {
        Alg::Hmac(digest) => {
            let secret = match key {
                KeyOperand::Literal(secret, _) => secret.as_slice().into(),
                KeyOperand::Var(var) => var_bytes(var, env, Type::Str)?,
            };
            let expected = digest.hmac(&secret, &[signed]);
            verify_slices_are_equal(expected.as_ref(), &signature).is_ok()
        }
        Alg::Signed(kind) => {
            let named = match key {
                KeyOperand::Literal(_, file) => file.clone(),
                KeyOperand::Var(var) => keys::known(&var_bytes(var, env, Type::Str)?),
            };
            let Some(file) = named.filter(|f| f.has_public()) else {
                return Some(UNKNOWN_CERTIFICATE);
            };
            // two halves; their right length is found out by verifying
            if kind.is_elliptic() && !signature.len().is_multiple_of(2) {
                return Some(INVALID_TOKEN);
            }
            file.public(kind)
                .is_some_and(|key| key.verify_sig(signed, &signature).is_ok())
        }
        Alg::None => false,
    };
    Some(if is_valid { VALID } else { NOT_VALID })
}

#[cfg(test)]
mod tests {
    use crate::conv::base64;
    use crate::conv::testing::{World, check_header, check_header_new, check_new, check_refused};

    /// The tokens of the test data, by algorithm.
    fn token(alg: &str) -> &'static str {
        let tokens = include_str!("../../../testdata/jwt/jws.txt");
        let line = tokens
            .lines()
            .find_map(|l| l.strip_prefix(alg)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no token for {alg}"))
    }

    /// A token whose signature lacks its last bytes.
    fn shortened(alg: &str, bytes: usize) -> String {
        let (signed, signature) = token(alg).rsplit_once('.').expect("three parts");
        let signature = base64::decode_url(signature.as_bytes()).expect("base64url");
        let kept = base64::encode_url(&signature[..signature.len() - bytes]);
        format!("{signed}.{kept}")
    }

    /// `@` in an expression stands for the directory with the keys.
    fn with_keys(expr: &str) -> String {
        expr.replace('@', concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/jwt/"))
    }

    /// Tokens, arguments and what HAProxy 2.6 answers.
    fn check(cases: &[(&str, &str, Option<&str>)]) {
        let expr = |args: &str| with_keys(&format!("hdr,jwt_verify({args})"));
        let exprs: Vec<String> = cases.iter().map(|(_, args, _)| expr(args)).collect();
        let cases: Vec<_> = cases
            .iter()
            .zip(&exprs)
            .map(|((token, _, expect), expr)| {
                (token.as_bytes(), expr.as_str(), expect.map(str::as_bytes))
            })
            .collect();
        check_header(&cases);
    }

    fn check_3x(token: &str, expr: &str, expect: &str) {
        check_header_new(&[(token.as_bytes(), &with_keys(expr), Some(expect.as_bytes()))]);
    }

    #[test]
    fn secrets() {
        check(&[
            (token("HS256"), "HS256,secret", Some("1")),
            (token("HS384"), "HS384,secret", Some("1")),
            (token("HS512"), "HS512,secret", Some("1")),
            (token("HS256"), "HS256,wrong", Some("0")),
            (token("HS256"), "HS256,", Some("0")),
            (token("HS256"), "HS512,secret", Some("0")),
            (token("HS256"), "HS256,txn.str", Some("0")),
            (token("HS256"), "HS256,txn.missing", None),
            (token("HS256"), "txn.str,secret", Some("-1")),
            (token("HS256"), "txn.missing,secret", None),
        ]);
    }

    #[test]
    fn public_keys() {
        check(&[
            (token("RS256"), "RS256,@rsa.pub", Some("1")),
            (token("RS384"), "RS384,@rsa.pub", Some("1")),
            (token("RS512"), "RS512,@rsa.pub", Some("1")),
            (token("ES256"), "ES256,@ec256.pub", Some("1")),
            (token("ES384"), "ES384,@ec384.pub", Some("1")),
            (token("ES512"), "ES512,@ec521.pub", Some("1")),
            (token("RS256"), "RS512,@rsa.pub", Some("0")),
            (token("ES256"), "ES256,@ec384.pub", Some("0")),
            (token("ES256"), "ES256,@rsa.pub", Some("0")),
            (token("RS256"), "RS256,@ec256.pub", Some("0")),
            (token("RS256"), "RS256,txn.str", Some("-5")),
            // the key is looked for first
            (token("HS256"), "ES256,txn.str", Some("-5")),
            (token("HS256"), "ES256,@ec256.pub", Some("0")),
            (&shortened("ES256", 1), "ES256,@ec256.pub", Some("-3")),
            (&shortened("ES256", 2), "ES256,@ec256.pub", Some("0")),
        ]);
    }

    #[test]
    fn what_2_6_does_not_have() {
        for alg in ["PS256", "PS384", "PS512"] {
            check_3x(token(alg), &format!("hdr,jwt_verify({alg},@rsa.pub)"), "1");
        }
        check_3x(token("RS256"), "hdr,jwt_verify(PS256,@rsa.pub)", "0");
        check_3x(token("RS256"), "hdr,jwt_verify(RS256,@rsa.crt)", "1");
        check_3x(
            token("RS256"),
            "hdr,jwt_verify_cert(RS256,@rsa-bundle.pem)",
            "1",
        );
        check_3x(token("ES256"), "hdr,jwt_verify_cert(ES256,@ec256.crt)", "1");
        check_3x(token("ES384"), "hdr,jwt_verify_cert(ES384,@ec256.crt)", "0");
    }

    #[test]
    fn shapes() {
        let (header, payload) = (
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
            "eyJpc3MiOiJtZSIsIm4iOjd9",
        );
        let whole = token("HS256");
        check(&[
            (&format!("{header}.{payload}."), "HS256,secret", Some("-3")),
            (&format!("{header}.{payload}"), "HS256,secret", Some("-3")),
            (header, "HS256,secret", Some("-3")),
            ("x", "HS256,secret", Some("-3")),
            ("..", "HS256,secret", Some("-3")),
            (&format!("{whole}.x"), "HS256,secret", Some("-3")),
            (&format!("{whole}x"), "HS256,secret", Some("0")),
            (&format!("{whole}!"), "HS256,secret", Some("-3")),
            (
                &format!("{header}.{payload}x.AAAA"),
                "HS256,secret",
                Some("0"),
            ),
            (
                &format!("{header}.{payload}.AAAA"),
                "HS256,secret",
                Some("0"),
            ),
            (
                &format!("{header}.{payload}.AAAA"),
                "RS256,@rsa.pub",
                Some("0"),
            ),
            (
                &format!("{header}.{payload}.AAAA"),
                "ES256,@ec256.pub",
                Some("-3"),
            ),
        ]);
    }

    #[test]
    fn without_signature() {
        let whole = token("HS256");
        let (unsigned, _) = whole.rsplit_once('.').unwrap();
        check(&[
            (whole, "none,x", Some("0")),
            (unsigned, "none,x", Some("1")),
            (&format!("{unsigned}."), "none,x", Some("1")),
        ]);
    }

    /// A path that only a variable names must have been named in the configuration.
    #[test]
    fn files_are_known_by_path() {
        let world = World::new(token("RS256").as_bytes());
        let path = with_keys("@rsa.pub");
        world.run(&format!("str({path}),set-var(txn.str)")).unwrap();
        world
            .run(&format!("hdr,jwt_verify(txn.num,{path})"))
            .unwrap();
        assert_eq!(
            world.run("hdr,jwt_verify(RS256,txn.str)").unwrap(),
            Some(b"1".to_vec())
        );
    }

    #[test]
    fn bad_arguments_are_refused() {
        check_refused(&[
            ("str(a),jwt_verify(FOO,secret)", "FOO"),
            ("str(a),jwt_verify(,secret)", "algorithm"),
            ("str(a),jwt_verify(hs256,secret)", "hs256"),
            ("str(a),jwt_verify_cert(HS256,secret)", "jwt_verify"),
        ]);
        // HAProxy starts, and answers -5.
        for file in ["none.pub", "rsa.key"] {
            let expr = with_keys(&format!("str(a),jwt_verify(RS256,@{file})"));
            assert!(World::new(b"").run(&expr).is_err(), "{file}");
        }
        check_new(&[("str(a.b.c),jwt_verify(HS256,x)", Some("-3"))]);
    }
}
