//! The codec against what HAProxy 2.6 does with the same bytes.
//!
//! `haproxy/requests.txt` and `responses.txt` hold raw messages and the outcome `haproxy/record.py`
//! saw with the real binary. Here each is parsed and written again, and must come to the same, but
//! for the rows listed below with their reasons. A row that stopped differing fails too.
//!
//! Compared is the head without `Connection` (the proxy's business) with names in lower case
//! (HAProxy lowers them, we keep them), and the payload without its framing (HAProxy makes new
//! chunks, we pass them on).

use sluice_http::*;

/// Where we differ on purpose: row and what we do, all rows of one reason together.
const REQUEST_DIFFERENCES: &[(&str, &[(&str, &str)])] = &[
    (
        "RFC 9110 section 5.5: a NUL is dangerous to whoever reads it as the end of a string",
        &[
            ("value nul", "400"),
            ("relaxed value nul", "400"),
            ("relaxed name nul", "400"),
        ],
    ),
    (
        "blanks and controls in a name hide the header from the next parser, even when it is relaxed",
        &[
            ("relaxed space colon", "400"),
            ("relaxed space name", "400"),
            ("relaxed name ctl", "400"),
            ("relaxed fold first", "400"),
        ],
    ),
    (
        "RFC 9110 section 4.2.1: an empty authority is invalid; one with a path in it names no host",
        &[("abs empty auth", "400"), ("GET foo/bar host foo", "400")],
    ),
    (
        "a length or a coding goes on in its plain form, whatever form it came in",
        &[
            (
                "cl 003",
                "POST / HTTP/1.1\\r\\nhost: a\\r\\ncontent-length: 3\\r\\n\\r\\nabc",
            ),
            (
                "cl list 3 03",
                "POST / HTTP/1.1\\r\\nhost: a\\r\\ncontent-length: 3\\r\\n\\r\\nabc",
            ),
            ("te chunked comma", PLAIN_CHUNKED),
        ],
    ),
    ("a length beyond 64 bits is none", &[("cl huge", "400")]),
    (
        "a coding that CONNECT cannot have is dropped like the length",
        &[(
            "connect te",
            "CONNECT a:443 HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n",
        )],
    ),
    (
        "RFC 9112 section 6.1: chunks in HTTP/1.0 are read otherwise by others, so they go on as 1.1",
        &[
            ("te 1.0", PLAIN_CHUNKED),
            ("te cl 1.0", PLAIN_CHUNKED),
            ("te 1.0 keepalive", PLAIN_CHUNKED),
        ],
    ),
    (
        "chunk framing is passed on, not made anew, so it has to be strict: CRLF, no controls",
        &[
            ("ck ext lf", "400"),
            ("ck ext nul", "400"),
            ("ck ext del", "400"),
            ("ck lf", "400"),
            ("ck lf size", "400"),
            ("ck lf data", "400"),
            ("ck end bare", "400"),
        ],
    ),
    (
        "trailers are passed on too: well formed, and none that would frame a message",
        &[
            ("ck trailer lf", "400"),
            ("ck trailer fold", "400"),
            ("ck trailer nul", "400"),
            ("ck trailer cl", "400"),
        ],
    ),
    (
        "the limit is on the head's bytes; HAProxy's is on its internal form, about 100 bytes and 8 a \
         header dearer",
        &[
            ("head 15360", LARGE),
            ("head 15300", LARGE),
            ("100 lines 3", LARGE),
        ],
    ),
];
const RESPONSE_DIFFERENCES: &[(&str, &[(&str, &str)])] = &[
    (
        "RFC 9112 section 4: a status code has three digits, and RFC 9110 section 15 starts them at 100",
        &[
            ("code 2", "502"),
            ("code 4", "502"),
            ("code 099", "502"),
            ("code 000", "502"),
        ],
    ),
    (
        "RFC 9110 section 5.5: NUL",
        &[
            ("nul", "502"),
            ("reason nul", "502"),
            ("relaxed nul", "502"),
            ("relaxed reason nul", "502"),
        ],
    ),
    (
        "blanks in a name",
        &[
            ("relaxed space colon", "502"),
            ("relaxed space name", "502"),
        ],
    ),
    (
        "codings other than one plain `chunked`",
        &[
            (
                "te chunked comma",
                "HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nabc",
            ),
            ("te empty", "502"),
        ],
    ),
    (
        "RFC 9112 section 6.1: chunks go on as HTTP/1.1",
        &[
            (
                "te 1.0",
                "HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nabc",
            ),
            (
                "te cl 1.0",
                "HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nabc",
            ),
        ],
    ),
    (
        "whether an upgrade was asked for is known to the caller, who refuses this 101",
        &[
            (
                "101 no upgrade",
                "HTTP/1.1 101 Switching\\r\\nupgrade: foo\\r\\n\\r\\nraw",
            ),
            (
                "101 cl",
                "HTTP/1.1 101 Switching\\r\\nupgrade: foo\\r\\n\\r\\nraw",
            ),
        ],
    ),
    ("chunk framing is strict", &[("ck lf", "502")]),
];

const PLAIN_CHUNKED: &str =
    "POST / HTTP/1.1\\r\\nhost: a\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nabc";

/// Stands for a message that is accepted and too long to be written here.
const LARGE: &str = "accepted";

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => {
                i += 1;
                out.push(match bytes[i] {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'0' => 0,
                    b'p' => b'|',
                    b'x' => {
                        i += 2;
                        u8::from_str_radix(&text[i - 1..=i], 16).unwrap()
                    }
                    other => other,
                });
            }
            b'<' if bytes[i..].starts_with(b"<<") => {
                let (count, rest) = text[i + 2..].split_once('*').unwrap();
                let (piece, _) = rest.split_once(">>").unwrap();
                out.extend(unescape(piece).repeat(count.parse().unwrap()));
                i += 2 + count.len() + 1 + piece.len() + 1;
            }
            byte => out.push(byte),
        }
        i += 1;
    }
    out
}

fn escape(data: &[u8]) -> String {
    data.escape_ascii()
        .to_string()
        .replace("\\\"", "\"")
        .replace("\\'", "'")
        .replace("\\x00", "\\0")
}

/// Head in comparable form, then payload.
fn comparable(head: &[u8], payload: &[u8]) -> String {
    let text = escape(head);
    let mut lines = text.split("\\r\\n");
    let mut out = lines.next().unwrap_or_default().to_owned();
    let mut fields: Vec<String> = Vec::new();
    for line in lines.filter(|l| !l.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if !name.eq_ignore_ascii_case("connection") {
            fields.push(format!("{}:{value}", name.to_lowercase()));
        }
    }
    // A length rewritten to its plain form goes to the end; the order of the others is kept.
    fields.sort_by_key(|f| f.starts_with("content-length") || f.starts_with("transfer-encoding"));
    for field in fields {
        out += "\\r\\n";
        out += &field;
    }
    format!("{out}\\r\\n\\r\\n{}", escape(payload))
}

fn payload_of(framing: Framing, rest: &[u8]) -> Result<Vec<u8>, BodyError> {
    let mut payload = Vec::new();
    if framing.has_body() {
        BodyDecoder::new(framing).decode(rest, &mut |d| payload.extend_from_slice(d))?;
    }
    Ok(payload)
}

fn our_request(input: &[u8], limits: &Limits) -> String {
    let mut out = Request::new();
    match parse_request(input, &mut HeadScan::new(), limits, &mut out) {
        Ok(Parsed::Partial) => "partial".into(),
        Err(fault) => fault.status().to_string(),
        Ok(Parsed::Complete { consumed }) => {
            let mut head = Vec::new();
            out.write_to(&mut head);
            // What follows the head of a CONNECT goes to the server only after its answer.
            let framing = if out.framing == Framing::Tunnel {
                Framing::None
            } else {
                out.framing
            };
            match payload_of(framing, &input[consumed..]) {
                Ok(_) if consumed > 15_000 => LARGE.into(),
                Ok(payload) => comparable(&head, &payload),
                Err(_) => "400".into(),
            }
        }
    }
}

/// All messages in `input`, interim ones first, or "502".
fn read_responses(input: &[u8], limits: &Limits, method: Method) -> String {
    let mut text = String::new();
    let mut rest = input;
    loop {
        let mut out = Response::new();
        match parse_response(rest, &mut HeadScan::new(), limits, method, &mut out) {
            Ok(Parsed::Partial) => return "partial".into(),
            Err(_) => return "502".into(),
            Ok(Parsed::Complete { consumed }) => {
                let mut head = Vec::new();
                out.write_to(&mut head);
                rest = &rest[consumed..];
                if out.is_interim() {
                    text += &comparable(&head, b"");
                    continue;
                }
                return match payload_of(out.framing, rest) {
                    Ok(payload) => text + &comparable(&head, &payload),
                    Err(_) => "502".into(),
                };
            }
        }
    }
}

/// What HAProxy wrote, in the same form: as our parser reads it, or the raw head when it refuses.
fn their_message(outcome: &str, is_request: bool, method: Method) -> String {
    let bytes = unescape(outcome);
    let limits = Limits {
        accept_invalid: true,
        ..Limits::default()
    };
    let split = bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map_or(bytes.len(), |n| n + 4);
    let (head, rest) = bytes.split_at(split);
    if !is_request {
        let read = read_responses(&bytes, &limits, method);
        return if bytes.starts_with(b"HTTP/1.1 1") {
            read
        } else {
            their_response(head, rest, &limits, method)
        };
    }
    let mut out = Request::new();
    let framing = match parse_request(head, &mut HeadScan::new(), &limits, &mut out) {
        Ok(_) if out.framing == Framing::Tunnel => Framing::None,
        Ok(_) if head.len() > 15_000 => return LARGE.into(),
        Ok(_) => out.framing,
        Err(_) => Framing::UntilClose,
    };
    comparable(
        head,
        &payload_of(framing, rest).unwrap_or_else(|_| rest.to_vec()),
    )
}

fn their_response(head: &[u8], rest: &[u8], limits: &Limits, method: Method) -> String {
    let mut out = Response::new();
    let parsed = parse_response(head, &mut HeadScan::new(), limits, method, &mut out);
    let framing = parsed.map_or(Framing::UntilClose, |_| out.framing);
    comparable(
        head,
        &payload_of(framing, rest).unwrap_or_else(|_| rest.to_vec()),
    )
}

fn compare(
    name: &str,
    ours: &str,
    theirs: &str,
    differences: &[(&str, &[(&str, &str)])],
    wrong: &mut Vec<String>,
) {
    let listed = differences
        .iter()
        .flat_map(|(_, rows)| *rows)
        .find(|(row, _)| *row == name);
    match listed {
        None if ours == theirs => {}
        None => wrong.push(format!("{name}\n  haproxy: {theirs:.300}\n  ours:    {ours:.300}")),
        Some((_, expected)) if ours != theirs && ours == *expected => {}
        Some((_, expected)) => {
            wrong.push(format!("{name} (listed)\n  haproxy: {theirs:.300}\n  ours:    {ours:.300}\n  listed:  {expected}"))
        }
    }
}

fn limits_of(name: &str) -> Limits {
    Limits {
        accept_invalid: name.starts_with("relaxed "),
        ..Limits::default()
    }
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.split(" | ").collect())
}

#[test]
fn requests_come_out_as_from_haproxy() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("haproxy/requests.txt")) {
        let [name, input, outcome] = row[..] else {
            panic!("{row:?}")
        };
        let ours = our_request(&unescape(input), &limits_of(name));
        let refused = outcome.len() == 3;
        let theirs = if refused {
            outcome.to_owned()
        } else {
            their_message(outcome, true, Method::Get)
        };
        compare(name, &ours, &theirs, REQUEST_DIFFERENCES, &mut wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} rows\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn responses_come_out_as_from_haproxy() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("haproxy/responses.txt")) {
        let [name, method, input, outcome] = row[..] else {
            panic!("{row:?}")
        };
        let method = Method::from_bytes(method.as_bytes());
        let ours = read_responses(&unescape(input), &limits_of(name), method);
        let theirs = if outcome == "502" {
            outcome.to_owned()
        } else {
            their_message(outcome, false, method)
        };
        compare(name, &ours, &theirs, RESPONSE_DIFFERENCES, &mut wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} rows\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
