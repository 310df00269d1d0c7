//! The system calls that no safe crate offers: frames out of an interface, some socket options, datagrams with their time to
//! live, many entries of a BPF map at once.
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

/// Datagrams of this UDP socket come with the time to live (hop limit) they arrived with: see [`receive_with_hops`].
pub fn tell_hops(socket: impl AsFd, v6: bool) -> io::Result<()> {
    match v6 {
        true => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1),
        false => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
    }
}

/// The next datagram, without waiting: its length, its source, and its time to live or hop limit where the kernel tells it.
pub fn receive_with_hops(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, std::net::IpAddr, Option<u8>)> {
    // SAFETY: sockaddr_storage and msghdr are plain data for which all zeros is a valid value.
    let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // Aligned as a cmsghdr must be, with room for more than one.
    let mut control = [0u64; 16];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = std::ptr::from_mut(&mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: everything that the message points to lives through the call, and its lengths are given.
    let length =
        unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut hops = None;
    // SAFETY: the kernel has filled the control buffer and set its length; the macros stay within it.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&message) };
    while !at.is_null() {
        // SAFETY: `at` is a header inside the control buffer; both kinds of message hold an int after it.
        unsafe {
            if matches!(
                ((*at).cmsg_level, (*at).cmsg_type),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)
            ) {
                let value = libc::CMSG_DATA(at).cast::<i32>().read_unaligned();
                hops = u8::try_from(value).ok();
            }
            at = libc::CMSG_NXTHDR(&message, at);
        }
    }
    let source = match libc::c_int::from(from.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family, the storage holds a sockaddr_in.
            let v4: libc::sockaddr_in =
                unsafe { std::ptr::from_ref(&from).cast::<libc::sockaddr_in>().read() };
            std::net::Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into()
        }
        libc::AF_INET6 => {
            // SAFETY: of this family, the storage holds a sockaddr_in6.
            let v6: libc::sockaddr_in6 = unsafe {
                std::ptr::from_ref(&from)
                    .cast::<libc::sockaddr_in6>()
                    .read()
            };
            std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr).into()
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok((length, source, hops))
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

/// The part of `union bpf_attr` that batches use.
#[repr(C)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    elem_flags: u64,
    flags: u64,
}

/// `BPF_MAP_LOOKUP_BATCH` of `enum bpf_cmd`.
const MAP_LOOKUP_BATCH: libc::c_int = 24;

/// Reads the next entries of a hash map, as many as `keys` and `values` have room for (their sizes are the map's). `position` is
/// where the last call ended; None begins. Gives the number of entries and whether they were the last.
pub fn map_entries(
    map: impl AsFd,
    position: &mut Option<[u8; 8]>,
    keys: &mut [u8],
    key_size: usize,
    values: &mut [u8],
    value_size: usize,
) -> io::Result<(usize, bool)> {
    let room = (keys.len() / key_size).min(values.len() / value_size);
    let mut next = [0u8; 8];
    let mut batch = Batch {
        from: position.as_ref().map_or(0, |p| p.as_ptr() as u64),
        to: next.as_mut_ptr() as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: u32::try_from(room).map_err(io::Error::other)?,
        map: map.as_fd().as_raw_fd() as u32,
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: every pointer is to memory that lives through the call; `keys` and `values` have room for `count` entries of the
    // map's sizes, and a hash map's position is four bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            MAP_LOOKUP_BATCH,
            std::ptr::from_mut(&mut batch),
            size_of::<Batch>(),
        )
    };
    let last = if result < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ENOENT) {
            return Err(error);
        }
        true
    } else {
        false
    };
    *position = Some(next);
    Ok(((batch.count as usize).min(room), last))
}
