//! Dates: `http_date`, `date`, and strftime(3) formats in local time (`ltime`) or UTC (`utime`), of seconds, milliseconds
//! or microseconds since the epoch.

use std::borrow::Cow;
use std::io::Write;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{int_arg, on_bytes, on_int, prepared, set_prepared, str_arg};
use crate::conv::strftime::{Date, Format};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "http_date" (; Sint, Str) Sint -> Str, http_date, prepare prepare_http_date
        => "The date as HTTP headers write it; an offset may be added, and the unit may be `s` (the default), `ms` or `us`.";
    "date" () Str -> Sint, |_, s, _| on_bytes(s, |s| Some(Value::Sint(parse_http_date(&s)?)))
        => "The seconds since the epoch of a date as HTTP headers write it, in any of the three forms of RFC 9110.";
    "ltime" (Str; Sint) Sint -> Str, |args, s, env| strftime(args, s, env, 1, true), prepare prepare_format
        => "Seconds since the epoch in local time by a format of strftime(3); an offset may be added.";
    "ms_ltime" (Str; Sint) Sint -> Str, |args, s, env| strftime(args, s, env, 1_000, true), prepare prepare_precise
        => "Milliseconds since the epoch in local time by a format of strftime(3), `%3N` being the fraction.";
    "us_ltime" (Str; Sint) Sint -> Str, |args, s, env| strftime(args, s, env, 1_000_000, true), prepare prepare_precise
        => "Microseconds since the epoch in local time by a format of strftime(3), `%6N` being the fraction.";
    "utime" (Str; Sint) Sint -> Str, |args, s, env| strftime(args, s, env, 1, false), prepare prepare_format
        => "Seconds since the epoch in UTC by a format of strftime(3); an offset may be added.";
    "ms_utime" (Str; Sint) Sint -> Str, |args, s, env| strftime(args, s, env, 1_000, false), prepare prepare_precise
        => "Milliseconds since the epoch in UTC by a format of strftime(3), `%3N` being the fraction.";
    "us_utime" (Str; Sint) Sint -> Str, |args, s, env| strftime(args, s, env, 1_000_000, false), prepare prepare_precise
        => "Microseconds since the epoch in UTC by a format of strftime(3), `%6N` being the fraction.";
}

/// HAProxy keeps 55 bits of a time, so that the year always fits into the C library's; negative times therefore end up
/// in the far future.
const TIME_MASK: i64 = (1 << 55) - 1;

/// Units of `http_date` by name: how many make a second.
fn units_a_second(name: &[u8]) -> Option<i64> {
    match name {
        b"" | b"s" => Some(1),
        b"ms" => Some(1_000),
        b"us" => Some(1_000_000),
        _ => None,
    }
}

fn prepare_http_date(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let unit = units_a_second(str_arg(args, 1))
        .ok_or_else(|| BadArg::new(1, "the unit is `s`, `ms` or `us`"))?;
    set_prepared(args, 1, unit);
    Ok(())
}

/// `%a, %d %b %Y %T GMT`, with the fraction after the seconds if the unit has one (unpadded, as HAProxy writes it).
fn http_date<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_int(sample, |time| {
        let unit = *prepared::<i64>(args, 1)?;
        let time = time.wrapping_add(int_arg(args, 0).unwrap_or(0));
        let date = Date::at((time / unit) & TIME_MASK, 0);
        let mut out = Vec::with_capacity(40);
        // Writing to a Vec cannot fail.
        let _ = write!(
            out,
            "{:.3}, {:02} {:.3} {:04} {:02}:{:02}:{:02}",
            date.weekday_name(),
            date.day,
            date.month_name(),
            date.year,
            date.hour,
            date.minute,
            date.second
        );
        if unit > 1 {
            let _ = write!(out, ".{}", time % unit);
        }
        out.extend_from_slice(b" GMT");
        Some(Value::Str(Cow::Owned(out)))
    })
}

fn parse_http_date(text: &[u8]) -> Option<i64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(text).ok()?.trim()).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

fn prepare_format(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let format = Format::compile(str_arg(args, 0), false);
    set_prepared(args, 0, format);
    Ok(())
}

/// `%N` has a meaning for units below the second.
fn prepare_precise(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let format = Format::compile(str_arg(args, 0), true);
    set_prepared(args, 0, format);
    Ok(())
}

fn strftime<'a>(
    args: &'a [Arg],
    sample: Sample<'a>,
    env: &'a dyn Env,
    units_a_second: i64,
    local: bool,
) -> Fetched<'a> {
    on_int(sample, |time| {
        let time = time.wrapping_add(int_arg(args, 1).unwrap_or(0));
        let seconds = time.div_euclid(units_a_second) & TIME_MASK;
        let (offset, zone) = if local {
            env.local_zone(seconds)
        } else {
            (0, "GMT")
        };
        let mut date = Date::at(seconds, i64::from(offset));
        let nanos = time.rem_euclid(units_a_second) * (1_000_000_000 / units_a_second);
        date.nanos = u32::try_from(nanos).unwrap_or(0);
        let mut out = Vec::with_capacity(32);
        prepared::<Format>(args, 0)?.write(&date, zone, &mut out);
        Some(Value::Str(Cow::Owned(out)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::strftime::Date;
    use crate::conv::testing::{World, check_all, check_new, check_refused};

    #[test]
    fn http_dates() {
        check_all(&[
            ("int(0),http_date", Some("Thu, 01 Jan 1970 00:00:00 GMT")),
            (
                "int(1700000000),http_date",
                Some("Tue, 14 Nov 2023 22:13:20 GMT"),
            ),
            (
                "int(1700000000),http_date(60)",
                Some("Tue, 14 Nov 2023 22:14:20 GMT"),
            ),
            (
                "int(1700000000),http_date(-60)",
                Some("Tue, 14 Nov 2023 22:12:20 GMT"),
            ),
            (
                "int(1700000000),http_date(0,s)",
                Some("Tue, 14 Nov 2023 22:13:20 GMT"),
            ),
            (
                "int(1700000000123),http_date(0,ms)",
                Some("Tue, 14 Nov 2023 22:13:20.123 GMT"),
            ),
            (
                "int(1700000000007),http_date(0,ms)",
                Some("Tue, 14 Nov 2023 22:13:20.7 GMT"),
            ),
            (
                "int(1700000000000),http_date(0,ms)",
                Some("Tue, 14 Nov 2023 22:13:20.0 GMT"),
            ),
            (
                "int(1700000000999),http_date(1500,ms)",
                Some("Tue, 14 Nov 2023 22:13:22.499 GMT"),
            ),
            (
                "int(1700000000123456),http_date(0,us)",
                Some("Tue, 14 Nov 2023 22:13:20.123456 GMT"),
            ),
        ]);
        check_refused(&[("int(0),http_date(0,x)", "unit")]);
    }

    #[test]
    fn dates_out_of_range() {
        check_all(&[
            (
                "int(-1),http_date",
                Some("Sun, 13 Jun 1141709097 06:26:07 GMT"),
            ),
            (
                "int(253402300800),http_date",
                Some("Sat, 01 Jan 10000 00:00:00 GMT"),
            ),
            (
                "int(9223372036854775807),http_date",
                Some("Sun, 13 Jun 1141709097 06:26:07 GMT"),
            ),
            (
                "int(9223372036854775807),http_date(1)",
                Some("Thu, 01 Jan 1970 00:00:00 GMT"),
            ),
            (
                "int(5),http_date(9223372036854775807)",
                Some("Thu, 01 Jan 1970 00:00:04 GMT"),
            ),
            (
                "int(-9223372036854775808),http_date",
                Some("Thu, 01 Jan 1970 00:00:00 GMT"),
            ),
            (
                "int(-1),http_date(0,ms)",
                Some("Thu, 01 Jan 1970 00:00:00.-1 GMT"),
            ),
            (
                "int(-1500),http_date(0,ms)",
                Some("Sun, 13 Jun 1141709097 06:26:07.-500 GMT"),
            ),
            (
                "int(9223372036854775807),http_date(0,us)",
                Some("Sun, 10 Jan 294247 04:00:54.775807 GMT"),
            ),
            (
                "int(-62135596801),utime(\"%c\")",
                Some("Thu Jun 14 06:26:07 1141707128"),
            ),
            (
                "int(36028797018963967),utime(\"%Y|%5Y|%12Y|%C|%G|%010C\")",
                Some("1141709097|1141709097|001141709097|11417090|1141709097|0011417090"),
            ),
            (
                "int(-1234567890123),utime(\"%Y|%C|%y|%G|%F|%s|%D\")",
                Some(
                    "1141669975|11416699|75|1141669975|1141669975-07-21|36027562451073845|07/21/75",
                ),
            ),
        ]);
    }

    #[test]
    fn conversions() {
        check_all(&[
            (
                "int(1700000000),utime(%Y%m%d%H%M%S)",
                Some("20231114221320"),
            ),
            (
                "int(1700000000),ltime(%Y%m%d%H%M%S)",
                Some("20231114221320"),
            ),
            (
                "int(1700000000),utime(%Y%m%d%H%M%S,3600)",
                Some("20231114231320"),
            ),
            (
                "int(1700000000),utime(%Y%m%d%H%M%S,-3600)",
                Some("20231114211320"),
            ),
            (
                "int(1700000000),utime(\"%a %A %b %B %c\")",
                Some("Tue Tuesday Nov November Tue Nov 14 22:13:20 2023"),
            ),
            (
                "int(1700000000),utime(\"%C %d %D %e %F %g %G %h\")",
                Some("20 14 11/14/23 14 2023-11-14 23 2023 Nov"),
            ),
            (
                "int(1700000000),utime(\"%H %I %j %k %l %m %M %p %P\")",
                Some("22 10 318 22 10 11 13 PM pm"),
            ),
            (
                "int(1700000000),utime(\"%r %R %s %S %T %u %U %V %w %W\")",
                Some("10:13:20 PM 22:13 1700000000 20 22:13:20 2 46 46 2 46"),
            ),
            (
                "int(1700000000),utime(\"%x %X %y %Y %z %Z %%\")",
                Some("11/14/23 22:13:20 23 2023 +0000 GMT %"),
            ),
            (
                "int(1700000000),ltime(\"%x %X %y %Y %z %Z %%\")",
                Some("11/14/23 22:13:20 23 2023 +0000 UTC %"),
            ),
            (
                "int(60),utime(\"%-I|%I|%l|%-M|%_M|%p\")",
                Some("12|12|12|1| 1|AM"),
            ),
            (
                "int(86400),utime(\"%s|%G|%V|%U|%W|%u|%w|%j|%e|%k|%l|%I|%y|%g\")",
                Some("86400|1970|01|00|00|5|5|002| 2| 0|12|12|70|70"),
            ),
            (
                "int(1700000000),utime(\"%I:%M %p %l %k\",-43200)",
                Some("10:13 AM 10 10"),
            ),
        ]);
    }

    #[test]
    fn weeks() {
        check_all(&[
            (
                "int(1704067199),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2023-W52-7 53 52 365 23"),
            ),
            (
                "int(1704067200),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2024-W01-1 00 01 001 24"),
            ),
            (
                "int(1609459200),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2020-W53-5 00 00 001 20"),
            ),
            (
                "int(1483228800),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2016-W52-7 01 00 001 16"),
            ),
            (
                "int(1230768000),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2009-W01-4 00 00 001 09"),
            ),
            (
                "int(951782400),utime(\"%c %j\")",
                Some("Tue Feb 29 00:00:00 2000 060"),
            ),
            (
                "int(1709164800),utime(\"%c %j\")",
                Some("Thu Feb 29 00:00:00 2024 060"),
            ),
            (
                "int(1230595200),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2009-W01-2 52 52 365 09"),
            ),
            (
                "int(1735603200),utime(\"%G-W%V-%u %U %W %j %g\")",
                Some("2025-W01-2 52 53 366 25"),
            ),
        ]);
    }

    #[test]
    fn flags_and_widths() {
        check_all(&[
            (
                "int(1700000000),utime(\"%-d|%_d|%0e|%^a|%#a|%10Y|%-H|%05d|%_5d|%-5d|%#Z|%^B|%010s|%-j|%_H|%5%|%3n|\")",
                Some(
                    "14|14|14|TUE|TUE|0000002023|22|00014|   14|   14|gmt|NOVEMBER|1700000000|318|22|    %|  \n|",
                ),
            ),
            (
                "int(1700000000),utime(\"%10a|%-10a|%_10a|%010a|%10c|%010D|%-5m|%5m|%_m|%-I|%-l|%_j|%-j|%_y|%5C|%3u|%_3u|%-S|%_S\")",
                Some(
                    "       Tue|       Tue|       Tue|0000000Tue|Tue Nov 14 22:13:20 2023|0011/14/23|   11|00011|11|10|10|318|318|23|00020|002|  2|20|20",
                ),
            ),
            (
                "int(1700000000),utime(\"%#c|%^c|%#p|%^p|%^P|%#P|%#b|%^h|%#A|%_e|%0l|%0k|%-e|%-k|%^r|%#r|%^x|%^D|%^F|%10n|%10%|%10t|%2Y|%-Y|%_6Y\")",
                Some(
                    "Tue Nov 14 22:13:20 2023|TUE NOV 14 22:13:20 2023|pm|PM|pm|pm|NOV|NOV|TUESDAY|14|10|22|14|22|10:13:20 PM|10:13:20 PM|11/14/23|11/14/23|2023-11-14|         \n|         %|         \t|2023|2023|  2023",
                ),
            ),
            (
                "int(1700000000),utime(\"%_-5d|%-_5d|%0_5d|%_05d|%^#a|%#^a|%^^a|%5z|%_z|%-z|%_6z|%010z|%-10z\")",
                Some(
                    "   14|   14|   14|00014|TUE|TUE|TUE|    +00000|+   0|+0|     +     0|000000000+0000000000|         +         0",
                ),
            ),
            (
                "int(1700000000),utime(\"%h %-h|%#h|%^#h|%#^P|%_P|%5P|%05p|%-p\")",
                Some("Nov Nov|NOV|NOV|pm|pm|   pm|000PM|PM"),
            ),
            (
                "int(1700000000),utime(\"%10T|%_10R|%_4d|%4e|%04e|%-4e|%3H|%-3H|%10Z|%#10Z|%010Z\")",
                Some(
                    "  22:13:20|     22:13|  14|  14|0014|  14|022| 22|       GMT|       gmt|0000000GMT",
                ),
            ),
            (
                "int(1700000000),utime(\"%Ec|%EC|%Ex|%EX|%EY|%OH|%OI|%Om|%OM|%OS|%Ou|%OU|%OV|%Ow|%OW|%Oy|%Oe|%Ok|%Ol\")",
                Some(
                    "Tue Nov 14 22:13:20 2023|20|11/14/23|22:13:20|2023|22|10|11|13|20|2|46|46|2|46|23|14|22|10",
                ),
            ),
            (
                "int(1700000000),utime(\"%Es|%Os|%Ek|%OC|%Og|%OG|%Oj|%EG\")",
                Some("1700000000|1700000000|%Ek|20|23|2023|318|%EG"),
            ),
            (
                "int(1700000000),utime(\"%ED|%Ob|%OB|%Oa|%Ea|%EA|%Eb|%Oh|%EZ|%Oz|%Ep|%OP|%En|%O%|%Et|%ER|%OT|%Er|%OF|%OD\")",
                Some(
                    "%ED|Nov|November|%Oa|%Ea|%EA|%Eb|Nov|GMT|+0000|PM|pm|\n|%|\t|22:13|22:13:20|10:13:20 PM|%OF|%OD",
                ),
            ),
        ]);
    }

    #[test]
    fn what_is_no_conversion_stands_for_itself() {
        check_all(&[
            ("int(0),utime(\"%\")", Some("%")),
            ("int(0),utime(\"%1\")", Some("%1")),
            ("int(0),utime(\"%5E\")", Some("  %5E")),
            ("int(0),utime(abc)", Some("abc")),
            ("int(0),utime()", Some("")),
            (
                "int(1700000000),utime(\"%n%t|%+|%E|%O|%Ey|%Od|%q|%L|%f|%N|%i|%J|%K|%o|%Q|%v\")",
                Some("\n\t|%+|%E|%O|23|14|%q|%L|%f|%N|%i|%J|%K|%o|%Q|%v"),
            ),
            (
                "int(1700000000),utime(\"%+d|%E5d|%5Ed|%EEd|%Qd|%5Q|%-Q|%:z|%::z|%_N\")",
                Some("%+d|%E5d| %5Ed|%EEd|%Qd|  %5Q|%-Q|%:z|%::z|%_N"),
            ),
        ]);
    }

    #[test]
    fn fractions() {
        check_new(&[
            (
                "int(1700000000123),ms_utime(\"%Y/%m/%d/%H:%M:%S.%3N %z\")",
                Some("2023/11/14/22:13:20.123 +0000"),
            ),
            (
                "int(1700000000123456),us_utime(\"%S.%6N %N %3N %9N %12N\")",
                Some("20.123456 123456000 123 123456000 123456000"),
            ),
            ("int(1700000000123),ms_utime(%6N,1)", Some("124000")),
            ("int(1700000000123),ms_ltime(%3N%Z)", Some("123UTC")),
            ("int(1700000000123456),us_ltime(%6N)", Some("123456")),
        ]);
    }

    #[test]
    fn http_dates_read() {
        check_new(&[
            (
                "str(\"Tue, 14 Nov 2023 22:13:20 GMT\"),date",
                Some("1700000000"),
            ),
            (
                "str(\"Tuesday, 14-Nov-23 22:13:20 GMT\"),date",
                Some("1700000000"),
            ),
            ("str(\"Tue Nov 14 22:13:20 2023\"),date", Some("1700000000")),
            ("str(\"Thu, 01 Jan 1970 00:00:00 GMT\"),date", Some("0")),
            ("str(yesterday),date", None),
            ("str(),date", None),
        ]);
    }

    proptest! {
        #[test]
        fn http_dates_read_back(seconds in 0i64..253_402_300_800) {
            let back = World::new(b"").run(&format!("int({seconds}),http_date,date")).unwrap().unwrap();
            prop_assert_eq!(String::from_utf8(back).unwrap(), seconds.to_string());
        }

        /// Days follow each other.
        #[test]
        fn the_calendar_has_no_gaps(day in -1_000_000i64..1_000_000) {
            let (today, tomorrow) = (Date::at(day * 86_400, 0), Date::at((day + 1) * 86_400, 0));
            let next_day = tomorrow.year == today.year && tomorrow.yearday == today.yearday + 1;
            let next_year = tomorrow.year == today.year + 1 && tomorrow.yearday == 0 && today.yearday >= 364;
            prop_assert!(next_day || next_year, "{today:?} {tomorrow:?}");
            prop_assert_eq!(tomorrow.weekday, (today.weekday + 1) % 7);
            let next_in_month = tomorrow.month == today.month && tomorrow.day == today.day + 1;
            let next_month = tomorrow.day == 1 && tomorrow.month == today.month % 12 + 1;
            prop_assert!(next_in_month || next_month, "{today:?} {tomorrow:?}");
        }
    }
}
