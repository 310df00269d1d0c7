//! Fetches of TLS hellos in raw content: `req.ssl_*` (manual chapter 7.3.5). They see bytes that pass through; for TLS
//! that ends here the fetches are `ssl_fc_*`.

use super::hello::{self, ClientHello};
use super::{Cursor, content, more};
use crate::args::Arg;
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "req.ssl_sni" () -> Str, REQUEST, |_, env, _| part(env, |h| h.server_name().map(Sample::str))
        => "The server name of the ClientHello that passes through.";
    "req_ssl_sni" () -> Str, REQUEST, |_, env, _| part(env, |h| h.server_name().map(Sample::str))
        => "The same as `req.ssl_sni`.";
    "req.ssl_alpn" () -> Str, REQUEST, alpn
        => "The first protocol in the ALPN extension of the ClientHello; for an ACL each of them.";
    "req.ssl_ec_ext" () -> Bool, REQUEST, |_, env, _| part(env, |h| h.extension(10).map(|_| Sample::bool(true)))
        => "True when the ClientHello has the supported groups extension.";
    "req.ssl_st_ext" () -> Sint, REQUEST, |_, env, _| part(env, session_ticket)
        => "0 without a session ticket extension in the ClientHello, 1 with an empty one, 2 with a ticket.";
    "req.ssl_hello_type" () -> Sint, REQUEST, |_, env, _| hello_type(env, Dir::Request)
        => "The type of the hello that passes through: 1 for a ClientHello.";
    "req_ssl_hello_type" () -> Sint, REQUEST, |_, env, _| hello_type(env, Dir::Request)
        => "The same as `req.ssl_hello_type`.";
    "res.ssl_hello_type" () -> Sint, RESPONSE, |_, env, _| hello_type(env, Dir::Response)
        => "The type of the hello in the response: 2 for a ServerHello.";
    "rep_ssl_hello_type" () -> Sint, RESPONSE, |_, env, _| hello_type(env, Dir::Response)
        => "The same as `res.ssl_hello_type`.";
    "req.ssl_ver" () -> Sint, REQUEST, |_, env, _| version(env)
        => "The version the ClientHello asks for: major times 65536 plus minor; TLS 1.0 is 3.1.";
    "req_ssl_ver" () -> Sint, REQUEST, |_, env, _| version(env) => "The same as `req.ssl_ver`.";
    "req.ssl_cipherlist" () -> Bin, CLIENT, |_, env, _| part(env, |h| Some(Sample::bin(h.ciphers)))
        => "The cipher suites of the ClientHello, two bytes each.";
    "req.ssl_sigalgs" () -> Bin, CLIENT, |_, env, _| part(env, |h| h.list(13).map(Sample::bin))
        => "The signature algorithms of the ClientHello, two bytes each.";
    "req.ssl_supported_groups" () -> Bin, CLIENT, |_, env, _| part(env, |h| h.list(10).map(Sample::bin))
        => "The supported groups of the ClientHello, two bytes each.";
    "req.ssl_keyshare_groups" () -> Bin, CLIENT, |_, env, _| part(env, |h| h.key_share_groups().map(Sample::bytes))
        => "The groups of the key shares in the ClientHello, two bytes each.";
}

fn part<'a>(env: &'a dyn Env, of: fn(&ClientHello<'a>) -> Option<Sample<'a>>) -> Fetched<'a> {
    content(env, Dir::Request, |bytes| {
        of(&ClientHello::read(bytes)?).ok_or(Absent::Never)
    })
}

fn alpn<'a>(_: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    content(env, Dir::Request, |bytes| {
        let nth = if cursor.iterates() { cursor.0[0] } else { 0 };
        let protocol = ClientHello::read(bytes)?.protocol(nth as usize);
        cursor.0[0] = nth + 1;
        let protocol = protocol.ok_or(Absent::Never)?;
        Ok(more(Value::Str(protocol.into()), cursor.iterates()))
    })
}

fn session_ticket<'a>(hello: &ClientHello<'a>) -> Option<Sample<'a>> {
    match hello.extension(35) {
        None if hello.extensions.is_empty() => None,
        None => Some(Sample::int(0)),
        Some([]) => Some(Sample::int(1)),
        Some(_) => Some(Sample::int(2)),
    }
}

fn hello_type(env: &dyn Env, dir: Dir) -> Fetched<'_> {
    content(env, dir, |bytes| {
        Ok(Sample::int(i64::from(hello::hello_type(bytes)?)))
    })
}

fn version(env: &dyn Env) -> Fetched<'_> {
    content(env, Dir::Request, |bytes| {
        hello::version(bytes).map(Sample::int)
    })
}

#[cfg(test)]
mod tests {
    use super::super::from_hex;
    use crate::testing::TestEnv;
    use crate::value::Absent;

    /// A TLS 1.3 hello of OpenSSL 3 for `Example.org`, offering h2 and http/1.1.
    const TLS13: &str = concat!(
        "1603010200010001fc0303f42330e4b81098973111141eb3f764e4b5c11e243a71fccc98f7c9c6a6f12031206fe7824f84cee6c27f5b",
        "e9defa2ae03e12d19589713f9822cdbdfd914a587d450024130213031301c02cc030c02bc02fcca9cca8c024c028c023c027009f009e",
        "006b006700ff0100018f00000010000e00000b4578616d706c652e6f7267000b000403000102000a00160014001d0017001e00190018",
        "01000101010201030104002300000010000e000c02683208687474702f312e310016000000170000000d002a00280403050306030807",
        "08080809080a080b080408050806040105010601030303010302040205020602002b00050403040303002d0002010100330026002400",
        "1d0020ef84b04dd73a4b565f052cca096a107140ea74fb99507c5862c4e3011d4f8b3e001500d0",
    );

    fn tls13() -> Vec<u8> {
        let mut bytes = from_hex(TLS13.as_bytes()).expect("hexadecimal");
        bytes.resize(517, 0);
        bytes
    }

    /// The hello with one run of bytes replaced by another of the same length.
    fn changed(from: &str, to: &str) -> Vec<u8> {
        let hello = tls13();
        let (from, to) = (
            from_hex(from.as_bytes()).expect("hex"),
            from_hex(to.as_bytes()).expect("hex"),
        );
        let at = memchr::memmem::find(&hello, &from).expect("in the hello");
        [&hello[..at], &to, &hello[at + from.len()..]].concat()
    }

    fn check(bytes: &[u8], table: &[(&str, Option<&str>)]) {
        TestEnv::bytes(bytes, true).check(table);
    }

    #[test]
    fn a_client_hello_is_read() {
        check(
            &tls13(),
            &[
                ("req.ssl_sni", Some("Example.org")),
                ("req_ssl_sni", Some("Example.org")),
                ("req.ssl_alpn", Some("h2")),
                ("req.ssl_ver", Some("196611")),
                ("req_ssl_ver", Some("196611")),
                ("req.ssl_hello_type", Some("1")),
                ("req_ssl_hello_type", Some("1")),
                ("req.ssl_ec_ext", Some("1")),
                ("req.ssl_st_ext", Some("1")),
                ("req.ssl_cipherlist,bytes(0,2)", Some("\x13\x02")),
                ("req.ssl_supported_groups,bytes(18)", Some("\x01\x04")),
                ("req.ssl_sigalgs,bytes(0,2)", Some("\x04\x03")),
                ("req.ssl_keyshare_groups", Some("\0\x1d")),
            ],
        );
    }

    #[test]
    fn an_incomplete_hello_is_waited_for() {
        let hello = tls13();
        for cut in [0, 1, 4, 6, 100, hello.len() - 1] {
            for fetch in [
                "req.ssl_sni",
                "req.ssl_ver",
                "req.ssl_hello_type",
                "req.ssl_st_ext",
            ] {
                let waiting = TestEnv::bytes(&hello[..cut], false).outcome(fetch);
                assert_eq!(waiting, Err(Absent::NotYet), "{fetch} of {cut} bytes");
                let ended = TestEnv::bytes(&hello[..cut], true).outcome(fetch);
                assert_eq!(ended, Err(Absent::Never), "{fetch} of {cut} bytes");
            }
        }
    }

    #[test]
    fn other_protocols_are_no_hello() {
        let old = [&b"\x16\x02\x00"[..], &tls13()[3..]].concat();
        let alert = b"\x15\x03\x01\x00\x02\x02\x28";
        for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &old, alert] {
            for fetch in [
                "req.ssl_sni",
                "req.ssl_alpn",
                "req.ssl_ec_ext",
                "req.ssl_st_ext",
                "req.ssl_ver",
            ] {
                assert_eq!(
                    TestEnv::bytes(bytes, true).outcome(fetch),
                    Err(Absent::Never),
                    "{fetch}"
                );
            }
        }
    }

    #[test]
    fn extensions_may_be_missing_or_broken() {
        check(
            &changed("000a00160014001d", "ffaa00160014001d"),
            &[("req.ssl_ec_ext", None)],
        );
        check(
            &changed("002300000010", "00fe00000010"),
            &[("req.ssl_st_ext", Some("0"))],
        );
        let ticket = changed("001500d0", "002300d0");
        check(&ticket, &[("req.ssl_st_ext", Some("1"))]);
        // A name of another type, a length beyond the hello, a length beyond the extension.
        let sni = "00000010000e00000b";
        check(
            &changed(sni, "00000010000e01000b"),
            &[("req.ssl_sni", None), ("req.ssl_alpn", Some("h2"))],
        );
        check(
            &changed(sni, "00001010000e00000b"),
            &[("req.ssl_sni", None), ("req.ssl_alpn", None)],
        );
        check(
            &changed(sni, "00000010000e0000ff"),
            &[("req.ssl_sni", None), ("req.ssl_alpn", Some("h2"))],
        );
    }

    #[test]
    fn a_ticket_with_content_is_told_apart() {
        let mut hello = changed("002300000010", "00fe00000010");
        let at = memchr::memmem::find(&hello, b"\0\x15\0\xd0").expect("the padding");
        hello[at + 1] = 0x23;
        check(&hello, &[("req.ssl_st_ext", Some("2"))]);
    }

    #[test]
    fn a_hello_without_extensions_has_a_version() {
        let body = [&b"\x03\x01"[..], &[b'r'; 32], b"\0\0\x02\0\x2f\x01\0"].concat();
        let hello = [&[1, 0, 0, body.len() as u8][..], &body].concat();
        let record = [&[0x16, 3, 1, 0, hello.len() as u8][..], &hello].concat();
        check(
            &record,
            &[
                ("req.ssl_ver", Some("196609")),
                ("req.ssl_hello_type", Some("1")),
                ("req.ssl_sni", None),
                ("req.ssl_st_ext", None),
            ],
        );
    }

    #[test]
    fn an_ssl_2_hello_has_a_version() {
        let hello = from_hex(b"802e0100020015000000100100800200800300800400800500800600400700c0")
            .expect("hex");
        let hello = [&hello[..], &[b'0'; 16]].concat();
        check(
            &hello,
            &[
                ("req.ssl_ver", Some("2")),
                ("req.ssl_hello_type", None),
                ("req.ssl_sni", None),
            ],
        );
        assert_eq!(
            TestEnv::bytes(&hello[..20], false).outcome("req.ssl_ver"),
            Err(Absent::NotYet)
        );
    }

    #[test]
    fn a_server_hello_is_told_by_its_type() {
        let mut env = TestEnv::new();
        let hello = from_hex(b"160303000a02000006030301020304").expect("hex");
        env.res_content = Some((hello, true));
        env.check(&[
            ("res.ssl_hello_type", Some("2")),
            ("rep_ssl_hello_type", Some("2")),
        ]);
    }
}
