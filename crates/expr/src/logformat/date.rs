//! The dates of logs: `29/Nov/2026:21:11:40.767`, `29/Nov/2026:21:11:40 +0000`.

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Year, month (0 to 11) and day of a number of days since the epoch: Howard Hinnant's `civil_from_days`, which counts
/// years from March so that the leap day comes last.
fn civil(days: i64) -> (i64, usize, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 2
    } else {
        from_march - 10
    };
    let year = year_of_era + era * 400 + i64::from(month <= 1);
    (year, month as usize, day)
}

fn two(out: &mut Vec<u8>, n: i64) {
    out.push(b'0' + (n / 10 % 10) as u8);
    out.push(b'0' + (n % 10) as u8);
}

/// `dd/Mon/yyyy:hh:mm:ss` of a moment, in a zone `offset` seconds east of UTC.
fn date_time(out: &mut Vec<u8>, at_sec: i64, offset: i32) {
    let local = at_sec.saturating_add(i64::from(offset));
    let (year, month, day) = civil(local.div_euclid(86_400));
    let second = local.rem_euclid(86_400);
    two(out, day);
    out.push(b'/');
    out.extend_from_slice(MONTHS[month.min(11)]);
    out.push(b'/');
    two(out, year / 100);
    two(out, year % 100);
    for part in [second / 3600, second / 60 % 60, second % 60] {
        out.push(b':');
        two(out, part);
    }
}

/// With milliseconds: `%t` and `%tr`.
pub(super) fn with_ms(out: &mut Vec<u8>, at_us: i64, offset: i32) {
    date_time(out, at_us.div_euclid(1_000_000), offset);
    let ms = at_us.rem_euclid(1_000_000) / 1000;
    out.push(b'.');
    out.push(b'0' + (ms / 100) as u8);
    two(out, ms % 100);
}

/// With the zone: `%T`, `%Tl`, `%trg` and `%trl`.
pub(super) fn with_zone(out: &mut Vec<u8>, at_us: i64, offset: i32) {
    date_time(out, at_us.div_euclid(1_000_000), offset);
    let minutes = i64::from(offset.unsigned_abs() / 60);
    out.extend_from_slice(if offset < 0 { b" -" } else { b" +" });
    two(out, minutes / 60);
    two(out, minutes % 60);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |at_us: i64, offset: i32, expect: &str| {
            let mut out = Vec::new();
            with_ms(&mut out, at_us, offset);
            out.push(b'|');
            with_zone(&mut out, at_us, offset);
            assert_eq!(String::from_utf8_lossy(&out), expect);
        };
        check(0, 0, "01/Jan/1970:00:00:00.000|01/Jan/1970:00:00:00 +0000");
        check(
            1_795_295_500_767_999,
            3600,
            "21/Nov/2026:22:11:40.767|21/Nov/2026:22:11:40 +0100",
        );
        check(
            951_782_399_999_999,
            -12_600,
            "28/Feb/2000:20:29:59.999|28/Feb/2000:20:29:59 -0330",
        );
        check(
            951_868_799_000_000,
            0,
            "29/Feb/2000:23:59:59.000|29/Feb/2000:23:59:59 +0000",
        );
        check(
            -1_000,
            0,
            "31/Dec/1969:23:59:59.999|31/Dec/1969:23:59:59 +0000",
        );
    }
}
