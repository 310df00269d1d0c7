//! One connection that transfers objects, up or down, and compares every byte.

use super::{Options, Transfer};
use crate::body::{Body, Content};
use crate::http::{self, Chunked, Framing};
use crate::pattern;
use anyhow::{Context, Result, bail, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CHUNK_BYTES: u32 = 5000;

pub(super) struct Client {
    target: SocketAddr,
    stall: Duration,
    pub(super) stream: Option<TcpStream>,
    buffer: Vec<u8>,
    /// Bytes of `buffer` received and not used.
    held: Vec<u8>,
}

impl Client {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            target: options.target,
            stall: options.stall,
            stream: None,
            buffer: vec![0; 64 * 1024],
            held: Vec::new(),
        }
    }

    fn connect(&mut self) -> Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.target).context("cannot connect")?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.stall))?;
            stream.set_write_timeout(Some(self.stall))?;
            self.held.clear();
            self.stream = Some(stream);
        }
        Ok(())
    }

    pub(super) fn transfer(&mut self, transfer: &Transfer) -> Result<()> {
        let reused = self.stream.is_some();
        match self.attempt(transfer) {
            // A kept connection may end between two requests; that is its right, and says nothing about bytes.
            Err(Lost::BeforeAnswer(_)) if reused => {
                self.stream = None;
                self.attempt(transfer).map_err(Lost::into_error)
            }
            result => result.map_err(Lost::into_error),
        }
    }

    fn attempt(&mut self, transfer: &Transfer) -> Result<(), Lost> {
        self.connect().map_err(Lost::Wrong)?;
        let before = |error: std::io::Error| Lost::BeforeAnswer(error.into());
        let Transfer {
            seed,
            size,
            upload,
            chunked,
        } = *transfer;
        if upload {
            let framing = if chunked {
                "Transfer-Encoding: chunked".to_owned()
            } else {
                format!("Content-Length: {size}")
            };
            let head = format!(
                "POST /upload?seed={seed} HTTP/1.1\r\nHost: integrity\r\n{framing}\r\n\r\n"
            );
            let body = Body {
                content: Content::Seeded(seed),
                len: size,
                chunk: chunked.then_some(CHUNK_BYTES),
            };
            self.write(head.as_bytes()).map_err(before)?;
            let mut pos = 0;
            loop {
                let len = body.fill(pos, &mut self.buffer);
                if len == 0 {
                    break;
                }
                let piece = std::mem::take(&mut self.buffer);
                let result = self.write(&piece[..len]);
                self.buffer = piece;
                result.map_err(before)?;
                pos += len as u64;
            }
        } else {
            let framing = if chunked { "&chunked=5000" } else { "" };
            let head =
                format!("GET /?s={size}&seed={seed}{framing} HTTP/1.1\r\nHost: integrity\r\n\r\n");
            self.write(head.as_bytes()).map_err(before)?;
        }
        let head = self.head()?;
        self.body(transfer, &head).map_err(Lost::Wrong)?;
        if !head.keep_alive {
            self.stream = None;
        }
        Ok(())
    }

    fn write(&mut self, data: &[u8]) -> std::io::Result<()> {
        match &mut self.stream {
            Some(stream) => stream.write_all(data),
            None => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// More bytes into `held`; 0 at the end.
    fn read(&mut self) -> std::io::Result<usize> {
        let Some(stream) = &mut self.stream else {
            return Ok(0);
        };
        let len = stream.read(&mut self.buffer)?;
        self.held.extend_from_slice(&self.buffer[..len]);
        Ok(len)
    }

    fn head(&mut self) -> Result<http::ResponseHead, Lost> {
        loop {
            if let Some(len) = http::head_len(&self.held) {
                let head = http::response_head(&self.held[..len])
                    .map_err(|error| Lost::Wrong(error.into()))?;
                self.held.drain(..len);
                if head.status >= 200 {
                    return Ok(head);
                }
                continue;
            }
            let got_any = !self.held.is_empty();
            match self.read() {
                Ok(0) if got_any => {
                    return Err(Lost::Wrong(anyhow::anyhow!(
                        "the answer ends within its head"
                    )));
                }
                Ok(0) => {
                    return Err(Lost::BeforeAnswer(anyhow::anyhow!(
                        "the connection ended without an answer"
                    )));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(Lost::Wrong(anyhow::anyhow!(
                        "no answer in {} s",
                        self.stall.as_secs()
                    )));
                }
                Err(error) => return Err(Lost::BeforeAnswer(error.into())),
            }
        }
    }

    fn body(&mut self, transfer: &Transfer, head: &http::ResponseHead) -> Result<()> {
        let mut got = Got {
            verify: (!transfer.upload).then_some(transfer.seed),
            count: 0,
            wrong_at: None,
            text: Vec::new(),
        };
        match head.framing {
            Framing::Length(mut left) => {
                while left > 0 {
                    if self.held.is_empty() && self.read().context("in the body")? == 0 {
                        bail!("{left} bytes of the body are missing");
                    }
                    let len = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(self.held.len());
                    got.take(&self.held[..len]);
                    self.held.drain(..len);
                    left -= len as u64;
                }
            }
            Framing::Chunked => {
                let mut decoder = Chunked::default();
                loop {
                    let (used, done) = decoder.feed(&self.held, |piece| got.take(piece))?;
                    self.held.drain(..used);
                    if done {
                        break;
                    }
                    ensure!(
                        self.read().context("in the body")? > 0,
                        "the chunked body ends early"
                    );
                }
            }
            Framing::Close => loop {
                got.take(&self.held);
                self.held.clear();
                if self.read().context("in the body")? == 0 {
                    break;
                }
            },
        }
        if let Some(at) = got.wrong_at {
            bail!("byte {at} is wrong");
        }
        if transfer.upload {
            let text = String::from_utf8_lossy(&got.text);
            ensure!(
                head.status == 200 && text == format!("ok {}\n", transfer.size),
                "{}: {}",
                head.status,
                text.trim()
            );
        } else {
            ensure!(head.status == 200, "status {}", head.status);
            ensure!(got.count == transfer.size, "{} bytes came", got.count);
        }
        Ok(())
    }
}

/// A body as it comes.
struct Got {
    verify: Option<u64>,
    count: u64,
    wrong_at: Option<u64>,
    text: Vec<u8>,
}

impl Got {
    fn take(&mut self, data: &[u8]) {
        match self.verify {
            Some(seed) if self.wrong_at.is_none() => {
                self.wrong_at =
                    pattern::mismatch(seed, self.count, data).map(|at| self.count + at as u64);
            }
            Some(_) => {}
            None => self.text.extend_from_slice(&data[..data.len().min(1000)]),
        }
        self.count += data.len() as u64;
    }
}

/// How an attempt failed.
enum Lost {
    /// Nothing of the answer had come.
    BeforeAnswer(anyhow::Error),
    /// It counts.
    Wrong(anyhow::Error),
}

impl Lost {
    fn into_error(self) -> anyhow::Error {
        match self {
            Self::BeforeAnswer(error) | Self::Wrong(error) => error,
        }
    }
}
