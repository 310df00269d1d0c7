//! NetScaler Client IP insertion, received (`accept-netscaler-cip`): a header with the client's IP and TCP headers.
//!
//! Source: the manual, 5.1, and Citrix's description of the two layouts: the older has the length of the headers after
//! the magic number, the newer the length of all and a type before the headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::proxy_protocol::Invalid;

/// Client and server address, and the bytes the header took. `None`: more bytes are needed.
pub fn parse(input: &[u8], magic: u32) -> Result<Option<(SocketAddr, SocketAddr, usize)>, Invalid> {
    let word = |at: usize| {
        let bytes = input.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let Some(found) = word(0) else {
        return Ok(None);
    };
    if found != magic {
        return Err(Invalid::NotOne);
    }
    let Some(second) = word(4) else {
        return Ok(None);
    };
    // the newer layout: total length, type (16 bits each), length of the headers; the older: length of the headers
    let (head, len) = if second >> 16 != 0 {
        (12, (second >> 16) as usize)
    } else {
        (8, 8 + second as usize)
    };
    const LEN_MAX: usize = 256;
    if !(head + 40..=LEN_MAX).contains(&len) {
        return Err(Invalid::Malformed);
    }
    let Some(headers) = input.get(head..len) else {
        return Ok(None);
    };
    addresses(headers)
        .map(|(src, dst)| Some((src, dst, len)))
        .ok_or(Invalid::Malformed)
}

/// The addresses of an IP header and the TCP header behind it.
fn addresses(b: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (src, dst, tcp): (IpAddr, IpAddr, usize) = match b.first()? >> 4 {
        4 => {
            let ip = |at: usize| {
                Some(Ipv4Addr::from(
                    <[u8; 4]>::try_from(b.get(at..at + 4)?).ok()?,
                ))
            };
            (ip(12)?.into(), ip(16)?.into(), 20)
        }
        6 => {
            let ip = |at: usize| {
                Some(Ipv6Addr::from(
                    <[u8; 16]>::try_from(b.get(at..at + 16)?).ok()?,
                ))
            };
            (ip(8)?.into(), ip(24)?.into(), 40)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]));
    Some((
        SocketAddr::new(src, port(tcp)?),
        SocketAddr::new(dst, port(tcp + 2)?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Vec<u8> {
        let mut b = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
        b.extend_from_slice(&[9, 8, 7, 6, 1, 1, 1, 1]);
        b.extend_from_slice(&[4, 210, 0, 80]);
        b.resize(40, 0);
        b
    }

    #[test]
    fn both_layouts() {
        let old = [
            &0x2211_2211_u32.to_be_bytes()[..],
            &40_u32.to_be_bytes(),
            &headers(),
        ]
        .concat();
        let new = [
            &0x2211_2211_u32.to_be_bytes()[..],
            &52_u16.to_be_bytes(),
            &[0, 0],
            &40_u32.to_be_bytes(),
            &headers(),
        ]
        .concat();
        for (bytes, len) in [(old, 48), (new, 52)] {
            let (src, dst, used) = parse(&bytes, 0x2211_2211).unwrap().unwrap();
            assert_eq!(
                (src.to_string(), dst.to_string()),
                ("9.8.7.6:1234".into(), "1.1.1.1:80".into())
            );
            assert_eq!(used, len);
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut], 0x2211_2211), Ok(None));
            }
            assert_eq!(parse(&bytes, 1), Err(Invalid::NotOne));
        }
    }
}
