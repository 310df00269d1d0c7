//! "Did you mean": the known name nearest to one that is not known.

/// The name among `known` that differs least from `word`, if it differs little: a third of its letters at most. A
/// swap of two neighbours counts as one change.
pub(crate) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.len() / 3).clamp(1, 3);
    known
        .map(|name| (distance(word, name, limit), name))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, name)| (*d, name.len()))
        .map(|(_, name)| name)
}

/// The optimal string alignment distance, in ASCII case folded bytes; beyond `limit` it may be any larger number.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > limit {
        return usize::MAX;
    }
    let same = |x: u8, y: u8| x.eq_ignore_ascii_case(&y);
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(!same(x, y)))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && same(x, b[j - 1]) && same(a[i - 1], y) {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_found_when_it_is_near() {
        let known = ["hdr", "hdr_cnt", "path", "pathq", "src"];
        let check = |word: &str, want: Option<&str>| {
            assert_eq!(nearest(word, known.into_iter()), want, "{word}")
        };
        check("hdrr", Some("hdr"));
        check("hrd", Some("hdr"));
        check("HDR", Some("hdr"));
        check("paht", Some("path"));
        check("hdr_cmt", Some("hdr_cnt"));
        check("cookie", None);
        check("", None);
    }
}
