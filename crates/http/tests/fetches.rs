//! Lists, cookies and parts of targets against what HAProxy 2.6 fetches (`haproxy/lists.txt`,
//! `haproxy/targets.txt`, recorded with `http-request return`).

use sluice_http::*;

fn unescape(text: &str) -> Vec<u8> {
    text.replace("\\t", "\t")
        .replace("\\p", "|")
        .replace("\\\\", "\\")
        .into_bytes()
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
}

fn show(value: Option<&[u8]>) -> String {
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// Number of cookies called `name`, and the value of the last: what `req.cook` gives outside of ACLs.
fn cookie(value: &[u8], name: &[u8]) -> [String; 2] {
    let all: Vec<&[u8]> = cookies_of(value, name.len())
        .filter(|(n, _)| *n == name)
        .map(|(_, v)| v)
        .collect();
    [all.len().to_string(), show(all.last().copied())]
}

#[test]
fn items_and_cookies_are_those_of_haproxy() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("haproxy/lists.txt")) {
        let [lines, cookie_value, expected] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let mut headers = Headers::new();
        for line in lines.split('~') {
            headers.add("X", unescape(line));
        }
        let cookie_value = unescape(cookie_value);
        let mut ours = vec![
            headers.values(b"x").count().to_string(),
            headers.count("x").to_string(),
        ];
        for occurrence in [1, 2, 3, -1, -2] {
            ours.push(show(headers.nth_value(b"x", occurrence)));
        }
        ours.extend([1, -1].map(|n| show(headers.nth_line(b"x", n))));
        ours.extend(cookie(&cookie_value, b"a"));
        ours.extend(cookie(&cookie_value, b"b"));
        let expected = String::from_utf8(unescape(expected)).unwrap();
        if ours.join("~") != expected {
            wrong.push(format!("{row}\n    ours {}", ours.join("~")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn parts_of_targets_are_those_of_haproxy() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("haproxy/targets.txt")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [target, path, query, path_and_query, ..] = cells[..] else {
            continue;
        };
        let request = Request::with_line("GET", target);
        let ours = [
            show(request.path()),
            show(Some(request.query())),
            show(request.path_and_query()),
        ];
        // The authority ends at `?` and `#` too (RFC 3986 section 3.2); HAProxy waits for a slash. Such
        // targets come through only with accept-invalid-http-request.
        let after_scheme = target.split_once("://").map_or("/", |(_, after)| after);
        let odd_end = after_scheme
            .split('/')
            .next()
            .unwrap_or_default()
            .contains(['?', '#']);
        if ours != [path, query, path_and_query] && !odd_end {
            wrong.push(format!("{row}\n    ours {}", ours.join(" | ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
