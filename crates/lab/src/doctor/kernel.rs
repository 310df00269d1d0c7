//! Settings of the kernel and of the processor: values in files.

use super::{Finding, Host};
use crate::units::{show_count, show_size};

/// A kernel setting that should be at least `least`.
pub fn at_least(host: &Host, name: &str, least: u64, show: fn(u64) -> String) -> Finding {
    sysctl(host, name, least, &least.to_string(), show, |text| {
        text.parse().ok()
    })
}

/// One whose last number counts; `value` is the whole line to write.
pub fn last_of(
    host: &Host,
    name: &str,
    least: u64,
    value: &str,
    show: fn(u64) -> String,
) -> Finding {
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
    let text = host.read(&path).unwrap_or_default();
    let Some(found) = parse(&text) else {
        return Finding::absent("no such setting");
    };
    // The command never makes worse what is more than wanted.
    let enough = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = if found >= least { &enough } else { value };
    Finding {
        found: show(found),
        wanted: format!(">= {}", show(least)),
        ok: Some(found >= least),
        command: format!("sysctl -w {}='{value}'", name.replace('/', ".")),
        set: Some((host.root.join(path), value.to_owned())),
    }
}

/// Local ports.
pub fn port_range(host: &Host) -> Finding {
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

/// Descriptors that this user may open.
pub fn descriptors(host: &Host) -> Finding {
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

/// The table of connection tracking, if there is one.
pub fn conntrack(host: &Host) -> Finding {
    const WANTED: u64 = 1_000_000;
    match host.read("proc/sys/net/netfilter/nf_conntrack_max") {
        None => Finding::new(Some(true), "off", "off, or a large table", ""),
        Some(_) => at_least(host, "net/netfilter/nf_conntrack_max", WANTED, show_plain),
    }
}

/// Who chooses the clock rate.
pub fn governor(host: &Host) -> Finding {
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

/// What the time is read from.
pub fn clock_source(host: &Host) -> Finding {
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

/// Transparent huge pages.
pub fn huge_pages(host: &Host) -> Finding {
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

/// A size.
pub fn show_bytes(value: u64) -> String {
    show_size(value)
}

/// A number.
pub fn show_plain(value: u64) -> String {
    value.to_string()
}
