//! The lab's only unsafe code: system calls that neither `std`, `rustix` nor `socket2` wrap.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_signal: libc::c_int) {
    // A second Ctrl-C while cleaning up ends the process the hard way.
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        // SAFETY: _exit is async-signal-safe and takes no pointer.
        unsafe { libc::_exit(130) }
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP only set the flag that [`interrupted`] reads.
pub fn catch_interrupts() {
    let handler = on_signal as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the action is fully initialised (zero is a valid mask and flag set), and the handler only
        // touches an atomic and `_exit`, both async-signal-safe. Without SA_RESTART waits return early.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether a signal asked this process to stop.
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Makes the child die with this process, and puts it into a process group of its own so that a Ctrl-C
/// at the terminal reaches only us and the children are stopped in order.
pub fn bind_child_life(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs between fork and exec and makes two async-signal-safe calls, allocating nothing.
    unsafe {
        command.pre_exec(|| {
            libc::setpgid(0, 0);
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        })
    }
}

/// `IP_BIND_ADDRESS_NO_PORT`: choose the port when connecting.
///
/// # Errors
/// As `setsockopt`.
pub fn bind_address_no_port(socket: &impl AsRawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to a live c_int and the length is its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Closing this socket resets the connection instead of ending it (`SO_LINGER` of zero seconds).
pub fn reset_on_close(socket: &impl AsRawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the pointer is to a live linger struct and the length is its size. A failure changes nothing.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

/// A flag of a network card that ethtool's ioctl reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardFlag {
    /// Generic receive offload.
    Gro,
    /// Large receive offload.
    Lro,
}

/// Whether a card's flag is on (`SIOCETHTOOL`, no right needed).
///
/// # Errors
/// When there is no such card or it knows no such flag.
pub fn card_flag(card: &str, flag: CardFlag) -> io::Result<bool> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // `ETHTOOL_GGRO` gives 0 or 1, `ETHTOOL_GFLAGS` a set of flags: linux/ethtool.h.
    let (command, bit) = match flag {
        CardFlag::Gro => (0x2b, 1),
        CardFlag::Lro => (0x25, 1 << 15),
    };
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    /// `struct ifreq` with the one member of its union that is used, and its room.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        value: *mut Value,
        room: [u8; 16],
    }
    let mut value = Value { command, data: 0 };
    let mut request = Request {
        name: [0; 16],
        value: &raw mut value,
        room: [0; 16],
    };
    if card.len() >= request.name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    request.name[..card.len()].copy_from_slice(card.as_bytes());
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    // SAFETY: the request is live, as large as the kernel's, its name ends with a zero, and it points to a live value of
    // the kind that these two commands write.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result == 0 {
        Ok(value.data & bit != 0)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The layout of `struct perf_event_attr` up to its first published size (64 bytes), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct PerfAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// Bit 1 of the flags word: children made later are counted too.
const PERF_INHERIT: u64 = 1 << 1;

/// Opens a counter of the tracepoint with this id for one thread.
///
/// # Errors
/// When the kernel refuses (no permission, no such tracepoint).
pub fn tracepoint_counter(id: u64, tid: i32) -> io::Result<OwnedFd> {
    let attr = PerfAttr {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<PerfAttr>() as u32,
        config: id,
        flags: PERF_INHERIT,
        ..PerfAttr::default()
    };
    // SAFETY: attr is a live struct whose size field says its length; the other arguments are plain numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            tid,
            -1,
            -1,
            8, /* CLOEXEC */
        )
    };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Moves the calling thread into a network namespace of its own. The thread should end soon after: give it
/// nothing else to do.
///
/// # Errors
/// Without the right to (root, or CAP_SYS_ADMIN).
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: a plain number; a new network namespace changes nothing that memory safety rests on.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Mounts tracefs on `/sys/kernel/tracing` for the calling thread alone (in a mount namespace of its own, that ends
/// with it). Where it is mounted already this only hides it behind the same.
///
/// # Errors
/// Without the right to, or on a kernel without it.
pub fn mount_tracing_privately() -> io::Result<()> {
    let check = |result: libc::c_int| {
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: all pointers are to constant C strings or null, where mount(2) allows null.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        check(libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            private,
            std::ptr::null(),
        ))?;
        check(libc::mount(
            c"none".as_ptr(),
            c"/sys/kernel/tracing".as_ptr(),
            c"tracefs".as_ptr(),
            0,
            std::ptr::null(),
        ))
    }
}
