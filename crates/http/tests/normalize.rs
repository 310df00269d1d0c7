//! The URI normalizers against HAProxy 2.6 on recorded targets (`haproxy/normalize.txt`).

use sluice_http::normalize::*;

fn normalize(name: &str, target: &[u8]) -> Result<Vec<u8>, InvalidEscape> {
    match name {
        "fragment-encode" => Ok(fragment_encode(target)),
        "fragment-strip" => Ok(fragment_strip(target)),
        "path-merge-slashes" => Ok(path_merge_slashes(target)),
        "path-strip-dot" => Ok(path_strip_dot(target)),
        "path-strip-dotdot" => Ok(path_strip_dotdot(target, false)),
        "path-strip-dotdot full" => Ok(path_strip_dotdot(target, true)),
        "percent-decode-unreserved" => percent_decode_unreserved(target, false),
        "percent-decode-unreserved strict" => percent_decode_unreserved(target, true),
        "percent-to-uppercase" => percent_to_uppercase(target, false),
        "percent-to-uppercase strict" => percent_to_uppercase(target, true),
        "query-sort-by-name" => Ok(query_sort_by_name(target)),
        other => panic!("unknown normalizer {other}"),
    }
}

#[test]
fn targets_come_out_as_from_haproxy() {
    let mut wrong = Vec::new();
    for row in include_str!("haproxy/normalize.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let [name, target, expected] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let ours = normalize(name, target.as_bytes())
            .map_or("400".into(), |t| String::from_utf8(t).unwrap());
        if ours != expected {
            wrong.push(format!("{name} {target}: haproxy {expected}, ours {ours}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
