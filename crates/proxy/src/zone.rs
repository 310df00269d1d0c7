//! The local time zone, looked up once an hour and thread: logs ask for it on every line.

use std::cell::Cell;

/// Zone rules change on the hour at the earliest (on the quarter in a few places).
const VALID_SEC: i64 = 900;

thread_local! {
    static LAST: Cell<(i64, i32, &'static str)> = const { Cell::new((i64::MIN, 0, "UTC")) };
}

/// Seconds east of UTC and the abbreviation at a moment.
pub fn at(sec: i64) -> (i32, &'static str) {
    let slot = sec.div_euclid(VALID_SEC);
    let (known, offset, name) = LAST.get();
    if known == slot {
        return (offset, name);
    }
    let (offset, name) = crate::sys::local_zone(sec);
    let name = intern(name);
    LAST.set((slot, offset, name));
    (offset, name)
}

/// Zone names are few and live as long as the process.
fn intern(name: String) -> &'static str {
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.iter().find(|n| **n == name) {
        Some(n) => n,
        None => {
            let n: &'static str = name.leak();
            names.push(n);
            n
        }
    }
}
