//! Address patterns: addresses, networks and masks as ACLs and maps write them (manual 7.1.6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address pattern stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    V4 {
        addr: u32,
        len: u8,
    },
    /// A mask with holes.
    Masked {
        addr: u32,
        mask: u32,
    },
    V6 {
        addr: u128,
        len: u8,
    },
}

/// Why a text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotANetwork {
    /// Neither of the two families; a host name perhaps.
    Address,
    /// The part after the slash.
    Mask,
}

/// Reads `10.0.0.1`, `10.1/16` (short for `10.0.0.1/16`), `192.168.0.1/255.255.0.0`, `2001:db8::/32`.
pub fn parse(text: &str) -> Result<Network, NotANetwork> {
    let (host, mask) = match text.split_once('/') {
        Some((host, mask)) => (host, Some(mask)),
        None => (text, None),
    };
    if let Some(addr) = ipv4(host) {
        return v4(addr, mask);
    }
    let addr: Ipv6Addr = host.parse().map_err(|_| NotANetwork::Address)?;
    let len = match mask {
        None => 128,
        Some(m) => bits(m, 128).ok_or(NotANetwork::Mask)?,
    };
    Ok(Network::V6 {
        addr: addr.to_bits() & mask6(len),
        len,
    })
}

/// The same for an address a host name stood for, with the mask that followed the name.
pub fn of_host(addr: IpAddr, mask: Option<&str>) -> Result<Network, NotANetwork> {
    match addr {
        IpAddr::V4(a) => v4(a, mask),
        IpAddr::V6(_) => Err(NotANetwork::Address),
    }
}

fn v4(addr: Ipv4Addr, mask: Option<&str>) -> Result<Network, NotANetwork> {
    let addr = addr.to_bits();
    let mask = match mask {
        None => u32::MAX,
        Some(m) => match bits(m, 32) {
            Some(len) => mask4(len),
            None => m
                .parse::<Ipv4Addr>()
                .map_err(|_| NotANetwork::Mask)?
                .to_bits(),
        },
    };
    let len = mask.leading_ones() as u8;
    Ok(if mask == mask4(len) {
        Network::V4 {
            addr: addr & mask,
            len,
        }
    } else {
        Network::Masked {
            addr: addr & mask,
            mask,
        }
    })
}

/// A dotted quad, or one with its zero bytes left out: `10.12` is `10.0.0.12`. Decimal only, and not a lone number.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let plain = |part: &str| part == "0" || !part.starts_with('0');
    let is_plain = text.contains('.') && text.split('.').all(plain);
    if is_plain { inet_aton(text) } else { None }
}

/// An address as `inet_aton(3)` reads digits and dots: one to four numbers, octal after a leading zero, the last of
/// which fills what is left. This is how HAProxy reads the patterns of ACLs when host names are allowed too.
pub(super) fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let mut parts = [0u32; 4];
    let mut n = 0;
    for part in text.split('.') {
        let radix = if part.len() > 1 && part.starts_with('0') {
            8
        } else {
            10
        };
        if n == 4 || part.is_empty() || part.bytes().any(|b| !b.is_ascii_digit()) {
            return None;
        }
        parts[n] = u32::from_str_radix(part, radix).ok()?;
        n += 1;
    }
    let last = parts[n - 1];
    let room = 8 * (5 - n as u32);
    if room < 32 && last >> room != 0 {
        return None;
    }
    let mut addr = last;
    for (i, part) in parts.iter().enumerate().take(n - 1) {
        if *part > 255 {
            return None;
        }
        addr |= part << (24 - 8 * i as u32);
    }
    Some(Ipv4Addr::from_bits(addr))
}

fn bits(text: &str, max: u8) -> Option<u8> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| digits && *n <= max)
}

pub(super) fn mask4(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

pub(super) fn mask6(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

/// The IPv4 address an IPv6 one carries: mapped (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`) or 6to4 (`2002:`).
pub(super) fn v4_inside(addr: Ipv6Addr) -> Option<u32> {
    let bits = addr.to_bits();
    match (bits >> 32, bits >> 112) {
        (0 | 0xffff, _) => Some(bits as u32),
        (_, 0x2002) => Some((bits >> 80) as u32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let got = match parse(text) {
            Ok(Network::V4 { addr, len }) => format!("{}/{len}", Ipv4Addr::from_bits(addr)),
            Ok(Network::Masked { addr, mask }) => {
                format!(
                    "{} & {}",
                    Ipv4Addr::from_bits(addr),
                    Ipv4Addr::from_bits(mask)
                )
            }
            Ok(Network::V6 { addr, len }) => format!("{}/{len}", Ipv6Addr::from_bits(addr)),
            Err(e) => format!("{e:?}"),
        };
        assert_eq!(got, expect, "{text}");
    }

    #[test]
    fn addresses_and_networks() {
        check("192.168.0.1", "192.168.0.1/32");
        check("192.168.1", "192.168.0.1/32");
        check("10.0.0.12/8", "10.0.0.0/8");
        check("10.12/8", "10.0.0.0/8");
        check("127.1", "127.0.0.1/32");
        check("0.0.0.0/0", "0.0.0.0/0");
        check("10.1.2.3/255.255.0.0", "10.1.0.0/16");
        check("10.1.2.3/255.0.255.0", "10.0.2.0 & 255.0.255.0");
        check("2001:db8::1/32", "2001:db8::/32");
        check("::/0", "::/0");
        check("::1", "::1/128");
    }

    #[test]
    fn the_c_library_s_reading() {
        let check = |text: &str, expect: &str| {
            let got = inet_aton(text).map(|a| a.to_string());
            assert_eq!(got.as_deref().unwrap_or(""), expect, "{text}");
        };
        check("010.0.0.1", "8.0.0.1");
        check("10", "0.0.0.10");
        check("4294967295", "255.255.255.255");
        check("4294967296", "");
        check("10.16777215", "10.255.255.255");
        check("10.16777216", "");
        check("1.2.3.4.5", "");
        check("09.1", "");
        check("256.1", "");
    }

    #[test]
    fn what_is_none() {
        check("localhost", "Address");
        check("10", "Address");
        check("10.0.0.0.1", "Address");
        check("010.0.0.1", "Address");
        check("10.0.0.256", "Address");
        check("256.0.0.1", "Address");
        check("10..1", "Address");
        check("", "Address");
        check("10.0.0.0/33", "Mask");
        check("10.0.0.0/", "Mask");
        check("10.0.0.0/+8", "Mask");
        check("::/129", "Mask");
        check("::/ffff::", "Mask");
    }
}
