//! The chunked transfer coding (RFC 9112 section 7.1): reading its frame, writing chunks.
//!
//! `ChunkScan` walks over the frame and tells payload from framing; it is strict, because every
//! leniency here is a way to hide a request from the next hop: sizes are bare hexadecimal digits
//! that fit 64 bits, lines end in CRLF, trailers are well-formed headers.

use crate::body::{BodyError, BodyPart};
use crate::chars::{hex_value, is_token_byte};

/// Most bytes of chunk extensions, padding and leading zeros that a body may be ahead of its payload:
/// each chunk earns back its size plus 16. Nobody uses extensions; without a bound a peer could keep
/// us busy with a body that never brings anything.
pub const CHUNK_EXTENSION_MAX: u32 = 4096;

/// Chunks this large or larger are refused, as HAProxy does: nobody sends 4 PiB at once, and many a
/// parser counts in doubles.
const CHUNK_SIZE_LIMIT: u64 = 1 << 52;

/// Most bytes of trailers.
pub const TRAILERS_MAX: u32 = 8192;

/// What ends a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Named for what is awaited.
///
/// ```text
/// SizeFirst -> Size -> (SizeBlank ->) (Extension ->) SizeLf -> Data -> DataCr -> DataLf -> SizeFirst (…)
///                                       `-0-> TrailerStart -> TrailerName -> TrailerValue -> TrailerLf -> TrailerStart
///                                                  `-> LastLf -> Done
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    SizeFirst,
    Size,
    SizeBlank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
}

/// The walk over a chunked body.
#[derive(Debug, Clone)]
pub(crate) struct ChunkScan {
    step: Step,
    /// Size being read, or payload bytes left of the chunk.
    left: u64,
    extensions: u32,
    trailers: u32,
    name: TrailerName,
}

impl ChunkScan {
    pub fn new() -> ChunkScan {
        ChunkScan {
            step: Step::SizeFirst,
            left: 0,
            extensions: 0,
            trailers: 0,
            name: TrailerName::default(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Whether the last chunk was read and all that is left is trailers and the final line.
    pub fn data_ended(&self) -> bool {
        self.in_trailers() || self.is_done()
    }

    /// Payload bytes known to follow at once.
    pub fn data_left(&self) -> u64 {
        if self.step == Step::Data {
            self.left
        } else {
            0
        }
    }

    /// Takes note that `n` bytes of payload went by unseen.
    pub fn skip(&mut self, n: u64) {
        debug_assert!(n <= self.data_left());
        if self.step == Step::Data {
            self.left = self.left.saturating_sub(n);
            if self.left == 0 {
                self.step = Step::DataCr;
            }
        }
    }

    /// Walks over `input`, gives payload and trailers to `sink`, says how many bytes were consumed.
    pub fn walk(
        &mut self,
        input: &[u8],
        sink: &mut impl FnMut(BodyPart<'_>),
    ) -> Result<usize, BodyError> {
        let mut pos = 0;
        let mut trailers_from = None;
        while let Some(&byte) = input.get(pos) {
            if self.step == Step::Done {
                break;
            }
            if self.step == Step::Data {
                let rest = input.get(pos..).unwrap_or_default();
                let take = rest
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                sink(BodyPart::Data(rest.get(..take).unwrap_or_default()));
                pos += take;
                self.skip(take as u64);
                continue;
            }
            if trailers_from.is_none() && self.in_trailers() {
                trailers_from = Some(pos);
            }
            self.framing_byte(byte)?;
            pos += 1;
        }
        if let Some(from) = trailers_from {
            sink(BodyPart::Trailers(input.get(from..pos).unwrap_or_default()));
        }
        Ok(pos)
    }

    fn in_trailers(&self) -> bool {
        matches!(
            self.step,
            Step::TrailerStart
                | Step::TrailerName
                | Step::TrailerValue
                | Step::TrailerLf
                | Step::LastLf
        )
    }

    fn framing_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        self.step = match (self.step, byte) {
            (Step::SizeFirst, _) => {
                self.left = u64::from(hex_value(byte).ok_or(BodyError::ChunkSize)?);
                Step::Size
            }
            (Step::Size, b'\r') => Step::SizeLf,
            (Step::Size, b';') => Step::Extension,
            (Step::Size, b' ' | b'\t') => self.blank()?,
            (Step::Size, _) => {
                let digit = hex_value(byte).ok_or(BodyError::ChunkSize)?;
                if self.left == 0 {
                    self.extension_byte()?;
                }
                self.left = self.left << 4 | u64::from(digit);
                if self.left >= CHUNK_SIZE_LIMIT {
                    return Err(BodyError::ChunkSize);
                }
                Step::Size
            }
            // Old servers pad the size with blanks to a fixed width.
            (Step::SizeBlank, b' ' | b'\t') => self.blank()?,
            (Step::SizeBlank, b'\r') => Step::SizeLf,
            (Step::SizeBlank, b';') => Step::Extension,
            (Step::SizeBlank, _) => return Err(BodyError::ChunkSize),
            (Step::Extension, b'\r') => Step::SizeLf,
            (Step::Extension, _) => {
                self.extension_byte()?;
                if is_control(byte) {
                    return Err(BodyError::ChunkExtension);
                }
                Step::Extension
            }
            (Step::SizeLf, b'\n') if self.left == 0 => Step::TrailerStart,
            (Step::SizeLf, b'\n') => {
                let earned = u32::try_from(self.left)
                    .unwrap_or(u32::MAX)
                    .saturating_add(16);
                self.extensions = self.extensions.saturating_sub(earned);
                Step::Data
            }
            (Step::DataCr, b'\r') => Step::DataLf,
            (Step::DataLf, b'\n') => Step::SizeFirst,
            (Step::LastLf, b'\n') => Step::Done,
            (Step::SizeLf | Step::DataCr | Step::DataLf, _) => return Err(BodyError::ChunkEnd),
            _ => self.trailer_byte(byte)?,
        };
        Ok(())
    }

    fn blank(&mut self) -> Result<Step, BodyError> {
        self.extension_byte()?;
        Ok(Step::SizeBlank)
    }

    /// Counts a byte of a size line that carries nothing: extensions, blanks, leading zeros.
    fn extension_byte(&mut self) -> Result<(), BodyError> {
        self.extensions += 1;
        if self.extensions > CHUNK_EXTENSION_MAX {
            Err(BodyError::ChunkExtension)
        } else {
            Ok(())
        }
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<Step, BodyError> {
        self.trailers += 1;
        if self.trailers > TRAILERS_MAX {
            return Err(BodyError::Trailer);
        }
        match (self.step, byte) {
            (Step::TrailerStart, b'\r') => Ok(Step::LastLf),
            (Step::TrailerStart | Step::TrailerName, b) if is_token_byte(b) => {
                if self.step == Step::TrailerStart {
                    self.name.clear();
                }
                self.name.push(b);
                Ok(Step::TrailerName)
            }
            // RFC 9110 section 6.5.1: what frames a message cannot come after it.
            (Step::TrailerName, b':') if self.name.frames_a_message() => Err(BodyError::Trailer),
            (Step::TrailerName, b':') => Ok(Step::TrailerValue),
            (Step::TrailerValue, b'\r') => Ok(Step::TrailerLf),
            (Step::TrailerValue, b) if !is_control(b) => Ok(Step::TrailerValue),
            (Step::TrailerLf, b'\n') => Ok(Step::TrailerStart),
            _ => Err(BodyError::Trailer),
        }
    }
}

/// The start of a trailer's name, as far as it takes to tell the forbidden ones.
#[derive(Debug, Clone, Default)]
struct TrailerName {
    text: [u8; 20],
    len: usize,
}

impl TrailerName {
    fn clear(&mut self) {
        self.len = 0;
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(self.len) {
            *place = byte.to_ascii_lowercase();
            self.len += 1;
        }
    }

    fn frames_a_message(&self) -> bool {
        let name = self.text.get(..self.len).unwrap_or_default();
        matches!(name, b"content-length" | b"transfer-encoding")
    }
}

fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Appends `data` as one chunk; nothing for no data, since an empty chunk would end the body.
pub fn encode_chunk(data: &[u8], out: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    out.extend_from_slice(ChunkWriter::new().header(data.len() as u64));
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Makes the bytes that go around a chunk's data when the data itself is not copied.
///
/// The frame of a chunk is `header(len)`, the data, CRLF; of a body's end, `LAST_CHUNK`.
#[derive(Debug, Default)]
pub struct ChunkWriter {
    text: [u8; 18],
}

impl ChunkWriter {
    pub fn new() -> ChunkWriter {
        ChunkWriter::default()
    }

    /// The size line of a chunk of `len` bytes, CRLF included.
    pub fn header(&mut self, len: u64) -> &[u8] {
        let mut at = self.text.len() - 2;
        let mut rest = len;
        if let Some(end) = self.text.last_chunk_mut::<2>() {
            *end = *b"\r\n";
        }
        loop {
            at -= 1;
            if let Some(place) = self.text.get_mut(at) {
                *place = HEX[(rest & 15) as usize];
            }
            rest >>= 4;
            if rest == 0 {
                return self.text.get(at..).unwrap_or_default();
            }
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes `number` in decimal at the end of `digits`.
pub(crate) fn decimal_digits(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        if let Some(place) = digits.get_mut(at) {
            *place = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
        if rest == 0 {
            return digits.get(at..).unwrap_or_default();
        }
    }
}
