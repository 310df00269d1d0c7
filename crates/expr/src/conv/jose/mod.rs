//! JSON Web Tokens: reading them (`jwt_*_query`), verifying their signature (`jws`), decrypting them (`jwe`), and the keys
//! for both (`keys`, over `der`).

mod der;
mod jwe;
mod jws;
mod keys;

use std::borrow::Cow;

use crate::args::Arg;
use crate::conv::BadArg;
use crate::conv::base64;
use crate::conv::json_query::{Query, prepare_query};
use crate::conv::operand::{on_bytes, prepared, str_arg};
use crate::value::{Fetched, Sample, Value};

converters! {
    "jwt_header_query" (; Str, Str) Bin -> Any, |args, s, _| query(args, s, 0), prepare |args, _| prepare_member(args)
        => "The header of a JWT, or what `json_query` with the same arguments finds in it.";
    "jwt_payload_query" (; Str, Str) Bin -> Any, |args, s, _| query(args, s, 1), prepare |args, _| prepare_member(args)
        => "The payload of a JWT, or what `json_query` with the same arguments finds in it.";
    "jwt_verify" (Str, Str) Bin -> Sint, jws::verify, prepare jws::prepare
        => "Verifies the signature of a JWT by an algorithm and a key: 1 is valid, 0 is not, less than 0 is another error.";
    "jwt_verify_cert" (Str, Str) Bin -> Sint, jws::verify, prepare jws::prepare_certificate
        => "Verifies the signature of a JWT by an algorithm and a certificate: 1 is valid, 0 is not, less than 0 is another error.";
    "jwt_decrypt_secret" (Str) Bin -> Bin, jwe::decrypt, prepare jwe::prepare_secret
        => "Decrypts a JWE with a secret in base64, used as it is or to unwrap the key.";
    "jwt_decrypt_cert" (Str) Bin -> Bin, jwe::decrypt, prepare jwe::prepare_certificate
        => "Decrypts a JWE with the RSA private key of a PEM file.";
    "jwt_decrypt_jwk" (Str) Bin -> Bin, jwe::decrypt, prepare jwe::prepare_jwk
        => "Decrypts a JWE with a key written as a JSON Web Key: `oct`, `RSA` or `EC`.";
}

/// Without a path the member is given as it is.
fn prepare_member(args: &mut Vec<Arg>) -> Result<(), BadArg> {
    if str_arg(args, 0).is_empty() {
        return match str_arg(args, 1) {
            b"" => Ok(()),
            _ => Err(BadArg::new(0, "an output type needs a JSON path before it")),
        };
    }
    prepare_query(args)
}

fn query<'a>(args: &'a [Arg], sample: Sample<'a>, member: usize) -> Fetched<'a> {
    on_bytes(sample, |token| {
        let part = token.split(|c| *c == b'.').nth(member)?;
        let json = base64::decode_url(part)?;
        match prepared::<Query>(args, 0) {
            Some(query) => query.run(&json),
            None => Some(Value::Str(Cow::Owned(json))),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_header, check_header_new, check_refused};

    #[test]
    fn members() {
        check_header(&[
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "hdr,jwt_header_query('$.alg')", Some(b"HS256")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "hdr,jwt_payload_query('$.iss')", None),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.", "hdr,jwt_header_query('$.alg')", Some(b"HS256")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.", "hdr,jwt_payload_query('$.iss')", None),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9", "hdr,jwt_header_query('$.alg')", Some(b"HS256")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9", "hdr,jwt_payload_query('$.iss')", Some(b"me")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9.", "hdr,jwt_header_query('$.alg')", Some(b"HS256")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9.", "hdr,jwt_payload_query('$.iss')", Some(b"me")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9.hdieZHtVOY5u4gMqGKUMJklrsVMw4a_7fMdzwfGC2ZQ.y", "hdr,jwt_header_query('$.alg')", Some(b"HS256")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9.hdieZHtVOY5u4gMqGKUMJklrsVMw4a_7fMdzwfGC2ZQ.y", "hdr,jwt_payload_query('$.iss')", Some(b"me")),
            (b".eyJpc3MiOiJtZSIsIm4iOjd9.x", "hdr,jwt_header_query('$.alg')", None),
            (b".eyJpc3MiOiJtZSIsIm4iOjd9.x", "hdr,jwt_payload_query('$.iss')", Some(b"me")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9=.eyJpc3MiOiJtZSIsIm4iOjd9.x", "hdr,jwt_header_query('$.alg')", None),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9=.eyJpc3MiOiJtZSIsIm4iOjd9.x", "hdr,jwt_payload_query('$.iss')", Some(b"me")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.!.", "hdr,jwt_header_query('$.alg')", Some(b"HS256")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.!.", "hdr,jwt_payload_query('$.iss')", None),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9.hdieZHtVOY5u4gMqGKUMJklrsVMw4a_7fMdzwfGC2ZQ", "hdr,jwt_payload_query('$.iss','int')", Some(b"me")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJtZSIsIm4iOjd9.hdieZHtVOY5u4gMqGKUMJklrsVMw4a_7fMdzwfGC2ZQ", "hdr,jwt_header_query('$.typ')", Some(b"JWT")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJhIjp0cnVlfQ.x", "hdr,jwt_payload_query('$.a')", Some(b"1")),
            (b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJhIjp0cnVlfQ.x", "hdr,jwt_payload_query('$')", None),
        ]);
        check_refused(&[("str(a),jwt_header_query('$.a','x')", "`int`")]);
    }

    /// HAProxy's manual promises the whole member when no path is given; 2.6 gives nothing.
    #[test]
    fn whole_members_and_arrays() {
        check_header_new(&[
            (
                b"eyJhbGciOiJIUzI1NiJ9.eyJhIjpbMSwyXX0.x",
                "hdr,jwt_header_query",
                Some(b"{\"alg\":\"HS256\"}"),
            ),
            (
                b"eyJhbGciOiJIUzI1NiJ9.eyJhIjpbMSwyXX0.x",
                "hdr,jwt_payload_query",
                Some(b"{\"a\":[1,2]}"),
            ),
            (
                b"eyJhbGciOiJIUzI1NiJ9.eyJhIjpbMSwyXX0.x",
                "hdr,jwt_payload_query('$.a')",
                Some(b"[1,2]"),
            ),
            (b"!.eyJhIjpbMSwyXX0.x", "hdr,jwt_header_query", None),
            (b"x", "hdr,jwt_payload_query", None),
        ]);
    }
}
