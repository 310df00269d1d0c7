//! Following a body: which of the bytes at hand belong to the message, and when it ends.

use thiserror::Error;

use crate::chunk::ChunkScan;
use crate::framing::Framing;
use crate::headers::Headers;

/// What is wrong with a body's framing. The connection cannot be used any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum BodyError {
    #[error("invalid chunk size")]
    ChunkSize,
    #[error("invalid or oversized chunk extension")]
    ChunkExtension,
    #[error("chunk not followed by a line end")]
    ChunkEnd,
    #[error("invalid or oversized trailers")]
    Trailer,
}

/// What became of the bytes given to a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyStep {
    /// How many of the bytes belong to this message; the rest is the next one's.
    pub consumed: usize,
    /// Whether the message ended. Never for `UntilClose` and `Tunnel`: the connection's end is theirs.
    pub done: bool,
}

/// A piece of a body as `BodyDecoder::decode_parts` gives it. Pieces may be cut anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPart<'a> {
    /// Payload, without framing.
    Data(&'a [u8]),
    /// The trailer section in HTTP/1 form, up to its empty line: put together, it is what
    /// `parse_trailers` reads. At most `TRAILERS_MAX` bytes in all.
    Trailers(&'a [u8]),
}

/// Reads a trailer section that a decoder has let through, its empty line included or not, into
/// `out`, which is not cleared.
pub fn parse_trailers(section: &[u8], out: &mut Headers) {
    for line in section.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(colon) = memchr::memchr(b':', line) {
            out.add(
                line.get(..colon).unwrap_or_default(),
                line.get(colon + 1..).unwrap_or_default(),
            );
        }
    }
}

/// Finds the end of one body. Holds no bytes: forward the input up to `consumed` as it is.
#[derive(Debug, Clone)]
pub struct BodyDecoder {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Length(u64),
    Chunked(ChunkScan),
    Endless,
}

impl BodyDecoder {
    pub fn new(framing: Framing) -> BodyDecoder {
        let kind = match framing {
            Framing::None => Kind::Length(0),
            Framing::Length(n) => Kind::Length(n),
            Framing::Chunked => Kind::Chunked(ChunkScan::new()),
            Framing::UntilClose | Framing::Tunnel => Kind::Endless,
        };
        BodyDecoder { kind }
    }

    /// Walks over `input`: says how many bytes, framing and trailers included, belong to the message.
    pub fn advance(&mut self, input: &[u8]) -> Result<BodyStep, BodyError> {
        self.decode_parts(input, &mut |_| {})
    }

    /// As `advance`, and gives each piece of payload, without framing, to `data`.
    pub fn decode(
        &mut self,
        input: &[u8],
        data: &mut impl FnMut(&[u8]),
    ) -> Result<BodyStep, BodyError> {
        self.decode_parts(input, &mut |part| {
            if let BodyPart::Data(bytes) = part {
                data(bytes);
            }
        })
    }

    /// As `decode`, with the trailers: for the way from HTTP/1 to HTTP/2, and for filters.
    pub fn decode_parts(
        &mut self,
        input: &[u8],
        sink: &mut impl FnMut(BodyPart<'_>),
    ) -> Result<BodyStep, BodyError> {
        let consumed = match &mut self.kind {
            Kind::Length(left) => {
                let take = input
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= take as u64;
                if take > 0 {
                    sink(BodyPart::Data(input.get(..take).unwrap_or_default()));
                }
                take
            }
            Kind::Chunked(scan) => scan.walk(input, sink)?,
            Kind::Endless => {
                if !input.is_empty() {
                    sink(BodyPart::Data(input));
                }
                input.len()
            }
        };
        Ok(BodyStep {
            consumed,
            done: self.is_done(),
        })
    }

    /// Whether the message ended.
    pub fn is_done(&self) -> bool {
        match &self.kind {
            Kind::Length(left) => *left == 0,
            Kind::Chunked(scan) => scan.is_done(),
            Kind::Endless => false,
        }
    }

    /// Whether all payload was seen, though trailers or the final empty line may still come.
    pub fn payload_done(&self) -> bool {
        match &self.kind {
            Kind::Chunked(scan) => scan.data_ended(),
            _ => self.is_done(),
        }
    }

    /// Whether the end of the connection is the end of the message.
    pub fn ends_at_close(&self) -> bool {
        matches!(self.kind, Kind::Endless)
    }

    /// Bytes left of a body with a known length.
    pub fn remaining(&self) -> Option<u64> {
        match &self.kind {
            Kind::Length(left) => Some(*left),
            _ => None,
        }
    }

    /// How many bytes may now pass from socket to socket without being looked at: the rest of the
    /// body, of the chunk, or any number. Tell them with `skip`.
    pub fn spliceable(&self) -> u64 {
        match &self.kind {
            Kind::Length(left) => *left,
            Kind::Chunked(scan) => scan.data_left(),
            Kind::Endless => u64::MAX,
        }
    }

    /// Takes note that `n` bytes, at most `spliceable`, were forwarded without being looked at.
    pub fn skip(&mut self, n: u64) {
        match &mut self.kind {
            Kind::Length(left) => {
                debug_assert!(n <= *left);
                *left = left.saturating_sub(n);
            }
            Kind::Chunked(scan) => scan.skip(n),
            Kind::Endless => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(consumed: usize, done: bool) -> Result<BodyStep, BodyError> {
        Ok(BodyStep { consumed, done })
    }

    #[test]
    fn a_length_counts_down_seen_or_not() {
        let mut body = BodyDecoder::new(Framing::Length(10));
        assert_eq!(body.advance(b"abc"), step(3, false));
        assert_eq!((body.remaining(), body.spliceable()), (Some(7), 7));
        body.skip(5);
        assert_eq!(body.advance(b"xyNEXT"), step(2, true));
        assert!(body.is_done() && body.payload_done());
        assert_eq!(body.advance(b"NEXT"), step(0, true));
    }

    #[test]
    fn no_body_is_done_at_once_and_an_endless_one_never() {
        assert!(BodyDecoder::new(Framing::None).is_done());
        assert!(BodyDecoder::new(Framing::Length(0)).is_done());
        let mut body = BodyDecoder::new(Framing::UntilClose);
        assert_eq!(body.advance(b"abc"), step(3, false));
        assert_eq!((body.remaining(), body.spliceable()), (None, u64::MAX));
    }

    #[test]
    fn trailers_are_kept_apart_and_readable() {
        let mut body = BodyDecoder::new(Framing::Chunked);
        let (mut data, mut section) = (Vec::new(), Vec::new());
        for piece in [&b"3\r\nab"[..], b"c\r\n0\r\nA: 1\r", b"\nB:2 \r\n\r\n"] {
            body.decode_parts(piece, &mut |part| match part {
                BodyPart::Data(bytes) => data.extend_from_slice(bytes),
                BodyPart::Trailers(bytes) => section.extend_from_slice(bytes),
            })
            .unwrap();
        }
        let mut trailers = Headers::new();
        parse_trailers(&section, &mut trailers);
        assert_eq!(data, b"abc");
        let expected = [(&b"A"[..], &b"1"[..]), (b"B", b"2")];
        assert_eq!(trailers.iter().collect::<Vec<_>>(), expected);
        assert!(body.is_done());
    }

    #[test]
    fn extensions_may_cost_what_the_payload_earns() {
        // Servers that pad each size to eight digits are fine for ever.
        let mut padded = BodyDecoder::new(Framing::Chunked);
        for _ in 0..10_000 {
            assert_eq!(padded.advance(b"00000001\r\nx\r\n"), step(13, false));
        }
        // A peer that sends extensions and next to no payload is not.
        let mut busy = BodyDecoder::new(Framing::Chunked);
        let line = [b"1;".as_slice(), &[b'x'; 1000], b"\r\ny\r\n"].concat();
        let fault = (0..10).find_map(|_| busy.advance(&line).err());
        assert_eq!(fault, Some(BodyError::ChunkExtension));
    }
}
