//! Following a body: which of the bytes at hand belong to the message, and when it ends.

use thiserror::Error;

use crate::chunk::ChunkScan;
use crate::framing::Framing;

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
        self.decode(input, &mut |_| {})
    }

    /// As `advance`, and gives each piece of payload, without framing, to `data`.
    pub fn decode(
        &mut self,
        input: &[u8],
        data: &mut impl FnMut(&[u8]),
    ) -> Result<BodyStep, BodyError> {
        let consumed = match &mut self.kind {
            Kind::Length(left) => {
                let take = input
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= take as u64;
                if take > 0 {
                    data(input.get(..take).unwrap_or_default());
                }
                take
            }
            Kind::Chunked(scan) => scan.walk(input, data)?,
            Kind::Endless => {
                if !input.is_empty() {
                    data(input);
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
