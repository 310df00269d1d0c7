//! Networks: `-m ip`. The longest prefix wins, in tries of IPv4 and of IPv6 networks; an address of one family is also
//! looked for in the other as manual chapter 7.1.6 tells. Masks with holes are tried last, in the order of the list.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use prefix_trie::PrefixMap;

use super::elements::Elements;
use super::network::{Network, mask4, mask6, v4_inside};

/// Networks added since the tries were built that are kept in tries of their own.
const RECENT_MAX: usize = if cfg!(test) { 4 } else { 512 };

type Trie4 = PrefixMap<(u32, u8), u32>;
type Trie6 = PrefixMap<(u128, u8), u32>;

pub(super) struct AddressIndex {
    state: ArcSwap<State>,
}

#[derive(Clone, Default)]
struct State {
    base: Arc<Tries>,
    recent: Tries,
    masked: Vec<(u32, u32, u32)>,
}

#[derive(Clone, Default)]
struct Tries {
    v4: Trie4,
    v6: Trie6,
    /// Networks written twice: the later ones wait here until the first is deleted.
    again: Vec<(Network, u32)>,
}

/// Gives the network an entry stands for: its text read, or what its host name resolved to.
pub(super) type Resolve<'r> = &'r dyn Fn(&[u8]) -> Option<Network>;

impl AddressIndex {
    pub(super) fn build(all: &Elements, resolve: Resolve<'_>) -> Self {
        AddressIndex {
            state: ArcSwap::from_pointee(State::build(all, resolve)),
        }
    }

    pub(super) fn add(&self, id: u32, network: Network) {
        let mut next = State::clone(&self.state.load());
        if let Network::Masked { addr, mask } = network {
            next.masked.push((addr, mask, id));
        } else {
            next.recent.insert(network, id);
            if next.recent.len() >= RECENT_MAX {
                let mut base = Tries::clone(&next.base);
                base.absorb(std::mem::take(&mut next.recent));
                next.base = Arc::new(base);
            }
        }
        self.state.store(next.into());
    }

    pub(super) fn rebuild(&self, all: &Elements, resolve: Resolve<'_>) {
        self.state.store(State::build(all, resolve).into());
    }

    pub(super) fn find(&self, addr: IpAddr, all: &Elements) -> Option<u32> {
        let state = self.state.load();
        let (v4, found) = match addr {
            IpAddr::V4(a) => {
                let found = state
                    .find4(a.to_bits(), all)
                    .or_else(|| state.find6(mapped(a), all));
                (Some(a.to_bits()), found)
            }
            IpAddr::V6(a) => {
                let v4 = v4_inside(a);
                let found = state
                    .find6(a.to_bits(), all)
                    .or_else(|| state.find4(v4?, all));
                (v4, found)
            }
        };
        found.or_else(|| {
            let v4 = v4?;
            let holds =
                |(addr, mask, id): &&(u32, u32, u32)| v4 & mask == *addr && all.is_live(*id);
            state.masked.iter().find(holds).map(|(_, _, id)| *id)
        })
    }

    pub(super) fn memory(&self) -> usize {
        let state = self.state.load();
        let tries = |t: &Tries| {
            t.v4.mem_size() + t.v6.mem_size() + t.again.capacity() * size_of::<(Network, u32)>()
        };
        tries(&state.base) + tries(&state.recent) + state.masked.capacity() * 12
    }
}

fn mapped(a: Ipv4Addr) -> u128 {
    a.to_ipv6_mapped().to_bits()
}

impl State {
    fn build(all: &Elements, resolve: Resolve<'_>) -> Self {
        let mut base = Tries::default();
        let mut masked = Vec::new();
        all.visit(0, |id, key, _| {
            match resolve(key) {
                Some(Network::Masked { addr, mask }) => masked.push((addr, mask, id)),
                Some(network) => base.insert(network, id),
                None => {}
            }
            true
        });
        State {
            base: Arc::new(base),
            recent: Tries::default(),
            masked,
        }
    }

    fn find4(&self, addr: u32, all: &Elements) -> Option<u32> {
        let a = self.base.find4(addr, all);
        let b = self.recent.find4(addr, all);
        longest(a, b)
    }

    fn find6(&self, addr: u128, all: &Elements) -> Option<u32> {
        let a = self.base.find6(addr, all);
        let b = self.recent.find6(addr, all);
        longest(a, b)
    }
}

/// Of two `(prefix length, number)`, the longer prefix; of equal ones the earlier entry.
fn longest(a: Option<(u8, u32)>, b: Option<(u8, u32)>) -> Option<u32> {
    let best = match (a, b) {
        (Some(a), Some(b)) if (b.0, !b.1) > (a.0, !a.1) => Some(b),
        (None, b) => b,
        (a, _) => a,
    };
    best.map(|(_, id)| id)
}

impl Tries {
    fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.again.len()
    }

    fn insert(&mut self, network: Network, id: u32) {
        let taken = match network {
            Network::V4 { addr, len } => match self.v4.get(&(addr, len)) {
                Some(_) => true,
                None => self.v4.insert((addr, len), id).is_some(),
            },
            Network::V6 { addr, len } => match self.v6.get(&(addr, len)) {
                Some(_) => true,
                None => self.v6.insert((addr, len), id).is_some(),
            },
            Network::Masked { .. } => false,
        };
        if taken {
            self.again.push((network, id));
        }
    }

    fn absorb(&mut self, newer: Tries) {
        for ((addr, len), id) in newer.v4.iter() {
            self.insert(Network::V4 { addr, len }, *id);
        }
        for ((addr, len), id) in newer.v6.iter() {
            self.insert(Network::V6 { addr, len }, *id);
        }
        for (network, id) in newer.again {
            self.insert(network, id);
        }
    }

    fn find4(&self, addr: u32, all: &Elements) -> Option<(u8, u32)> {
        if self.v4.is_empty() {
            return None;
        }
        let (net, id) = self.v4.get_lpm(&(addr, 32))?;
        if all.is_live(*id) {
            return Some((net.1, *id));
        }
        // The longest one has been deleted: the others around the address, and the second of equal ones.
        let tries = self.v4.cover(&(addr, 32)).map(|(net, id)| (net.1, *id));
        let again = self.again.iter().filter_map(|(net, id)| match net {
            Network::V4 { addr: a, len } if addr & mask4(*len) == *a => Some((*len, *id)),
            _ => None,
        });
        first_live(tries.chain(again), all)
    }

    fn find6(&self, addr: u128, all: &Elements) -> Option<(u8, u32)> {
        if self.v6.is_empty() {
            return None;
        }
        let (net, id) = self.v6.get_lpm(&(addr, 128))?;
        if all.is_live(*id) {
            return Some((net.1, *id));
        }
        let tries = self.v6.cover(&(addr, 128)).map(|(net, id)| (net.1, *id));
        let again = self.again.iter().filter_map(|(net, id)| match net {
            Network::V6 { addr: a, len } if addr & mask6(*len) == *a => Some((*len, *id)),
            _ => None,
        });
        first_live(tries.chain(again), all)
    }
}

fn first_live(found: impl Iterator<Item = (u8, u32)>, all: &Elements) -> Option<(u8, u32)> {
    found
        .filter(|(_, id)| all.is_live(*id))
        .max_by_key(|(len, id)| (*len, !*id))
}
