//! Fetches that need no traffic: the constants written in the configuration, the clock, chance, the environment.

use std::borrow::Cow;

use sluice_http::Method;

use super::{Cursor, arg_int, arg_str, from_hex, never, text};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::env::{Env, NameOf};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "always_false" () -> Bool, ANYWHERE, |_, _, _| Ok(Sample::bool(false)) => "False.";
    "always_true" () -> Bool, ANYWHERE, |_, _, _| Ok(Sample::bool(true)) => "True.";
    "str" (Str) -> Str, ANYWHERE, constant => "The string given.";
    "int" (Sint) -> Sint, ANYWHERE, constant => "The integer given.";
    "bool" (Str) -> Bool, ANYWHERE, constant_bool, prepare prepare_bool => "The boolean given: true, false, 1 or 0.";
    "bin" (Str) -> Bin, ANYWHERE, constant_bin, prepare prepare_bin => "The bytes given in hexadecimal.";
    "ipv4" (Ipv4) -> Ipv4, ANYWHERE, constant => "The IPv4 address given.";
    "ipv6" (Ipv6) -> Ipv6, ANYWHERE, constant => "The IPv6 address given.";
    "meth" (Str) -> Meth, ANYWHERE, constant_meth => "The method given.";
    "env" (Str) -> Str, ANYWHERE, constant, prepare prepare_env => "An environment variable as it was at the start.";
    "date" (; Sint, Str) -> Sint, ANYWHERE, date, prepare |args, _| prepare_unit(args, 1)
        => "Seconds (or `ms`, `us`) since the epoch, plus an offset in that unit.";
    "date_us" () -> Sint, ANYWHERE, date_us => "The microseconds within the second of the date.";
    "rand" (; Sint) -> Sint, ANYWHERE, rand => "A random integer of 32 bits, or from 0 up to the range given.";
    "uuid" (; Sint) -> Str, ANYWHERE, uuid, prepare prepare_uuid
        => "A UUID of version 4 (random) or 7 (time, then random).";
    "hostname" () -> Str, ANYWHERE, |_, env, _| text(env.name(NameOf::Hostname).map(str::as_bytes))
        => "The system's host name.";
}

/// Hands out the argument.
fn constant<'a>(args: &'a [Arg], _: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    match args.first() {
        Some(Arg::Str(s)) => Ok(Sample::str(s)),
        Some(Arg::Sint(i)) => Ok(Sample::int(*i)),
        Some(Arg::Ipv4(a)) => Ok(Sample::new(Value::Ipv4(*a))),
        Some(Arg::Ipv6(a)) => Ok(Sample::new(Value::Ipv6(*a))),
        _ => never(),
    }
}

fn constant_bool<'a>(args: &'a [Arg], _: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    arg_int(args, 0)
        .map(|i| Sample::bool(i != 0))
        .ok_or(Absent::Never)
}

fn constant_bin<'a>(args: &'a [Arg], _: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    arg_str(args, 0).map(Sample::bin).ok_or(Absent::Never)
}

fn constant_meth<'a>(args: &'a [Arg], _: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let name = arg_str(args, 0).ok_or(Absent::Never)?;
    Ok(Sample::new(Value::Meth(
        Method::from_bytes(name),
        Cow::Borrowed(name),
    )))
}

fn prepare_bool(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let truth = match arg_str(args, 0).unwrap_or_default() {
        b"1" => true,
        b"0" => false,
        word if word.eq_ignore_ascii_case(b"true") => true,
        word if word.eq_ignore_ascii_case(b"false") => false,
        _ => return Err(BadArg::new(0, "the value must be true, false, 1 or 0")),
    };
    args[0] = Arg::Sint(i64::from(truth));
    Ok(())
}

fn prepare_bin(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let bytes = from_hex(arg_str(args, 0).unwrap_or_default())
        .ok_or_else(|| BadArg::new(0, "the value must be an even number of hexadecimal digits"))?;
    args[0] = Arg::Str(bytes);
    Ok(())
}

/// `env` is read once, here: an unset variable is an empty string's absence.
fn prepare_env(args: &mut [Arg], ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    let name = String::from_utf8_lossy(arg_str(args, 0).unwrap_or_default()).into_owned();
    args[0] = match ctx.loader.env(&name) {
        Some(value) => Arg::Str(value.into_bytes()),
        None => Arg::None,
    };
    Ok(())
}

/// Turns a unit's name in argument `at` into how many of it are in a second.
pub(super) fn prepare_unit(args: &mut [Arg], at: usize) -> Result<(), BadArg> {
    let per_second = match arg_str(args, at) {
        None | Some(b"s") => 1,
        Some(b"ms") => 1_000,
        Some(b"us") => 1_000_000,
        Some(_) => return Err(BadArg::new(at, "the unit must be s, ms or us")),
    };
    args[at] = Arg::Sint(per_second);
    Ok(())
}

/// A moment in µs as a count of the unit [`prepare_unit`] left in argument `at`.
pub(super) fn in_unit(args: &[Arg], at: usize, moment_us: i64) -> i64 {
    match arg_int(args, at) {
        Some(1_000_000) => moment_us,
        Some(1_000) => moment_us.div_euclid(1_000),
        _ => moment_us.div_euclid(1_000_000),
    }
}

fn date<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let offset = arg_int(args, 0).unwrap_or(0);
    Ok(Sample::int(
        in_unit(args, 1, env.now().wall_us).saturating_add(offset),
    ))
}

fn date_us<'a>(_: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    Ok(Sample::int(env.now().wall_us.rem_euclid(1_000_000)))
}

fn rand<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let random = env.random() & 0xffff_ffff;
    Ok(Sample::int(match arg_int(args, 0) {
        None => random as i64,
        // A negative range wraps as in HAProxy.
        Some(range) => (random.wrapping_mul(range as u64) >> 32) as i64,
    }))
}

fn prepare_uuid(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    match arg_int(args, 0) {
        None | Some(4 | 7) => Ok(()),
        Some(_) => Err(BadArg::new(0, "the version must be 4 or 7")),
    }
}

/// RFC 9562 sections 5.4 and 5.7.
fn uuid<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let (mut high, low) = (env.random(), env.random());
    let version = arg_int(args, 0).unwrap_or(4) as u64;
    if version == 7 {
        let ms = (env.now().wall_us / 1000) as u64;
        high = ms << 16 | high & 0xffff;
    }
    high = high & !0xf000 | version << 12;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    Ok(Sample::string(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )))
}

#[cfg(test)]
mod tests {
    use crate::env::{Gauge, NameOf};
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};

    #[test]
    fn constants_are_what_is_written() {
        TestEnv::new().check(&[
            ("always_false", Some("0")),
            ("always_true", Some("1")),
            ("str(a b)", Some("a b")),
            ("int(-7)", Some("-7")),
            ("bool(true)", Some("1")),
            ("bool(FALSE)", Some("0")),
            ("bool(1)", Some("1")),
            ("bin(00fF41)", Some("\0\u{ff}A")),
            ("bin()", Some("")),
            ("ipv4(1.2.3.4)", Some("1.2.3.4")),
            ("ipv6(::ffff:1.2.3.4)", Some("::ffff:1.2.3.4")),
            ("meth(POST)", Some("POST")),
            ("meth(post)", Some("post")),
            ("env(GREETING)", Some("hello")),
            ("env(OTHER)", None),
        ]);
        for refused in [
            "bool(yes)",
            "bin(1)",
            "bin(0x)",
            "int(a)",
            "ipv4(::1)",
            "ipv6(1.2.3.4)",
            "uuid(5)",
            "date(1,h)",
        ] {
            assert!(compile(refused, Place::empty()).is_err(), "{refused}");
        }
    }

    #[test]
    fn the_clock_has_units() {
        // 2023-11-14 22:13:20.123456 UTC
        TestEnv::new().check(&[
            ("date", Some("1700000000")),
            ("date(-60)", Some("1699999940")),
            ("date(0,s)", Some("1700000000")),
            ("date(1,ms)", Some("1700000000124")),
            ("date(-6,us)", Some("1700000000123450")),
            ("date(9223372036854775807)", Some("9223372036854775807")),
            ("date_us", Some("123456")),
        ]);
    }

    #[test]
    fn chance_stays_in_its_range() {
        let env = TestEnv::new();
        env.random.set(0x1234_5678_ffff_ffff);
        env.check(&[("rand", Some("4294967295"))]);
        for (range, want) in [
            ("10", "9"),
            ("1", "0"),
            ("0", "0"),
            ("4294967296", "4294967295"),
        ] {
            env.random.set(0xffff_ffff);
            assert_eq!(env.text(&format!("rand({range})")).as_deref(), Some(want));
        }
        env.random.set(0);
        env.check(&[("rand(10)", Some("0"))]);
    }

    #[test]
    fn uuids_carry_their_version() {
        let env = TestEnv::new();
        env.random.set(0x0123_4567_89ab_cdef);
        env.check(&[("uuid", Some("01234567-89ab-4def-8123-456789abcdf0"))]);
        env.random.set(u64::MAX - 1);
        env.check(&[("uuid(4)", Some("ffffffff-ffff-4ffe-bfff-ffffffffffff"))]);
        env.random.set(0x1111);
        // 1700000000123 ms is 0x18bcfe5687b.
        env.check(&[("uuid(7)", Some("018bcfe5-687b-7111-8000-000000001112"))]);
    }

    #[test]
    fn the_process_is_asked() {
        let mut env = TestEnv::new();
        env.check(&[
            ("nbproc", Some("1")),
            ("proc", Some("1")),
            ("pid", None),
            ("hostname", None),
        ]);
        env.names = vec![(NameOf::Hostname, "box".into())];
        let gauges = [
            (Gauge::ActConn, "act_conn"),
            (Gauge::Pid, "pid"),
            (Gauge::ThreadId, "thread"),
            (Gauge::ThreadGroup, "tgroup"),
            (Gauge::UptimeSec, "uptime"),
            (Gauge::CpuUsageProc, "cpu_usage_proc"),
            (Gauge::CpuUsageThread, "cpu_usage_thr"),
            (Gauge::CpuUsageGroup, "cpu_usage_grp"),
        ];
        env.gauges = (10..)
            .zip(&gauges)
            .map(|(n, (gauge, _))| (*gauge, n))
            .collect();
        env.gauges.push((Gauge::Stopping, 1));
        for ((_, fetch), n) in gauges.iter().zip(10..) {
            assert_eq!(env.text(fetch), Some(n.to_string()), "{fetch}");
        }
        env.check(&[("hostname", Some("box")), ("stopping", Some("1"))]);
    }

    #[test]
    fn the_streams_task_is_measured() {
        let mut env = TestEnv::new();
        env.check(&[("cpu_ns_avg", Some("0")), ("lat_ns_avg", Some("0"))]);
        let stream = env.stream.as_mut().expect("a stream");
        (stream.task_calls, stream.task_cpu_ns, stream.task_lat_ns) = (4, 1001, 400);
        env.check(&[
            ("cpu_calls", Some("4")),
            ("cpu_ns_tot", Some("1001")),
            ("cpu_ns_avg", Some("250")),
            ("lat_ns_tot", Some("400")),
            ("lat_ns_avg", Some("100")),
        ]);
    }
}
