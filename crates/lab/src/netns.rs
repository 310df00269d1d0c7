//! Client, proxy and origin as three hosts: network namespaces joined by veth pairs, with any MTU on either side.
//!
//! ```text
//!   client 198.18.1.1 ──── mtu A ──── 198.18.1.2 proxy 198.18.2.1 ──── mtu B ──── 198.18.2.2 origin
//! ```
//! The addresses are of the range for benchmarks (RFC 2544, 198.18.0.0/15) and exist only inside. The namespaces have
//! no names: nothing but this process and its children holds them, so they are gone with it however it ends.

use crate::sys;
use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

/// A network namespace.
#[derive(Debug)]
pub struct Netns(File);

const OWN: &str = "/proc/thread-self/ns/net";

impl Netns {
    /// A new one with its loopback up.
    ///
    /// # Errors
    /// Without the right to make it.
    pub fn new() -> Result<Self> {
        let make = || -> Result<File> {
            sys::unshare_network().context("cannot make a network namespace (this needs root)")?;
            Ok(File::open(OWN)?)
        };
        // A thread of its own, because a thread cannot leave its namespace but by entering another.
        let file = std::thread::spawn(make)
            .join()
            .map_err(|_| anyhow::anyhow!("the namespace's thread failed"))??;
        let netns = Self(file);
        netns.ip(&["link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// Runs `work` on this thread inside the namespace. Sockets and processes made there stay there.
    ///
    /// # Errors
    /// When the namespace cannot be entered; whatever `work` returns is inside.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let home = File::open(OWN)?;
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter a network namespace")?;
        let result = work();
        move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot leave a network namespace")?;
        Ok(result)
    }

    fn ip(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new("ip");
        // A Ctrl-C is ours to act on: the host that is being built is finished first, then taken down.
        sys::bind_child_life(command.args(args));
        let output = self
            .enter(|| command.output())?
            .context("cannot run 'ip' (package iproute2)")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("ip {}: {}", args.join(" "), why.trim());
        }
        Ok(())
    }

    /// Packets received and sent by an interface of this namespace.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn packets(&self, interface: &str) -> Result<Packets> {
        // The file shows the namespace of the thread that opens it.
        let text = self.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        parse_packets(&text, interface)
            .with_context(|| format!("there is no interface {interface}"))
    }
}

/// Packets through an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packets {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

fn parse_packets(text: &str, interface: &str) -> Option<Packets> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    Some(Packets {
        received: *fields.get(1)?,
        sent: *fields.get(9)?,
    })
}

/// The three hosts.
#[derive(Debug)]
pub struct Topology {
    /// Where the load comes from.
    pub client: Netns,
    /// Where the proxy runs.
    pub proxy: Netns,
    /// Where the origin runs.
    pub origin: Netns,
}

/// The client's interface.
pub const CLIENT_SIDE: &str = "client0";
/// The origin's interface.
pub const ORIGIN_SIDE: &str = "origin0";

impl Topology {
    /// Address of the proxy as the client sees it.
    pub const PROXY: IpAddr = ip(1, 2);
    /// Address of the origin as the proxy sees it.
    pub const ORIGIN: IpAddr = ip(2, 2);

    /// Builds the hosts and the cables.
    ///
    /// # Errors
    /// Without root, without `ip` (package iproute2), or with an impossible MTU.
    pub fn new(client_mtu: u32, origin_mtu: u32) -> Result<Self> {
        let hosts = Self {
            client: Netns::new()?,
            proxy: Netns::new()?,
            origin: Netns::new()?,
        };
        cable(
            &hosts.client,
            (CLIENT_SIDE, "198.18.1.1/24"),
            &hosts.proxy,
            ("front0", "198.18.1.2/24"),
            client_mtu,
        )?;
        cable(
            &hosts.origin,
            (ORIGIN_SIDE, "198.18.2.2/24"),
            &hosts.proxy,
            ("back0", "198.18.2.1/24"),
            origin_mtu,
        )?;
        Ok(hosts)
    }
}

const fn ip(net: u8, host: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(198, 18, net, host))
}

fn cable(
    one: &Netns,
    (a, a_addr): (&str, &str),
    other: &Netns,
    (b, b_addr): (&str, &str),
    mtu: u32,
) -> Result<()> {
    let (mtu, far) = (
        mtu.to_string(),
        format!("/proc/{}/fd/{}", std::process::id(), other.0.as_raw_fd()),
    );
    one.ip(&[
        "link", "add", a, "mtu", &mtu, "type", "veth", "peer", "name", b, "mtu", &mtu, "netns",
        &far,
    ])?;
    for (netns, name, addr) in [(one, a, a_addr), (other, b, b_addr)] {
        netns.ip(&["addr", "add", addr, "dev", name])?;
        netns.ip(&["link", "set", name, "up"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::{self, Origin};
    use std::io::{Read, Write};
    use std::net::SocketAddr;

    #[test]
    fn counters_of_an_interface() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo:  10 1 0 0 0 0 0 0  10 2 0 0 0 0 0 0\n\
                    client0: 500 7 0 0 0 0 0 0 900 8 0 0 0 0 0 0\n";
        assert_eq!(
            parse_packets(text, "client0"),
            Some(Packets {
                received: 7,
                sent: 8
            })
        );
        assert_eq!(parse_packets(text, "client"), None);
    }

    #[test]
    fn three_hosts_reach_each_other_only_along_the_cables() {
        let hosts = match Topology::new(1500, 9000) {
            Ok(hosts) => hosts,
            Err(error) => return eprintln!("skipped: {error:#}"),
        };
        let options = origin::Options {
            listen: SocketAddr::new(Topology::ORIGIN, 0),
            ..origin::Options::default()
        };
        let origin = hosts
            .origin
            .enter(|| Origin::start(&options))
            .unwrap()
            .unwrap();
        let ask = || -> std::io::Result<String> {
            let timeout = std::time::Duration::from_secs(2);
            let mut stream = std::net::TcpStream::connect_timeout(&origin.addr(), timeout)?;
            stream.write_all(b"GET /?s=5&c=text HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = hosts.proxy.enter(ask).unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            hosts.client.enter(ask).unwrap().is_err(),
            "the client has no way to the origin but the proxy"
        );
        assert!(hosts.origin.packets(ORIGIN_SIDE).unwrap().received >= 5);
        assert!(hosts.origin.packets(CLIENT_SIDE).is_err());
    }
}
