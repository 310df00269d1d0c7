//! `sluice-lab doctor`: looks at the host as the set-up chapter of the 2019 cookbook does, and says for each point what
//! is there, what is wanted, the command that sets it, and why.
//!
//! Every point is one item of [`CHECKS`]. It reads files below a root folder, so that tests can make a host of their own.
//! Changes nothing; [`apply`] does what `--apply` asks for, and only for points that are one value in one file.

use crate::units::{show_count, show_size};
use std::fs;
use std::path::{Path, PathBuf};

/// A host to look at: its file system's root.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
        }
    }
}

/// What was found at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is there.
    pub found: String,
    /// What is wanted.
    pub wanted: String,
    /// Whether it will do; `None` when it does not apply here.
    pub ok: Option<bool>,
    /// The command that sets it; empty when there is none.
    pub command: String,
    /// File and value, when that is all there is to set.
    pub set: Option<(PathBuf, String)>,
}

/// One point.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Why it matters.
    pub why: &'static str,
    look: fn(&Host) -> Finding,
}

/// All points, in the order of the report.
pub const CHECKS: &[Check] = &[
    Check {
        name: "receive buffers",
        why: "a receive window below bandwidth times delay caps every connection's rate",
        look: |host| {
            last_of(
                host,
                "net/ipv4/tcp_rmem",
                16 << 20,
                "4096 131072 16777216",
                show_bytes,
            )
        },
    },
    Check {
        name: "send buffers",
        why: "a send buffer below bandwidth times delay caps every connection's rate",
        look: |host| {
            last_of(
                host,
                "net/ipv4/tcp_wmem",
                16 << 20,
                "4096 65536 16777216",
                show_bytes,
            )
        },
    },
    Check {
        name: "largest socket buffer",
        why: "bounds what a program may ask for with SO_RCVBUF and SO_SNDBUF",
        look: |host| at_least(host, "net/core/rmem_max", 16 << 20, show_bytes),
    },
    Check {
        name: "port range",
        why: "a proxy uses one local port per connection to a server: 28 000 are soon used up",
        look: port_range,
    },
    Check {
        name: "accept queue",
        why: "connections beyond it are dropped while a worker is busy",
        look: |host| at_least(host, "net/core/somaxconn", 65_535, show_plain),
    },
    Check {
        name: "SYN queue",
        why: "half-open connections beyond it are dropped or answered with cookies",
        look: |host| at_least(host, "net/ipv4/tcp_max_syn_backlog", 65_535, show_plain),
    },
    Check {
        name: "packet queue of a CPU",
        why: "packets that arrive faster than a CPU takes them are dropped beyond it",
        look: |host| at_least(host, "net/core/netdev_max_backlog", 10_000, show_plain),
    },
    Check {
        name: "TIME_WAIT reuse",
        why: "lets a port serve again after a second instead of a minute",
        look: |host| at_least(host, "net/ipv4/tcp_tw_reuse", 1, show_plain),
    },
    Check {
        name: "file-max",
        why: "all sockets of the machine together",
        look: |host| at_least(host, "fs/file-max", 2_000_000, show_plain),
    },
    Check {
        name: "nr_open",
        why: "bounds the descriptors one process may be allowed",
        look: |host| at_least(host, "fs/nr_open", 2_000_000, show_plain),
    },
    Check {
        name: "ulimit -n",
        why: "two descriptors per proxied connection, and pipes beside them when splicing",
        look: descriptors,
    },
    Check {
        name: "connection tracking",
        why: "a full table drops packets; tracking at all costs CPU for every packet",
        look: conntrack,
    },
    Check {
        name: "CPU governor",
        why: "a clock that follows the load makes measurements follow it too",
        look: governor,
    },
    Check {
        name: "clock source",
        why: "reading a slow clock is a system call at every event",
        look: clock_source,
    },
    Check {
        name: "irqbalance",
        why: "moves interrupts while a measurement runs",
        look: irqbalance,
    },
    Check {
        name: "interrupt affinity",
        why: "a card's queues should interrupt different CPUs, near the workers they feed",
        look: irq_affinity,
    },
    Check {
        name: "receive queues",
        why: "one queue feeds one CPU: fewer queues than CPUs leave some without packets",
        look: receive_queues,
    },
    Check {
        name: "MTU",
        why: "9000 on a path that allows it means a sixth of the packets",
        look: mtu,
    },
    Check {
        name: "large receive offload",
        why: "merged segments are cheaper to forward; LRO (not GRO) breaks what is routed on",
        look: offloads,
    },
    Check {
        name: "huge pages",
        why: "fewer misses of the address translation for large tables and maps",
        look: huge_pages,
    },
    Check {
        name: "NUMA",
        why: "a worker far from its card's memory pays for every packet: cpu-map to the card's node",
        look: numa,
    },
];

fn show_bytes(value: u64) -> String {
    show_size(value)
}

fn show_plain(value: u64) -> String {
    value.to_string()
}

impl Host {
    /// A host whose root is elsewhere.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path))
            .ok()
            .map(|text| text.trim().to_owned())
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(dir))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Network cards: interfaces with a device behind them.
    fn cards(&self) -> Vec<String> {
        let real = |name: &String| {
            self.root
                .join("sys/class/net")
                .join(name)
                .join("device")
                .exists()
        };
        self.names("sys/class/net")
            .into_iter()
            .filter(real)
            .collect()
    }

    fn cpus(&self) -> usize {
        let text = self.read("proc/cpuinfo").unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("processor"))
            .count()
            .max(1)
    }
}

impl Finding {
    fn new(
        ok: Option<bool>,
        found: impl Into<String>,
        wanted: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self {
            found: found.into(),
            wanted: wanted.into(),
            ok,
            command: command.into(),
            set: None,
        }
    }

    fn absent(what: &str) -> Self {
        Self::new(None, what, "-", "")
    }
}

/// A kernel setting that should be at least `least`.
fn at_least(host: &Host, name: &str, least: u64, show: fn(u64) -> String) -> Finding {
    sysctl(host, name, least, &least.to_string(), show, |text| {
        text.parse().ok()
    })
}

/// One whose last number counts; `value` is the whole line to write.
fn last_of(host: &Host, name: &str, least: u64, value: &str, show: fn(u64) -> String) -> Finding {
    sysctl(host, name, least, value, show, |text| {
        text.split_whitespace().last()?.parse().ok()
    })
}

fn sysctl(
    host: &Host,
    name: &str,
    least: u64,
    value: &str,
    show: fn(u64) -> String,
    parse: fn(&str) -> Option<u64>,
) -> Finding {
    let path = format!("proc/sys/{name}");
    let Some(found) = host.read(&path).and_then(|text| parse(&text)) else {
        return Finding::absent("no such setting");
    };
    Finding {
        found: show(found),
        wanted: format!(">= {}", show(least)),
        ok: Some(found >= least),
        command: format!("sysctl -w {}='{value}'", name.replace('/', ".")),
        set: Some((host.root.join(path), value.to_owned())),
    }
}

fn port_range(host: &Host) -> Finding {
    const PATH: &str = "proc/sys/net/ipv4/ip_local_port_range";
    const WANTED: u64 = 60_000;
    let range = host.read(PATH).unwrap_or_default();
    let mut ends = range
        .split_whitespace()
        .filter_map(|n| n.parse::<u64>().ok());
    let (Some(low), Some(high)) = (ends.next(), ends.next()) else {
        return Finding::absent("no such setting");
    };
    let count = (high + 1).saturating_sub(low);
    Finding {
        found: format!("{low}-{high} ({})", show_count(count as f64)),
        wanted: format!(">= {WANTED} ports"),
        ok: Some(count >= WANTED),
        command: "sysctl -w net.ipv4.ip_local_port_range='1024 65023'".to_owned(),
        set: Some((host.root.join(PATH), "1024 65023".to_owned())),
    }
}

fn descriptors(host: &Host) -> Finding {
    const WANTED: u64 = 1_000_000;
    let limits = host.read("proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap_or_default();
    let hard = match line.split_whitespace().nth(1) {
        Some("unlimited") => u64::MAX,
        Some(text) => text.parse().unwrap_or(0),
        None => return Finding::absent("cannot be told"),
    };
    let command = "ulimit -n 1000000 (or LimitNOFILE=1000000 in the service)";
    Finding::new(
        Some(hard >= WANTED),
        hard.to_string(),
        format!(">= {WANTED}"),
        command,
    )
}

fn conntrack(host: &Host) -> Finding {
    const WANTED: u64 = 1_000_000;
    match host.read("proc/sys/net/netfilter/nf_conntrack_max") {
        None => Finding::new(Some(true), "off", "off, or a large table", ""),
        Some(_) => at_least(host, "net/netfilter/nf_conntrack_max", WANTED, show_plain),
    }
}

fn governor(host: &Host) -> Finding {
    let dir = "sys/devices/system/cpu";
    let of = |name: &String| host.read(&format!("{dir}/{name}/cpufreq/scaling_governor"));
    let mut found: Vec<String> = host.names(dir).iter().filter_map(of).collect();
    found.dedup();
    if found.is_empty() {
        return Finding::absent("no frequency scaling (a virtual machine?)");
    }
    let ok = found.iter().all(|governor| governor == "performance");
    Finding::new(
        Some(ok),
        found.join(", "),
        "performance",
        "cpupower frequency-set -g performance",
    )
}

fn clock_source(host: &Host) -> Finding {
    let dir = "sys/devices/system/clocksource/clocksource0";
    let Some(found) = host.read(&format!("{dir}/current_clocksource")) else {
        return Finding::absent("cannot be told");
    };
    let ok = matches!(
        found.as_str(),
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page"
    );
    let command = format!("echo tsc > /{dir}/current_clocksource");
    Finding::new(
        Some(ok),
        found,
        "tsc (or another read without a call)",
        command,
    )
}

fn irqbalance(host: &Host) -> Finding {
    let is_it = |pid: &String| {
        host.read(&format!("proc/{pid}/comm"))
            .is_some_and(|comm| comm == "irqbalance")
    };
    let running = host
        .names("proc")
        .iter()
        .filter(|name| name.bytes().all(|c| c.is_ascii_digit()))
        .any(is_it);
    let found = if running { "running" } else { "not running" };
    Finding::new(
        Some(!running),
        found,
        "not running during tests",
        "systemctl stop irqbalance",
    )
}

fn irq_affinity(host: &Host) -> Finding {
    let table = host.read("proc/interrupts").unwrap_or_default();
    let cards = host.cards();
    let of_card = |line: &&str| {
        cards.iter().any(|card| line.contains(card.as_str())) || line.contains("virtio")
    };
    let irqs = table
        .lines()
        .filter(of_card)
        .filter_map(|line| line.trim().split_once(':').map(|(irq, _)| irq));
    let mut cpus: Vec<String> = irqs
        .filter_map(|irq| host.read(&format!("proc/irq/{irq}/effective_affinity_list")))
        .collect();
    let count = cpus.len();
    cpus.sort();
    cpus.dedup();
    if count == 0 {
        return Finding::absent("no card's interrupts found");
    }
    let wanted = count.min(host.cpus());
    let command = "echo CPU > /proc/irq/N/smp_affinity_list for each queue";
    Finding::new(
        Some(cpus.len() >= wanted),
        format!("{count} interrupts on CPU {}", cpus.join(",")),
        format!("on {wanted} CPUs"),
        command,
    )
}

fn receive_queues(host: &Host) -> Finding {
    let cards = host.cards();
    let queues = |card: &String| {
        host.names(&format!("sys/class/net/{card}/queues"))
            .iter()
            .filter(|q| q.starts_with("rx-"))
            .count()
    };
    let Some(fewest) = cards.iter().map(queues).min() else {
        return Finding::absent("no network card");
    };
    let found: Vec<_> = cards
        .iter()
        .map(|card| format!("{card}: {}", queues(card)))
        .collect();
    let cpus = host.cpus();
    let command = format!("ethtool -L {} combined {cpus}", cards[0]);
    Finding::new(
        Some(fewest >= cpus),
        found.join(", "),
        format!("{cpus} (the CPUs)"),
        command,
    )
}

fn mtu(host: &Host) -> Finding {
    let cards = host.cards();
    if cards.is_empty() {
        return Finding::absent("no network card");
    }
    let mtu = |card: &String| {
        host.read(&format!("sys/class/net/{card}/mtu"))
            .unwrap_or_default()
    };
    let found: Vec<_> = cards
        .iter()
        .map(|card| format!("{card}: {}", mtu(card)))
        .collect();
    let ok = cards
        .iter()
        .all(|card| mtu(card).parse().is_ok_and(|mtu: u32| mtu >= 9000));
    Finding::new(
        Some(ok),
        found.join(", "),
        "9000, if the whole path has it",
        format!("ip link set {} mtu 9000", cards[0]),
    )
}

fn offloads(host: &Host) -> Finding {
    let cards = host.cards();
    let (Some(card), Some(program)) = (cards.first(), crate::process::find_program("ethtool"))
    else {
        return Finding::absent(if cards.is_empty() {
            "no network card"
        } else {
            "ethtool is not installed"
        });
    };
    let output = std::process::Command::new(program)
        .args(["-k", card])
        .output();
    let text = output
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default();
    let is_on = |name: &str| {
        text.lines()
            .any(|line| line.trim().starts_with(name) && line.contains(": on"))
    };
    let (gro, lro) = (
        is_on("generic-receive-offload"),
        is_on("large-receive-offload"),
    );
    let word = |on| if on { "on" } else { "off" };
    Finding::new(
        Some(gro && !lro),
        format!("{card}: GRO {}, LRO {}", word(gro), word(lro)),
        "GRO on, LRO off",
        format!("ethtool -K {card} gro on lro off"),
    )
}

fn huge_pages(host: &Host) -> Finding {
    let Some(line) = host.read("sys/kernel/mm/transparent_hugepage/enabled") else {
        return Finding::absent("the kernel has none");
    };
    let found = line
        .split(['[', ']'])
        .nth(1)
        .unwrap_or("unknown")
        .to_owned();
    let ok = found != "never";
    let command = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    Finding::new(Some(ok), found, "madvise or always", command)
}

fn numa(host: &Host) -> Finding {
    let nodes = host
        .names("sys/devices/system/node")
        .iter()
        .filter(|n| n.starts_with("node"))
        .count()
        .max(1);
    if nodes == 1 {
        return Finding::new(Some(true), "one node", "workers on the card's node", "");
    }
    let node = |card: &String| {
        host.read(&format!("sys/class/net/{card}/device/numa_node"))
            .unwrap_or_default()
    };
    let cards: Vec<_> = host
        .cards()
        .iter()
        .map(|card| format!("{card} on {}", node(card)))
        .collect();
    Finding::new(
        None,
        format!("{nodes} nodes; {}", cards.join(", ")),
        "workers on the card's node",
        "cpu-map in global",
    )
}

/// All findings.
#[must_use]
pub fn examine(host: &Host) -> Vec<(Check, Finding)> {
    CHECKS
        .iter()
        .map(|check| (*check, (check.look)(host)))
        .collect()
}

/// The findings as text: a line for what will do, the command and the reason below what should change.
#[must_use]
pub fn text(findings: &[(Check, Finding)]) -> String {
    let mut text = String::new();
    for (check, finding) in findings {
        let verdict = match finding.ok {
            Some(true) => "ok",
            Some(false) => "CHANGE",
            None => "-",
        };
        text.push_str(&format!(
            "{verdict:<7} {:<22} {}",
            check.name, finding.found
        ));
        if finding.ok == Some(false) {
            text.push_str(&format!(
                ", wanted {}\n{:31}{}\n{:31}{}",
                finding.wanted, "", finding.command, "", check.why
            ));
        }
        text.push('\n');
    }
    let count = |ok| {
        findings
            .iter()
            .filter(|(_, finding)| finding.ok == Some(ok))
            .count()
    };
    text.push_str(&format!(
        "{} points will do, {} should change\n",
        count(true),
        count(false)
    ));
    text
}

/// Sets what is one value in one file and not as wanted. Tells what it did, and what it could not do.
pub fn apply(findings: &[(Check, Finding)]) -> Vec<String> {
    let wrong = findings
        .iter()
        .filter(|(_, finding)| finding.ok == Some(false));
    wrong
        .map(|(check, finding)| match &finding.set {
            None if finding.command.is_empty() => {
                format!("{}: there is no command for it", check.name)
            }
            None => format!("{}: left to you: {}", check.name, finding.command),
            Some((file, value)) => match fs::write(file, value) {
                Ok(()) => format!(
                    "{}: {} = {value} (until the next boot)",
                    check.name,
                    file.display()
                ),
                Err(error) => format!("{}: cannot write {}: {error}", check.name, file.display()),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::WorkDir;

    fn host(files: &[(&str, &str)]) -> (WorkDir, Host) {
        let dir = WorkDir::new().unwrap();
        for (path, text) in files {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let host = Host::at(dir.path());
        (dir, host)
    }

    fn finding(host: &Host, name: &str) -> Finding {
        examine(host)
            .into_iter()
            .find(|(check, _)| check.name == name)
            .unwrap()
            .1
    }

    #[test]
    fn a_small_setting_is_named_with_its_command() {
        let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "4096\n")]);
        let found = finding(&host, "accept queue");
        assert_eq!((found.ok, found.found.as_str()), (Some(false), "4096"));
        assert_eq!(found.command, "sysctl -w net.core.somaxconn='65535'");
    }

    #[test]
    fn findings_of_made_hosts() {
        let check = |files: &[(&str, &str)], name: &str, ok: Option<bool>| {
            let (_dir, host) = host(files);
            let found = finding(&host, name);
            assert_eq!(found.ok, ok, "{name}: {found:?}");
        };
        let ports = "proc/sys/net/ipv4/ip_local_port_range";
        check(&[(ports, "32768\t60999\n")], "port range", Some(false));
        check(&[(ports, "1024\t65535\n")], "port range", Some(true));
        check(
            &[("proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432")],
            "receive buffers",
            Some(true),
        );
        check(&[], "receive buffers", None);
        check(&[], "connection tracking", Some(true));
        check(
            &[("proc/sys/net/netfilter/nf_conntrack_max", "65536")],
            "connection tracking",
            Some(false),
        );
        check(
            &[("proc/12/comm", "irqbalance\n")],
            "irqbalance",
            Some(false),
        );
        check(&[("proc/12/comm", "bash\n")], "irqbalance", Some(true));
        let cpu = |n| format!("sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor");
        check(
            &[(&cpu(0), "performance"), (&cpu(1), "powersave")],
            "CPU governor",
            Some(false),
        );
        check(
            &[(
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]",
            )],
            "huge pages",
            Some(false),
        );
        let limits = |n| {
            format!(
                "Limit  Soft  Hard  Units\nMax open files            1024                 {n}              files\n"
            )
        };
        check(
            &[("proc/self/limits", &limits("20000"))],
            "ulimit -n",
            Some(false),
        );
        check(
            &[("proc/self/limits", &limits("1048576"))],
            "ulimit -n",
            Some(true),
        );
        let card = [
            ("sys/class/net/eth0/device/x", ""),
            ("sys/class/net/eth0/mtu", "1500"),
            ("sys/class/net/lo/mtu", "65536"),
        ];
        check(&card, "MTU", Some(false));
    }

    #[test]
    fn applying_writes_only_what_is_wrong() {
        let (_dir, host) = host(&[
            ("proc/sys/net/core/somaxconn", "128"),
            ("proc/sys/net/core/netdev_max_backlog", "20000"),
            ("proc/12/comm", "irqbalance\n"),
        ]);
        let said = apply(&examine(&host));
        assert_eq!(host.read("proc/sys/net/core/somaxconn").unwrap(), "65535");
        assert_eq!(
            host.read("proc/sys/net/core/netdev_max_backlog").unwrap(),
            "20000"
        );
        assert!(
            said.iter()
                .any(|line| line.contains("left to you: systemctl stop irqbalance")),
            "{said:?}"
        );
    }
}
