//! Room in the `rings` map: ranges handed out first fit and given back one generation late, so that a packet that read
//! the old range just before a swap still finds it whole.

/// Ranges of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: u32,
    pub length: u32,
}

#[derive(Debug)]
pub struct Rings {
    free: Vec<Range>,
    /// Given back since the last [`Rings::settle`].
    resting: Vec<Range>,
}

impl Rings {
    pub fn new(entries: u32) -> Self {
        Rings {
            free: vec![Range {
                start: 0,
                length: entries,
            }],
            resting: Vec::new(),
        }
    }

    /// A range of `length`, or none if no room is left.
    pub fn take(&mut self, length: u32) -> Option<Range> {
        if length == 0 {
            return Some(Range {
                start: 0,
                length: 0,
            });
        }
        let at = self.free.iter().position(|r| r.length >= length)?;
        let range = &mut self.free[at];
        let taken = Range {
            start: range.start,
            length,
        };
        range.start += length;
        range.length -= length;
        if range.length == 0 {
            self.free.remove(at);
        }
        Some(taken)
    }

    pub fn give_back(&mut self, range: Range) {
        if range.length > 0 {
            self.resting.push(range);
        }
    }

    /// Makes what was given back before the last round of changes free again.
    pub fn settle(&mut self) {
        self.free.append(&mut self.resting);
        self.free.sort_by_key(|r| r.start);
        let mut merged: Vec<Range> = Vec::with_capacity(self.free.len());
        for range in self.free.drain(..) {
            match merged.last_mut() {
                Some(last) if last.start + last.length == range.start => {
                    last.length += range.length
                }
                _ => merged.push(range),
            }
        }
        self.free = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_rests_first() {
        let mut r = Rings::new(10);
        let a = r.take(6).unwrap();
        r.give_back(a);
        assert_eq!(r.take(6), None);
        r.settle();
        assert_eq!(
            r.take(10),
            Some(Range {
                start: 0,
                length: 10
            })
        );
    }

    proptest! {
        #[test]
        fn ranges_never_overlap(steps in prop::collection::vec((1u32..20, any::<bool>()), 1..60)) {
            let mut rings = Rings::new(200);
            let mut held: Vec<Range> = Vec::new();
            for (length, release) in steps {
                if release && !held.is_empty() {
                    rings.give_back(held.remove(length as usize % held.len()));
                    rings.settle();
                } else if let Some(range) = rings.take(length) {
                    for other in &held {
                        prop_assert!(range.start + range.length <= other.start || other.start + other.length <= range.start);
                    }
                    held.push(range);
                }
            }
            for range in held.drain(..) { rings.give_back(range); }
            rings.settle();
            prop_assert_eq!(rings.take(200), Some(Range { start: 0, length: 200 }));
        }
    }
}
