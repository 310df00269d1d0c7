//! The table of points: name, reason, and who looks.

use super::{Check, cards, kernel};

/// All points, in the order of the report.
pub const CHECKS: &[Check] = &[
    Check {
        name: "receive buffers (tcp_rmem)",
        why: "a receive window below bandwidth times delay caps every connection's rate",
        look: |host| {
            kernel::last_of(
                host,
                "net/ipv4/tcp_rmem",
                16 << 20,
                "4096 131072 16777216",
                kernel::show_bytes,
            )
        },
    },
    Check {
        name: "send buffers (tcp_wmem)",
        why: "a send buffer below bandwidth times delay caps every connection's rate",
        look: |host| {
            kernel::last_of(
                host,
                "net/ipv4/tcp_wmem",
                16 << 20,
                "4096 65536 16777216",
                kernel::show_bytes,
            )
        },
    },
    Check {
        name: "largest receive buffer (rmem_max)",
        why: "bounds what a program may ask for with SO_RCVBUF",
        look: |host| kernel::at_least(host, "net/core/rmem_max", 16 << 20, kernel::show_bytes),
    },
    Check {
        name: "largest send buffer (wmem_max)",
        why: "bounds what a program may ask for with SO_SNDBUF",
        look: |host| kernel::at_least(host, "net/core/wmem_max", 16 << 20, kernel::show_bytes),
    },
    Check {
        name: "port range (ip_local_port_range)",
        why: "a proxy uses one local port per connection to a server: 28 000 are soon used up",
        look: kernel::port_range,
    },
    Check {
        name: "accept queue (somaxconn)",
        why: "connections beyond it are dropped while a worker is busy",
        look: |host| kernel::at_least(host, "net/core/somaxconn", 65_535, kernel::show_plain),
    },
    Check {
        name: "SYN queue (tcp_max_syn_backlog)",
        why: "half-open connections beyond it are dropped or answered with cookies",
        look: |host| {
            kernel::at_least(
                host,
                "net/ipv4/tcp_max_syn_backlog",
                65_535,
                kernel::show_plain,
            )
        },
    },
    Check {
        name: "packet queue of a CPU (netdev_max_backlog)",
        why: "packets that arrive faster than a CPU takes them are dropped beyond it",
        look: |host| {
            kernel::at_least(
                host,
                "net/core/netdev_max_backlog",
                10_000,
                kernel::show_plain,
            )
        },
    },
    Check {
        name: "TIME_WAIT reuse (tcp_tw_reuse)",
        why: "lets a port serve again after a second instead of a minute",
        look: |host| kernel::at_least(host, "net/ipv4/tcp_tw_reuse", 1, kernel::show_plain),
    },
    Check {
        name: "file-max",
        why: "all sockets of the machine together",
        look: |host| kernel::at_least(host, "fs/file-max", 2_000_000, kernel::show_plain),
    },
    Check {
        name: "nr_open",
        why: "bounds the descriptors one process may be allowed",
        look: |host| kernel::at_least(host, "fs/nr_open", 2_000_000, kernel::show_plain),
    },
    Check {
        name: "ulimit -n",
        why: "two descriptors per proxied connection, and pipes beside them when splicing",
        look: kernel::descriptors,
    },
    Check {
        name: "connection tracking (conntrack)",
        why: "a full table drops packets; tracking at all costs CPU for every packet",
        look: kernel::conntrack,
    },
    Check {
        name: "CPU governor",
        why: "a clock that follows the load makes measurements follow it too",
        look: kernel::governor,
    },
    Check {
        name: "clock source",
        why: "reading a slow clock is a system call at every event",
        look: kernel::clock_source,
    },
    Check {
        name: "irqbalance",
        why: "moves interrupts while a measurement runs",
        look: cards::irqbalance,
    },
    Check {
        name: "interrupt (IRQ) affinity",
        why: "a card's queues should interrupt different CPUs, near the workers they feed",
        look: cards::irq_affinity,
    },
    Check {
        name: "receive queues (RSS)",
        why: "one queue feeds one CPU: fewer queues than CPUs leave some without packets",
        look: cards::receive_queues,
    },
    Check {
        name: "MTU",
        why: "9000 on a path that allows it means a sixth of the packets",
        look: cards::mtu,
    },
    Check {
        name: "receive offload (GRO, LRO)",
        why: "merged segments are cheaper to forward; LRO (not GRO) breaks what is routed on",
        look: cards::offloads,
    },
    Check {
        name: "huge pages (transparent)",
        why: "fewer misses of the address translation for large tables and maps",
        look: kernel::huge_pages,
    },
    Check {
        name: "NUMA",
        why: "a worker far from its card's memory pays for every packet: cpu-map to the card's node",
        look: cards::numa,
    },
];
