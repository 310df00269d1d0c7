//! Addresses and ports: `ipmask`, and the two parts of a Host header.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::args::Arg;
use crate::conv::operand::{on_bytes, slice_cow};
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample, Type, Value};

converters! {
    "ipmask" (Mask4; Mask6) Addr -> Addr, ipmask
        => "The address with a mask applied: one for IPv4, one for IPv6 without which IPv6 gives nothing.";
    "host_only" () Str -> Str, |_, s, _| on_bytes(s, |s| Some(Value::Str(host_only(s))))
        => "The host of a Host header, in lower case; an IPv6 address keeps its brackets.";
    "port_only" () Str -> Sint, |_, s, _| on_bytes(s, |s| Some(Value::Sint(port_only(&s))))
        => "The port of a Host header, 0 when it has none.";
}

/// An IPv4 address written as IPv6 is masked as IPv4.
fn ipmask<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let value = match (sample.value, args) {
        (value @ (Value::Ipv4(_) | Value::Ipv6(_)), [Arg::Mask4(mask4), rest @ ..]) => {
            match (value.clone().cast(Type::Ipv4), value, rest.first()) {
                (Some(Value::Ipv4(a)), ..) => {
                    Value::Ipv4(Ipv4Addr::from_bits(a.to_bits() & mask4.to_bits()))
                }
                (_, Value::Ipv6(a), Some(Arg::Mask6(mask6))) => {
                    Value::Ipv6(Ipv6Addr::from_bits(a.to_bits() & mask6.to_bits()))
                }
                _ => return Err(Absent::Never),
            }
        }
        _ => return Err(Absent::Never),
    };
    Ok(Sample { value, ..sample })
}

/// Where the colon before the port is: the last one, unless it is inside brackets.
fn port_colon(host: &[u8]) -> Option<usize> {
    host.iter()
        .rposition(|c| *c == b':' || *c == b']')
        .filter(|at| host[*at] == b':')
}

fn host_only(host: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let end = port_colon(&host).unwrap_or(host.len());
    let host = slice_cow(host, 0..end);
    if !host.iter().any(u8::is_ascii_uppercase) {
        return host;
    }
    let mut host = host.into_owned();
    host.make_ascii_lowercase();
    Cow::Owned(host)
}

/// As HAProxy counts: without a look at the digits, in 32 bits.
fn port_only(host: &[u8]) -> i64 {
    let port = port_colon(host).map_or(&[][..], |at| &host[at + 1..]);
    let digit = |n: u32, c: &u8| {
        n.wrapping_mul(10)
            .wrapping_add(u32::from(*c).wrapping_sub(u32::from(b'0')))
    };
    i64::from(port.iter().fold(0, digit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_refused};

    #[test]
    fn masks() {
        check_all(&[
            ("str(192.168.1.9),ipmask(24)", Some("192.168.1.0")),
            ("ipv4(192.168.1.9),ipmask(255.255.0.0)", Some("192.168.0.0")),
            ("ipv4(192.168.1.9),ipmask(0)", Some("0.0.0.0")),
            ("ipv4(192.168.1.9),ipmask(32)", Some("192.168.1.9")),
            ("ipv4(192.168.1.9),ipmask(24,64)", Some("192.168.1.0")),
            ("ipv4(1.2.3.4),ipmask(255.0.255.0)", Some("1.0.3.0")),
            ("ipv6(2001:db8::1:2:3),ipmask(24,64)", Some("2001:db8::")),
            (
                "ipv6(2001:db8::1:2:3),ipmask(24,ffff:ffff::)",
                Some("2001:db8::"),
            ),
            ("ipv6(2001:db8::1:2:3),ipmask(24,0)", Some("::")),
            (
                "ipv6(2001:db8::1:2:3),ipmask(24,128)",
                Some("2001:db8::1:2:3"),
            ),
            ("ipv6(2001:db8::1:2:3),ipmask(24)", None),
            ("ipv6(::ffff:1.2.3.4),ipmask(16)", Some("1.2.0.0")),
            ("ipv6(::ffff:1.2.3.4),ipmask(16,120)", Some("1.2.0.0")),
            ("str(::1),ipmask(8,128)", Some("::1")),
            ("int(16909060),ipmask(8)", Some("1.0.0.0")),
            ("str(nope),ipmask(8)", None),
        ]);
        check_refused(&[
            ("ipv4(1.2.3.4),ipmask(33)", "mask"),
            ("ipv4(1.2.3.4),ipmask()", "argument"),
            ("ipv4(1.2.3.4),ipmask(,64)", "mask"),
        ]);
    }

    #[test]
    fn hosts() {
        check_all(&[
            ("str(Host:80),host_only", Some("host")),
            ("str(Host),host_only", Some("host")),
            ("str([FE80::1]:80),host_only", Some("[fe80::1]")),
            ("str([::1]),host_only", Some("[::1]")),
            ("str([::1),host_only", Some("[:")),
            ("str(::1),host_only", Some(":")),
            ("str(a:b:c),host_only", Some("a:b")),
            ("str(Host:),host_only", Some("host")),
            ("str(:80),host_only", Some("")),
            ("str(),host_only", Some("")),
            ("str(a]b:80),host_only", Some("a]b")),
            ("str([::1]x:80),host_only", Some("[::1]x")),
        ]);
    }

    #[test]
    fn ports() {
        check_all(&[
            ("str(Host:80),port_only", Some("80")),
            ("str(Host),port_only", Some("0")),
            ("str([::1]:8080),port_only", Some("8080")),
            ("str([::1]),port_only", Some("0")),
            ("str(::1),port_only", Some("1")),
            ("str(a:b),port_only", Some("50")),
            ("str(a:99999),port_only", Some("99999")),
            ("str(a:80x),port_only", Some("872")),
            ("str(a:),port_only", Some("0")),
            ("str(),port_only", Some("0")),
            ("str(a:-1),port_only", Some("4294967267")),
            ("str(a:0080),port_only", Some("80")),
        ]);
    }

    proptest! {
        #[test]
        fn masking_is_the_bitwise_and(address: u32, bits in 0u32..=32) {
            let address = std::net::Ipv4Addr::from_bits(address);
            let text = World::new(b"").run(&format!("ipv4({address}),ipmask({bits})")).unwrap().unwrap();
            let masked: std::net::Ipv4Addr = String::from_utf8(text).unwrap().parse().unwrap();
            let low = u64::from(u32::MAX) >> bits;
            prop_assert_eq!(u64::from(masked.to_bits()), u64::from(address.to_bits()) & !low);
        }

        #[test]
        fn the_second_mask_is_for_ipv6(address: u128, bits in 0u32..=128) {
            let address = std::net::Ipv6Addr::from_bits(address);
            // an IPv4 address in IPv6 clothes gets the first mask
            prop_assume!(crate::Value::Ipv6(address).cast(crate::Type::Ipv4).is_none());
            let text = World::new(b"").run(&format!("ipv6({address}),ipmask(8,{bits})")).unwrap().unwrap();
            let masked: std::net::Ipv6Addr = String::from_utf8(text).unwrap().parse().unwrap();
            let low = u128::MAX.checked_shr(bits).unwrap_or(0);
            prop_assert_eq!(masked.to_bits(), address.to_bits() & !low);
        }

        #[test]
        fn an_ipv4_address_in_ipv6_gets_the_first_mask(address: u32, bits in 0u32..=32) {
            let inside = std::net::Ipv4Addr::from_bits(address).to_ipv6_mapped();
            let text = World::new(b"").run(&format!("ipv6({inside}),ipmask({bits},0)")).unwrap().unwrap();
            let masked: std::net::Ipv4Addr = String::from_utf8(text).unwrap().parse().unwrap();
            let low = u64::from(u32::MAX) >> bits;
            prop_assert_eq!(u64::from(masked.to_bits()), u64::from(address) & !low);
        }
    }
}
