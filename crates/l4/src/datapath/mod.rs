//! The XDP datapath seen from user space: the structures it shares, its programs and maps, and the table of virtual
//! servers that is kept in them.

pub mod director;
pub mod layout;
pub mod programs;
pub mod ring;

pub use director::{Director, Egress, Server, Service, Vip};
pub use programs::{LoadError, Mode, Programs, Sizes};
