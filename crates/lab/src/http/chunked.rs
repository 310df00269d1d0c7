//! The chunked transfer coding (RFC 9112 section 7.1), decoded as it comes.

use super::{BadMessage, HEAD_BYTES_MAX};

/// A resumable decoder of the chunked transfer coding; trailers are skipped.
///
/// ```text
/// Size -> (extension) -> Data -> DataEnd -> Size ... Size(0) -> Trailer -> done
/// ```
#[derive(Debug, Clone, Default)]
pub struct Chunked {
    state: ChunkState,
    /// Size being read, or bytes of data left.
    left: u64,
    /// Bytes of the present size or trailer line.
    line_len: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    Extension,
    Data,
    DataEnd,
    Trailer,
}

/// Sixteen hex digits fill 64 bits; lengths beyond 2^60 are an attack or a bug.
const SIZE_DIGITS_MAX: usize = 15;

impl Chunked {
    /// Decodes what `data` holds, giving content pieces to `on_data`. Returns how many bytes belonged to the
    /// body and whether it is complete.
    ///
    /// # Errors
    /// [`BadMessage::Chunk`] for a malformed size or line end, [`BadMessage::TooLong`] for an endless line.
    pub fn feed(
        &mut self,
        data: &[u8],
        mut on_data: impl FnMut(&[u8]),
    ) -> Result<(usize, bool), BadMessage> {
        let mut at = 0;
        while let Some(&byte) = data.get(at) {
            if self.state == ChunkState::Data {
                let len = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(data.len() - at);
                on_data(&data[at..at + len]);
                at += len;
                self.left -= len as u64;
                if self.left == 0 {
                    self.state = ChunkState::DataEnd;
                }
                continue;
            }
            at += 1;
            if self.on_framing(byte)? {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    /// One byte that is not content; true when it ends the body.
    fn on_framing(&mut self, byte: u8) -> Result<bool, BadMessage> {
        match (self.state, byte) {
            (ChunkState::Size, b'\n') | (ChunkState::Extension, b'\n') => {
                if self.line_len == 0 {
                    return Err(BadMessage::Chunk);
                }
                self.state = if self.left == 0 {
                    ChunkState::Trailer
                } else {
                    ChunkState::Data
                };
                self.line_len = 0;
            }
            (ChunkState::Size, b'\r') => {}
            (ChunkState::Size, b';' | b' ' | b'\t') => self.state = ChunkState::Extension,
            (ChunkState::Size, digit) => {
                let value = (digit as char).to_digit(16).ok_or(BadMessage::Chunk)?;
                self.line_len += 1;
                if self.line_len > SIZE_DIGITS_MAX {
                    return Err(BadMessage::Chunk);
                }
                self.left = self.left * 16 + u64::from(value);
            }
            (ChunkState::Extension, _) => self.count_line()?,
            (ChunkState::DataEnd, b'\r') => {}
            (ChunkState::DataEnd, b'\n') => self.state = ChunkState::Size,
            (ChunkState::DataEnd, _) => return Err(BadMessage::Chunk),
            (ChunkState::Trailer, b'\r') => {}
            (ChunkState::Trailer, b'\n') if self.line_len == 0 => return Ok(true),
            (ChunkState::Trailer, b'\n') => self.line_len = 0,
            (ChunkState::Trailer, _) => self.count_line()?,
            (ChunkState::Data, _) => {}
        }
        Ok(false)
    }

    fn count_line(&mut self) -> Result<(), BadMessage> {
        self.line_len += 1;
        if self.line_len > HEAD_BYTES_MAX {
            Err(BadMessage::TooLong)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_byte_by_byte_equals_whole() {
        let wire = b"5;x=y\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\nNEXT";
        let mut content = Vec::new();
        let mut decoder = Chunked::default();
        let mut end = None;
        for (index, byte) in wire.iter().enumerate() {
            let (used, done) = decoder
                .feed(std::slice::from_ref(byte), |d| content.extend_from_slice(d))
                .unwrap();
            assert_eq!(used, 1);
            if done {
                end = Some(index + 1);
                break;
            }
        }
        assert_eq!(end, Some(wire.len() - 4));
        assert_eq!(content, b"hello 0123456789");
    }

    #[test]
    fn bad_chunks() {
        let check = |wire: &[u8]| {
            assert_eq!(
                Chunked::default().feed(wire, |_| {}),
                Err(BadMessage::Chunk),
                "{wire:?}"
            );
        };
        check(b"\r\n");
        check(b"g\r\n");
        check(b"-1\r\n");
        check(b"1111111111111111\r\n");
        check(b"2\r\nabc");
    }
}
