//! Methods and protocol versions.

/// A request method: the ones HAProxy knows by number, all others as `Other`.
///
/// The text itself stays in the request (`Request::method_str`): methods are case-sensitive
/// (RFC 9110 section 9.1) and an unknown one is forwarded as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    Options,
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Trace,
    Connect,
    Other,
}

impl Method {
    /// The method written `text`; `Other` when it is none of the well-known ones.
    #[inline]
    pub fn from_bytes(text: &[u8]) -> Method {
        match text {
            b"GET" => Method::Get,
            b"POST" => Method::Post,
            b"HEAD" => Method::Head,
            b"PUT" => Method::Put,
            b"OPTIONS" => Method::Options,
            b"DELETE" => Method::Delete,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// The method's text; empty for `Other`, whose text only the request knows.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Options => "OPTIONS",
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Other => "",
        }
    }

    /// Whether a request may be sent again without the client noticing (RFC 9110 section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Method::Post | Method::Connect | Method::Other)
    }
}

/// A protocol version. Ordered: `version >= Version::HTTP_11`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
}

impl Version {
    pub const HTTP_09: Version = Version { major: 0, minor: 9 };
    pub const HTTP_10: Version = Version { major: 1, minor: 0 };
    pub const HTTP_11: Version = Version { major: 1, minor: 1 };
    pub const HTTP_2: Version = Version { major: 2, minor: 0 };
    pub const HTTP_3: Version = Version { major: 3, minor: 0 };

    /// Reads `HTTP/D.D` exactly (RFC 9112 section 2.3); `None` for anything else.
    #[inline]
    pub fn from_bytes(text: &[u8]) -> Option<Version> {
        match *text {
            [
                b'H',
                b'T',
                b'T',
                b'P',
                b'/',
                major @ b'0'..=b'9',
                b'.',
                minor @ b'0'..=b'9',
            ] => Some(Version {
                major: major - b'0',
                minor: minor - b'0',
            }),
            _ => None,
        }
    }
}

impl Default for Version {
    fn default() -> Self {
        Version::HTTP_11
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive() {
        assert_eq!(Method::from_bytes(b"GET"), Method::Get);
        assert_eq!(Method::from_bytes(b"get"), Method::Other);
        assert_eq!(Method::from_bytes(b"PATCH"), Method::Other);
    }

    #[test]
    fn versions_are_one_digit_each() {
        assert_eq!(Version::from_bytes(b"HTTP/1.1"), Some(Version::HTTP_11));
        for bad in [
            &b"HTTP/1.10"[..],
            b"HTTP/1",
            b"http/1.1",
            b"HTTP/1,1",
            b"HTTP/a.1",
            b"",
        ] {
            assert_eq!(Version::from_bytes(bad), None);
        }
        assert!(Version::HTTP_11 > Version::HTTP_10 && Version::HTTP_2 > Version::HTTP_11);
    }
}
