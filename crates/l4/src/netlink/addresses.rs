//! Addresses of interfaces. They are added so that they vanish with nothing else: each has its own prefix length and no
//! side effects.

use super::*;
use crate::config::model::VirtualAddress;

impl Netlink {
    /// Interface, address and prefix length of every address.
    pub fn addresses(&mut self) -> io::Result<Vec<(u32, IpAddr, u8)>> {
        let answer = self.ask(RTM_GETADDR, DUMP, &[0; 8])?;
        let mut all = Vec::new();
        for (_, body) in &answer {
            let attrs = body.get(8..).unwrap_or_default();
            // IFA_LOCAL where there is one (a peer address is IFA_ADDRESS), else IFA_ADDRESS.
            let find = |wanted| {
                attributes(attrs)
                    .find(|(k, _)| *k == wanted)
                    .and_then(|(_, v)| address(v))
            };
            if let Some(ip) = find(2).or_else(|| find(1)) {
                all.push((number32(body, 4), ip, body.get(1).copied().unwrap_or(0)));
            }
        }
        Ok(all)
    }

    fn address_message(ifindex: u32, a: &VirtualAddress) -> Vec<u8> {
        const IFA_F_NODAD: u32 = 2;
        const IFA_F_NOPREFIXROUTE: u32 = 0x200;
        let mut body = vec![family(a.ip), a.prefix, 0, a.scope];
        body.extend(ifindex.to_ne_bytes());
        if let Some((_, prefix)) = a.peer {
            body[1] = prefix;
        }
        let far = a.peer.map_or(a.ip, |(ip, _)| ip);
        let mut m = Message(body).ip(2, a.ip).ip(1, far);
        if let Some(brd) = a.broadcast {
            m = m.ip(4, brd.into());
        }
        if let Some(label) = &a.label {
            m = m.attribute(3, &[label.as_bytes(), &[0]].concat());
        }
        let mut flags = a.flags;
        // A virtual address moves here from elsewhere: waiting for duplicate detection would only delay it.
        if a.no_dad || a.ip.is_ipv6() {
            flags |= IFA_F_NODAD;
        }
        if a.no_prefix_route {
            flags |= IFA_F_NOPREFIXROUTE;
        }
        m = m.number(8, flags);
        // Preferred lifetime 0: the address is never chosen as a source. Valid for ever.
        let preferred_s = a
            .preferred_s
            .or((a.ip.is_ipv6() && a.prefix == 128).then_some(0));
        if let Some(preferred_s) = preferred_s {
            let mut info = preferred_s.to_ne_bytes().to_vec();
            info.extend(u32::MAX.to_ne_bytes());
            info.extend([0; 8]);
            m = m.attribute(6, &info);
        }
        m.0
    }

    /// Adds an address; one that is there already is no error.
    pub fn add_address(&mut self, ifindex: u32, a: &VirtualAddress) -> io::Result<()> {
        let result = self.ask(
            RTM_NEWADDR,
            ACK | CREATE | EXCLUSIVE,
            &Self::address_message(ifindex, a),
        );
        tolerate(result, libc::EEXIST)
    }

    /// Removes an address; one that is gone already is no error.
    pub fn remove_address(&mut self, ifindex: u32, a: &VirtualAddress) -> io::Result<()> {
        let result = self.ask(RTM_DELADDR, ACK, &Self::address_message(ifindex, a));
        tolerate(result, libc::EADDRNOTAVAIL)
    }
}
