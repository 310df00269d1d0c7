//! The system calls that no safe crate offers: frames out of an interface, and two socket options.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sends a whole Ethernet frame out of an interface through a packet socket.
pub fn send_frame(socket: impl AsFd, ifindex: u32, frame: &[u8]) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = i32::try_from(ifindex).map_err(io::Error::other)?;
    address.sll_halen = 6;
    // SAFETY: the frame and the address live through the call and their lengths are given.
    let sent = unsafe {
        libc::sendto(
            socket.as_fd().as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Lets only packets in whose hop limit is at least `minimum` (RFC 5082).
pub fn set_hop_limit_min(socket: impl AsFd, minimum: i32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, minimum)
}

fn set_option(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the value lives through the call and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            size_of::<i32>() as u32,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Gives the calling thread a real-time priority (SCHED_RR, 1 to 99).
pub fn set_realtime(priority: u8) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    // SAFETY: the parameter lives through the call; 0 means the calling thread.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &param) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
