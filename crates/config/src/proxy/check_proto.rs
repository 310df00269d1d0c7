//! The options that choose a check: `httpchk`, `tcp-check`, and the protocol checks, which are fixed steps.
//!
//! What each protocol check sends is its public handshake; what it accepts follows the manual.

use std::sync::Arc;

use sluice_expr::pattern::Regex;
use sluice_expr::place::Place;
use sluice_expr::{Expr, LogFormat, Purpose};

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{CheckAction, CheckExpect, CheckMatch, CheckRules, CheckStep, ProtocolAnswer};
use crate::raw::{CheckOption, HttpSend};

use super::check::constant_text;
use super::choice;

/// Makes a check the one that is used.
fn choose(cx: &mut Cx<'_>, line: &Arc<Line>, option: CheckOption) {
    cx.proxy().settings.check.option = Some((option, line.clone()));
}

/// `option httpchk [[METHOD] URI [VERSION]]`
pub(super) fn httpchk(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    if !cx.no_more(line, from + 3) {
        return;
    }
    let Some(slash) = constant_text(cx, line, from, "/") else {
        return;
    };
    let mut first = HttpSend::default();
    // One word is the URI; with more the method comes first.
    let uri = match line.words.len() - from {
        0 => None,
        1 => Some(from),
        _ => {
            first.method = Some(line.words[from].bytes().to_vec());
            Some(from + 1)
        }
    };
    if let Some(word) = uri {
        first.uri = constant_text(cx, line, word, line.word(word));
        if first.uri.is_none() {
            return;
        }
    }
    if line.has(from + 2) && version(cx, line, from + 2, &mut first).is_none() {
        return;
    }
    choose(cx, line, CheckOption::Http { first, slash });
}

/// The version; old files hide headers and a body behind it (`HTTP/1.1\r\nHost:\ www`).
fn version(cx: &mut Cx<'_>, line: &Arc<Line>, word: usize, send: &mut HttpSend) -> Option<()> {
    let text = line.word(word).to_owned();
    let Some((version, rest)) = text.split_once("\r\n") else {
        send.version = Some(text.into_bytes());
        return Some(());
    };
    cx.warn(
        line,
        word,
        "'option httpchk' : headers behind the version are obsolete",
        Some("write `http-check send hdr <name> <value>` lines".into()),
    );
    send.version = Some(version.as_bytes().to_vec());
    let (head, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
    for header in head.split("\r\n").filter(|h| !h.is_empty()) {
        let Some((name, value)) = header.split_once(':') else {
            cx.error_at(
                line,
                word,
                format!("'option httpchk' : '{header}' is not a header"),
            );
            return None;
        };
        let value = constant_text(cx, line, word, value.trim())?;
        send.headers.push((name.trim().to_owned(), value));
    }
    if !body.is_empty() {
        send.body = Some(constant_text(cx, line, word, body)?);
    }
    Some(())
}

/// `option external-check`: only where `global` allows the start of programs.
pub(super) fn external(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if cx.no_more(line, line.keyword_len) {
        choose(cx, line, CheckOption::External);
    }
}

pub(super) fn tcp_check(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if cx.no_more(line, line.keyword_len) {
        choose(cx, line, CheckOption::Tcp);
    }
}

/// A protocol check under construction.
struct Draft<'c, 'o, 'l> {
    cx: &'c mut Cx<'o>,
    line: &'l Arc<Line>,
    steps: Vec<CheckAction>,
    /// Everything could be made so far.
    good: bool,
}

impl Draft<'_, '_, '_> {
    fn new<'c, 'o, 'l>(cx: &'c mut Cx<'o>, line: &'l Arc<Line>) -> Draft<'c, 'o, 'l> {
        Draft {
            cx,
            line,
            steps: Vec::new(),
            good: true,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.steps.push(CheckAction::Send(bytes.to_vec()));
    }

    fn format(&mut self, text: &str) -> Option<LogFormat> {
        let line = self.line;
        let made = self.cx.with_ctx(line, 0, Place::CHECK, |ctx, _| {
            LogFormat::parse(text, ctx, Purpose::Argument)
        });
        self.good &= made.is_some();
        made
    }

    /// Waits for something; the texts are formats for the report.
    fn expect(&mut self, wait: Wait) {
        let matcher = match wait.what {
            What::Text(pattern) => {
                Regex::new(pattern, false).map(|r| CheckMatch::Regex(Arc::new(r)))
            }
            What::NotText(pattern) => {
                Regex::new(pattern, false).map(|r| CheckMatch::Regex(Arc::new(r)))
            }
            What::Bytes(pattern) => {
                Regex::new(pattern, true).map(|r| CheckMatch::BinaryRegex(Arc::new(r)))
            }
        };
        let matcher = match matcher {
            Ok(matcher) => matcher,
            Err(why) => {
                self.cx.error_at(self.line, 0, why);
                self.good = false;
                return;
            }
        };
        let mut expect = CheckExpect::plain(matcher);
        expect.negate = matches!(wait.what, What::NotText(_));
        expect.min_recv = wait.min_recv;
        expect.ok_status = wait.ok_status.map(str::to_owned);
        expect.error_status = Some(wait.error_status.to_owned());
        expect.on_error = wait.on_error.and_then(|text| self.format(text));
        expect.on_success = wait.on_success.and_then(|text| self.format(text));
        if let Some(text) = wait.status_code {
            let line = self.line;
            expect.status_code = self
                .cx
                .with_ctx(line, 0, Place::CHECK, |ctx, _| Expr::parse(text, ctx));
            self.good &= expect.status_code.is_some();
        }
        self.steps.push(CheckAction::Expect(expect));
    }

    /// Waits for an answer that its protocol explains.
    fn expect_protocol(&mut self, answer: ProtocolAnswer) {
        let expect = CheckExpect::plain(CheckMatch::Protocol(answer));
        self.steps.push(CheckAction::Expect(expect));
    }

    fn choose(self, proto: &'static str) {
        if !self.good {
            return;
        }
        // a check that starts by listening tells of its connection as a step of its own
        let listens = matches!(self.steps.first(), Some(CheckAction::Expect(_)));
        let steps = (1 + u32::from(listens)..)
            .zip(self.steps)
            .map(|(number, action)| CheckStep {
                comment: None,
                number,
                action,
            })
            .collect();
        let rules = CheckRules {
            http: false,
            proto,
            steps,
            disable_on_404: false,
            send_state: false,
        };
        choose(self.cx, self.line, CheckOption::Fixed(Arc::new(rules)));
    }
}

/// What is waited for.
#[derive(Clone, Copy)]
enum What {
    /// A regex on the received text.
    Text(&'static str),
    /// A regex that must not match.
    NotText(&'static str),
    /// A regex on the received bytes in hexadecimal.
    Bytes(&'static str),
}

/// One expectation of a protocol check.
struct Wait {
    what: What,
    min_recv: Option<i32>,
    ok_status: Option<&'static str>,
    error_status: &'static str,
    on_error: Option<&'static str>,
    on_success: Option<&'static str>,
    status_code: Option<&'static str>,
}

impl Wait {
    fn new(what: What, error_status: &'static str) -> Self {
        Wait {
            what,
            min_recv: None,
            ok_status: None,
            error_status,
            on_error: None,
            on_success: None,
            status_code: None,
        }
    }
    fn min_recv(mut self, bytes: i32) -> Self {
        self.min_recv = Some(bytes);
        self
    }
    fn ok_status(mut self, status: &'static str) -> Self {
        self.ok_status = Some(status);
        self
    }
    fn on_error(mut self, text: &'static str) -> Self {
        self.on_error = Some(text);
        self
    }
    fn on_success(mut self, text: &'static str) -> Self {
        self.on_success = Some(text);
        self
    }
    fn status_code(mut self, text: &'static str) -> Self {
        self.status_code = Some(text);
        self
    }
}

/// `option ssl-hello-chk`: a ClientHello of SSL 3.0; a handshake record (0x16) or an alert (0x15) shows that TLS is spoken.
pub(super) fn ssl_hello(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if !cx.no_more(line, line.keyword_len) {
        return;
    }
    let hello = client_hello();
    let mut draft = Draft::new(cx, line);
    draft.send(&hello);
    draft.expect(
        Wait::new(What::Bytes("^1[56]"), "L6RSP")
            .min_recv(5)
            .ok_status("L6OK"),
    );
    draft.choose("SSL hello");
}

/// A ClientHello without extensions (RFC 6101, section 5.6.1.2) that offers the first 58 cipher suites.
fn client_hello() -> Vec<u8> {
    const RANDOM: &[u8; 32] = b"sluice health check, no session.";
    let mut hello = vec![0x03, 0x00];
    hello.extend_from_slice(RANDOM);
    // No session to resume.
    hello.push(0);
    let suites: Vec<u8> = (1..=58u8).flat_map(|n| [0, n]).collect();
    hello.extend_from_slice(&[0, 116]);
    hello.extend_from_slice(&suites);
    // One compression method: none.
    hello.extend_from_slice(&[1, 0]);
    let len = |n: usize| u16::try_from(n).unwrap_or(0).to_be_bytes();
    let mut record = vec![0x16, 0x03, 0x00];
    record.extend_from_slice(&len(hello.len() + 4));
    record.extend_from_slice(&[1, 0]);
    record.extend_from_slice(&len(hello.len()));
    record.extend_from_slice(&hello);
    record
}

/// `option smtpchk [HELO|EHLO DOMAIN]`: greeting, HELO, QUIT, each answered with a 2xx.
pub(super) fn smtp(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    if !cx.no_more(line, from + 2) {
        return;
    }
    // As in HAProxy: anything else than a full HELO or EHLO greets as localhost.
    let hello = match (line.word(from), line.word(from + 1)) {
        (verb @ ("HELO" | "EHLO"), domain) if !domain.is_empty() => format!("{verb} {domain}\r\n"),
        _ => "HELO localhost\r\n".to_owned(),
    };
    let mut draft = Draft::new(cx, line);
    let answered = |pattern| {
        Wait::new(What::Text(pattern), "L7STS")
            .on_error("%[res.payload(4,0),ltrim(' '),cut_crlf]")
            .status_code("res.payload(0,3)")
    };
    draft.expect(
        Wait::new(What::Text("^[0-9]{3}[ \r]"), "L7RSP")
            .min_recv(4)
            .on_error("%[res.payload(0,0),cut_crlf]"),
    );
    draft.expect(answered("^2[0-9]{2}[ \r]").min_recv(4));
    draft.send(hello.as_bytes());
    draft
        .expect(answered("^2[0-9]{2}[- \r]").on_success("%[res.payload(4,0),ltrim(' '),cut_crlf]"));
    draft.send(b"QUIT\r\n");
    draft
        .expect(answered("^2[0-9]{2}[- \r]").on_success("%[res.payload(4,0),ltrim(' '),cut_crlf]"));
    draft.choose("SMTP");
}

/// `option redis-check`
pub(super) fn redis(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if !cx.no_more(line, line.keyword_len) {
        return;
    }
    let mut draft = Draft::new(cx, line);
    draft.send(b"*1\r\n$4\r\nPING\r\n");
    draft.expect(
        Wait::new(What::Text("\\+PONG\r\n"), "L7STS")
            .on_error("%[res.payload(0,0),cut_crlf]")
            .on_success("Redis server is ok"),
    );
    draft.choose("Redis");
}

/// `option ldap-check`: an anonymous simple bind (RFC 4511, section 4.2) that has to succeed.
pub(super) fn ldap(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if !cx.no_more(line, line.keyword_len) {
        return;
    }
    let mut draft = Draft::new(cx, line);
    // SEQUENCE { messageID 1, bindRequest { version 3, name "", simple "" } }
    draft.send(&[
        0x30, 0x0c, 0x02, 0x01, 0x01, 0x60, 0x07, 0x02, 0x01, 0x03, 0x04, 0x00, 0x80, 0x00,
    ]);
    draft.expect_protocol(ProtocolAnswer::LdapBind);
    draft.choose("LDAP");
}

/// `option pgsql-check user NAME`: a startup message (protocol 3.0); the server has to ask for authentication.
pub(super) fn pgsql(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    if line.word(from) != "user" || line.word(from + 1).is_empty() {
        return cx.error_at(
            line,
            from,
            "'option pgsql-check' expects 'user <username>' as argument",
        );
    }
    if !cx.no_more(line, from + 2) {
        return;
    }
    let mut body = vec![0, 3, 0, 0];
    body.extend_from_slice(b"user\0");
    body.extend_from_slice(line.words[from + 1].bytes());
    body.extend_from_slice(&[0, 0]);
    let Ok(len) = u32::try_from(body.len() + 4) else {
        return;
    };
    let mut startup = len.to_be_bytes().to_vec();
    startup.extend_from_slice(&body);
    let mut draft = Draft::new(cx, line);
    draft.send(&startup);
    draft.expect(
        Wait::new(What::NotText("^E"), "L7RSP")
            .min_recv(5)
            .on_error("%[res.payload(6,0)]"),
    );
    // 'R', a length, and one of the authentication methods of the protocol.
    draft.expect(
        Wait::new(
            What::Bytes("^52000000..000000(00|02|03|04|05|06|07|09|0a)"),
            "L7STS",
        )
        .min_recv(9)
        .on_error("PostgreSQL unknown error")
        .on_success("PostgreSQL server is ok"),
    );
    draft.choose("PostgreSQL");
}

/// `option mysql-check [user NAME [post-41|pre-41]]`: the server's greeting and, with a user, a login that may be refused
/// but must be answered.
pub(super) fn mysql(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    let login = match line.word(from) {
        "" => None,
        "user" => {
            if cx
                .need(line, from + 1, "a user name after 'user'")
                .is_none()
            {
                return;
            }
            let mut post_41 = true;
            if line.has(from + 2) {
                match choice(cx, line, from + 2, &[("post-41", true), ("pre-41", false)]) {
                    Some(chosen) => post_41 = chosen,
                    None => return,
                }
            }
            Some(mysql_login(line.words[from + 1].bytes(), post_41))
        }
        other => {
            let message = format!("'option mysql-check' takes 'user <username>' (got '{other}')");
            return cx.error_at(line, from, message);
        }
    };
    if !cx.no_more(line, from + 3) {
        return;
    }
    let mut draft = Draft::new(cx, line);
    draft.expect_protocol(ProtocolAnswer::MysqlGreeting);
    if let Some(login) = login {
        draft.send(&login);
        draft.expect_protocol(ProtocolAnswer::MysqlResult);
    }
    draft.choose("MySQL");
}

/// A login without a password, then QUIT in the same packet train.
fn mysql_login(user: &[u8], post_41: bool) -> Vec<u8> {
    let mut body = match post_41 {
        // CLIENT_PROTOCOL_41 | CLIENT_TRANSACTIONS..., packets of up to 16 MiB, utf8_general_ci, 23 reserved bytes.
        true => {
            let mut body = vec![0x00, 0x82, 0x00, 0x00, 0x00, 0x80, 0x00, 0x01, 0x21];
            body.resize(32, 0);
            body
        }
        // Capabilities in two bytes, packet size in three.
        false => vec![0x00, 0x80, 0x00, 0x00, 0x01],
    };
    body.extend_from_slice(user);
    // The name's end; an empty password.
    body.extend_from_slice(&[0, 0]);
    let mut packet = body.len().to_le_bytes()[..3].to_vec();
    packet.push(1);
    packet.extend_from_slice(&body);
    // COM_QUIT.
    packet.extend_from_slice(&[1, 0, 0, 0, 1]);
    packet
}

/// `option spop-check`: a HAPROXY-HELLO frame marked as a health check, answered by an AGENT-HELLO.
pub(super) fn spop(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if !cx.no_more(line, line.keyword_len) {
        return;
    }
    let text = |bytes: &[u8]| {
        let mut out = vec![u8::try_from(bytes.len()).unwrap_or(0)];
        out.extend_from_slice(bytes);
        out
    };
    // Frame type 1, flags (FIN), stream 0, frame 0; then names with typed values: 8 a text, 3 a number, 0x11 true.
    let mut frame = vec![1, 0, 0, 0, 1, 0, 0];
    frame.extend(text(b"supported-versions"));
    frame.push(8);
    frame.extend(text(b"2.0"));
    frame.extend(text(b"max-frame-size"));
    // 16380 as SPOP's variable-length integer.
    frame.extend_from_slice(&[3, 0xfc, 0xf0, 0x06]);
    frame.extend(text(b"capabilities"));
    frame.push(8);
    frame.extend(text(b""));
    frame.extend(text(b"healthcheck"));
    frame.push(0x11);
    let mut hello = u32::try_from(frame.len())
        .unwrap_or(0)
        .to_be_bytes()
        .to_vec();
    hello.extend_from_slice(&frame);
    let mut draft = Draft::new(cx, line);
    draft.send(&hello);
    draft.expect_protocol(ProtocolAnswer::SpopHello);
    draft.choose("SPOP");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn mysql_logins_are_those_seen_on_the_wire() {
        // As HAProxy 2.6 sends them for `user hap`.
        assert_eq!(
            hex(&mysql_login(b"hap", true)),
            "25000001008200000080000121000000000000000000000000000000000000000000000068617000000100000001"
        );
        assert_eq!(
            hex(&mysql_login(b"hap", false)),
            "0a000001008000000168617000000100000001"
        );
    }

    #[test]
    fn client_hello_is_well_formed() {
        let hello = client_hello();
        let record = usize::from(u16::from_be_bytes([hello[3], hello[4]]));
        assert_eq!(record + 5, hello.len());
        let handshake = usize::from(u16::from_be_bytes([hello[7], hello[8]]));
        assert_eq!(handshake + 9, hello.len());
    }
}
