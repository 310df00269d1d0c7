//! The sizes and the series of the sweep.

/// The twenty sizes from 64 bytes to 100 MB.
pub(super) const SIZES: [u64; 20] = [
    64,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    5 << 20,
    10 << 20,
    20 << 20,
    50 << 20,
    100 << 20,
];
/// The nineteen of the splice series, to 10 MB.
pub(super) const SPLICE_SIZES: [u64; 19] = [
    64,
    128,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    10 << 20,
];
pub(super) const SHORT_SIZES: [u64; 6] = [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 10 << 20];
/// One series.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Name on the command line and of the pictures.
    pub name: &'static str,
    /// What is special about it.
    pub title: &'static str,
    pub(super) buffer_bytes: u64,
    pub(super) workers: usize,
    pub(super) splice: bool,
    /// MTU on the client's and the origin's side.
    pub(super) mtu: (u32, u32),
}

pub(super) const BASE: Variant = Variant {
    name: "",
    title: "",
    buffer_bytes: 16 << 10,
    workers: 1,
    splice: false,
    mtu: (1500, 1500),
};

/// All series; the first two make up the short form.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "buffers-16k",
        title: "buffers of 16 kB, one worker",
        ..BASE
    },
    Variant {
        name: "splice",
        title: "splice, one worker",
        splice: true,
        ..BASE
    },
    Variant {
        name: "buffers-8k",
        title: "buffers of 8 kB",
        buffer_bytes: 8 << 10,
        ..BASE
    },
    Variant {
        name: "buffers-63k",
        title: "buffers of 63 kB",
        buffer_bytes: 63 << 10,
        ..BASE
    },
    Variant {
        name: "workers-2",
        title: "two workers",
        workers: 2,
        ..BASE
    },
    Variant {
        name: "mtu-9000-1500",
        title: "MTU 9000 at the client, 1500 at the origin",
        mtu: (9000, 1500),
        ..BASE
    },
    Variant {
        name: "mtu-1500-9000",
        title: "MTU 1500 at the client, 9000 at the origin",
        mtu: (1500, 9000),
        ..BASE
    },
    Variant {
        name: "mtu-9000",
        title: "MTU 9000 on both sides",
        mtu: (9000, 9000),
        ..BASE
    },
    Variant {
        name: "splice-9000",
        title: "splice, MTU 9000 on both sides",
        splice: true,
        mtu: (9000, 9000),
        ..BASE
    },
];
