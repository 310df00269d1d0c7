//! Where an answer ends: heads, lengths, chunks, and bodies that nobody looks at.

use super::{
    Answer, Conn, Context, HEAD_READ_BYTES, LONG_BODY_BYTES, Outcome, Rx, SCRATCH_BYTES,
    SHORT_READ_BYTES,
};
use crate::http::{self, Chunked, Framing};
use crate::inject::counts::ErrorKind;
use crate::inject::mix::Request;
use crate::net::{self, Io};
use crate::pattern;
use rustix::io::Errno;
use rustix::net::RecvFlags;

impl Conn {
    /// Reads until an answer is complete or nothing more is there (`None`).
    pub(super) fn receive(&mut self, context: &mut Context, request: &Request) -> Option<Outcome> {
        loop {
            if !self.input.is_empty() && !matches!(self.rx, Rx::Head)
                || self.answer.is_none() && self.has_head()
            {
                let input = std::mem::take(&mut self.input);
                let (used, outcome) = self.consume(context, request, &input);
                self.input.extend_from_slice(&input[used..]);
                if outcome.is_some() {
                    return outcome;
                }
                if used > 0 {
                    continue;
                }
            }
            if self.input.len() > http::HEAD_BYTES_MAX {
                return Some(Outcome::Failed(ErrorKind::Malformed));
            }
            if !self.readable {
                return None;
            }
            let (result, asked) = self.read(context);
            match result {
                Io::Bytes(len) => {
                    self.readable = len == asked || self.ended;
                    context.bytes_in += len as u64;
                    if let Some(outcome) = self.received(context, request, len) {
                        return Some(outcome);
                    }
                }
                Io::Blocked => {
                    self.readable = false;
                    return None;
                }
                Io::End if matches!(self.rx, Rx::UntilClose) => {
                    return Some(self.complete(context, request));
                }
                Io::End => return Some(Outcome::Failed(ErrorKind::Ended)),
                Io::Failed(Errno::CONNRESET | Errno::PIPE) => {
                    return Some(Outcome::Failed(ErrorKind::Reset));
                }
                Io::Failed(_) => return Some(Outcome::Failed(ErrorKind::Ended)),
            }
        }
    }

    fn has_head(&self) -> bool {
        !self.input.is_empty() && http::head_len(&self.input).is_some()
    }

    /// One read. The bytes of a body whose length is known and that nobody checks stay in the kernel.
    fn read(&self, context: &mut Context) -> (Io, usize) {
        if let (Rx::Length(left), false) = (&self.rx, context.check) {
            let len = usize::try_from(*left)
                .unwrap_or(usize::MAX)
                .min(SCRATCH_BYTES);
            return (
                net::recv(&self.fd, &mut context.scratch[..len], RecvFlags::TRUNC),
                len,
            );
        }
        let len = match self.rx {
            Rx::Head if context.last_len >= LONG_BODY_BYTES && !context.check => SHORT_READ_BYTES,
            Rx::Head => HEAD_READ_BYTES,
            _ => SCRATCH_BYTES,
        };
        (
            net::recv(&self.fd, &mut context.scratch[..len], RecvFlags::empty()),
            len,
        )
    }

    fn received(
        &mut self,
        context: &mut Context,
        request: &Request,
        len: usize,
    ) -> Option<Outcome> {
        if let (Rx::Length(left), false) = (&mut self.rx, context.check) {
            *left -= len as u64;
            self.body_len += len as u64;
            return if *left == 0 {
                Some(self.complete(context, request))
            } else {
                None
            };
        }
        let scratch = std::mem::take(&mut context.scratch);
        let outcome = if self.input.is_empty() {
            let (used, outcome) = self.consume(context, request, &scratch[..len]);
            self.input.extend_from_slice(&scratch[used..len]);
            outcome
        } else {
            self.input.extend_from_slice(&scratch[..len]);
            None
        };
        context.scratch = scratch;
        outcome
    }

    /// Takes bytes of the present answer; returns how many it took.
    fn consume(
        &mut self,
        context: &mut Context,
        request: &Request,
        data: &[u8],
    ) -> (usize, Option<Outcome>) {
        let mut used = 0;
        loop {
            let rest = &data[used..];
            match &mut self.rx {
                Rx::Head => {
                    let Some(len) = http::head_len(rest) else {
                        return (used, None);
                    };
                    let Ok(head) = context.response_head(&rest[..len]) else {
                        return (used, Some(Outcome::Failed(ErrorKind::Malformed)));
                    };
                    used += len;
                    if (100..200).contains(&head.status) {
                        continue;
                    }
                    self.answer = Some(head);
                    self.right = true;
                    self.body_len = 0;
                    let framing = if request.head_only {
                        Framing::Length(0)
                    } else {
                        head.framing
                    };
                    self.rx = match framing {
                        Framing::Length(0) => return (used, Some(self.complete(context, request))),
                        Framing::Length(len) => Rx::Length(len),
                        Framing::Chunked => Rx::Chunked(Chunked::default()),
                        Framing::Close => Rx::UntilClose,
                    };
                }
                Rx::Length(left) => {
                    let len = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= len as u64;
                    let done = *left == 0;
                    self.content(context, request, &rest[..len]);
                    return (used + len, done.then(|| self.complete(context, request)));
                }
                Rx::Chunked(decoder) => {
                    let mut decoder = std::mem::take(decoder);
                    let result = decoder.feed(rest, |piece| self.content(context, request, piece));
                    self.rx = Rx::Chunked(decoder);
                    return match result {
                        Ok((len, true)) => (used + len, Some(self.complete(context, request))),
                        Ok((len, false)) => (used + len, None),
                        Err(_) => (used, Some(Outcome::Failed(ErrorKind::Malformed))),
                    };
                }
                Rx::UntilClose => {
                    self.content(context, request, rest);
                    return (data.len(), None);
                }
            }
        }
    }

    fn content(&mut self, context: &Context, request: &Request, data: &[u8]) {
        if let (true, Some((_, Some(seed)))) = (context.check, request.expect) {
            self.right &= pattern::mismatch(seed, self.body_len, data).is_none();
        }
        self.body_len += data.len() as u64;
    }

    fn complete(&mut self, context: &mut Context, request: &Request) -> Outcome {
        context.last_len = self.body_len;
        self.rx = Rx::Head;
        let Some(head) = self.answer.take() else {
            return Outcome::Failed(ErrorKind::Malformed);
        };
        let right = !context.check
            || head.status < 400
                && request.expect.is_none_or(|(size, _)| {
                    self.right && (request.head_only || self.body_len == size)
                });
        Outcome::Done(Answer {
            status: head.status,
            keep_alive: head.keep_alive,
            right,
        })
    }
}
