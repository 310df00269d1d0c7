//! Answers of MySQL and LDAP servers and SPOE agents to their checks: binary, and with a reason of their own worth
//! reporting.

use sluice_config::model::ProtocolAnswer;
use sluice_engine::health::CheckStatus;

use super::spop;

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub enum Judged {
    Passed(String),
    Failed(CheckStatus, u32, String),
    NeedMore,
}

/// Judges what came so far; `ended`: no more will come.
pub fn judge(kind: ProtocolAnswer, bytes: &[u8], ended: bool) -> Judged {
    let judged = match kind {
        ProtocolAnswer::MysqlGreeting | ProtocolAnswer::MysqlResult => mysql(bytes),
        ProtocolAnswer::LdapBind => ldap(bytes),
        ProtocolAnswer::SpopHello => spop::agent_hello(bytes, ended),
    };
    match judged {
        Judged::NeedMore if ended => Judged::Failed(CheckStatus::L7Resp, 0, String::new()),
        judged => judged,
    }
}

/// A packet of the MySQL protocol: length (3 bytes, little endian), sequence number, then a greeting with the server's
/// version, an OK, or 0xff with an error number and its text.
fn mysql(bytes: &[u8]) -> Judged {
    let Some((&[a, b, c, _], rest)) = bytes.split_first_chunk::<4>() else {
        return Judged::NeedMore;
    };
    let len = u32::from_le_bytes([a, b, c, 0]) as usize;
    let Some(packet) = rest.get(..len) else {
        return Judged::NeedMore;
    };
    match packet {
        [0xff, low, high, text @ ..] => Judged::Failed(
            CheckStatus::L7Status,
            u16::from_le_bytes([*low, *high]).into(),
            text_to_nul(text),
        ),
        // protocol version 10 (or another that is not an OK), then the version's text up to its NUL
        [first, text @ ..] if *first != 0 => Judged::Passed(text_to_nul(text)),
        [] => Judged::Failed(CheckStatus::L7Resp, 0, String::new()),
        _ => Judged::Passed(String::new()),
    }
}

fn text_to_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// A bindResponse (RFC 4511 section 4.2.2): SEQUENCE { messageID, [APPLICATION 1] { resultCode, ... } }.
fn ldap(bytes: &[u8]) -> Judged {
    let other = || Judged::Failed(CheckStatus::L7Resp, 0, "Not LDAPv3 protocol".into());
    // the shortest answer, whatever it says
    if bytes.len() < 14 {
        return Judged::NeedMore;
    }
    if bytes.first() != Some(&0x30) {
        return other();
    }
    // lengths are one byte, or 0x80 plus the number of bytes that follow
    let past_length = |b: &[u8]| match b.first() {
        Some(n) if *n < 0x80 => b.get(1..).map(<[u8]>::to_vec),
        Some(n) => b.get(1 + usize::from(n & 0x7f)..).map(<[u8]>::to_vec),
        None => None,
    };
    let code = past_length(&bytes[1..])
        .and_then(|b| b.strip_prefix(&[2, 1, 1, 0x61][..]).map(<[u8]>::to_vec))
        .and_then(|b| past_length(&b))
        .and_then(|b| b.strip_prefix(&[0x0a, 1][..])?.first().copied());
    match code {
        Some(0) => Judged::Passed("Success".into()),
        Some(code) => Judged::Failed(
            CheckStatus::L7Status,
            code.into(),
            "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9".into(),
        ),
        None => other(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProtocolAnswer::*;

    #[test]
    fn mysql_greetings_and_errors() {
        let packet = |body: &[u8]| [&[body.len() as u8, 0, 0, 0], body].concat();
        let passed = |s: &str| Judged::Passed(s.into());
        assert_eq!(
            judge(MysqlGreeting, &packet(b"\x0a5.5.5\0abcdefgh"), false),
            passed("5.5.5")
        );
        assert_eq!(
            judge(MysqlResult, &packet(b"\0\0\0\x02\0\0\0"), false),
            passed("")
        );
        assert_eq!(
            judge(MysqlResult, &packet(b"\xff\x15\x04denied"), false),
            Judged::Failed(CheckStatus::L7Status, 1045, "denied".into())
        );
        assert_eq!(
            judge(MysqlGreeting, b"\x05\0\0\0\x0a", false),
            Judged::NeedMore
        );
        assert_eq!(
            judge(MysqlGreeting, b"\x05\0\0\0\x0a", true),
            Judged::Failed(CheckStatus::L7Resp, 0, String::new())
        );
    }

    #[test]
    fn ldap_binds() {
        let bind = |code| [0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0];
        assert_eq!(
            judge(LdapBind, &bind(0), false),
            Judged::Passed("Success".into())
        );
        assert!(matches!(
            judge(LdapBind, &bind(49), false),
            Judged::Failed(CheckStatus::L7Status, 49, _)
        ));
        assert!(matches!(
            judge(LdapBind, b"a line of junk", false),
            Judged::Failed(CheckStatus::L7Resp, 0, _)
        ));
    }
}
