//! The tags of the log-format language (`%ci`, `%Tt`...): one item each, with its type and the moment from which on it
//! is known (manual chapter 8.2.6; `%OG` of HAProxy 3.1).

/// When in a stream's life a value is known for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    Accept,
    Request,
    /// A server has been chosen and connected to.
    Connect,
    Response,
    Close,
}

/// What a tag stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    BytesOut,
    BytesIn,
    CookieReq,
    CookieRes,
    Hostname,
    Method,
    Path,
    PathOnly,
    Query,
    Uri,
    Version,
    UniqueId,
    Status,
    DateGmt,
    DateLocal,
    Date,
    RequestDate,
    RequestDateGmt,
    RequestDateLocal,
    AcceptMs,
    Timestamp,
    TimeActive,
    TimeConnect,
    TimeData,
    TimeHandshake,
    TimeIdle,
    TimeTq,
    TimeRequest,
    TimeResponse,
    TimeTotal,
    TimeUser,
    TimeWait,
    ActConn,
    Backend,
    BeConn,
    BackendIp,
    BackendPort,
    BackendQueue,
    ClientIp,
    ClientPort,
    Frontend,
    FeConn,
    FrontendIp,
    FrontendPort,
    FrontendTransport,
    LogCounter,
    HeadersReq,
    HeadersReqList,
    HeadersRes,
    HeadersResList,
    Origin,
    Pid,
    Request,
    Retries,
    RequestCounter,
    Server,
    SrvConn,
    ServerIp,
    ServerPort,
    SrvQueue,
    TlsCipher,
    TlsVersion,
    Termination,
    TerminationCookie,
}

/// One tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagDef {
    /// What follows the `%`.
    pub name: &'static str,
    pub tag: Tag,
    /// Only HTTP has it.
    pub http: bool,
    pub stage: Stage,
    /// The manual's name of the field.
    pub help: &'static str,
}

const fn any(name: &'static str, tag: Tag, stage: Stage, help: &'static str) -> TagDef {
    TagDef {
        name,
        tag,
        http: false,
        stage,
        help,
    }
}

const fn http(name: &'static str, tag: Tag, stage: Stage, help: &'static str) -> TagDef {
    TagDef {
        name,
        tag,
        http: true,
        stage,
        help,
    }
}

/// All tags but `%o`, which only sets flags; sorted by name.
pub const TAGS: &[TagDef] = &[
    any(
        "B",
        Tag::BytesOut,
        Stage::Close,
        "bytes_read, from server to client",
    ),
    http(
        "CC",
        Tag::CookieReq,
        Stage::Request,
        "captured_request_cookie",
    ),
    http(
        "CS",
        Tag::CookieRes,
        Stage::Response,
        "captured_response_cookie",
    ),
    any("H", Tag::Hostname, Stage::Accept, "hostname"),
    http("HM", Tag::Method, Stage::Request, "HTTP method"),
    http(
        "HP",
        Tag::Path,
        Stage::Request,
        "HTTP request URI without query string",
    ),
    http(
        "HPO",
        Tag::PathOnly,
        Stage::Request,
        "HTTP path only, without host nor query string",
    ),
    http(
        "HQ",
        Tag::Query,
        Stage::Request,
        "HTTP request URI query string",
    ),
    http("HU", Tag::Uri, Stage::Request, "HTTP request URI"),
    http("HV", Tag::Version, Stage::Request, "HTTP version"),
    any("ID", Tag::UniqueId, Stage::Request, "unique-id"),
    any("OG", Tag::Origin, Stage::Accept, "why the line is written"),
    any("ST", Tag::Status, Stage::Response, "status_code"),
    any("T", Tag::DateGmt, Stage::Accept, "gmt_date_time"),
    http(
        "TR",
        Tag::TimeRequest,
        Stage::Request,
        "time to receive the full request from its first byte",
    ),
    http(
        "Ta",
        Tag::TimeActive,
        Stage::Close,
        "active time of the request",
    ),
    any(
        "Tc",
        Tag::TimeConnect,
        Stage::Connect,
        "time to connect to the server",
    ),
    any(
        "Td",
        Tag::TimeData,
        Stage::Close,
        "time to transfer the data",
    ),
    any(
        "Th",
        Tag::TimeHandshake,
        Stage::Accept,
        "connection handshake time",
    ),
    http(
        "Ti",
        Tag::TimeIdle,
        Stage::Request,
        "idle time before the HTTP request",
    ),
    any("Tl", Tag::DateLocal, Stage::Accept, "local_date_time"),
    http("Tq", Tag::TimeTq, Stage::Request, "Th + Ti + TR"),
    http(
        "Tr",
        Tag::TimeResponse,
        Stage::Response,
        "server response time",
    ),
    any("Ts", Tag::Timestamp, Stage::Accept, "timestamp"),
    any("Tt", Tag::TimeTotal, Stage::Close, "total time"),
    any(
        "Tu",
        Tag::TimeUser,
        Stage::Close,
        "total time seen by the user",
    ),
    any("Tw", Tag::TimeWait, Stage::Connect, "time spent in queues"),
    any(
        "U",
        Tag::BytesIn,
        Stage::Close,
        "bytes_uploaded, from client to server",
    ),
    any("ac", Tag::ActConn, Stage::Close, "actconn"),
    any("b", Tag::Backend, Stage::Accept, "backend_name"),
    any("bc", Tag::BeConn, Stage::Close, "beconn"),
    any("bi", Tag::BackendIp, Stage::Connect, "backend_source_ip"),
    any(
        "bp",
        Tag::BackendPort,
        Stage::Connect,
        "backend_source_port",
    ),
    any("bq", Tag::BackendQueue, Stage::Close, "backend_queue"),
    any("ci", Tag::ClientIp, Stage::Accept, "client_ip"),
    any("cp", Tag::ClientPort, Stage::Accept, "client_port"),
    any("f", Tag::Frontend, Stage::Accept, "frontend_name"),
    any("fc", Tag::FeConn, Stage::Close, "feconn"),
    any("fi", Tag::FrontendIp, Stage::Accept, "frontend_ip"),
    any("fp", Tag::FrontendPort, Stage::Accept, "frontend_port"),
    any(
        "ft",
        Tag::FrontendTransport,
        Stage::Accept,
        "frontend_name_transport",
    ),
    any(
        "hr",
        Tag::HeadersReq,
        Stage::Request,
        "captured_request_headers, default style",
    ),
    any(
        "hrl",
        Tag::HeadersReqList,
        Stage::Request,
        "captured_request_headers, CLF style",
    ),
    any(
        "hs",
        Tag::HeadersRes,
        Stage::Response,
        "captured_response_headers, default style",
    ),
    any(
        "hsl",
        Tag::HeadersResList,
        Stage::Response,
        "captured_response_headers, CLF style",
    ),
    any("lc", Tag::LogCounter, Stage::Accept, "frontend_log_counter"),
    any(
        "ms",
        Tag::AcceptMs,
        Stage::Accept,
        "accept date milliseconds",
    ),
    any("pid", Tag::Pid, Stage::Accept, "PID"),
    http("r", Tag::Request, Stage::Request, "http_request"),
    any("rc", Tag::Retries, Stage::Close, "retries"),
    any("rt", Tag::RequestCounter, Stage::Accept, "request_counter"),
    any("s", Tag::Server, Stage::Connect, "server_name"),
    any("sc", Tag::SrvConn, Stage::Close, "srv_conn"),
    any("si", Tag::ServerIp, Stage::Connect, "server_IP"),
    any("sp", Tag::ServerPort, Stage::Connect, "server_port"),
    any("sq", Tag::SrvQueue, Stage::Close, "srv_queue"),
    any("sslc", Tag::TlsCipher, Stage::Accept, "ssl_ciphers"),
    any("sslv", Tag::TlsVersion, Stage::Accept, "ssl_version"),
    any("t", Tag::Date, Stage::Accept, "date_time"),
    http(
        "tr",
        Tag::RequestDate,
        Stage::Accept,
        "date_time of HTTP request",
    ),
    http(
        "trg",
        Tag::RequestDateGmt,
        Stage::Accept,
        "gmt_date_time of start of HTTP request",
    ),
    http(
        "trl",
        Tag::RequestDateLocal,
        Stage::Accept,
        "local_date_time of start of HTTP request",
    ),
    any("ts", Tag::Termination, Stage::Close, "termination_state"),
    http(
        "tsc",
        Tag::TerminationCookie,
        Stage::Close,
        "termination_state with cookie status",
    ),
];

/// The tag of that name.
pub(super) fn find(name: &str) -> Option<&'static TagDef> {
    let at = TAGS.binary_search_by_key(&name, |t| t.name).ok()?;
    TAGS.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(TAGS.is_sorted_by_key(|t| t.name));
        assert_eq!(find("HPO").map(|t| t.tag), Some(Tag::PathOnly));
        assert_eq!(find("HPQ"), None);
    }
}
