//! What a tag stands for in one stream, before it is written one way or another.

use std::net::IpAddr;

use super::tag::Tag;
use super::text::Map;
use crate::env::{Addr, ConnInfo, Env, Gauge, NameOf, ProxyId, Side, StreamInfo};

/// A field's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'e> {
    /// There is none: `-`.
    Absent,
    Number(i64),
    /// A number that grows on after the line was written, or one with a remark: `+` before it.
    Plus(i64),
    /// A number that `+X` writes in hexadecimal of at least so many digits.
    Counter(i64, usize),
    /// Milliseconds within a second: three decimal digits.
    Ms(i64),
    Text(&'e [u8]),
    /// A name of the configuration's, in which no byte needs care.
    Name(&'e [u8]),
    /// Text from the network, with `#XX` escapes.
    Encoded(&'e [u8], Map),
    /// `<NAME>`
    Applet(&'e [u8]),
    Ip(IpAddr),
    Port(u16),
    /// Microseconds since the epoch.
    Date(DateForm, i64),
    /// The termination state: this many of the characters.
    Flags([u8; 4], usize),
    /// The frontend's name, `~` after it for TLS.
    Transport(&'e [u8], bool),
    /// Captured headers: `{a|b}`.
    Braces(&'e [Option<Vec<u8>>]),
    /// Captured headers: one field each.
    List(&'e [Option<Vec<u8>>]),
    /// A field that is not there at all, not even as `-`.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateForm {
    /// Local, with milliseconds.
    Log,
    Gmt,
    Local,
}

const BAD_REQUEST: &[u8] = b"<BADREQ>";

/// Looks a field up.
pub(super) fn field<'e>(tag: Tag, env: &'e dyn Env) -> Field<'e> {
    match tag {
        Tag::Hostname => name(env, NameOf::Hostname),
        Tag::Pid => match env.gauge(Gauge::Pid) {
            Some(pid) => Field::Counter(pid, 4),
            None => Field::Absent,
        },
        Tag::ClientIp => ip(env.conn(Side::Client).map(|c| &c.src)),
        Tag::FrontendIp => ip(env.conn(Side::Client).map(|c| &c.dst)),
        Tag::BackendIp => ip(env.server_conn_from().map(|c| &c.src)),
        Tag::ServerIp => ip(env.conn(Side::Server).map(|c| &c.dst)),
        Tag::ClientPort => port(env, env.conn(Side::Client).map(|c| &c.src)),
        Tag::FrontendPort => port(env, env.conn(Side::Client).map(|c| &c.dst)),
        Tag::BackendPort => port(env, env.server_conn_from().map(|c| &c.src)),
        Tag::ServerPort => port(env, env.conn(Side::Server).map(|c| &c.dst)),
        Tag::TlsCipher => text(client(env).and_then(|c| c.tls_cipher.as_deref())),
        Tag::TlsVersion => text(client(env).and_then(|c| c.tls_version.as_deref())),
        _ => match env.stream() {
            Some(stream) => of_stream(tag, stream, env),
            None => Field::Absent,
        },
    }
}

fn of_stream<'e>(tag: Tag, s: &'e StreamInfo, env: &'e dyn Env) -> Field<'e> {
    let growing = |n: i64| match s.logged_early {
        true => Field::Plus(n),
        false => Field::Number(n),
    };
    let ms = |n: i32| Field::Number(i64::from(n));
    let count = |n: u32| Field::Number(i64::from(n));
    let request_us = match s.request_us {
        0 => s.accept_us,
        us => us,
    };
    match tag {
        Tag::BytesOut => growing(s.bytes_out as i64),
        Tag::BytesIn => growing(s.bytes_in as i64),
        Tag::CookieReq => bytes(s.cookie_capture_req.as_deref()),
        Tag::CookieRes => bytes(s.cookie_capture_res.as_deref()),
        Tag::Method => line_part(s, |line| line.method),
        Tag::Path => line_part(s, |line| before(line.uri(), b'?')),
        Tag::PathOnly => line_part(s, |line| path_only(line.uri())),
        Tag::Query => line_part(s, |line| &line.uri()[before(line.uri(), b'?').len()..]),
        Tag::Uri => line_part(s, |line| line.uri()),
        Tag::Version => line_part(s, |line| line.version()),
        Tag::Request => match s.first_line.as_slice() {
            [] => Field::Encoded(BAD_REQUEST, Map::Url),
            line => Field::Encoded(line, Map::Url),
        },
        Tag::UniqueId => bytes(env.unique_id()),
        Tag::Origin => match s.log_origin {
            "" => Field::Text(b"unspec"),
            origin => Field::Text(origin.as_bytes()),
        },
        Tag::Status => ms(s.status),
        Tag::DateGmt => Field::Date(DateForm::Gmt, s.accept_us),
        Tag::DateLocal => Field::Date(DateForm::Local, s.accept_us),
        Tag::Date => Field::Date(DateForm::Log, s.accept_us),
        Tag::RequestDate => Field::Date(DateForm::Log, request_us),
        Tag::RequestDateGmt => Field::Date(DateForm::Gmt, request_us),
        Tag::RequestDateLocal => Field::Date(DateForm::Local, request_us),
        Tag::AcceptMs => Field::Ms(s.accept_us.rem_euclid(1_000_000) / 1000),
        Tag::Timestamp => Field::Counter(s.accept_us.div_euclid(1_000_000), 4),
        Tag::TimeActive => growing(s.ta_ms.into()),
        Tag::TimeTotal => growing(s.tt_ms.into()),
        Tag::TimeUser => growing(s.tu_ms.into()),
        Tag::TimeConnect => ms(s.tc_ms),
        Tag::TimeData => ms(s.td_ms),
        Tag::TimeHandshake => ms(s.th_ms),
        Tag::TimeIdle => ms(s.ti_ms),
        Tag::TimeRequest => ms(s.tr_ms),
        Tag::TimeTq if s.tr_ms < 0 => Field::Number(-1),
        Tag::TimeTq => {
            let parts = [s.th_ms, s.ti_ms, s.tr_ms].map(i64::from);
            Field::Number(parts.iter().sum())
        }
        Tag::TimeResponse => ms(s.tsrv_ms),
        Tag::TimeWait => ms(s.tw_ms),
        Tag::ActConn => count(s.act_conn),
        Tag::FeConn => count(s.fe_conn),
        Tag::BeConn => count(s.be_conn),
        Tag::SrvConn => count(s.srv_conn),
        Tag::SrvQueue => count(s.srv_queue),
        Tag::BackendQueue => count(s.backend_queue),
        Tag::Retries if s.redispatched => Field::Plus(s.retries.into()),
        Tag::Retries => count(s.retries),
        Tag::RequestCounter => Field::Counter(s.request_counter as i64, 4),
        Tag::LogCounter => Field::Counter(s.log_counter as i64, 4),
        Tag::Frontend => proxy(env, s.frontend),
        Tag::Backend => proxy(env, s.backend),
        Tag::FrontendTransport => match env.name(NameOf::Proxy(s.frontend)) {
            Some(name) => {
                let tls = client(env).is_some_and(|c| c.tls);
                Field::Transport(name.as_bytes(), tls)
            }
            None => Field::Absent,
        },
        Tag::Server => match (&s.applet, s.server) {
            (Some(applet), _) => Field::Applet(applet.as_bytes()),
            (None, Some(server)) => name(env, NameOf::Server(server)),
            (None, None) => Field::Applet(b"NOSRV"),
        },
        Tag::HeadersReq => captures(&s.req_captures, Field::Braces),
        Tag::HeadersRes => captures(&s.res_captures, Field::Braces),
        Tag::HeadersReqList => captures(&s.req_captures, Field::List),
        Tag::HeadersResList => captures(&s.res_captures, Field::List),
        Tag::Termination => Field::Flags([s.term_cause, s.term_phase, 0, 0], 2),
        Tag::TerminationCookie => {
            Field::Flags([s.term_cause, s.term_phase, s.cookie_req, s.cookie_res], 4)
        }
        Tag::Hostname
        | Tag::Pid
        | Tag::ClientIp
        | Tag::FrontendIp
        | Tag::BackendIp
        | Tag::ServerIp
        | Tag::ClientPort
        | Tag::FrontendPort
        | Tag::BackendPort
        | Tag::ServerPort
        | Tag::TlsCipher
        | Tag::TlsVersion => Field::Absent,
    }
}

fn client(env: &dyn Env) -> Option<&ConnInfo> {
    env.conn(Side::Client)
}

fn bytes(b: Option<&[u8]>) -> Field<'_> {
    b.map_or(Field::Absent, Field::Text)
}

fn text(s: Option<&str>) -> Field<'_> {
    bytes(s.map(str::as_bytes))
}

fn name(env: &dyn Env, of: NameOf) -> Field<'_> {
    match env.name(of) {
        Some(name) => Field::Name(name.as_bytes()),
        None => Field::Absent,
    }
}

fn proxy(env: &dyn Env, id: ProxyId) -> Field<'_> {
    name(env, NameOf::Proxy(id))
}

fn captures<'e>(
    list: &'e [Option<Vec<u8>>],
    form: impl FnOnce(&'e [Option<Vec<u8>>]) -> Field<'e>,
) -> Field<'e> {
    match list {
        [] => Field::Nothing,
        list => form(list),
    }
}

fn ip(addr: Option<&Addr>) -> Field<'_> {
    match addr {
        None | Some(Addr::None) => Field::Absent,
        Some(Addr::Ip(a)) => Field::Ip(a.ip()),
        Some(Addr::Unix(_)) => Field::Text(b"unix"),
    }
}

/// A Unix socket has no port: the listener's number stands for it.
fn port<'e>(env: &'e dyn Env, addr: Option<&Addr>) -> Field<'e> {
    match addr {
        None | Some(Addr::None) => Field::Absent,
        Some(Addr::Ip(a)) => Field::Port(a.port()),
        Some(Addr::Unix(_)) => {
            let listener = env.stream().map_or(0, |s| s.listener_id);
            Field::Number(listener.into())
        }
    }
}

/// A request line whose method has been cut off.
struct Line<'l> {
    method: &'l [u8],
    rest: &'l [u8],
}

impl<'l> Line<'l> {
    fn uri(&self) -> &'l [u8] {
        let rest = skip_blanks(self.rest);
        &rest[..memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len())]
    }

    fn version(&self) -> &'l [u8] {
        let rest = skip_blanks(self.rest);
        skip_blanks(&rest[self.uri().len()..])
    }
}

fn is_blank(b: &u8) -> bool {
    matches!(b, b' ' | b'\t')
}

fn skip_blanks(s: &[u8]) -> &[u8] {
    let from = s.iter().position(|b| !is_blank(b)).unwrap_or(s.len());
    &s[from..]
}

fn line_part<'e>(s: &'e StreamInfo, part: fn(&Line<'e>) -> &'e [u8]) -> Field<'e> {
    let line = s.first_line.as_slice();
    let Some(end) = line.iter().position(is_blank) else {
        return Field::Encoded(BAD_REQUEST, Map::Url);
    };
    let (method, rest) = line.split_at(end);
    Field::Encoded(part(&Line { method, rest }), Map::Url)
}

fn before(s: &[u8], mark: u8) -> &[u8] {
    match memchr::memchr(mark, s) {
        Some(at) => &s[..at],
        None => s,
    }
}

/// The path of a URI: without scheme and authority, up to the query. `*` and the target of a CONNECT have none.
fn path_only(uri: &[u8]) -> &[u8] {
    let path = before(uri, b'?');
    if !path.contains(&b'/') {
        return b"";
    }
    let Some(at) = memchr::memmem::find(path, b"://").filter(|_| !path.starts_with(b"/")) else {
        return path;
    };
    let authority = &path[at + 3..];
    match memchr::memchr(b'/', authority) {
        Some(slash) => &authority[slash..],
        None => b"",
    }
}
