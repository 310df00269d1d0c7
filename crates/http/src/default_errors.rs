//! The error pages sent when the configuration gives none: the same bytes as HAProxy's.
//!
//! Taken from what HAProxy 2.6 answers on the wire. Where HAProxy writes header names in lower case
//! there, the manual's examples write them capitalised; names are case-insensitive and we keep the
//! latter.

use crate::response::Response;

/// A standard error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultError {
    pub status: u16,
    /// HAProxy's own reasons, which differ from the registered ones in places ("Request Time-out").
    pub reason: &'static str,
    pub body: &'static str,
    /// Whether the connection is closed after it, whatever the client asked for.
    pub close: bool,
}

/// The statuses of `errorfile` in ascending order with their standard pages.
pub const DEFAULT_ERRORS: &[DefaultError] = &[
    page(
        200,
        "OK",
        "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n",
    ),
    closing(
        400,
        "Bad request",
        "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>\n",
    ),
    page(
        401,
        "Unauthorized",
        "<html><body><h1>401 Unauthorized</h1>\nYou need a valid user and password to access this content.\n</body></html>\n",
    ),
    page(
        403,
        "Forbidden",
        "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n",
    ),
    page(
        404,
        "Not Found",
        "<html><body><h1>404 Not Found</h1>\nThe resource could not be found.\n</body></html>\n",
    ),
    page(
        405,
        "Method Not Allowed",
        "<html><body><h1>405 Method Not Allowed</h1>\nA request was made of a resource using a request method not supported by that resource\n</body></html>\n",
    ),
    page(
        407,
        "Unauthorized",
        "<html><body><h1>407 Unauthorized</h1>\nYou need a valid user and password to access this content.\n</body></html>\n",
    ),
    closing(
        408,
        "Request Time-out",
        "<html><body><h1>408 Request Time-out</h1>\nYour browser didn't send a complete request in time.\n</body></html>\n",
    ),
    page(
        410,
        "Gone",
        "<html><body><h1>410 Gone</h1>\nThe resource is no longer available and will not be available again.\n</body></html>\n",
    ),
    page(
        413,
        "Payload Too Large",
        "<html><body><h1>413 Payload Too Large</h1>\nThe request entity exceeds the maximum allowed.\n</body></html>\n",
    ),
    page(
        421,
        "Misdirected Request",
        "<html><body><h1>421 Misdirected Request</h1>\nRequest sent to a non-authoritative server.\n</body></html>\n",
    ),
    page(
        422,
        "Unprocessable Content",
        "<html><body><h1>422 Unprocessable Content</h1>\nThe server cannot process the contained instructions.\n</body></html>\n",
    ),
    page(
        425,
        "Too Early",
        "<html><body><h1>425 Too Early</h1>\nYour browser sent early data.\n</body></html>\n",
    ),
    page(
        429,
        "Too Many Requests",
        "<html><body><h1>429 Too Many Requests</h1>\nYou have sent too many requests in a given amount of time.\n</body></html>\n",
    ),
    page(
        500,
        "Internal Server Error",
        "<html><body><h1>500 Internal Server Error</h1>\nAn internal server error occurred.\n</body></html>\n",
    ),
    page(
        501,
        "Not Implemented",
        "<html><body><h1>501 Not Implemented</h1>\n.The server does not support the functionality required to fulfill the request.\n</body></html>\n",
    ),
    page(
        502,
        "Bad Gateway",
        "<html><body><h1>502 Bad Gateway</h1>\nThe server returned an invalid or incomplete response.\n</body></html>\n",
    ),
    page(
        503,
        "Service Unavailable",
        "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>\n",
    ),
    page(
        504,
        "Gateway Time-out",
        "<html><body><h1>504 Gateway Time-out</h1>\nThe server didn't respond in time.\n</body></html>\n",
    ),
];

/// The page for `status`, if HAProxy has one.
pub fn default_error(status: u16) -> Option<&'static DefaultError> {
    DEFAULT_ERRORS.iter().find(|e| e.status == status)
}

impl DefaultError {
    /// Fills `out` with the head that goes before `body`.
    pub fn head(&self, out: &mut Response) {
        out.clear();
        out.set_status(self.status, Some(self.reason.as_bytes()));
        let mut digits = [0; 20];
        out.headers.add(
            "Content-Length",
            crate::chunk::decimal_digits(self.body.len() as u64, &mut digits),
        );
        out.headers.add("Cache-Control", "no-cache");
        out.headers.add("Content-Type", "text/html");
        if self.close {
            out.headers.add("Connection", "close");
        }
        out.framing = crate::Framing::Length(self.body.len() as u64);
    }

    /// Appends the whole response, head and body, in HTTP/1 form.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut response = Response::default();
        self.head(&mut response);
        response.write_to(out);
        out.extend_from_slice(self.body.as_bytes());
    }
}

const fn page(status: u16, reason: &'static str, body: &'static str) -> DefaultError {
    DefaultError {
        status,
        reason,
        body,
        close: false,
    }
}

const fn closing(status: u16, reason: &'static str, body: &'static str) -> DefaultError {
    DefaultError {
        status,
        reason,
        body,
        close: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths are those of HAProxy's answers on the wire.
    #[test]
    fn pages_have_the_lengths_of_the_real_ones() {
        let lengths = [
            58, 90, 112, 93, 83, 146, 112, 110, 114, 106, 104, 116, 80, 117, 97, 136, 107, 107, 92,
        ];
        assert_eq!(
            DEFAULT_ERRORS
                .iter()
                .map(|e| e.body.len())
                .collect::<Vec<_>>(),
            lengths
        );
    }

    #[test]
    fn a_503_is_a_whole_response() {
        let mut out = Vec::new();
        default_error(503).unwrap().write_to(&mut out);
        let text = String::from_utf8(out).unwrap();
        let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 107\r\nCache-Control: no-cache\r\nContent-Type: text/html\r\n\r\n";
        assert!(text.starts_with(head), "{text}");
        assert_eq!(text.len(), head.len() + 107);
    }
}
