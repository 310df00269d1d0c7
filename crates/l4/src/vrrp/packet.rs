//! VRRP packets, versions 2 and 3: RFC 3768 section 5, RFC 9568 section 5.
//!
//! Bytes in, an [`Advert`] or a reason out; nothing is trusted. The IP header is the caller's: what of it matters (source,
//! destination, time to live) is an argument.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// The protocol number of VRRP.
pub const PROTOCOL: u8 = 112;
const TYPE_ADVERTISEMENT: u8 = 1;
/// Version 2's authentication data, always there.
const AUTH_LENGTH: usize = 8;
const AUTH_NONE: u8 = 0;
const AUTH_PASS: u8 = 1;

/// How the checksum of a version 3 advert over IPv4 is made.
///
/// RFC 5798 left it open and keepalived took the pseudo-header in; RFC 9568 says the message only. Both are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumForm {
    /// With an IPv4 pseudo-header, as keepalived 2.2.7.
    #[default]
    Keepalived,
    /// The message only, as RFC 9568 section 5.2.8.
    Rfc9568,
}

/// An advertisement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advert {
    pub version: u8,
    pub vrid: u8,
    /// 0 says that the master stops.
    pub priority: u8,
    /// Centiseconds in version 3, whole seconds times 100 in version 2.
    pub interval_cs: u32,
    pub addresses: Vec<IpAddr>,
    /// The password of a version 2 advert.
    pub pass: Option<[u8; AUTH_LENGTH]>,
}

/// Why bytes are not an advert; each is counted by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Malformed {
    #[error("too short")]
    Short,
    #[error("unknown version")]
    Version,
    #[error("unknown type")]
    Type,
    #[error("wrong checksum")]
    Checksum,
    #[error("unknown authentication type")]
    Authentication,
    #[error("virtual router id 0")]
    RouterId,
    #[error("version 2 over ipv6")]
    Family,
}

impl Advert {
    /// The VRRP message, checksum included. `source` and `destination` must be of the addresses' family.
    pub fn encode(&self, source: IpAddr, destination: IpAddr, form: ChecksumForm) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 16 * self.addresses.len());
        out.push(self.version << 4 | TYPE_ADVERTISEMENT);
        out.push(self.vrid);
        out.push(self.priority);
        out.push(self.addresses.len().min(255) as u8);
        if self.version == 2 {
            out.push(if self.pass.is_some() {
                AUTH_PASS
            } else {
                AUTH_NONE
            });
            out.push((self.interval_cs / 100).min(255) as u8);
        } else {
            out.extend(((self.interval_cs.min(0xfff)) as u16).to_be_bytes());
        }
        out.extend([0, 0]);
        for address in self.addresses.iter().take(255) {
            match address {
                IpAddr::V4(ip) => out.extend(ip.octets()),
                IpAddr::V6(ip) => out.extend(ip.octets()),
            }
        }
        if self.version == 2 {
            out.extend(self.pass.unwrap_or_default());
        }
        let sum = checksum(&out, self.version, source, destination, form);
        out[6..8].copy_from_slice(&sum.to_be_bytes());
        out
    }

    /// Reads a message that came from `source` to `destination`.
    pub fn decode(bytes: &[u8], source: IpAddr, destination: IpAddr) -> Result<Advert, Malformed> {
        let [kind, vrid, priority, count, five, six, _, _, body @ ..] = bytes else {
            return Err(Malformed::Short);
        };
        let version = kind >> 4;
        if !(2..=3).contains(&version) {
            return Err(Malformed::Version);
        }
        if kind & 0xf != TYPE_ADVERTISEMENT {
            return Err(Malformed::Type);
        }
        if *vrid == 0 {
            return Err(Malformed::RouterId);
        }
        let v6 = source.is_ipv6();
        if v6 && version == 2 {
            return Err(Malformed::Family);
        }
        let width = if v6 { 16 } else { 4 };
        let addresses_length = usize::from(*count) * width;
        let auth_length = if version == 2 { AUTH_LENGTH } else { 0 };
        let (Some(addresses), Some(auth)) = (
            body.get(..addresses_length),
            body.get(addresses_length..addresses_length + auth_length),
        ) else {
            return Err(Malformed::Short);
        };
        // Longer than it says: padding by the link, which the checksum does not cover.
        let message = &bytes[..8 + addresses_length + auth_length];
        if !checksum_right(message, version, source, destination) {
            return Err(Malformed::Checksum);
        }
        let (interval_cs, pass) = if version == 2 {
            let pass = match *five {
                AUTH_NONE => None,
                AUTH_PASS => auth.try_into().ok(),
                _ => return Err(Malformed::Authentication),
            };
            (u32::from(*six) * 100, pass)
        } else {
            (u32::from(u16::from_be_bytes([five & 0xf, *six])), None)
        };
        let addresses = addresses
            .chunks_exact(width)
            .map(|a| match <[u8; 4]>::try_from(a) {
                Ok(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
                Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(a).unwrap_or_default())),
            })
            .collect();
        Ok(Advert {
            version,
            vrid: *vrid,
            priority: *priority,
            interval_cs,
            addresses,
            pass,
        })
    }
}

fn checksum_right(message: &[u8], version: u8, source: IpAddr, destination: IpAddr) -> bool {
    let whole = |form| {
        let mut sum = Sum::default();
        if version == 3 {
            pseudo_header(&mut sum, message.len(), source, destination, form);
        }
        sum.add(message);
        sum.finish() == 0
    };
    whole(ChecksumForm::Keepalived)
        || (version == 3 && source.is_ipv4() && whole(ChecksumForm::Rfc9568))
}

fn checksum(
    message: &[u8],
    version: u8,
    source: IpAddr,
    destination: IpAddr,
    form: ChecksumForm,
) -> u16 {
    let mut sum = Sum::default();
    if version == 3 {
        pseudo_header(&mut sum, message.len(), source, destination, form);
    }
    sum.add(message);
    sum.finish()
}

/// IPv6 always has one (RFC 8200 section 8.1), IPv4 in keepalived's form only.
fn pseudo_header(
    sum: &mut Sum,
    length: usize,
    source: IpAddr,
    destination: IpAddr,
    form: ChecksumForm,
) {
    match (source, destination) {
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            sum.add(&s.octets());
            sum.add(&d.octets());
        }
        (IpAddr::V4(s), IpAddr::V4(d)) if form == ChecksumForm::Keepalived => {
            sum.add(&s.octets());
            sum.add(&d.octets());
        }
        _ => return,
    }
    sum.add(&[0, PROTOCOL]);
    sum.add(&(length as u16).to_be_bytes());
}

/// The Internet checksum, RFC 1071. Every piece but the last must have an even length.
#[derive(Default)]
pub struct Sum(u32);

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks(2) {
            let word = match pair {
                [a, b] => u16::from_be_bytes([*a, *b]),
                [a] => u16::from_be_bytes([*a, 0]),
                _ => 0,
            };
            self.0 += u32::from(word);
            self.0 = (self.0 & 0xffff) + (self.0 >> 16);
        }
    }
    pub fn finish(self) -> u16 {
        !(self.0 as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 18));

    fn advert(version: u8) -> Advert {
        Advert {
            version,
            vrid: 51,
            priority: 150,
            interval_cs: 100,
            addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 128, 0, 1))],
            pass: None,
        }
    }

    #[test]
    fn a_version_2_advert_has_the_bytes_of_the_rfc() {
        let bytes = advert(2).encode(SOURCE, GROUP, ChecksumForm::Keepalived);
        // 0x2133 + 0x9601 + 0x0001 + 0x0a80 + 0x0001 = 0xc1b6, complemented 0x3e49.
        assert_eq!(
            bytes,
            [
                0x21, 51, 150, 1, 0, 1, 0x3e, 0x49, 10, 128, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0
            ]
        );
    }

    #[test]
    fn both_checksum_forms_are_heard() {
        for form in [ChecksumForm::Keepalived, ChecksumForm::Rfc9568] {
            let bytes = advert(3).encode(SOURCE, GROUP, form);
            assert_eq!(
                Advert::decode(&bytes, SOURCE, GROUP),
                Ok(advert(3)),
                "{form:?}"
            );
        }
        let a = advert(3).encode(SOURCE, GROUP, ChecksumForm::Keepalived);
        let b = advert(3).encode(SOURCE, GROUP, ChecksumForm::Rfc9568);
        assert_ne!(a[6..8], b[6..8]);
    }

    #[test]
    fn wrong_bytes_have_a_reason() {
        let good = advert(3).encode(SOURCE, GROUP, ChecksumForm::Keepalived);
        let check = |at: usize, value: u8, expect: Malformed| {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(
                Advert::decode(&bytes, SOURCE, GROUP),
                Err(expect),
                "byte {at}"
            );
        };
        check(0, 0x41, Malformed::Version);
        check(0, 0x32, Malformed::Type);
        check(1, 0, Malformed::RouterId);
        check(2, 1, Malformed::Checksum);
        check(3, 9, Malformed::Short);
        assert_eq!(
            Advert::decode(&good[..7], SOURCE, GROUP),
            Err(Malformed::Short)
        );
    }

    #[test]
    fn a_password_survives() {
        let mut a = advert(2);
        a.pass = Some(*b"1234\0\0\0\0");
        let bytes = a.encode(SOURCE, GROUP, ChecksumForm::Keepalived);
        assert_eq!(Advert::decode(&bytes, SOURCE, GROUP), Ok(a));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Advert::decode(&bytes, SOURCE, GROUP);
            let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
            let _ = Advert::decode(&bytes, v6, v6);
        }
        #[test]
        fn what_is_sent_is_heard(version in 2u8..=3, vrid in 1u8..=255, priority: u8, seconds in 1u32..40, n in 0usize..20, v6: bool) {
            let v6 = v6 && version == 3;
            let (source, group) = if v6 {
                (IpAddr::V6("fe80::1".parse().unwrap()), IpAddr::V6("ff02::12".parse().unwrap()))
            } else {
                (SOURCE, GROUP)
            };
            let addresses = (0..n as u16).map(|i| if v6 {
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, i))
            } else {
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, i as u8))
            }).collect();
            let a = Advert { version, vrid, priority, interval_cs: seconds * 100, addresses, pass: None };
            let bytes = a.encode(source, group, ChecksumForm::Keepalived);
            prop_assert_eq!(Advert::decode(&bytes, source, group), Ok(a));
        }
    }
}
