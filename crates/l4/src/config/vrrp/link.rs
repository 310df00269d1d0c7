//! How an instance speaks to its peers: authentication, unicast peers, its macvlan.

use crate::config::diagnostic::Severity;
use crate::config::keyword::{Args, Keyword, works};
use crate::config::model::*;

type Instance = VrrpInstance;

pub(super) static AUTHENTICATION: &[Keyword<Authentication>] = &[
    works(
        "auth_type",
        "PASS|AH",
        "kind of authentication",
        |auth, a| {
            let Some(word) = a.word("PASS or AH") else {
                return;
            };
            match word.text.as_str() {
                "PASS" => auth.kind = Some(AuthKind::Pass),
                "AH" => {
                    auth.kind = Some(AuthKind::Ah);
                    a.cx.report(
                        Severity::Unsupported,
                        Some(word.place()),
                        "AH authentication is not supported; RFC 3768 removed it",
                    );
                }
                _ => a.error_at(
                    word,
                    format!("authentication type '{}' is neither PASS nor AH", word.text),
                ),
            }
        },
    ),
    works("auth_pass", "PASSWORD", "up to 8 characters", |auth, a| {
        let Some(word) = a.word("a password") else {
            return;
        };
        let mut pass = [0; 8];
        for (to, from) in pass.iter_mut().zip(word.text.bytes()) {
            *to = from;
        }
        if word.text.len() > 8 {
            a.dubious_at(word, "only the first 8 characters of a password are sent");
        }
        auth.pass = Some(pass);
    }),
];

pub(super) fn unicast_peers(i: &mut Instance, a: &mut Args<'_, '_>) {
    i.unicast_keyword = true;
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        let Some(address) = e.address() else { continue };
        let mut peer = UnicastPeer {
            address,
            ttl_min: None,
            ttl_max: None,
        };
        while let Some(word) = e.optional() {
            match word.text.as_str() {
                "min_ttl" => peer.ttl_min = e.number_u8(0..=255),
                "max_ttl" => peer.ttl_max = e.number_u8(0..=255),
                _ => e.error_at(
                    word,
                    format!("'{}' is neither min_ttl nor max_ttl", word.text),
                ),
            }
        }
        i.unicast_peers.push(peer);
    }
}

pub(super) fn vmac(i: &mut Instance, a: &mut Args<'_, '_>) {
    let keyword = a.keyword();
    if i.vmac.as_ref().is_some_and(|v| v.name.is_some()) {
        a.dubious_at(
            keyword,
            "the macvlan has a name already: this line is passed over",
        );
        return a.skip();
    }
    let mut vmac = Vmac::default();
    while let Some(word) = a.optional() {
        if word.text.contains(':') {
            // Of five bytes, the last is the router's number, which may not be known yet.
            vmac.mac = mac(&word.text).or_else(|| mac(&format!("{}:00", word.text)));
            vmac.mac_ends_in_vrid = word.text.split(':').count() == 5;
            if vmac.mac.is_none_or(|m| m[0] & 1 == 1) {
                a.error_at(
                    word,
                    format!("'{}' is not a unicast MAC address", word.text),
                );
            } else if vmac.mac.is_some_and(|m| m.starts_with(&[0, 0, 0x5e, 0])) {
                a.dubious_at(word, "a MAC of VRRP's own range is what the router has without saying: it is left out");
                (vmac.mac, vmac.mac_ends_in_vrid) = (None, false);
            }
        } else if word.text.len() > 15 {
            a.error_at(word, "an interface name has at most 15 characters");
        } else {
            vmac.name = Some(word.text.clone());
        }
    }
    i.vmac = Some(vmac);
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut out = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut out {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(out)
}
