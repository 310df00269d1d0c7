//! Bytes from one side to the other: the pump that relays bodies and tunnels.
//!
//! A pump is one direction. It reads into a lent buffer, lets the decoder say which of the bytes belong to the message,
//! and writes them on as they are (HTTP/1 framing included); what the socket does not take at once stays in the buffer.
//! Without a filter large bodies go through a pipe with splice(2) and are never copied. This is the only place where
//! that is decided.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_http::{BodyDecoder, BodyError, Framing, encode_chunk};
use tokio::io::Interest;

use super::limit::Limiter;
use crate::clock;
use crate::net::{Buf, Pipe, Transport, buf::READ_SIZE, outbox};
use crate::worker::Worker;

/// Bodies with at least this much left are spliced when nothing was configured. Below it the second system call and
/// the wake-ups cost more than copying does (measured on the bench, docs/performance.md).
const SPLICE_FROM: u64 = 4 * READ_SIZE as u64;

/// Most bytes one splice call asks for.
const SPLICE_MOST: usize = 1 << 20;

/// A splice that moved less than this shows that the transfer is no longer a bulk one.
const BULK: usize = READ_SIZE / 2;

/// Most bytes of a body that are copied behind their head.
const JOINED: usize = 2048;

/// Turns a pump takes before it lets other tasks run.
const TURNS: usize = 16;

/// How a pump ended.
#[derive(Debug)]
pub enum End {
    /// All of the message was delivered.
    Done,
    /// The sender closed before the message was complete.
    SourceClosed,
    SourceError(io::Error),
    SinkError(io::Error),
    /// The framing is broken.
    Bad(BodyError),
}

/// Which side a pump waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    Source,
    Sink,
}

/// One direction of a transfer.
pub struct Pump {
    /// Bytes that go first: a serialised head, a re-encoded held body.
    head: Vec<u8>,
    head_sent: usize,
    /// Read and not yet written; the first `ready` bytes of it belong to the message.
    pub buf: Option<Buf>,
    ready: usize,
    /// Bytes of the head that stand in `buf` before those read.
    joined: usize,
    decoder: BodyDecoder,
    /// Take the framing off and put chunks on (or, with `strip`, none): when the other side speaks another framing.
    recode: Option<Recode>,
    splice: SpliceChoice,
    pipe: Option<Pipe>,
    /// Bytes written of the message, head included.
    pub written: u64,
    /// Bytes of it that were there at the start.
    first: u64,
    pub awaits: Awaits,
    /// When the pump last moved a byte, µs, for the timeouts.
    pub progress_us: u64,
    limit: Option<Box<Limiter>>,
    /// The last read filled its buffer: this is a bulk transfer now.
    bulk: bool,
    ended: bool,
}

/// The framing put on instead of the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recode {
    Chunked,
    /// None: the receiver reads until the connection closes (HTTP/1.0).
    Strip,
}

/// Whether this pump may splice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpliceChoice {
    Never,
    /// When enough is left that it pays.
    WhenLarge,
    /// `option splice-*`: as soon as there is anything left.
    Wanted,
}

impl Default for Pump {
    /// A pump at rest.
    fn default() -> Self {
        Pump {
            first: 0,
            head: Vec::new(),
            head_sent: 0,
            buf: None,
            ready: 0,
            joined: 0,
            decoder: BodyDecoder::new(Framing::None),
            recode: None,
            splice: SpliceChoice::Never,
            pipe: None,
            written: 0,
            awaits: Awaits::Source,
            progress_us: 0,
            limit: None,
            bulk: false,
            ended: false,
        }
    }
}

impl Pump {
    /// Starts another transfer: sends `head` first, then the message's body as `decoder` finds it.
    pub fn start(
        &mut self,
        head: Vec<u8>,
        buf: Option<Buf>,
        decoder: BodyDecoder,
        splice: SpliceChoice,
    ) {
        self.first = head.len() as u64;
        self.head = head;
        self.head_sent = 0;
        self.buf = buf.filter(|b| !b.is_empty());
        self.ready = 0;
        self.joined = 0;
        self.decoder = decoder;
        self.recode = None;
        self.splice = splice;
        self.pipe = None;
        self.written = 0;
        self.awaits = Awaits::Source;
        self.progress_us = clock::now_us();
        self.limit = None;
        self.bulk = false;
        self.ended = false;
    }

    /// Starts with all bytes until the sender closes.
    pub fn start_tunnel(&mut self, head: Vec<u8>, buf: Option<Buf>, splice: SpliceChoice) {
        self.start(head, buf, BodyDecoder::new(Framing::UntilClose), splice);
    }

    /// Puts another framing on the body.
    pub fn recode(&mut self, how: Recode) {
        self.recode = Some(how);
        self.splice = SpliceChoice::Never;
    }

    /// Holds the pump to rates, where there are any.
    pub fn limit(&mut self, limits: Vec<(u64, u64)>) {
        if !limits.is_empty() {
            self.limit = Some(Box::new(Limiter::new(limits)));
            self.splice = SpliceChoice::Never;
        }
    }

    /// An empty buffer to write the next head into.
    pub fn take_head(&mut self) -> Vec<u8> {
        let mut head = std::mem::take(&mut self.head);
        if head.capacity() == 0 {
            return outbox::sheet();
        }
        head.clear();
        head
    }

    /// Whether the message ended on the sender's side (its connection may carry another one).
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    /// Bytes written of the body, without the head it began with.
    pub fn body_written(&self) -> u64 {
        self.written.saturating_sub(self.first)
    }

    /// What was read and does not belong to the message.
    pub fn take_rest(&mut self) -> Option<Buf> {
        let mut buf = self.buf.take()?;
        buf.consume(std::mem::take(&mut self.joined));
        Some(buf).filter(|b| !b.is_empty())
    }

    /// Sends no more of the message: gives the decoder that finds its end. What was read and not sent yet is forgotten;
    /// what is behind it is in [`Pump::take_rest`].
    pub fn give_up_sending(&mut self) -> BodyDecoder {
        if let Some(buf) = &mut self.buf {
            // a head that was joined to it and not sent is among these
            buf.consume(self.ready);
        }
        (self.ready, self.joined) = (0, 0);
        self.pipe = None;
        self.decoder.clone()
    }

    /// Gives back what was lent to it.
    pub fn forget(&mut self) {
        self.buf = None;
        self.pipe = None;
        self.limit = None;
        self.ended = false;
        if self.head.capacity() > READ_SIZE {
            self.head = Vec::new();
        }
    }

    /// Moves what can be moved now.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        w: &Rc<Worker>,
        src: &mut Transport,
        dst: &mut Transport,
    ) -> Poll<End> {
        for _ in 0..TURNS {
            if let Some(end) = ready!(self.turn(cx, w, src, dst)) {
                self.ended |= matches!(end, End::Done);
                return Poll::Ready(end);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One read or one write.
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        w: &Rc<Worker>,
        src: &mut Transport,
        dst: &mut Transport,
    ) -> Poll<Option<End>> {
        // bytes of the message that came together with the head leave together with it
        if self.ready == 0
            && self.buf.is_some()
            && !self.decoder.is_done()
            && let Err(e) = self.decode()
        {
            return Poll::Ready(Some(End::Bad(e)));
        }
        if self.head_sent < self.head.len() || self.ready > 0 {
            self.awaits = Awaits::Sink;
            return self.write(cx, dst);
        }
        if self.pipe.as_ref().is_some_and(|p| p.held() > 0) {
            self.awaits = Awaits::Sink;
            return self.drain(cx, dst);
        }
        if self.decoder.is_done() {
            self.pipe = None;
            return Poll::Ready(Some(End::Done));
        }
        self.awaits = Awaits::Source;
        if let Some(limit) = &mut self.limit {
            ready!(limit.poll_wait(cx));
        }
        if self.wants_splice() && (self.pipe.is_some() || self.take_pipe(w, src, dst)) {
            return self.fill(cx, w, src);
        }
        self.read(cx, w, src)
    }

    fn write(&mut self, cx: &mut Context<'_>, dst: &mut Transport) -> Poll<Option<End>> {
        self.join_small();
        if self.post(cx, dst) {
            return Poll::Ready(None);
        }
        self.join_large();
        let head = &self.head[self.head_sent..];
        let body = self
            .buf
            .as_ref()
            .map_or(&[][..], |b| &b.data()[..self.ready]);
        let written = ready!(match (head.is_empty(), body.is_empty()) {
            (false, false) => dst.poll_write_two(cx, head, body),
            (false, true) => dst.poll_write(cx, head),
            _ => dst.poll_write(cx, body),
        });
        let n = match written {
            Ok(n) => n,
            Err(e) => return Poll::Ready(Some(End::SinkError(e))),
        };
        let of_head = n.min(head.len());
        self.moved(n);
        self.head_sent += of_head;
        if let (Some(buf), true) = (&mut self.buf, n > of_head) {
            buf.consume(n - of_head);
            self.ready -= n - of_head;
            self.joined = self.joined.saturating_sub(n - of_head);
        }
        if self.buf.as_ref().is_some_and(Buf::is_empty) {
            self.buf = None;
        }
        Poll::Ready(None)
    }

    /// Has what is in hand sent with other messages of this turn, where it is all of a small message or a little of a
    /// stream.
    fn post(&mut self, cx: &mut Context<'_>, dst: &mut Transport) -> bool {
        let of_body = self.ready;
        let n = self.head.len() - self.head_sent + of_body;
        let posted = match &mut self.buf {
            _ if self.head_sent > 0 || n > outbox::SMALL => false,
            Some(buf) if of_body > 0 => dst.post_copy(cx, &[&self.head, &buf.data()[..of_body]]),
            _ => self.decoder.is_done() && dst.post(cx, &mut self.head),
        };
        if posted {
            self.head.clear();
            if let Some(buf) = &mut self.buf {
                buf.consume(of_body);
                self.ready = 0;
            }
            if self.buf.as_ref().is_some_and(Buf::is_empty) {
                self.buf = None;
            }
            self.moved(n);
        }
        posted
    }

    /// Puts a small body right behind its head: copying it costs less than the kernel's handling of two pieces.
    fn join_small(&mut self) {
        let Some(buf) = &mut self.buf else { return };
        if self.head_sent < self.head.len() && (1..=JOINED).contains(&self.ready) {
            self.head.extend_from_slice(&buf.data()[..self.ready]);
            buf.consume(self.ready);
            self.ready = 0;
            if buf.is_empty() {
                self.buf = None;
            }
        }
    }

    /// Puts the head right before a body that is too large to be copied.
    fn join_large(&mut self) {
        let Some(buf) = &mut self.buf else { return };
        let head = &self.head[self.head_sent..];
        if self.ready > 0 && !head.is_empty() && buf.prepend(head) {
            self.ready += head.len();
            self.joined = head.len();
            self.head_sent = self.head.len();
        }
    }

    /// Lets the decoder look at the buffer.
    fn decode(&mut self) -> Result<(), BodyError> {
        let Some(buf) = &mut self.buf else {
            return Ok(());
        };
        let Some(how) = self.recode else {
            self.ready = self.decoder.advance(buf.data())?.consumed;
            return Ok(());
        };
        // another framing: payload moves to the head of the queue in its new form
        if self.head_sent == self.head.len() {
            self.head.clear();
            self.head_sent = 0;
        }
        let head = &mut self.head;
        let step = self
            .decoder
            .decode(buf.data(), &mut |data: &[u8]| match how {
                Recode::Chunked => encode_chunk(data, head),
                Recode::Strip => head.extend_from_slice(data),
            })?;
        if step.done && how == Recode::Chunked {
            head.extend_from_slice(sluice_http::LAST_CHUNK);
        }
        buf.consume(step.consumed);
        if buf.is_empty() {
            self.buf = None;
        }
        Ok(())
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        w: &Rc<Worker>,
        src: &mut Transport,
    ) -> Poll<Option<End>> {
        let mut buf = w.bufs.lend();
        match ready!(src.poll_read(cx, buf.room())) {
            Ok(0) => Poll::Ready(Some(self.source_closed())),
            Ok(n) => {
                self.bulk = n == buf.room().len();
                buf.filled(n);
                self.buf = Some(buf);
                self.progress_us = clock::now_us();
                if let Some(limit) = &mut self.limit {
                    limit.took(n);
                }
                Poll::Ready(None)
            }
            Err(e) => Poll::Ready(Some(End::SourceError(e))),
        }
    }

    /// The end of the stream is the end of the message only where nothing else says so.
    fn source_closed(&mut self) -> End {
        if self.decoder.ends_at_close() {
            End::Done
        } else {
            End::SourceClosed
        }
    }

    fn wants_splice(&self) -> bool {
        let left = self.decoder.spliceable();
        match self.splice {
            SpliceChoice::Never => false,
            // of a transfer without a known end only the last read tells whether it is large
            SpliceChoice::WhenLarge if left == u64::MAX => self.bulk,
            SpliceChoice::WhenLarge => left >= SPLICE_FROM || self.pipe.is_some(),
            SpliceChoice::Wanted => left > 0,
        }
    }

    fn take_pipe(&mut self, w: &Rc<Worker>, src: &Transport, dst: &Transport) -> bool {
        if !src.is_tcp() || !dst.is_tcp() {
            self.splice = SpliceChoice::Never;
            return false;
        }
        self.pipe = w.pipes.lend();
        if self.pipe.is_none() {
            self.splice = SpliceChoice::Never;
        }
        self.pipe.is_some()
    }

    fn fill(&mut self, cx: &mut Context<'_>, w: &Rc<Worker>, src: &Transport) -> Poll<Option<End>> {
        if let Err(e) = ready!(src.poll_read_ready(cx)) {
            return Poll::Ready(Some(End::SourceError(e)));
        }
        let most = self.decoder.spliceable().min(SPLICE_MOST as u64) as usize;
        let Some(pipe) = &mut self.pipe else {
            return Poll::Ready(None);
        };
        match src.try_io(Interest::READABLE, || pipe.fill(src, most)) {
            Ok(0) => Poll::Ready(Some(self.source_closed())),
            Ok(n) => {
                self.decoder.skip(n as u64);
                self.bulk = n >= BULK;
                self.progress_us = clock::now_us();
                w.runtime().counters.spliced_bytes.add(n as u64);
                Poll::Ready(None)
            }
            // not ready after all: the next turn waits
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Poll::Ready(None),
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                self.pipe = None;
                self.splice = SpliceChoice::Never;
                Poll::Ready(None)
            }
            Err(e) => Poll::Ready(Some(End::SourceError(e))),
        }
    }

    fn drain(&mut self, cx: &mut Context<'_>, dst: &Transport) -> Poll<Option<End>> {
        if let Err(e) = ready!(dst.poll_write_ready(cx)) {
            return Poll::Ready(Some(End::SinkError(e)));
        }
        let more = !self.decoder.is_done() && self.decoder.remaining().is_some();
        let Some(pipe) = &mut self.pipe else {
            return Poll::Ready(None);
        };
        match dst.try_io(Interest::WRITABLE, || pipe.drain(dst, more)) {
            Ok(n) => {
                self.moved(n);
                Poll::Ready(None)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Poll::Ready(None),
            Err(e) => Poll::Ready(Some(End::SinkError(e))),
        }
    }

    fn moved(&mut self, n: usize) {
        self.written += n as u64;
        self.progress_us = clock::now_us();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::BufPool;

    /// A pump that holds a whole large body whose head was put before it, nothing of which was sent.
    fn joined(behind: &[u8]) -> Pump {
        let mut buf = Rc::new(BufPool::default()).lend();
        buf.extend(&[b'x'; 5000]);
        buf.extend(behind);
        let decoder = BodyDecoder::new(Framing::Length(5000));
        let mut pump = Pump::default();
        let head = b"POST / HTTP/1.1\r\n\r\n".to_vec();
        pump.start(head, Some(buf), decoder, SpliceChoice::Never);
        pump.decode().unwrap();
        pump.join_large();
        assert!(pump.joined > 0 && pump.ready > 5000);
        pump
    }

    #[test]
    fn a_head_that_was_joined_is_no_part_of_the_rest() {
        let mut pump = joined(b"");
        let rest = pump.take_rest().expect("the body");
        assert_eq!(rest.data(), [b'x'; 5000]);
    }

    #[test]
    fn giving_up_leaves_what_is_behind_the_message() {
        let mut pump = joined(b"GET");
        assert!(pump.give_up_sending().is_done());
        assert_eq!(pump.take_rest().expect("the next request").data(), b"GET");
        let mut pump = joined(b"");
        pump.give_up_sending();
        assert!(pump.take_rest().is_none());
    }
}
