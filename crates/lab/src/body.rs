//! A message body as it stands on the wire, made piece by piece: content, length and framing.
//!
//! The wire bytes are a pure function of the position, so a partial write needs no buffer: the position is
//! the only state. Origin (responses) and injector (uploads) use the same type. Heads are made elsewhere.

use crate::pattern;

/// What the bytes of a body are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The verifiable object with this seed (see [`pattern`]).
    Seeded(u64),
    /// Words of plain text, compressible about as well as an HTML page.
    Text,
}

const TEXT: &[u8] = b"<p>The quick brown proxy balances every lazy server; connections are short, queues are shorter, and the \
weights of sixty servers add up to one hundred and twenty eight.</p>\n<ul><li>first</li><li>leastconn</li><li>roundrobin</li></ul>\n";

impl Content {
    /// Writes the content from `offset` on.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        match self {
            Self::Seeded(seed) => pattern::fill(seed, offset, out),
            Self::Text => {
                let mut at = (offset % TEXT.len() as u64) as usize;
                for byte in out {
                    *byte = TEXT[at];
                    at = if at + 1 == TEXT.len() { 0 } else { at + 1 };
                }
            }
        }
    }
}

/// A body of `len` content bytes, chunked when `chunk` says how many content bytes each chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// What the bytes are.
    pub content: Content,
    /// Content bytes.
    pub len: u64,
    /// Content bytes per chunk; `None` for a length-delimited body. Never `Some(0)`.
    pub chunk: Option<u32>,
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

impl Body {
    /// Bytes on the wire, framing included.
    #[must_use]
    pub fn wire_len(&self) -> u64 {
        let Some(chunk) = self.chunk.map(u64::from) else {
            return self.len;
        };
        let rest = self.len % chunk;
        let rest_wire = if rest == 0 {
            0
        } else {
            hex_line(rest).1 as u64 + rest + 2
        };
        (self.len / chunk) * frame_len(chunk) + rest_wire + LAST_CHUNK.len() as u64
    }

    /// Writes wire bytes from wire position `pos` on; returns how many fit (fewer than `out` only at the end).
    pub fn fill(&self, pos: u64, out: &mut [u8]) -> usize {
        let Some(chunk) = self.chunk.map(u64::from) else {
            let len = usize::try_from(self.len.saturating_sub(pos))
                .unwrap_or(usize::MAX)
                .min(out.len());
            self.content.fill(pos, &mut out[..len]);
            return len;
        };
        let mut done = 0;
        while done < out.len() {
            let wrote = self.fill_chunked(chunk, pos + done as u64, &mut out[done..]);
            if wrote == 0 {
                break;
            }
            done += wrote;
        }
        done
    }

    /// One run of bytes of one kind: chunk-size line, content, or line end.
    fn fill_chunked(&self, chunk: u64, pos: u64, out: &mut [u8]) -> usize {
        let (frame, at) = (pos / frame_len(chunk), pos % frame_len(chunk));
        let full = self.len / chunk;
        let (start, len, at) = if frame < full {
            (frame * chunk, chunk, at)
        } else {
            (
                full * chunk,
                self.len % chunk,
                pos - full * frame_len(chunk),
            )
        };
        if len == 0 {
            return copy(&LAST_CHUNK[(at as usize).min(LAST_CHUNK.len())..], out);
        }
        let (line, line_len) = hex_line(len);
        let data_at = line_len as u64;
        if at < data_at {
            copy(&line[at as usize..line_len], out)
        } else if at < data_at + len {
            let offset = at - data_at;
            let room = usize::try_from(len - offset)
                .unwrap_or(usize::MAX)
                .min(out.len());
            self.content.fill(start + offset, &mut out[..room]);
            room
        } else if at < data_at + len + 2 {
            copy(&b"\r\n"[(at - data_at - len) as usize..], out)
        } else {
            let past = (at - data_at - len - 2) as usize;
            copy(&LAST_CHUNK[past.min(LAST_CHUNK.len())..], out)
        }
    }
}

fn copy(from: &[u8], out: &mut [u8]) -> usize {
    let len = from.len().min(out.len());
    out[..len].copy_from_slice(&from[..len]);
    len
}

fn frame_len(chunk: u64) -> u64 {
    hex_line(chunk).1 as u64 + chunk + 2
}

/// The chunk-size line of a chunk of `len` bytes, and the line's length.
fn hex_line(len: u64) -> ([u8; 18], usize) {
    let mut line = [0; 18];
    let digits = ((67 - (len | 1).leading_zeros()) / 4) as usize;
    for (place, byte) in line[..digits].iter_mut().rev().enumerate() {
        *byte = b"0123456789abcdef"[(len >> (4 * place)) as usize & 15];
    }
    line[digits] = b'\r';
    line[digits + 1] = b'\n';
    (line, digits + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Chunked;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the sizes of the pieces, the wire decodes to the content.
        #[test]
        fn wire_decodes_to_content(len in 0u64..5000, chunk in 1u32..700, piece in 1usize..400) {
            let body = Body { content: Content::Seeded(3), len, chunk: Some(chunk) };
            let (mut wire, mut buf) = (Vec::new(), vec![0; piece]);
            loop {
                let n = body.fill(wire.len() as u64, &mut buf);
                wire.extend_from_slice(&buf[..n]);
                if n < piece { break }
            }
            prop_assert_eq!(wire.len() as u64, body.wire_len());
            let mut content = Vec::new();
            let (used, done) = Chunked::default().feed(&wire, |data| content.extend_from_slice(data)).unwrap();
            prop_assert!(done);
            prop_assert_eq!(used, wire.len());
            prop_assert_eq!(content.len() as u64, len);
            prop_assert_eq!(pattern::mismatch(3, 0, &content), None);
        }
    }

    #[test]
    fn chunk_lines() {
        let check = |len, expect: &[u8]| {
            let (line, n) = hex_line(len);
            assert_eq!(&line[..n], expect);
        };
        check(0, b"0\r\n");
        check(15, b"f\r\n");
        check(16, b"10\r\n");
        check(0x4000, b"4000\r\n");
        check(u64::MAX, b"ffffffffffffffff\r\n");
    }
}
