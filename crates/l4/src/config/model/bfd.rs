//! `bfd_instance`.

use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bfd {
    pub name: String,
    /// Always there in a configuration that is accepted.
    pub neighbour: Option<IpAddr>,
    pub source: Option<IpAddr>,
    pub min_rx_us: u32,
    pub min_tx_us: u32,
    pub idle_tx_us: u32,
    pub multiplier: u8,
    pub passive: bool,
    /// `ttl`, `hoplimit`.
    pub ttl: Option<u8>,
    /// 255: as many as there are.
    pub max_hops: u8,
    /// What `track_bfd` means where it says no weight.
    pub weight: i32,
    pub reverse: bool,
    /// `vrrp` and `checker`; neither said means both.
    pub vrrp_said: bool,
    pub checker_said: bool,
}

impl Bfd {
    pub fn for_vrrp(&self) -> bool {
        self.vrrp_said || !self.checker_said
    }
    pub fn for_checkers(&self) -> bool {
        self.checker_said || !self.vrrp_said
    }
    /// What packets leave with, here and (it is assumed) at the neighbour.
    pub fn hops_sent(&self) -> u8 {
        let v6 = self.neighbour.is_some_and(|ip| ip.is_ipv6());
        self.ttl.unwrap_or(if v6 { 64 } else { 255 })
    }
    /// The least that a packet may arrive with.
    pub fn hops_min(&self) -> u8 {
        match self.max_hops {
            255 => 0,
            n => self.hops_sent().saturating_sub(n),
        }
    }
}
