//! What rules may not tear apart: the headers that tell where a body ends and the body, and `Host` and the authority of
//! an absolute target (RFC 9112 sections 6 and 3.2.2). Whoever reads the message would otherwise see another one.

use sluice_http::{Framing, Headers};

use super::Stream;

impl Stream {
    /// To be called when a rule changed the headers of a name.
    #[inline]
    pub(super) fn header_changed(&mut self, name: &[u8]) {
        match name.len() {
            4 if !self.has_res && name.eq_ignore_ascii_case(b"host") => self.host_changed(),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.set.framing_touched = true,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.set.framing_touched = true;
            }
            _ => {}
        }
    }

    /// The authority of an absolute target becomes the last `Host`.
    fn host_changed(&mut self) {
        if let Some(host) = self.req.headers.last("Host").map(<[u8]>::to_vec) {
            self.req.set_authority(&host);
        }
    }

    /// Makes the request's headers tell the framing of its body again.
    pub(super) fn restore_request_framing(&mut self) {
        if self.set.framing_touched {
            restore(&mut self.req.headers, self.req.framing);
        }
    }

    /// The same for a response that goes to the client with this framing. One without a body may tell the length that
    /// another has.
    pub(super) fn restore_response_framing(&mut self, framing: Framing) {
        if self.set.framing_touched && framing != Framing::None {
            restore(&mut self.res.headers, framing);
        }
    }
}

fn restore(headers: &mut Headers, framing: Framing) {
    let tells = |headers: &Headers| {
        let lengths = headers.count("Content-Length");
        let codings = headers.count("Transfer-Encoding");
        match framing {
            Framing::Length(n) => {
                let told = headers.get("Content-Length").unwrap_or_default();
                lengths == 1 && codings == 0 && number(told) == Some(n)
            }
            Framing::Chunked => lengths == 0 && codings == 1,
            Framing::None | Framing::UntilClose => lengths == 0 && codings == 0,
            Framing::Tunnel => true,
        }
    };
    if tells(headers) {
        return;
    }
    headers.remove("Content-Length");
    headers.remove("Transfer-Encoding");
    match framing {
        Framing::Length(n) => headers.add("Content-Length", n.to_string()),
        Framing::Chunked => headers.add("Transfer-Encoding", "chunked"),
        Framing::None | Framing::UntilClose | Framing::Tunnel => {}
    }
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_the_framing_again() {
        let check = |lines: &[(&str, &str)], framing, want: &str| {
            let mut headers = Headers::new();
            lines.iter().for_each(|(n, v)| headers.add(n, v));
            restore(&mut headers, framing);
            let mut text = Vec::new();
            headers.write_to(&mut text);
            let text = String::from_utf8(text).unwrap().replace("\r\n", "|");
            assert_eq!(text, want, "{lines:?} {framing:?}");
        };
        let five = Framing::Length(5);
        check(
            &[("Content-Length", "5"), ("A", "b")],
            five,
            "Content-Length: 5|A: b|",
        );
        check(
            &[("Content-Length", "3"), ("A", "b")],
            five,
            "A: b|Content-Length: 5|",
        );
        check(
            &[("Transfer-Encoding", "chunked")],
            five,
            "Content-Length: 5|",
        );
        check(&[], five, "Content-Length: 5|");
        check(&[("Content-Length", "+5")], five, "Content-Length: 5|");
        check(&[], Framing::Chunked, "Transfer-Encoding: chunked|");
        check(
            &[("Content-Length", "3")],
            Framing::Chunked,
            "Transfer-Encoding: chunked|",
        );
        let gzip = [("Transfer-Encoding", "gzip, chunked")];
        check(&gzip, Framing::Chunked, "Transfer-Encoding: gzip, chunked|");
        check(&[("Content-Length", "3")], Framing::None, "");
        check(&gzip, Framing::UntilClose, "");
    }
}
