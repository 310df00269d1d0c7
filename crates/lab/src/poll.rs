//! Edge-triggered epoll, the table of connections that its tokens name, and timers.
//!
//! A token is a slot's index with the slot's generation above it: an event that was already collected when its
//! connection went away finds nobody. What the connections are is the users' matter.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::Timespec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::Duration;

pub use rustix::event::epoll::EventFlags as Flags;

/// Events taken per wait: enough to amortise the call, small enough to stay in the first-level cache.
const EVENTS_MAX: usize = 256;

/// What a connection is registered for: both directions, edges only, once and for all.
pub const BOTH: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// Anything that means no more bytes will follow those that are readable now.
pub const ENDED: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

/// One epoll instance.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    /// A new instance.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    /// Registers `fd` for [`BOTH`] under `token`.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            BOTH,
        )?)
    }

    /// Registers `fd` for reading, level-triggered (listeners, event descriptors).
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub fn add_level(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            EventFlags::IN,
        )?)
    }

    /// Waits for events or until `timeout` is over; an interrupted wait counts as over.
    ///
    /// # Errors
    /// As `epoll_wait`.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.list.clear();
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs().min(86_400) as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events.list),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The events of one wait.
pub struct Events {
    list: Vec<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            list: Vec::with_capacity(EVENTS_MAX),
        }
    }
}

impl Events {
    /// Token and flags of each event.
    pub fn iter(&self) -> impl Iterator<Item = (u64, EventFlags)> + '_ {
        self.list
            .iter()
            .map(|event| (event.data.u64(), event.flags))
    }
}

/// A table whose places are reused, each use under a new generation.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

/// Tokens from here on never name a slot: listeners and event descriptors use them.
pub const TOKENS_RESERVED: u64 = u64::MAX - 1023;

impl<T> Slots<T> {
    /// Puts `value` (made from its token) into a free place.
    pub fn insert_with<E>(&mut self, make: impl FnOnce(u64) -> Result<T, E>) -> Result<u64, E> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        // The top bit stays clear so that no slot's token reaches the reserved ones.
        slot.0 = (slot.0 + 1) & 0x7FFF_FFFF;
        let token = u64::from(slot.0) << 32 | u64::from(index);
        match make(token) {
            Ok(value) => {
                slot.1 = Some(value);
                Ok(token)
            }
            Err(error) => {
                self.free.push(index);
                Err(error)
            }
        }
    }

    /// The value that `token` names, if it is still there.
    pub fn find(&mut self, token: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        if u64::from(slot.0) == token >> 32 {
            slot.1.as_mut()
        } else {
            None
        }
    }

    /// Takes the value out and frees its place.
    pub fn remove(&mut self, token: u64) -> Option<T> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        if u64::from(slot.0) != token >> 32 {
            return None;
        }
        let value = slot.1.take()?;
        self.free.push(token as u32);
        Some(value)
    }

    /// How many values are in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Pending wake-ups by time (any monotonic nanosecond clock).
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Timers {
    /// Asks for `token` at `at_ns`.
    pub fn add(&mut self, at_ns: u64, token: u64) {
        self.heap.push(Reverse((at_ns, token)));
    }

    /// The next token that is due.
    pub fn due(&mut self, now_ns: u64) -> Option<u64> {
        let Reverse((at_ns, token)) = *self.heap.peek()?;
        if at_ns > now_ns {
            return None;
        }
        self.heap.pop();
        Some(token)
    }

    /// When the next one is due.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, _))| *at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_token_finds_nobody() {
        let mut slots = Slots::default();
        let first = slots.insert_with(|_| Ok::<_, ()>('a')).unwrap();
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert_with(|_| Ok::<_, ()>('b')).unwrap();
        assert_eq!(first as u32, second as u32, "the place is reused");
        assert_eq!(slots.find(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.find(second), Some(&mut 'b'));
        assert_eq!(slots.len(), 1);
    }

    #[test]
    fn timers_come_in_order() {
        let mut timers = Timers::default();
        timers.add(30, 3);
        timers.add(10, 1);
        assert_eq!(timers.due(5), None);
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.due(30), Some(1));
        assert_eq!(timers.due(30), Some(3));
        assert_eq!(timers.due(u64::MAX), None);
    }
}
