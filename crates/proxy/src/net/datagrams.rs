//! Datagrams to a few receivers, log lines above all: those of a worker's turn leave together.
//!
//! A datagram that meets a sleeping receiver costs its sender the waking, which is more than the sending. Lines that
//! leave back to back, in one system call for each receiver, meet one that is awake. Their order is kept. Nothing here
//! waits: what a socket does not take at once is lost and counted.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::sys;

/// Datagrams kept back at most, so that they fit into a socket's buffer together.
const MOST: usize = 64;

/// Bytes kept back at most.
const MOST_BYTES: usize = 128 << 10;

/// A place to send from, and what waits there.
#[derive(Default)]
pub struct Datagrams {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    receivers: Vec<Receiver>,
    /// All that waits, side by side.
    text: Vec<u8>,
    waiting: Vec<Waiting>,
}

struct Receiver {
    addr: SocketAddr,
    /// Connected, so that the kernel finds the way there once and not for every datagram. `None`: it failed, and is made
    /// again.
    socket: Option<UdpSocket>,
}

#[derive(Clone, Copy)]
struct Waiting {
    /// Index of its receiver.
    to: usize,
    /// Where it ends in the text.
    end: usize,
}

/// What became of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum Posted {
    /// It waits, the first one to do so: somebody must [`Datagrams::flush`].
    First,
    Behind,
    /// There is no room for another: flush now.
    Full,
}

impl Datagrams {
    /// Keeps back the datagram that `write` appends to the text it is given.
    pub fn post(&self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) -> Posted {
        let inner = &mut *self.inner.borrow_mut();
        let to = inner.receiver(to);
        write(&mut inner.text);
        let end = inner.text.len();
        inner.waiting.push(Waiting { to, end });
        match inner.waiting.len() {
            MOST.. => Posted::Full,
            _ if end >= MOST_BYTES => Posted::Full,
            1 => Posted::First,
            _ => Posted::Behind,
        }
    }

    /// Sends what waits; gives how many were lost.
    pub fn flush(&self) -> usize {
        let inner = &mut *self.inner.borrow_mut();
        let mut lost = 0;
        let mut start = 0;
        let mut rest = inner.waiting.as_slice();
        while let Some(first) = rest.first() {
            let same = rest.iter().take_while(|w| w.to == first.to).count();
            let (now, later) = rest.split_at(same);
            if let Some(receiver) = inner.receivers.get_mut(first.to) {
                lost += receiver.send_all(&inner.text, start, now);
            }
            start = now.last().map_or(start, |w| w.end);
            rest = later;
        }
        inner.waiting.clear();
        inner.text.clear();
        lost
    }
}

impl Inner {
    fn receiver(&mut self, addr: SocketAddr) -> usize {
        let known = self.receivers.iter().position(|r| r.addr == addr);
        known.unwrap_or_else(|| {
            self.receivers.push(Receiver { addr, socket: None });
            self.receivers.len() - 1
        })
    }
}

impl Receiver {
    /// Sends datagrams that lie side by side in `text` from `start` on; gives how many were lost.
    fn send_all(&mut self, text: &[u8], mut start: usize, mut waiting: &[Waiting]) -> usize {
        let mut lost = 0;
        // Told of an earlier one, which met a closed port: the one in hand was not sent yet, and is tried once more.
        let mut refused = false;
        while let Some(first) = waiting.first() {
            let ends = waiting.iter().map(|w| w.end);
            let (done, failed) = match self.send(text, start, ends) {
                Ok(sent) => (sent.max(1), false),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return lost + waiting.len(),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused && !refused => {
                    refused = true;
                    continue;
                }
                Err(e) => {
                    if e.kind() != io::ErrorKind::ConnectionRefused {
                        // the way there may have changed
                        self.socket = None;
                    }
                    (1, true)
                }
            };
            refused = false;
            lost += usize::from(failed);
            start = waiting.get(done - 1).unwrap_or(first).end;
            waiting = waiting.get(done..).unwrap_or_default();
        }
        lost
    }

    fn send(
        &mut self,
        text: &[u8],
        start: usize,
        ends: impl Iterator<Item = usize>,
    ) -> io::Result<usize> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(connected(self.addr)?),
        };
        sys::send_datagrams(socket.as_raw_fd(), text, start, ends)
    }
}

fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(to)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn listener() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let addr = socket.local_addr().unwrap();
        (socket, addr)
    }

    fn next(socket: &UdpSocket) -> String {
        let mut room = [0; 9000];
        let n = socket.recv(&mut room).expect("a datagram");
        String::from_utf8_lossy(&room[..n]).into_owned()
    }

    fn post(d: &Datagrams, to: SocketAddr, text: &str) -> Posted {
        d.post(to, |out| out.extend_from_slice(text.as_bytes()))
    }

    #[test]
    fn what_is_posted_leaves_in_order_and_apart() {
        let ((a, to_a), (b, to_b)) = (listener(), listener());
        let d = Datagrams::default();
        assert_eq!(post(&d, to_a, "one"), Posted::First);
        assert_eq!(post(&d, to_a, "two"), Posted::Behind);
        assert_eq!(post(&d, to_b, "three"), Posted::Behind);
        assert_eq!(post(&d, to_a, ""), Posted::Behind);
        assert_eq!(post(&d, to_a, "four"), Posted::Behind);
        assert_eq!(d.flush(), 0);
        assert_eq!(
            [next(&a), next(&a), next(&a), next(&a)],
            ["one", "two", "", "four"]
        );
        assert_eq!(next(&b), "three");
        assert_eq!(d.flush(), 0);
        assert_eq!(post(&d, to_b, "five"), Posted::First);
        assert_eq!(d.flush(), 0);
        assert_eq!(next(&b), "five");
    }

    #[test]
    fn more_than_one_call_takes_leave_too() {
        let (a, to) = listener();
        let d = Datagrams::default();
        let mut posted = 0;
        while post(&d, to, &posted.to_string()) != Posted::Full {
            posted += 1;
        }
        assert_eq!(d.flush(), 0);
        (0..=posted).for_each(|n| assert_eq!(next(&a), n.to_string()));
    }

    #[test]
    fn no_more_bytes_are_kept_than_a_bound() {
        let (_a, to) = listener();
        let d = Datagrams::default();
        let long = "x".repeat(8000);
        let full = (0..MOST).position(|_| post(&d, to, &long) == Posted::Full);
        assert_eq!(full, Some(MOST_BYTES / 8000));
    }

    /// Each of a port that nobody listens on is refused by word of the one before: none is taken for sent twice, the
    /// others go on, and a listener that comes back is served.
    #[test]
    fn a_closed_port_keeps_nobody_from_sending() {
        let (a, to) = listener();
        let ((b, to_b), d) = (listener(), Datagrams::default());
        drop(a);
        for text in ["1", "2", "3"] {
            post(&d, to, text);
        }
        post(&d, to_b, "b");
        assert_eq!(d.flush(), 0, "as far as the sender can know");
        assert_eq!(next(&b), "b");
        let a = UdpSocket::bind(to).unwrap();
        post(&d, to, "4");
        assert_eq!(d.flush(), 0);
        assert_eq!(next(&a), "4");
    }

    #[test]
    fn a_datagram_that_cannot_be_sent_is_lost_alone() {
        let (a, to) = listener();
        let d = Datagrams::default();
        post(&d, to, "one");
        // larger than any datagram
        post(&d, to, &"x".repeat(70_000));
        post(&d, to, "two");
        assert_eq!(d.flush(), 1);
        assert_eq!([next(&a), next(&a)], ["one", "two"]);
    }
}
