//! Fetches of the cookie in an RDP connection request, which load balancers use for persistence ([MS-RDPBCGR] section
//! 2.2.1.1: a line of text behind eleven bytes of TPKT and X.224 headers).

use super::{Cursor, arg_str, content};
use crate::args::Arg;
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample};

fetches! {
    "req.rdp_cookie" (; Str) -> Str, REQUEST, cookie => "The cookie of an RDP request; its name ignores case.";
    "rdp_cookie" (; Str) -> Str, REQUEST, cookie => "The same as `req.rdp_cookie`.";
    "req.rdp_cookie_cnt" (; Str) -> Sint, REQUEST, count => "1 when an RDP request has the cookie, else 0.";
    "rdp_cookie_cnt" (; Str) -> Sint, REQUEST, count => "The same as `req.rdp_cookie_cnt`.";
}

/// The value of the RDP cookie called `name` in the first bytes of a connection, for `balance rdp-cookie` and `persist
/// rdp-cookie`; `None` when it is not there (yet).
pub fn rdp_cookie<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    value(bytes, name).ok()
}

const HEADERS: usize = 11;
const FIELD: &[u8] = b"Cookie:";

fn cookie<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let name = arg_str(args, 0).unwrap_or_default();
    content(env, Dir::Request, |bytes| {
        value(bytes, name).map(Sample::str)
    })
}

fn count<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let name = arg_str(args, 0).unwrap_or_default();
    content(env, Dir::Request, |bytes| match value(bytes, name) {
        Ok(_) => Ok(Sample::int(1)),
        Err(Absent::Never) => Ok(Sample::int(0)),
        Err(Absent::NotYet) => Err(Absent::NotYet),
    })
}

/// The value of the cookie called `name`, or of any when that is empty.
fn value<'a>(bytes: &'a [u8], name: &[u8]) -> Result<&'a [u8], Absent> {
    let text = bytes.get(HEADERS..).unwrap_or_default();
    if text.len() <= FIELD.len() {
        return Err(Absent::NotYet);
    }
    let (field, text) = text.split_at(FIELD.len());
    if !field.eq_ignore_ascii_case(FIELD) {
        return Err(Absent::Never);
    }
    let spaces = text.iter().take_while(|&&b| b == b' ').count();
    let text = &text[spaces..];
    let equals = if name.is_empty() {
        match text
            .iter()
            .position(|b| b"=\r\n".contains(b))
            .ok_or(Absent::NotYet)?
        {
            at if text[at] == b'=' => at,
            _ => return Err(Absent::Never),
        }
    } else {
        if text.len() <= name.len() {
            return Err(Absent::NotYet);
        }
        if text[name.len()] != b'=' || !text[..name.len()].eq_ignore_ascii_case(name) {
            return Err(Absent::Never);
        }
        name.len()
    };
    let value = &text[equals + 1..];
    let end = memchr::memchr(b'\r', value).ok_or(Absent::NotYet)?;
    match value.get(end + 1) {
        Some(b'\n') => Ok(&value[..end]),
        Some(_) => Err(Absent::Never),
        None => Err(Absent::NotYet),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;
    use crate::value::Absent;

    fn rdp(cookie: &str) -> Vec<u8> {
        let mut bytes = vec![
            3,
            0,
            0,
            cookie.len() as u8 + 11,
            cookie.len() as u8 + 6,
            0xe0,
            0,
            0,
            0,
            0,
            0,
        ];
        bytes.extend_from_slice(cookie.as_bytes());
        bytes
    }

    fn check(cookie: &str, table: &[(&str, Option<&str>)]) {
        TestEnv::bytes(rdp(cookie), true).check(table);
    }

    #[test]
    fn the_cookie_is_found_by_any_case() {
        check(
            "Cookie: mstshash=user1\r\n",
            &[
                ("req.rdp_cookie", Some("user1")),
                ("rdp_cookie(MSTSHASH)", Some("user1")),
                ("req.rdp_cookie(msts)", None),
                ("req.rdp_cookie_cnt", Some("1")),
                ("rdp_cookie_cnt(mstshash)", Some("1")),
                ("req.rdp_cookie_cnt(x)", Some("0")),
            ],
        );
        check(
            "cookie:   msts=3640205228.15629.0000\r\n",
            &[("req.rdp_cookie(MSTS)", Some("3640205228.15629.0000"))],
        );
        check(
            "Cookie:mstshash=\r\n",
            &[
                ("req.rdp_cookie", Some("")),
                ("req.rdp_cookie_cnt", Some("1")),
            ],
        );
        check(
            "Cookie: a=b; c=d\r\n",
            &[("req.rdp_cookie", Some("b; c=d"))],
        );
    }

    #[test]
    fn balancing_asks_for_it_too() {
        let bytes = rdp("Cookie: msts=1.2.3\r\n");
        assert_eq!(super::rdp_cookie(&bytes, b"MSTS"), Some(&b"1.2.3"[..]));
        assert_eq!(super::rdp_cookie(&bytes[..20], b"msts"), None);
    }

    #[test]
    fn a_line_without_value_is_no_cookie() {
        check(
            "Cookie: foo\r\n",
            &[
                ("req.rdp_cookie", None),
                ("req.rdp_cookie_cnt", Some("0")),
                // Shorter than the name: HAProxy waits for more.
                ("req.rdp_cookie_cnt(mstshash)", None),
            ],
        );
        check(
            "\u{1}\0\u{8}\0\u{3}\0\0\0",
            &[("req.rdp_cookie_cnt", Some("0"))],
        );
    }

    #[test]
    fn an_incomplete_line_is_waited_for() {
        let whole = rdp("Cookie: mstshash=user1\r\n");
        for cut in 0..whole.len() {
            let env = TestEnv::bytes(&whole[..cut], false);
            assert_eq!(env.outcome("req.rdp_cookie"), Err(Absent::NotYet), "{cut}");
            assert_eq!(
                env.outcome("req.rdp_cookie_cnt(mstshash)"),
                Err(Absent::NotYet),
                "{cut}"
            );
        }
    }
}
