//! The object files this process is made of (`show libs`): what `/proc/self/maps` has of executable files.

use std::fmt::Write;

/// A line each: where it is mapped, how much of it, and its path.
pub fn list() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    of_maps(&maps)
}

fn of_maps(maps: &str) -> String {
    // a file has several ranges one behind the other, of which one is executable
    let mut files: Vec<(&str, u64, u64, bool)> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let Some(path) = words.nth(3).filter(|p| p.starts_with('/')) else {
            continue;
        };
        let ends = range.split_once('-').map(|(a, b)| (hex(a), hex(b)));
        let Some((Some(begin), Some(end))) = ends else {
            continue;
        };
        let runs = rights.contains('x');
        match files.last_mut().filter(|f| f.0 == path) {
            Some(file) => (file.2, file.3) = (end, file.3 || runs),
            None => files.push((path, begin, end, runs)),
        }
    }
    let mut out = String::new();
    for (path, begin, end, _) in files.iter().filter(|f| f.3) {
        let _ = writeln!(
            out,
            "{begin:#018x}-{:#018x} ({:#09x}) {path}",
            end - 1,
            end - begin
        );
    }
    out
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_files_are_listed_once() {
        let maps = "1000-2000 r--p 0 fe:00 9 /bin/x\n2000-5000 r-xp 1 fe:00 9 /bin/x\n\
                    6000-7000 rw-p 0 00:00 0 [heap]\n8000-9000 r--p 0 fe:00 9 /usr/data\n";
        assert_eq!(
            of_maps(maps),
            "0x0000000000001000-0x0000000000004fff (0x0004000) /bin/x\n"
        );
    }
}
