//! An answer on its way: the head, then content from memory or from a file, whole or slowly in pieces.

use super::shared::{BLOCK_BYTES, Context};
use super::{Conn, State};
use crate::net::{self, Io};
use crate::origin::plan::{By, Rest};
use rustix::fd::OwnedFd;
use std::os::fd::AsFd;

/// Copied at once: stays in the second-level cache.
const COPY_BYTES_MAX: u64 = 256 * 1024;

/// How far an answer came.
pub(super) enum Sent {
    All,
    Blocked,
    Paused(u64),
    Gone,
}

impl Conn {
    pub(super) fn send(&mut self, context: &mut Context, now_ns: u64) -> Sent {
        let State::Send {
            plan,
            made,
            pos,
            wait_until_ns,
            waited,
        } = &mut self.state
        else {
            return Sent::All;
        };
        if let Some(at_ns) = *wait_until_ns {
            if now_ns < at_ns {
                return Sent::Paused(at_ns);
            }
            *wait_until_ns = None;
        } else if !plan.query.wait.is_zero() && !*waited {
            let at_ns = now_ns + plan.query.wait.as_nanos() as u64;
            (*wait_until_ns, *waited) = (Some(at_ns), true);
            return Sent::Paused(at_ns);
        }
        let answer = made.as_ref().unwrap_or(&plan.answer);
        let (start_len, total) = (
            answer.start.len() as u64,
            answer.start.len() as u64 + answer.rest.wire_len(),
        );
        let until = plan
            .query
            .slow
            .map_or(total, |(piece, _)| total.min(*pos + piece));
        while *pos < until {
            let result = if *pos < start_len {
                let end = until.min(start_len) as usize;
                net::send(
                    &self.fd,
                    &answer.start[*pos as usize..end],
                    until > start_len,
                )
            } else {
                send_rest(
                    &self.fd,
                    &answer.rest,
                    *pos - start_len,
                    until - *pos,
                    context,
                )
            };
            match result {
                Io::Bytes(len) => *pos += len as u64,
                Io::Blocked => return Sent::Blocked,
                Io::End | Io::Failed(_) => return Sent::Gone,
            }
        }
        match plan.query.slow {
            Some((_, pause)) if *pos < total => {
                let at_ns = now_ns + pause.as_nanos() as u64;
                *wait_until_ns = Some(at_ns);
                Sent::Paused(at_ns)
            }
            _ => Sent::All,
        }
    }
}

fn send_rest(fd: &OwnedFd, rest: &Rest, pos: u64, len_max: u64, context: &mut Context) -> Io {
    match rest {
        Rest::None => Io::Failed(rustix::io::Errno::INVAL),
        Rest::Made(body) => {
            let room = usize::try_from(len_max)
                .unwrap_or(usize::MAX)
                .min(context.scratch.len());
            let len = body.fill(pos, &mut context.scratch[..room]);
            net::send(fd, &context.scratch[..len], false)
        }
        Rest::Block(_, how) => {
            let at = pos % BLOCK_BYTES;
            let len = len_max.min(BLOCK_BYTES - at);
            match how {
                By::Reference => send_file(fd, &context.shared.block_file, at, len),
                By::Copy => {
                    let len = len.min(COPY_BYTES_MAX);
                    net::send(
                        fd,
                        &context.shared.block[at as usize..(at + len) as usize],
                        false,
                    )
                }
            }
        }
        Rest::File(file, _) => send_file(fd, file, pos, len_max),
    }
}

/// `sendfile` moves page references, not bytes: content costs the origin nearly nothing.
fn send_file(fd: &OwnedFd, file: &impl AsFd, at: u64, len: u64) -> Io {
    let mut offset = at;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    loop {
        return match rustix::fs::sendfile(fd, file, Some(&mut offset), len) {
            Ok(0) => Io::End,
            Ok(len) => Io::Bytes(len),
            Err(rustix::io::Errno::AGAIN) => Io::Blocked,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => Io::Failed(error),
        };
    }
}
