//! What a host hears on a wire, with the time it heard it: adverts and gratuitous ARPs.

// each test program uses a part of it
#![allow(dead_code)]

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socket_with};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Hosts are named by the last byte of their address.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Advert {
        host: u8,
        priority: u8,
    },
    /// A gratuitous ARP: from this MAC, for the address that ends in this byte.
    Announced {
        mac: [u8; 6],
        address: u8,
    },
}

pub struct Wire {
    seen: Receiver<(Instant, Seen)>,
}

impl Wire {
    /// Listens inside a namespace until it is dropped.
    pub fn open(namespace: &str) -> Wire {
        let (sender, seen) = channel();
        let file =
            std::fs::File::open(format!("/run/netns/{namespace}")).expect("the namespace is there");
        std::thread::spawn(move || {
            rustix::thread::move_into_link_name_space(
                file.as_fd(),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )
            .expect("root may enter it");
            // What is heard is timed here.
            let _ = sluice_l4::sys::set_realtime(30);
            // ETH_P_ALL, in network order.
            let all = rustix::net::Protocol::from_raw(
                std::num::NonZeroU32::new(u32::from(3u16.to_be())).expect("not 0"),
            );
            let socket: OwnedFd = socket_with(
                AddressFamily::PACKET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(all),
            )
            .expect("root may listen");
            rustix::net::sockopt::set_socket_timeout(
                &socket,
                rustix::net::sockopt::Timeout::Recv,
                Some(Duration::from_millis(200)),
            )
            .expect("a timeout can be set");
            let mut buffer = [0u8; 2048];
            loop {
                let Ok((length, _)) =
                    rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())
                else {
                    // Nothing for a while: does anybody still want to know?
                    if sender
                        .send((
                            Instant::now(),
                            Seen::Advert {
                                host: 0,
                                priority: 0,
                            },
                        ))
                        .is_err()
                    {
                        return;
                    }
                    continue;
                };
                let now = Instant::now();
                let Some(seen) = read(&buffer[..length]) else {
                    continue;
                };
                if sender.send((now, seen)).is_err() {
                    return;
                }
            }
        });
        Wire { seen }
    }

    /// The time at which something that fits was seen; None if it was not within the limit.
    pub fn wait(&self, limit: Duration, fits: impl Fn(&Seen) -> bool) -> Option<Instant> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (at, seen) = self.seen.recv_timeout(left).ok()?;
            if fits(&seen) {
                return Some(at);
            }
        }
    }
}

fn read(frame: &[u8]) -> Option<Seen> {
    match frame.get(12..14)? {
        [8, 0] => {
            let header = usize::from(frame.get(14)? & 15) * 4;
            if *frame.get(23)? != 112 {
                return None;
            }
            Some(Seen::Advert {
                host: *frame.get(29)?,
                priority: *frame.get(14 + header + 2)?,
            })
        }
        [8, 6] => {
            let (sender, target) = (frame.get(28..32)?, frame.get(38..42)?);
            (sender == target).then_some(Seen::Announced {
                mac: frame.get(6..12)?.try_into().ok()?,
                address: sender[3],
            })
        }
        _ => None,
    }
}
