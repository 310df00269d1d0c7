//! What trackers make of a priority: keepalived.conf(5), track_interface, track_script, track_file, track_process.

/// One tracked thing's standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// 0: a failure is a fault of the instance.
    pub weight: i32,
    pub reverse: bool,
    pub reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Up,
    Down,
    /// A file's number, multiplied by the weight.
    Value(i64),
}

/// The verdict over all trackers of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub fault: bool,
    pub priority: u8,
}

/// The effective priority. An owner (255) keeps its priority; others stay within 1 to 254.
pub fn verdict(base: u8, standings: &[Standing]) -> Verdict {
    let mut fault = false;
    let mut sum = i64::from(base);
    for s in standings {
        let sign = if s.reverse { -1 } else { 1 };
        match (s.reading, s.weight) {
            (Reading::Up, 0) => fault |= s.reverse,
            (Reading::Down, 0) => fault |= !s.reverse,
            (Reading::Value(v), 0) => fault |= (v != 0) != s.reverse,
            // Positive weights count when up, negative ones when down.
            (Reading::Up, w) if w > 0 => sum += sign * i64::from(w),
            (Reading::Down, w) if w < 0 => sum += sign * i64::from(w),
            (Reading::Value(v), w) => {
                let add = sign * v.saturating_mul(i64::from(w));
                if add < -253 {
                    fault = true;
                }
                sum = sum.saturating_add(add);
            }
            _ => {}
        }
    }
    let priority = if base == 255 {
        255
    } else {
        sum.clamp(1, 254) as u8
    };
    Verdict { fault, priority }
}

/// Consecutive results until a script counts as up or down.
#[derive(Debug, Clone)]
pub struct RiseFall {
    pub rise: u32,
    pub fall: u32,
    up: bool,
    streak: u32,
}

impl RiseFall {
    pub fn new(rise: u32, fall: u32, up: bool) -> Self {
        RiseFall {
            rise: rise.max(1),
            fall: fall.max(1),
            up,
            streak: 0,
        }
    }
    pub fn up(&self) -> bool {
        self.up
    }
    /// Takes a result; true if the standing changed.
    pub fn result(&mut self, success: bool) -> bool {
        if success == self.up {
            self.streak = 0;
            return false;
        }
        self.streak += 1;
        let needed = if self.up { self.fall } else { self.rise };
        if self.streak < needed {
            return false;
        }
        self.up = success;
        self.streak = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: u8, list: &[(i32, bool, Reading)], expect: (bool, u8)) {
        let standings: Vec<Standing> = list
            .iter()
            .map(|&(weight, reverse, reading)| Standing {
                weight,
                reverse,
                reading,
            })
            .collect();
        let v = verdict(base, &standings);
        assert_eq!((v.fault, v.priority), expect, "{list:?}");
    }

    #[test]
    fn weights_move_the_priority() {
        check(100, &[(10, false, Reading::Up)], (false, 110));
        check(100, &[(10, false, Reading::Down)], (false, 100));
        check(100, &[(-10, false, Reading::Down)], (false, 90));
        check(100, &[(-10, false, Reading::Up)], (false, 100));
        check(100, &[(10, true, Reading::Up)], (false, 90));
        check(100, &[(253, false, Reading::Up)], (false, 254));
        check(100, &[(-253, false, Reading::Down)], (false, 1));
        check(255, &[(-50, false, Reading::Down)], (false, 255));
    }

    #[test]
    fn no_weight_means_fault() {
        check(100, &[(0, false, Reading::Down)], (true, 100));
        check(100, &[(0, false, Reading::Up)], (false, 100));
        check(100, &[(0, true, Reading::Up)], (true, 100));
    }

    #[test]
    fn a_file_s_number_is_multiplied() {
        check(100, &[(2, false, Reading::Value(-20))], (false, 60));
        check(100, &[(1, false, Reading::Value(-254))], (true, 1));
        check(100, &[(0, false, Reading::Value(1))], (true, 100));
    }

    #[test]
    fn rise_and_fall_count_in_a_row() {
        let mut r = RiseFall::new(2, 3, true);
        let run: Vec<bool> = [false, false, true, false, false, false, true, true]
            .iter()
            .map(|s| {
                r.result(*s);
                r.up()
            })
            .collect();
        assert_eq!(run, [true, true, true, true, true, false, false, true]);
    }
}
