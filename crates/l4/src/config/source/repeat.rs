//! `~SEQ(...)` and `~LST(...)`: one line becomes many.

use super::{LINES_MAX, words::is_name};

pub(super) type Rounds = Vec<Vec<(String, String)>>;

/// Cuts `~SEQ(...) rest` into the rounds of values and the rest.
pub(super) fn repetition(text: &str) -> Option<(Rounds, &str)> {
    let (kind, tail) = if let Some(t) = text.strip_prefix("~SEQx") {
        ('x', t)
    } else if let Some(t) = text.strip_prefix("~SEQ") {
        ('d', t)
    } else {
        ('l', text.strip_prefix("~LST")?)
    };
    let (inside, rest) = tail.trim_start().strip_prefix('(')?.split_once(')')?;
    if kind == 'l' {
        return Some((list_rounds(inside)?, rest.trim_start()));
    }
    let fields: Vec<&str> = inside.split(',').map(str::trim).collect();
    let (name, numbers) = fields.split_first()?;
    let numbers: Vec<i64> = numbers.iter().map(|n| number(n)).collect::<Option<_>>()?;
    let (start, step, end) = match numbers.as_slice() {
        [end] => (
            if *end < 0 { -1 } else { 1 },
            if *end < 0 { -1 } else { 1 },
            *end,
        ),
        [start, end] => (*start, if end < start { -1 } else { 1 }, *end),
        [start, step, end] => (*start, *step, *end),
        _ => return None,
    };
    if step == 0 || !is_name(name) {
        return None;
    }
    let mut rounds = Vec::new();
    let mut value = start;
    while (step > 0 && value <= end) || (step < 0 && value >= end) {
        if rounds.len() >= LINES_MAX {
            return None;
        }
        let shown = match kind {
            'x' => format!("{value:x}"),
            _ => value.to_string(),
        };
        rounds.push(vec![(name.to_string(), shown)]);
        value = value.checked_add(step)?;
    }
    Some((rounds, rest.trim_start()))
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `VAR, a, b` or `{V1, V2}, {a, b}, {c, d}`.
fn list_rounds(inside: &str) -> Option<Rounds> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut rest = inside.trim();
    while !rest.is_empty() {
        let (group, after) = match rest.strip_prefix('{') {
            Some(inner) => {
                let (group, after) = inner.split_once('}')?;
                (
                    group.split(',').map(|s| s.trim().to_string()).collect(),
                    after,
                )
            }
            None => {
                let (one, after) = rest.split_once(',').unwrap_or((rest, ""));
                let after = if after.is_empty() { "" } else { after };
                (vec![one.trim().to_string()], after)
            }
        };
        groups.push(group);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    let (names, values) = groups.split_first()?;
    values
        .iter()
        .map(|v| {
            (v.len() == names.len()).then(|| names.iter().cloned().zip(v.iter().cloned()).collect())
        })
        .collect()
}
