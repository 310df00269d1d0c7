//! The outbox: small messages of a worker leave together, when the tasks that were ready have run.
//!
//! Most of what a small request costs is the kernel's sending. Back to back that is cheaper than between other work: the
//! receiver of the first message is still awake when the others come, and the kernel's code and ours do not push each
//! other out of the caches. A message is posted only when it is small and whole and nothing is known against its
//! connection ([`Transport::post`](super::Transport::post)); everything else is written where it is made.
//!
//! What a socket does not take at once (its buffer is full) is finished by a task of its own; until then the connection
//! takes nothing else.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::sys;

/// Larger messages are written where they are made: copying them would cost more than is saved.
pub const SMALL: usize = 4096;

/// Messages kept back at most. More at a time cost as much each, and the first would wait for longer.
const MOST: usize = 64;

/// Emptied buffers kept for the next messages, and how large they may be.
const SPARE: usize = 64;
const SPARE_SIZE: usize = 1024;

/// How long a receiver that takes nothing is waited for when nobody else watches it any more.
const STALLED: Duration = Duration::from_secs(30);

/// A message on its way.
struct Letter {
    to: RawFd,
    data: Vec<u8>,
}

/// The part of a message that a socket did not take.
struct Rest {
    data: RefCell<Vec<u8>>,
    /// End our direction behind it.
    then_shut: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Rest {
    /// Its connection is still open on our side, and waits for it to be sent.
    fn is_watched(self: &Rc<Self>, to: RawFd) -> bool {
        OUTBOX.with(|o| {
            o.rests
                .borrow()
                .get(&to)
                .is_some_and(|r| Rc::ptr_eq(r, self))
        })
    }
}

#[derive(Default)]
struct Outbox {
    letters: RefCell<Vec<Letter>>,
    spare: RefCell<Vec<Vec<u8>>>,
    /// Times it was emptied.
    turn: Cell<u64>,
    /// The task that empties it; without one nothing is posted.
    carrier: RefCell<Option<Waker>>,
    rests: RefCell<BTreeMap<RawFd, Rc<Rest>>>,
    /// Rests being sent, those of closed connections too.
    unfinished: Cell<usize>,
    /// What else is done when it is emptied.
    others: RefCell<Vec<Box<dyn Fn()>>>,
}

thread_local! {
    static OUTBOX: Outbox = Outbox::default();
}

/// Empties the outbox of this thread whenever something was posted. Never ends.
pub async fn carry() {
    poll_fn(|cx| {
        OUTBOX.with(|o| {
            if o.carrier.borrow().is_none() {
                o.turn.set(o.turn.get() + 1);
                o.carrier.replace(Some(cx.waker().clone()));
            }
            o.empty();
        });
        Poll::Pending
    })
    .await
}

/// Whether a connection, closed perhaps, still has to take the rest of a message.
pub fn is_unfinished() -> bool {
    OUTBOX.with(|o| o.unfinished.get() > 0)
}

/// Empties the outbox for the last time: the thread's tasks end, and what their sockets do not take at once is cut.
pub fn close() {
    OUTBOX.with(|o| {
        o.empty();
        o.carrier.take();
    });
}

/// Has `f` called at the end of each turn in which somebody posted something or asked for the [`carrier`](call).
pub fn at_end_of_turn(f: impl Fn() + 'static) {
    OUTBOX.with(|o| o.others.borrow_mut().push(Box::new(f)));
}

/// Has the outbox emptied at the end of this turn; false on a thread that has no carrier.
pub fn call() -> bool {
    OUTBOX.with(|o| {
        let carrier = o.carrier.borrow();
        carrier.as_ref().inspect(|c| c.wake_by_ref()).is_some()
    })
}

/// An empty buffer to write a message into.
pub fn sheet() -> Vec<u8> {
    OUTBOX
        .with(|o| o.spare.borrow_mut().pop())
        .unwrap_or_else(|| Vec::with_capacity(SPARE_SIZE))
}

/// Posts a message and gives the turn in which it leaves; `data` is left empty. None: nobody empties the outbox of this
/// thread, write it yourself.
pub fn post(to: RawFd, data: &mut Vec<u8>) -> Option<u64> {
    OUTBOX.with(|o| {
        let mut letters = o.letters.borrow_mut();
        if letters.len() >= MOST {
            drop(letters);
            o.empty();
            letters = o.letters.borrow_mut();
        }
        if letters.is_empty() {
            o.carrier.borrow().as_ref()?.wake_by_ref();
        }
        letters.push(Letter {
            to,
            data: std::mem::take(data),
        });
        Some(o.turn.get())
    })
}

/// Whether what was posted in `turn` has left whole.
pub fn has_left(to: RawFd, turn: u64) -> bool {
    OUTBOX.with(|o| o.turn.get() > turn && !o.rests.borrow().contains_key(&to))
}

/// Sends what was posted for this socket now, and is ready when the socket has taken all of it.
pub fn poll_left(cx: &mut Context<'_>, to: RawFd) -> Poll<()> {
    OUTBOX.with(|o| {
        o.send_now(to);
        match o.rests.borrow().get(&to) {
            None => Poll::Ready(()),
            Some(rest) => {
                rest.waiting.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    })
}

/// Sends what was posted for this socket and ends our direction behind it.
pub fn shut_after(to: RawFd, shut: impl FnOnce()) {
    OUTBOX.with(|o| {
        o.send_now(to);
        match o.rests.borrow().get(&to) {
            Some(rest) => rest.then_shut.set(true),
            None => shut(),
        }
    });
}

/// The owner closes the socket: what was posted is sent, and finished by the outbox alone where that takes time.
pub fn leave(to: RawFd) {
    // a thread that ends has emptied its outbox
    let _ = OUTBOX.try_with(|o| {
        o.send_now(to);
        o.rests.borrow_mut().remove(&to);
    });
}

/// As [`leave`], for a connection that ends with a reset: what is not sent yet never is.
pub fn forget(to: RawFd) {
    OUTBOX.with(|o| {
        o.send_now(to);
        if let Some(rest) = o.rests.borrow_mut().remove(&to) {
            rest.data.borrow_mut().clear();
            // wakes the task that waits to send it
            sys::shut(to);
        }
    });
}

impl Outbox {
    fn empty(&self) {
        let mut letters = self.letters.take();
        self.turn.set(self.turn.get() + 1);
        for letter in letters.drain(..) {
            self.send(letter);
        }
        // keep the room it has
        self.letters.replace(letters);
        for other in self.others.borrow().iter() {
            other();
        }
    }

    /// Sends the message for one socket, if there is one, before its turn.
    fn send_now(&self, to: RawFd) {
        let mut letters = self.letters.borrow_mut();
        // nearly always the last one
        if let Some(at) = letters.iter().rposition(|l| l.to == to) {
            let letter = letters.remove(at);
            drop(letters);
            self.send(letter);
        }
    }

    fn send(&self, Letter { to, mut data }: Letter) {
        let sent = match sys::send(to, &data) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            // the connection is gone: whoever reads from it learns that
            Err(_) => data.len(),
        };
        if sent < data.len() {
            data.drain(..sent);
            return self.finish_later(to, data);
        }
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE && data.capacity() <= 2 * SPARE_SIZE {
            data.clear();
            spare.push(data);
        }
    }

    fn finish_later(&self, to: RawFd, data: Vec<u8>) {
        let rest = Rc::new(Rest {
            data: RefCell::new(data),
            then_shut: Cell::new(false),
            waiting: RefCell::default(),
        });
        if self.carrier.borrow().is_none() {
            return;
        }
        // no descriptor left: the message is cut, as it is when the connection breaks
        let Ok(socket) = sys::duplicate(to) else {
            return;
        };
        self.unfinished.set(self.unfinished.get() + 1);
        self.rests.borrow_mut().insert(to, rest.clone());
        tokio::task::spawn_local(finish(to, socket, rest));
    }
}

/// Sends the rest of a message, however long the receiver takes while its owner has patience.
async fn finish(to: RawFd, socket: OwnedFd, rest: Rc<Rest>) {
    // send(2) is the same on any stream socket
    if let Ok(socket) = TcpStream::from_std(socket.into()) {
        loop {
            match tokio::time::timeout(STALLED, socket.writable()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_elapsed) if rest.is_watched(to) => continue,
                Err(_elapsed) => break,
            }
            let mut data = rest.data.borrow_mut();
            match socket.try_write(&data) {
                Ok(n) => drop(data.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            if data.is_empty() {
                break;
            }
        }
        if rest.then_shut.get() {
            // a peer that is gone already needs no farewell
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Write);
        }
    }
    let watched = rest.is_watched(to);
    OUTBOX.with(|o| {
        o.unfinished.set(o.unfinished.get() - 1);
        if watched {
            o.rests.borrow_mut().remove(&to);
        }
    });
    if let Some(waker) = rest.waiting.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Transport;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;
    use tokio::task::{LocalSet, spawn_local};

    /// A connection's two ends, the first with an outbox that is carried.
    async fn with_pair<F: Future<Output = ()>>(test: impl FnOnce(Transport, UnixStream) -> F) {
        let local = LocalSet::new();
        let work = async {
            spawn_local(carry());
            tokio::task::yield_now().await;
            let (ours, theirs) = UnixStream::pair().unwrap();
            test(Transport::from(ours), theirs).await;
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, local.run_until(work))
            .await
            .expect("done in time");
    }

    async fn post(io: &mut Transport, data: &[u8]) -> bool {
        poll_fn(|cx| Poll::Ready(io.post_copy(cx, &[data]))).await
    }

    /// Posts until the receiver's buffer is full and a rest is left over; gives how much was posted.
    async fn fill(io: &mut Transport) -> usize {
        let mut posted = 0;
        while OUTBOX.with(|o| o.rests.borrow().is_empty()) {
            if post(io, &[b'x'; 1000]).await {
                posted += 1000;
            }
            tokio::task::yield_now().await;
        }
        posted
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_posted_message_leaves_at_the_end_of_the_turn() {
        with_pair(|mut ours, mut theirs| async move {
            assert!(post(&mut ours, b"one").await);
            let mut room = [0; 16];
            assert!(theirs.try_read(&mut room).is_err());
            let n = theirs.read(&mut room).await.unwrap();
            assert_eq!(&room[..n], b"one");
        })
        .await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_written_message_does_not_overtake_a_posted_one() {
        with_pair(|mut ours, mut theirs| async move {
            assert!(post(&mut ours, b"one ").await);
            let two = poll_fn(|cx| ours.poll_write(cx, b"two")).await;
            assert_eq!(two.unwrap(), 3);
            drop(ours);
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).await.unwrap();
            assert_eq!(got, b"one two");
        })
        .await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nothing_is_posted_once_the_peer_has_closed() {
        with_pair(|mut ours, theirs| async move {
            drop(theirs);
            poll_fn(|cx| ours.poll_read_ready(cx)).await.unwrap();
            assert!(!post(&mut ours, b"one").await);
        })
        .await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_a_full_socket_leaves_over_is_finished_before_anything_else() {
        with_pair(|mut ours, mut theirs| async move {
            let posted = fill(&mut ours).await;
            assert!(!post(&mut ours, b"later").await);
            let reader = spawn_local(async move {
                let mut got = Vec::new();
                theirs.read_to_end(&mut got).await.unwrap();
                got
            });
            let n = poll_fn(|cx| ours.poll_write(cx, b"last")).await.unwrap();
            assert_eq!(n, 4);
            drop(ours);
            let got = reader.await.unwrap();
            assert_eq!(got.len(), posted + 4);
            assert!(got.ends_with(b"xlast"));
        })
        .await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_closed_connection_still_delivers_what_was_posted() {
        with_pair(|mut ours, mut theirs| async move {
            let posted = fill(&mut ours).await;
            ours.shutdown_write();
            drop(ours);
            assert!(OUTBOX.with(|o| o.rests.borrow().is_empty()));
            assert!(is_unfinished());
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).await.unwrap();
            assert_eq!(got.len(), posted);
            while is_unfinished() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
