//! Interfaces: listed, made (macvlans), removed, and given XDP programs.

use super::*;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Administratively up, and with a carrier.
    pub up: bool,
    pub mac: [u8; 6],
    pub mtu: u32,
    /// The interface it stands on.
    pub base: Option<u32>,
    /// "veth", "macvlan" ... where the kernel says.
    pub kind: String,
    /// The XDP program attached, by the kernel's number.
    pub xdp: Option<u32>,
}

impl Netlink {
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let answer = self.ask(RTM_GETLINK, DUMP, &[0; 16])?;
        Ok(answer.iter().filter_map(|(_, body)| link(body)).collect())
    }

    pub fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        Ok(self.links()?.into_iter().find(|l| l.name == name))
    }

    /// Makes a private macvlan over `base` and sets it up. It makes no link-local address of its MAC: that is the twin's too.
    pub fn add_macvlan(&mut self, base: u32, name: &str, mac: [u8; 6]) -> io::Result<()> {
        const MACVLAN_MODE_PRIVATE: u32 = 1;
        const IFLA_AF_SPEC: u16 = 26;
        const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
        const ADDR_GEN_MODE_NONE: u8 = 1;
        let named = |m: Message| m.attribute(3, &[name.as_bytes(), &[0]].concat());
        let data = Message::default().number(1, MACVLAN_MODE_PRIVATE).0;
        let info = Message::default()
            .attribute(1, b"macvlan\0")
            .attribute(2, &data)
            .0;
        let m = named(Message(vec![0; 16]))
            .number(5, base)
            .attribute(1, &mac)
            .attribute(18, &info);
        let result = self.ask(RTM_NEWLINK, ACK | CREATE | EXCLUSIVE, &m.0);
        tolerate(result, libc::EEXIST)?;
        let mode = Message::default().attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
        let family = Message::default().attribute(libc::AF_INET6 as u16, &mode.0);
        let m = named(Message(vec![0; 16])).attribute(IFLA_AF_SPEC, &family.0);
        // Without IPv6 there is nothing to keep from it.
        tolerate(self.ask(RTM_SETLINK, ACK, &m.0), libc::EAFNOSUPPORT)?;
        let mut body = vec![0; 8];
        body.extend(IFF_UP.to_ne_bytes());
        body.extend(IFF_UP.to_ne_bytes());
        self.ask(RTM_SETLINK, ACK, &named(Message(body)).0)
            .map(drop)
    }

    /// Attaches an XDP program to an interface (in the driver or, if `generic`, in the stack), or detaches what is there.
    ///
    /// Attached like this, and not by a BPF link, a program outlives its process: after a crash packets are forwarded by
    /// the last tables, as IPVS would, until the next start replaces the program.
    pub fn set_xdp(
        &mut self,
        ifindex: u32,
        program: Option<BorrowedFd<'_>>,
        generic: bool,
    ) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        const IFLA_XDP_NESTED: u16 = 43 | 0x8000;
        let fd = program.map_or(-1, |p| p.as_raw_fd());
        let flags: u32 = if generic { 2 } else { 4 };
        let mut body = vec![0; 4];
        body.extend(ifindex.to_ne_bytes());
        body.extend([0; 8]);
        let xdp = Message::default()
            .attribute(1, &fd.to_ne_bytes())
            .number(3, flags)
            .0;
        self.ask(
            RTM_SETLINK,
            ACK,
            &Message(body).attribute(IFLA_XDP_NESTED, &xdp).0,
        )
        .map(drop)
    }

    pub fn remove_link(&mut self, index: u32) -> io::Result<()> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend([0; 8]);
        self.ask(RTM_DELLINK, ACK, &body).map(drop)
    }
}

pub(super) fn link(body: &[u8]) -> Option<Link> {
    let flags = number32(body, 8);
    let mut link = Link {
        index: number32(body, 4),
        name: String::new(),
        up: flags & IFF_UP != 0 && flags & IFF_RUNNING != 0,
        mac: [0; 6],
        mtu: 0,
        base: None,
        kind: String::new(),
        xdp: None,
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            1 => link.mac = value.try_into().unwrap_or_default(),
            3 => {
                link.name = String::from_utf8_lossy(value)
                    .trim_end_matches('\0')
                    .to_string()
            }
            4 => link.mtu = number32(value, 0),
            5 => link.base = Some(number32(value, 0)),
            // IFLA_XDP: IFLA_XDP_PROG_ID where there is one.
            43 => {
                link.xdp = attributes(value)
                    .find(|(k, _)| *k == 4)
                    .map(|(_, v)| number32(v, 0))
            }
            18 => {
                if let Some((_, kind)) = attributes(value).find(|(k, _)| *k == 1) {
                    link.kind = String::from_utf8_lossy(kind)
                        .trim_end_matches('\0')
                        .to_string();
                }
            }
            _ => {}
        }
    }
    Some(link)
}
