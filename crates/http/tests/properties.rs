//! Properties of the codec against models, on generated input.

mod oracle;

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_http::*;

/// Pieces of heads, good and bad, out of which most interesting inputs can be made.
fn head_piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "GET",
        "POST",
        "CONNECT",
        "HEAD",
        "PRI",
        " ",
        "  ",
        "\t",
        "/",
        "/a?b=c",
        "*",
        "http://a",
        "http://a:80/",
        "a:443",
        "HTTP/1.1",
        "HTTP/1.0",
        "HTTP/0.9",
        "HTTP/2.0",
        "RTSP/1.0",
        "200",
        "204",
        "101",
        "OK",
        "\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "Host: a",
        "Host: a:80",
        "host: b",
        "Content-Length: 3",
        "Content-Length: 3, 3",
        "Content-Length: 003",
        "content-length: +3",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "transfer-encoding: chunked,",
        "Connection: close",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: x",
        "TE: trailers, gzip",
        "Expect: 100-continue",
        "X: a",
        "X:",
        "X :",
        ": v",
        "X:  v  ",
        "\0",
        "\x7f",
        "#",
        "a",
        "3",
        "abc",
    ]);
    prop_oneof![
        8 => known.prop_map(|s| s.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ]
}

fn head_soup() -> impl Strategy<Value = Vec<u8>> {
    vec(head_piece(), 0..24).prop_map(|pieces| pieces.concat())
}

/// A well-formed start line with header lines of any kind, so that most heads get to the end.
fn likely_head(start: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let line = vec(head_piece(), 1..3).prop_map(|p| p.concat());
    (prop::sample::select(start), vec(line, 0..6)).prop_map(|(start, lines)| {
        let mut out = start.as_bytes().to_vec();
        for line in lines {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&line);
        }
        out.extend_from_slice(b"\r\n\r\n");
        out
    })
}

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1",
    "POST /x HTTP/1.0",
    "GET http://a:80/ HTTP/1.1",
    "CONNECT a:443 HTTP/1.1",
];
const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK",
    "HTTP/1.0 200",
    "HTTP/1.1 204 No",
    "HTTP/1.1 101 Up",
];

fn chunk_piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "0",
        "1",
        "3",
        "a",
        "10",
        "\r\n",
        "\r\n",
        "\r\n",
        "\r",
        "\n",
        "abc",
        ";",
        ";x=y",
        " ",
        "\t",
        "x",
        "0\r\n\r\n",
        "3\r\nabc\r\n",
        "T: v",
        "Content-Length: 1",
        "transfer-encodinG:",
        ":",
        "fffffffffffff",
        "0000",
    ]);
    prop_oneof![
        8 => known.prop_map(|s| s.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
        1 => (prop::sample::select(vec!["0", " ", "x", ";"]), 4000usize..4200).prop_map(|(s, n)| s.repeat(n).into_bytes()),
    ]
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    vec(0usize..300, 0..4)
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9-]{0,12}"
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![8 => 0x20u8..0x7f, 1 => Just(b'\t'), 1 => 0x80u8..],
        0..40,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_read_alike_in_one_piece_or_many(input in prop_oneof![head_soup(), likely_head(REQUESTS)], cuts in cuts()) {
        oracle::check_request(&input, &cuts);
    }

    #[test]
    fn responses_are_read_alike_in_one_piece_or_many(input in prop_oneof![head_soup(), likely_head(RESPONSES)], cuts in cuts()) {
        oracle::check_response(&input, &cuts);
    }

    #[test]
    fn chunks_are_read_as_the_model_reads_them(pieces in vec(chunk_piece(), 0..16), cuts in cuts()) {
        oracle::check_chunked(&pieces.concat(), &cuts);
    }

    #[test]
    fn payload_survives_chunking(pieces in vec(vec(any::<u8>(), 0..300), 0..8), cuts in cuts()) {
        let mut wire = Vec::new();
        for piece in &pieces {
            encode_chunk(piece, &mut wire);
        }
        wire.extend_from_slice(LAST_CHUNK);
        let trailers = b"\r\n".to_vec();
        prop_assert_eq!(oracle::read_chunked(&wire, &cuts), Ok((wire.len(), true, pieces.concat(), trailers)));
    }

    #[test]
    fn headers_survive_writing_and_reading(fields in vec((name(), value()), 0..20)) {
        let mut request = Request::with_line("GET", "/");
        for (name, value) in &fields {
            request.headers.add(name, value);
        }
        let mut wire = Vec::new();
        request.write_to(&mut wire);
        let mut read = Headers::new();
        // Read as plain lines: names drawn here may be ones the codec acts upon.
        parse_trailers(&wire[b"GET / HTTP/1.1\r\n".len()..], &mut read);
        prop_assert_eq!(request.headers.iter().collect::<Vec<_>>(), read.iter().collect::<Vec<_>>());
        prop_assert_eq!(request.headers.wire_len() + 18, wire.len());
    }

    #[test]
    fn headers_behave_as_a_list(edits in vec((0u8..7, "[ab]{1,2}", "[a-z ]{0,6}"), 0..40)) {
        let mut headers = Headers::new();
        let mut model: Vec<(String, String)> = Vec::new();
        for (edit, name, value) in edits {
            let value = value.trim().to_owned();
            let same = |known: &str| known.eq_ignore_ascii_case(&name);
            match edit {
                0 | 1 => {
                    headers.add(&name, &value);
                    model.push((name, value));
                }
                2 => {
                    headers.push_front(&name, &value);
                    model.insert(0, (name, value));
                }
                3 => {
                    headers.set(&name, &value);
                    model.retain(|(n, _)| !same(n));
                    model.push((name, value));
                }
                4 => {
                    let before = model.len();
                    model.retain(|(n, _)| !same(n));
                    prop_assert_eq!(headers.remove(&name), before - model.len());
                }
                5 => {
                    let slot = headers.first_slot(&name);
                    let place = model.iter_mut().find(|(n, _)| same(n));
                    prop_assert_eq!(slot.is_some(), place.is_some());
                    if let (Some(slot), Some(place)) = (slot, place) {
                        prop_assert!(headers.replace_value(slot, &value));
                        place.1 = value;
                    }
                }
                _ => {
                    let last = headers.iter_slots().last().map(|(slot, ..)| slot);
                    prop_assert_eq!(last.is_some_and(|slot| headers.remove_slot(slot)), model.pop().is_some());
                }
            }
            let expected: Vec<(&[u8], &[u8])> = model.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
            prop_assert_eq!(headers.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(headers.len(), model.len());
            let mut wire = Vec::new();
            headers.write_to(&mut wire);
            let text: String = model.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
            prop_assert_eq!(String::from_utf8(wire).unwrap(), text);
        }
    }
}
