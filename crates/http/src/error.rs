//! What can be wrong with a head, and what is answered to it.

use thiserror::Error;

/// Why a head was refused. Each has its own text for logs and `show errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ErrorKind {
    #[error("invalid character before the start line")]
    Start,
    #[error("invalid method")]
    Method,
    #[error("invalid character in the request target")]
    Target,
    #[error("invalid request target")]
    TargetForm,
    #[error("invalid protocol version")]
    Version,
    #[error("invalid status code")]
    Status,
    #[error("invalid character in the reason phrase")]
    Reason,
    #[error("carriage return without line feed")]
    BareCr,
    #[error("invalid character in a header name")]
    HeaderName,
    #[error("empty header name")]
    EmptyHeaderName,
    #[error("invalid character in a header value")]
    HeaderValue,
    #[error("head too large")]
    TooLarge,
    #[error("too many headers")]
    TooManyHeaders,
    #[error("invalid or contradictory content-length")]
    ContentLength,
    #[error("invalid transfer-encoding")]
    TransferEncoding,
    #[error("transfer-encoding other than chunked")]
    TransferEncodingUnknown,
    #[error("several different host headers")]
    Host,
    #[error("host header that differs from the request target")]
    HostMismatch,
    #[error("websocket upgrade without sec-websocket-key")]
    WebsocketKey,
    #[error("payload with a method that has none in http/1.0")]
    Payload,
    #[error("broken chunk right behind the head")]
    Chunk,
}

impl ErrorKind {
    /// The status HAProxy answers to a request with this fault.
    pub fn status(self) -> u16 {
        match self {
            ErrorKind::Payload => 413,
            ErrorKind::TransferEncodingUnknown => 422,
            _ => 400,
        }
    }

    /// The fault in one word, for counters.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Start => "start",
            ErrorKind::Method => "method",
            ErrorKind::Target => "target",
            ErrorKind::TargetForm => "target_form",
            ErrorKind::Version => "version",
            ErrorKind::Status => "status",
            ErrorKind::Reason => "reason",
            ErrorKind::BareCr => "bare_cr",
            ErrorKind::HeaderName => "header_name",
            ErrorKind::EmptyHeaderName => "empty_header_name",
            ErrorKind::HeaderValue => "header_value",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::TooManyHeaders => "too_many_headers",
            ErrorKind::ContentLength => "content_length",
            ErrorKind::TransferEncoding => "transfer_encoding",
            ErrorKind::TransferEncodingUnknown => "transfer_encoding_unknown",
            ErrorKind::Host => "host",
            ErrorKind::HostMismatch => "host_mismatch",
            ErrorKind::WebsocketKey => "websocket_key",
            ErrorKind::Payload => "payload",
            ErrorKind::Chunk => "chunk",
        }
    }
}

/// A refused head: the fault, and the offset of the byte that showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind} at byte {at}")]
pub struct ParseError {
    pub kind: ErrorKind,
    /// Offset in the input from where the head began, for the `show errors` capture.
    pub at: usize,
}

impl ParseError {
    pub(crate) fn new(kind: ErrorKind, at: usize) -> ParseError {
        ParseError { kind, at }
    }

    /// The status HAProxy answers to a request with this fault; a response with it becomes a 502.
    pub fn status(self) -> u16 {
        self.kind.status()
    }
}
