//! Fetches of the distcc protocol: tokens of four letters with a number in eight hexadecimal digits, of which most say
//! the length of a body that follows.

use super::{Cursor, arg_int, arg_str, content};
use crate::args::Arg;
use crate::conv::BadArg;
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample};

fetches! {
    "distcc_param" (Str; Sint) -> Sint, MESSAGE, param, prepare |args, _| prepare(args)
        => "The number behind an occurrence of a distcc token.";
    "distcc_body" (Str; Sint) -> Bin, MESSAGE, body, prepare |args, _| prepare(args)
        => "The body behind an occurrence of a distcc token.";
}

/// The tokens whose number is not the length of a body.
const WITHOUT_BODY: [&[u8]; 5] = [b"DIST", b"ARGC", b"NFIL", b"DONE", b"STAT"];
const TOKEN: usize = 4;
const NUMBER: usize = 8;

fn prepare(args: &[Arg]) -> Result<(), BadArg> {
    if arg_str(args, 0).unwrap_or_default().len() != TOKEN {
        return Err(BadArg::new(0, "a distcc token has four letters, like ARGV"));
    }
    match arg_int(args, 1) {
        Some(n) if n < 1 => Err(BadArg::new(1, "occurrences are counted from 1")),
        _ => Ok(()),
    }
}

/// The number of the wanted token and what follows it, up to the end of what is there.
fn find<'a>(args: &[Arg], mut bytes: &'a [u8]) -> Result<(usize, &'a [u8]), Absent> {
    let wanted = arg_str(args, 0).unwrap_or_default();
    let mut skip = arg_int(args, 1).unwrap_or(1) - 1;
    loop {
        let (token, rest) = bytes.split_at_checked(TOKEN).ok_or(Absent::NotYet)?;
        let (digits, rest) = rest.split_at_checked(NUMBER).ok_or(Absent::NotYet)?;
        let number = digits.iter().try_fold(0, |sum, &b| {
            let digit = char::from(b).to_digit(16).ok_or(Absent::Never)?;
            Ok(sum << 4 | digit as usize)
        })?;
        if token == wanted && skip == 0 {
            return Ok((number, rest));
        }
        skip -= i64::from(token == wanted);
        let body = if WITHOUT_BODY.contains(&token) {
            0
        } else {
            number
        };
        bytes = rest.get(body..).ok_or(Absent::NotYet)?;
    }
}

fn param<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    content(env, env.direction(), |bytes| {
        Ok(Sample::int(find(args, bytes)?.0 as i64))
    })
}

fn body<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    content(env, env.direction(), |bytes| {
        let (number, rest) = find(args, bytes)?;
        let without = arg_str(args, 0).is_some_and(|token| WITHOUT_BODY.contains(&token));
        let length = if without { 0 } else { number };
        rest.get(..length).map(Sample::bin).ok_or(Absent::NotYet)
    })
}

#[cfg(test)]
mod tests {
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};
    use crate::value::Absent;

    const REQUEST: &str =
        "DIST00000001ARGC00000002ARGV00000002ccARGV00000002-cNFIL00000000DOTI00000005int x";

    #[test]
    fn tokens_are_found_by_occurrence() {
        TestEnv::bytes(REQUEST, true).check(&[
            ("distcc_param(DIST)", Some("1")),
            ("distcc_param(ARGC)", Some("2")),
            ("distcc_param(ARGV)", Some("2")),
            ("distcc_param(ARGV,2)", Some("2")),
            ("distcc_param(ARGV,3)", None),
            ("distcc_body(ARGV)", Some("cc")),
            ("distcc_body(ARGV,1)", Some("cc")),
            ("distcc_body(ARGV,2)", Some("-c")),
            ("distcc_param(NFIL)", Some("0")),
            ("distcc_param(DOTI)", Some("5")),
            ("distcc_body(DOTI)", Some("int x")),
            ("distcc_body(DIST)", Some("")),
            ("distcc_param(XXXX)", None),
        ]);
    }

    #[test]
    fn some_numbers_are_no_lengths() {
        TestEnv::bytes("NFIL00000008ARGC00000001STAT00000010DIST00000005", true).check(&[
            ("distcc_param(ARGC)", Some("1")),
            ("distcc_param(STAT)", Some("16")),
            ("distcc_param(DIST)", Some("5")),
        ]);
        TestEnv::bytes("XXXX00000003abcARGC00000001", true).check(&[
            ("distcc_param(XXXX)", Some("3")),
            ("distcc_param(ARGC)", Some("1")),
        ]);
    }

    #[test]
    fn a_body_is_waited_for() {
        let env = TestEnv::bytes(&REQUEST[..REQUEST.len() - 2], false);
        assert_eq!(env.outcome("distcc_body(DOTI)"), Err(Absent::NotYet));
        env.check(&[("distcc_param(DOTI)", Some("5"))]);
        let env = TestEnv::bytes("DIST0000000gARGC00000001", false);
        assert_eq!(env.outcome("distcc_param(ARGC)"), Err(Absent::Never));
    }

    #[test]
    fn arguments_are_checked() {
        for expr in ["distcc_param(ARG)", "distcc_body(ARGV,0)", "distcc_param()"] {
            assert!(compile(expr, Place::FE_REQ_CONTENT).is_err(), "{expr}");
        }
    }
}
