//! The machine a report comes from, in a few words.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Name and value of what matters to a measurement.
#[must_use]
pub fn describe() -> Vec<(&'static str, String)> {
    let first = |file: &str| {
        fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or("")
            .to_owned()
    };
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        line.strip_prefix("model name")?
            .split_once(':')
            .map(|(_, v)| v.trim())
    });
    let cpus = info
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = memory
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let load = first("/proc/loadavg");
    vec![
        (
            "date",
            date(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |d| d.as_secs()),
            ),
        ),
        ("kernel", first("/proc/sys/kernel/osrelease")),
        (
            "processor",
            format!("{cpus} x {}", model.unwrap_or("unknown")),
        ),
        (
            "memory",
            crate::units::show_size(memory_kib.unwrap_or(0) * 1024),
        ),
        (
            "load average at the end",
            load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        ),
        ("sluice-lab", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// Seconds since 1970 as `YYYY-MM-DD hh:mm UTC` (days to civil date after Howard Hinnant's published algorithm).
fn date(unix_s: u64) -> String {
    let (days, rest_s) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        rest_s / 3600,
        rest_s / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |unix_s, expect: &str| assert_eq!(date(unix_s), expect);
        check(0, "1970-01-01 00:00 UTC");
        check(951_782_400, "2000-02-29 00:00 UTC");
        check(1_700_000_000, "2023-11-14 22:13 UTC");
    }
}
