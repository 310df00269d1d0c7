//! Neighbours: which MAC an address has.

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    pub ifindex: u32,
    pub ip: IpAddr,
    pub mac: [u8; 6],
}

impl Netlink {
    /// Neighbours whose MAC is known.
    pub fn neighbours(&mut self) -> io::Result<Vec<Neighbour>> {
        const NUD_USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
        let answer = self.ask(RTM_GETNEIGH, DUMP, &[0; 12])?;
        let mut all = Vec::new();
        for (kind, body) in &answer {
            if *kind != RTM_NEWNEIGH || number16(body, 8) & NUD_USABLE == 0 {
                continue;
            }
            let (mut ip, mut mac) = (None, None);
            for (kind, value) in attributes(body.get(12..).unwrap_or_default()) {
                match kind {
                    1 => ip = address(value),
                    2 => mac = <[u8; 6]>::try_from(value).ok(),
                    _ => {}
                }
            }
            if let (Some(ip), Some(mac)) = (ip, mac) {
                all.push(Neighbour {
                    ifindex: number32(body, 4),
                    ip,
                    mac,
                });
            }
        }
        Ok(all)
    }

    /// Asks the kernel to resolve a neighbour (or to make sure of it), as if a packet were sent there.
    pub fn probe_neighbour(&mut self, ifindex: u32, ip: IpAddr) -> io::Result<()> {
        const NTF_USE: u8 = 1;
        let mut body = vec![family(ip), 0, 0, 0];
        body.extend(ifindex.to_ne_bytes());
        body.extend([0, 0, NTF_USE, 0]);
        self.ask(RTM_NEWNEIGH, ACK | CREATE, &Message(body).ip(1, ip).0)
            .map(drop)
    }
}
