//! The control packet, RFC 5880 section 4.1: 24 bytes without authentication.

/// Length of a packet without authentication.
pub const LENGTH: usize = 24;

/// Section 6.2. The numbers are those of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    AdminDown = 0,
    Down = 1,
    Init = 2,
    Up = 3,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::AdminDown => "AdminDown",
            State::Down => "Down",
            State::Init => "Init",
            State::Up => "Up",
        }
    }
}

/// Why a session went down last: those of section 4.1 that can come up here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Diagnostic {
    None = 0,
    /// Nothing was heard for the detection time.
    TimeExpired = 1,
    /// The neighbour said so.
    NeighbourDown = 3,
    AdminDown = 7,
}

/// A control packet; intervals are microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub diagnostic: u8,
    pub state: State,
    pub poll: bool,
    pub last: bool,
    pub demand: bool,
    pub multiplier: u8,
    pub mine: u32,
    pub yours: u32,
    pub desired_tx_us: u32,
    pub required_rx_us: u32,
}

/// Why bytes are no packet to be heard; each is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    #[error("length")]
    Length,
    #[error("version")]
    Version,
    #[error("multiplier")]
    Multiplier,
    #[error("multipoint")]
    Multipoint,
    #[error("discriminator")]
    Discriminator,
    #[error("authentication")]
    Authentication,
}

const VERSION: u8 = 1;
const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

impl Packet {
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut b = [0; LENGTH];
        b[0] = VERSION << 5 | self.diagnostic & 0x1f;
        b[1] = (self.state as u8) << 6
            | if self.poll { POLL } else { 0 }
            | if self.last { FINAL } else { 0 }
            | if self.demand { DEMAND } else { 0 };
        b[2] = self.multiplier;
        b[3] = LENGTH as u8;
        b[4..8].copy_from_slice(&self.mine.to_be_bytes());
        b[8..12].copy_from_slice(&self.yours.to_be_bytes());
        b[12..16].copy_from_slice(&self.desired_tx_us.to_be_bytes());
        b[16..20].copy_from_slice(&self.required_rx_us.to_be_bytes());
        // Echo packets are not looped back: 0.
        b
    }

    /// The rules of section 6.8.6 that need no session.
    pub fn decode(bytes: &[u8]) -> Result<Packet, Malformed> {
        let b: &[u8; LENGTH] = bytes.first_chunk().ok_or(Malformed::Length)?;
        if b[0] >> 5 != VERSION {
            return Err(Malformed::Version);
        }
        let length = usize::from(b[3]);
        if length < LENGTH || length > bytes.len() {
            return Err(Malformed::Length);
        }
        if b[2] == 0 {
            return Err(Malformed::Multiplier);
        }
        if b[1] & MULTIPOINT != 0 {
            return Err(Malformed::Multipoint);
        }
        if b[1] & AUTHENTICATED != 0 {
            return Err(Malformed::Authentication);
        }
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let state = match b[1] >> 6 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        };
        let packet = Packet {
            diagnostic: b[0] & 0x1f,
            state,
            poll: b[1] & POLL != 0,
            last: b[1] & FINAL != 0,
            demand: b[1] & DEMAND != 0,
            multiplier: b[2],
            mine: word(4),
            yours: word(8),
            desired_tx_us: word(12),
            required_rx_us: word(16),
        };
        let knows_us = packet.yours != 0 || matches!(state, State::Down | State::AdminDown);
        if packet.mine == 0 || !knows_us {
            return Err(Malformed::Discriminator);
        }
        Ok(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet() -> Packet {
        Packet {
            diagnostic: 3,
            state: State::Up,
            poll: true,
            last: false,
            demand: false,
            multiplier: 3,
            mine: 0x9b3a_54b2,
            yours: 0x0ac6_7888,
            desired_tx_us: 100_000,
            required_rx_us: 50_000,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = packet().encode();
        assert_eq!(bytes[..4], [0x23, 0xe0, 3, 24]);
        assert_eq!(Packet::decode(&bytes), Ok(packet()));
    }

    #[test]
    fn what_the_rfc_discards_is_told() {
        let check = |change: &dyn Fn(&mut [u8; LENGTH]), expect| {
            let mut bytes = packet().encode();
            change(&mut bytes);
            assert_eq!(Packet::decode(&bytes), Err(expect));
        };
        check(&|b| b[0] = 0x40, Malformed::Version);
        check(&|b| b[3] = 23, Malformed::Length);
        check(&|b| b[3] = 25, Malformed::Length);
        check(&|b| b[2] = 0, Malformed::Multiplier);
        check(&|b| b[1] |= 1, Malformed::Multipoint);
        check(&|b| b[1] |= 4, Malformed::Authentication);
        check(&|b| b[4..8].fill(0), Malformed::Discriminator);
        check(&|b| b[8..12].fill(0), Malformed::Discriminator);
        assert_eq!(Packet::decode(&[0x20; 23]), Err(Malformed::Length));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(packet) = Packet::decode(&bytes) {
                prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
            }
        }
    }
}
