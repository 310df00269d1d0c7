//! VRRP: packets, and the state machine of one virtual router. No I/O, no clock.

pub mod machine;
pub mod packet;
pub mod track;
