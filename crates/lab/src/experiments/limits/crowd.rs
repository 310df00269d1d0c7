//! A crowd of slow readers.

use crate::host::Stop;
use crate::net::{self, Io};
use anyhow::{Context, Result};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use std::net::SocketAddr;
use std::time::Duration;

/// How many they are.
pub const SLOW: usize = 200;

/// Clients that ask for much and read little.
pub struct Crowd {
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Crowd {
    /// Connects all of them.
    ///
    /// # Errors
    /// When one cannot.
    pub fn start(target: SocketAddr) -> Result<Self> {
        const PAUSE: Duration = Duration::from_millis(50);
        let mut conns = Vec::new();
        for _ in 0..SLOW {
            conns.push(slow_reader(target)?);
        }
        let stop = Stop::new()?;
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("slow-readers".to_owned())
            .spawn(move || {
                let mut buffer = [0; 1024];
                while !seen.is_set() {
                    for conn in &conns {
                        let _ = net::recv(conn, &mut buffer, RecvFlags::empty());
                    }
                    std::thread::sleep(PAUSE);
                }
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection with a small window that has asked for a mebibyte.
fn slow_reader(target: SocketAddr) -> Result<OwnedFd> {
    const WINDOW_BYTES: usize = 4096;
    const TRIES: usize = 100;
    let (fd, _) = net::connect(target, None)?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&fd, WINDOW_BYTES);
    for _ in 0..TRIES {
        match net::send(&fd, b"GET /?s=1m HTTP/1.1\r\nHost: slow\r\n\r\n", false) {
            Io::Bytes(_) => return Ok(fd),
            Io::Blocked => std::thread::sleep(Duration::from_millis(5)),
            Io::End | Io::Failed(_) => break,
        }
    }
    None.context("a slow reader could not connect")
}
