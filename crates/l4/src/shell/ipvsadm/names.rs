//! Names for ports and addresses, as listings without `-n` have them: those of this machine's own files. No name server is asked: a
//! director's listing must not wait for one.

use std::collections::HashMap;
use std::net::IpAddr;

/// What /etc/services and /etc/hosts say; empty for numeric listings.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By port and protocol ("tcp").
    ports: HashMap<(u16, String), String>,
    hosts: HashMap<IpAddr, String>,
}

impl Names {
    pub(super) fn of_this_machine(numeric: bool) -> Names {
        if numeric {
            return Names::default();
        }
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Names::read(&read("/etc/services"), &read("/etc/hosts"))
    }

    /// services(5) and hosts(5); the first name of each counts.
    fn read(services: &str, hosts: &str) -> Names {
        let mut names = Names::default();
        let lines = |text: &str| -> Vec<Vec<String>> {
            let plain = text.lines().map(|l| l.split('#').next().unwrap_or(""));
            plain
                .map(|l| l.split_whitespace().map(String::from).collect())
                .filter(|words: &Vec<String>| words.len() > 1)
                .collect()
        };
        for line in lines(services) {
            if let Some((port, protocol)) = line[1].split_once('/')
                && let Ok(port) = port.parse()
            {
                let key = (port, protocol.to_string());
                names.ports.entry(key).or_insert_with(|| line[0].clone());
            }
        }
        for line in lines(hosts) {
            if let Ok(ip) = line[0].parse::<IpAddr>() {
                names.hosts.entry(ip).or_insert_with(|| line[1].clone());
            }
        }
        names
    }

    /// `10.0.0.1:http`, `[fd00::1]:80`.
    pub(super) fn address(&self, ip: IpAddr, port: u16, protocol: &str) -> String {
        let host = match (self.hosts.get(&ip), ip) {
            (Some(name), IpAddr::V4(_)) => name.clone(),
            (Some(name), IpAddr::V6(_)) => format!("[{name}]"),
            (None, IpAddr::V4(ip)) => ip.to_string(),
            (None, IpAddr::V6(ip)) => format!("[{ip}]"),
        };
        let key = (port, protocol.to_ascii_lowercase());
        match self.ports.get(&key) {
            Some(name) => format!("{host}:{name}"),
            None => format!("{host}:{port}"),
        }
    }
}

/// The port of that name, as services(5) has it here.
pub(super) fn port(name: &str, protocol: &str) -> Option<u16> {
    let names = Names::of_this_machine(false);
    let found = names
        .ports
        .iter()
        .find(|((_, p), n)| *n == name && p == protocol);
    found.map(|((port, _), _)| *port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_counts_and_what_has_none_is_a_number() {
        let names = Names::read(
            "# ports\nhttp 80/tcp www # web\nhttp-alt\t8080/tcp\nbroken\ndomain 53/udp\n",
            "127.0.0.1 localhost here\n::1 localhost ip6-localhost\n10.0.0.9 web1.example\n",
        );
        for (ip, port, protocol, expect) in [
            ("10.0.0.1", 80, "TCP", "10.0.0.1:http"),
            ("10.0.0.9", 81, "TCP", "web1.example:81"),
            ("127.0.0.1", 8080, "TCP", "localhost:http-alt"),
            ("fd00::1", 53, "UDP", "[fd00::1]:domain"),
            ("fd00::1", 53, "TCP", "[fd00::1]:53"),
        ] {
            let got = names.address(ip.parse().unwrap(), port, protocol);
            assert_eq!(got, expect);
        }
    }
}
