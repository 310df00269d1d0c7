//! The little of PEM (RFC 7468) and DER (X.690) that keys and certificates need.

use crate::conv::base64;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The blocks of a PEM file: each label with its bytes. What is no block is skipped.
pub fn pem_blocks(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<u8>)> = None;
    for line in text.split(|c| *c == b'\n').map(<[u8]>::trim_ascii) {
        let marker = |kind: &[u8]| {
            let label = line
                .strip_prefix(b"-----")?
                .strip_prefix(kind)?
                .strip_suffix(b"-----")?;
            Some(String::from_utf8_lossy(label).into_owned())
        };
        if let Some(label) = marker(b"BEGIN ") {
            open = Some((label, Vec::new()));
        } else if marker(b"END ").is_some() {
            let closed = open.take();
            blocks.extend(closed.and_then(|(label, body)| Some((label, base64::decode(&body)?))));
        } else if let Some((_, body)) = &mut open {
            body.extend_from_slice(line);
        }
    }
    blocks
}

/// One value: its tag, its content, its bytes with the head, and what follows.
struct Value<'d> {
    tag: u8,
    content: &'d [u8],
    whole: &'d [u8],
    rest: &'d [u8],
}

fn read(bytes: &[u8]) -> Option<Value<'_>> {
    let (tag, len) = (*bytes.first()?, *bytes.get(1)?);
    let (len, head) = match len {
        0..=0x7f => (usize::from(len), 2),
        0x81..=0x84 => {
            let count = usize::from(len & 0x7f);
            let digits = bytes.get(2..2 + count)?;
            (
                digits.iter().fold(0, |n, d| n << 8 | usize::from(*d)),
                2 + count,
            )
        }
        _ => return None,
    };
    let end = head.checked_add(len)?;
    Some(Value {
        tag,
        content: bytes.get(head..end)?,
        whole: &bytes[..end],
        rest: &bytes[end..],
    })
}

/// The subjectPublicKeyInfo of a certificate (RFC 5280 section 4.1): the seventh field, the sixth without a version.
pub fn public_key_of(certificate: &[u8]) -> Option<&[u8]> {
    let to_be_signed = read(read(certificate)?.content)?;
    let mut field = read(to_be_signed.content)?;
    if field.tag == VERSION {
        field = read(field.rest)?;
    }
    // From the serial number over signature, issuer, validity and subject.
    for _ in 0..5 {
        field = read(field.rest)?;
    }
    (field.tag == SEQUENCE).then_some(field.whole)
}

fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        len @ 0..=0x7f => out.push(len as u8),
        len => {
            let digits = len.to_be_bytes();
            let digits = &digits[digits.iter().take_while(|d| **d == 0).count()..];
            out.push(0x80 | digits.len() as u8);
            out.extend_from_slice(digits);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A positive integer.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
    let sign: &[u8] = if bytes.first().is_none_or(|b| b & 0x80 != 0) {
        &[0]
    } else {
        &[]
    };
    write(INTEGER, &[sign, bytes].concat())
}

/// An RSAPrivateKey (RFC 8017 appendix A.1.2) of modulus, exponents, primes, exponents and coefficient.
pub fn rsa_private_key(numbers: &[Vec<u8>; 8]) -> Vec<u8> {
    let fields: Vec<u8> = std::iter::once(integer(&[]))
        .chain(numbers.iter().map(|n| integer(n)))
        .flatten()
        .collect();
    write(SEQUENCE, &fields)
}

/// An RSAPrivateKey inside the PKCS#8 form (RFC 5208) that the crypto library takes.
pub fn pkcs8_of_rsa(private_key: &[u8]) -> Vec<u8> {
    /// rsaEncryption with no parameters.
    const ALGORITHM: &[u8] = &[
        0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0,
    ];
    write(
        SEQUENCE,
        &[&integer(&[]), ALGORITHM, &write(OCTET_STRING, private_key)].concat(),
    )
}
