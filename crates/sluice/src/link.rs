//! The wire between the master process and a worker process: a pair of sockets.
//!
//! The worker says once that it serves: a line with what the master must know of its configuration. The master passes
//! connections for the worker's command line (a byte for the level with each descriptor). When one side is gone, the other
//! side sees the end: a worker does not outlive its master.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use rustix::net::RecvFlags;
use sluice_config::model::{CliLevel, SeverityOutput};
use sluice_proxy::handover;
use tokio::io::Interest;

use crate::command_socket::{self, Door, Shell};

/// Longest message of a worker.
const MESSAGE_MAX: usize = 256;

/// One end.
pub struct Link {
    socket: tokio::net::UnixStream,
}

/// What a worker tells when it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// `master-worker no-exit-on-failure`
    pub no_exit_on_failure: bool,
    /// `mworker-max-reloads`
    pub max_reloads: Option<u32>,
}

impl Ready {
    fn text(self) -> String {
        let max = self.max_reloads.map_or("-".into(), |n| n.to_string());
        format!("READY {} {max}\n", u8::from(self.no_exit_on_failure))
    }
    fn parse(text: &str) -> Option<Ready> {
        let mut words = text.strip_prefix("READY ")?.split(' ');
        Some(Ready {
            no_exit_on_failure: words.next()? == "1",
            max_reloads: words.next()?.parse().ok(),
        })
    }
}

/// A pair of ends: the master's, and the worker's to be inherited.
pub fn pair() -> io::Result<(Link, OwnedFd)> {
    let (own, other) = UnixStream::pair()?;
    Ok((Link::new(own.into())?, other.into()))
}

impl Link {
    /// Call it inside a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Link> {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Link {
            socket: tokio::net::UnixStream::from_std(socket)?,
        })
    }

    async fn receive(&self, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
        loop {
            self.socket.readable().await?;
            let got = self.socket.try_io(Interest::READABLE, || {
                handover::receive(&self.socket, bytes, fds, RecvFlags::DONTWAIT)
            });
            match got {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// Worker: tells the master that this process serves.
    pub fn tell_ready(&self, what: Ready) -> io::Result<()> {
        handover::send(&self.socket, what.text().as_bytes(), &[])
    }

    /// Worker: serves the connections the master passes on. When the master is gone, so is this process.
    pub async fn serve(self, shell: Rc<Shell>) {
        let (mut level, mut fds) = ([0], Vec::new());
        while let Ok(1..) = self.receive(&mut level, &mut fds).await {
            let door = Door {
                level: match level[0] {
                    b'u' => CliLevel::User,
                    b'o' => CliLevel::Operator,
                    _ => CliLevel::Admin,
                },
                severity: SeverityOutput::None,
                gives_listeners: level[0] == b'a',
            };
            for fd in fds.drain(..) {
                let io = UnixStream::from(fd);
                let io = io
                    .set_nonblocking(true)
                    .and_then(|()| tokio::net::UnixStream::from_std(io));
                if let Ok(io) = io {
                    let (shell, door) = (shell.clone(), door);
                    tokio::task::spawn_local(async move {
                        command_socket::unix_connection(&shell, io, door).await;
                    });
                }
            }
        }
        std::process::exit(1);
    }

    /// Master: waits for the worker's word, `None` when there will be none.
    pub async fn ready(&self) -> Option<Ready> {
        let mut text = Vec::new();
        while !text.ends_with(b"\n") && text.len() < MESSAGE_MAX {
            let mut chunk = [0; MESSAGE_MAX];
            match self.receive(&mut chunk, &mut Vec::new()).await.ok()? {
                0 => return None,
                n => text.extend_from_slice(&chunk[..n]),
            }
        }
        Ready::parse(std::str::from_utf8(&text).ok()?.trim_end())
    }

    /// Master: a new connection to the worker's command line.
    pub fn connect(&self, level: CliLevel) -> io::Result<UnixStream> {
        let (own, other) = UnixStream::pair()?;
        let letter = match level {
            CliLevel::User => b"u",
            CliLevel::Operator => b"o",
            CliLevel::Admin => b"a",
        };
        handover::send(&self.socket, letter, &[other.as_fd()])?;
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_says_is_understood() {
        for ready in [
            Ready::default(),
            Ready {
                no_exit_on_failure: true,
                max_reloads: Some(3),
            },
        ] {
            assert_eq!(Ready::parse(ready.text().trim_end()), Some(ready));
        }
        assert_eq!(Ready::parse("hello"), None);
        assert_eq!(Ready::parse("READY 1"), None);
    }
}
