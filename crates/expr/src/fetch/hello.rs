//! Reading TLS and SSL hello messages from raw bytes, without terminating TLS (RFC 8446 section 4.1.2, RFC 5246, and
//! RFC 6101 appendix E for the hello of SSL 2). Owns the layout; the fetches are in `ssl_hello`.

use crate::value::Absent;

/// The parts of a ClientHello that fetches look at, each as it stands on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientHello<'a> {
    /// Two bytes a cipher suite.
    pub ciphers: &'a [u8],
    /// All extensions: type, length, content, over and over. Empty when there are none.
    pub extensions: &'a [u8],
}

const HANDSHAKE: u8 = 0x16;
const CLIENT_HELLO: u8 = 1;
/// Its type and length.
const HANDSHAKE_HEADER: usize = 4;
/// The shortest ClientHello that can hold an extension, handshake header left out.
const HELLO_MIN: usize = 2 + 32 + 1 + 2 + 2 + 1 + 1 + 2 + 2;

/// Cuts bytes off the front of a slice; what is not there is `NotYet`.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Absent> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Absent::NotYet)?;
        self.0 = rest;
        Ok(head)
    }

    /// An unsigned number of `n` bytes, 4 at most.
    fn number(&mut self, n: usize) -> Result<usize, Absent> {
        let bytes = self.take(n)?;
        Ok(bytes.iter().fold(0, |sum, &b| sum << 8 | usize::from(b)))
    }

    /// As many bytes as the `n` bytes before them say.
    fn counted(&mut self, n: usize) -> Result<&'a [u8], Absent> {
        let len = self.number(n)?;
        self.take(len)
    }
}

impl<'a> ClientHello<'a> {
    /// Reads the hello at the start of `bytes`: `NotYet` while it is incomplete, `Never` when it is none. It must lie
    /// in one record.
    pub fn read(bytes: &'a [u8]) -> Result<ClientHello<'a>, Absent> {
        let mut record = Reader(bytes);
        if record.number(1)? != usize::from(HANDSHAKE) {
            return Err(Absent::Never);
        }
        if record.number(2)? < 0x0300 {
            return Err(Absent::Never);
        }
        if record.number(2)? < HANDSHAKE_HEADER + HELLO_MIN {
            return Err(Absent::Never);
        }
        if record.number(1)? != usize::from(CLIENT_HELLO) {
            return Err(Absent::Never);
        }
        let hello = record.counted(3)?;
        if hello.len() < HELLO_MIN {
            return Err(Absent::Never);
        }
        // The hello is complete: what is missing inside it now will never come.
        ClientHello::read_body(hello).map_err(|_| Absent::Never)
    }

    fn read_body(hello: &'a [u8]) -> Result<ClientHello<'a>, Absent> {
        let mut hello = Reader(hello);
        if hello.number(2)? < 0x0301 {
            return Err(Absent::Never);
        }
        hello.take(32)?;
        hello.counted(1)?;
        let ciphers = hello.counted(2)?;
        hello.counted(1)?;
        let extensions = hello.counted(2)?;
        Ok(ClientHello {
            ciphers,
            extensions,
        })
    }

    /// The content of the first extension of a type.
    pub fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        let mut rest = Reader(self.extensions);
        while let (Ok(kind), Ok(content)) = (rest.number(2), rest.counted(2)) {
            if kind == usize::from(wanted) {
                return Some(content);
            }
        }
        None
    }

    /// The first host name of the server name extension (RFC 6066 section 3).
    pub fn server_name(&self) -> Option<&'a [u8]> {
        let mut list = Reader(Reader(self.extension(0)?).counted(2).ok()?);
        match list.number(1).ok()? {
            0 => list.counted(2).ok(),
            _ => None,
        }
    }

    /// The protocols of the ALPN extension (RFC 7301), by number from 0.
    pub fn protocol(&self, nth: usize) -> Option<&'a [u8]> {
        let mut names = Reader(Reader(self.extension(16)?).counted(2).ok()?);
        for _ in 0..nth {
            names.counted(1).ok()?;
        }
        names.counted(1).ok()
    }

    /// The list inside an extension that is nothing but a list of two-byte numbers behind its length.
    pub fn list(&self, extension: u16) -> Option<&'a [u8]> {
        Reader(self.extension(extension)?).counted(2).ok()
    }

    /// The groups of the key share extension, without the keys (RFC 8446 section 4.2.8).
    pub fn key_share_groups(&self) -> Option<Vec<u8>> {
        let mut shares = Reader(self.list(51)?);
        let mut groups = Vec::new();
        while let (Ok(group), Ok(_)) = (shares.take(2), shares.counted(2)) {
            groups.extend_from_slice(group);
        }
        Some(groups)
    }
}

/// The type of the hello message at the start of `bytes`, once it is complete: 1 of a client, 2 of a server.
pub(super) fn hello_type(bytes: &[u8]) -> Result<u8, Absent> {
    let mut record = Reader(bytes);
    if !is_record(record.number(1)?) {
        return Err(Absent::Never);
    }
    let (version, length) = (record.number(2)?, record.number(2)?);
    if version < 0x0300 || length < HANDSHAKE_HEADER {
        return Err(Absent::Never);
    }
    let kind = record.number(1)?;
    record.counted(3)?;
    Ok(kind as u8)
}

/// The content types of TLS records, and one of early SSL 3 implementations.
fn is_record(first: usize) -> bool {
    matches!(first, 0x14..=0x17 | 0xff)
}

/// The protocol version of the stream `bytes` begin, major times 65536 plus minor: that of the ClientHello, SSL 2 hellos
/// included. The whole first message must be there.
pub(super) fn version(bytes: &[u8]) -> Result<i64, Absent> {
    let mut record = Reader(bytes);
    let first = record.number(1)?;
    if is_record(first) {
        let (version, length) = (record.number(2)?, record.number(2)?);
        if version < 0x0300 || !(6..=(1 << 14) + 2048).contains(&length) {
            return Err(Absent::Never);
        }
        let message = record.take(length)?;
        return match message {
            [_, _, _, _, major, minor, ..] => Ok(i64::from(*major) << 16 | i64::from(*minor)),
            _ => Err(Absent::Never),
        };
    }
    version_2(bytes)
}

/// The same for the SSL 2 header: 15 bits of length, or 14 and a byte that says how much padding follows.
fn version_2(bytes: &[u8]) -> Result<i64, Absent> {
    let mut record = Reader(bytes);
    let length = record.number(2)?;
    let padding = if length & 0x8000 == 0 {
        record.number(1)?
    } else {
        0
    };
    if record.number(1)? != usize::from(CLIENT_HELLO) {
        return Err(Absent::Never);
    }
    let (major, minor) = (record.number(1)?, record.number(1)?);
    let (ciphers, session, challenge) = (record.number(2)?, record.number(2)?, record.number(2)?);
    let length = length & if padding == 0 { 0x7fff } else { 0x3fff };
    let shaped = ciphers.is_multiple_of(3)
        && matches!(session, 0 | 16)
        && (16..=32).contains(&challenge)
        && padding < length
        && length == 9 + ciphers + session + challenge + padding;
    if !shaped {
        return Err(Absent::Never);
    }
    record.take(length - 9)?;
    Ok((major as i64) << 16 | minor as i64)
}
