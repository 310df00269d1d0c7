//! What a head costs: nanoseconds to parse, look up and write, and bytes to walk over.
//!
//! usage: cargo run --release -p sluice-http --example head_cost
//!
//! Best of many short rounds, for the machine is shared. No test: it asserts nothing about time.
#![allow(clippy::disallowed_methods)] // A measuring program needs the clock the crate must not read.

use std::hint::black_box;
use std::time::Instant;

use sluice_http::*;

const SHORT: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: www.example.com\r\nAccept: */*\r\n\r\n";

const BROWSER: &[u8] = b"GET /catalog/items/1234?sort=price&page=2 HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Referer: https://www.example.com/catalog/\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Cache-Control: max-age=0\r\n\
    Connection: keep-alive\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n\
    Content-Type: text/html; charset=utf-8\r\nContent-Length: 64\r\nETag: \"5f-60e\"\r\nVary: Accept-Encoding\r\n\r\n";

fn main() {
    let limits = Limits::default();
    let mut scan = HeadScan::new();
    let mut request = Request::new();
    let mut response = Response::new();
    let mut out = Vec::with_capacity(4096);
    for (name, text) in [("2 headers", SHORT), ("10 headers", BROWSER)] {
        measure(
            &format!("request, {name}, {} bytes: parse", text.len()),
            || {
                black_box(parse_request(
                    black_box(text),
                    &mut scan,
                    &limits,
                    &mut request,
                ))
                .is_ok()
            },
        );
        measure("  look up host", || {
            black_box(request.headers.get(black_box(b"host"))).is_some()
        });
        measure("  look up an absent name", || {
            black_box(request.headers.get(black_box(b"x-forwarded-for"))).is_some()
        });
        measure("  write", || {
            out.clear();
            request.write_to(&mut out);
            black_box(&out).is_empty()
        });
        measure(
            "  parse, drop connection, add x-forwarded-for, write",
            || {
                let ok = parse_request(black_box(text), &mut scan, &limits, &mut request).is_ok();
                request.headers.remove(b"connection");
                request.headers.add(b"x-forwarded-for", b"192.0.2.17");
                out.clear();
                request.write_to(&mut out);
                black_box(&out);
                ok
            },
        );
    }
    measure(
        &format!("response, 6 headers, {} bytes: parse", RESPONSE.len()),
        || {
            black_box(parse_response(
                black_box(RESPONSE),
                &mut scan,
                &limits,
                Method::Get,
                &mut response,
            ))
            .is_ok()
        },
    );
    let mut chunks = Vec::new();
    for _ in 0..64 {
        encode_chunk(&[b'x'; 1024], &mut chunks);
    }
    measure("64 chunks of 1 KiB: walk", || {
        black_box(BodyDecoder::new(Framing::Chunked).advance(black_box(&chunks))).is_ok()
    });
}

fn measure(name: &str, mut work: impl FnMut() -> bool) {
    const LAPS: u32 = 2000;
    let mut best = f64::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..LAPS {
            black_box(work());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(LAPS));
    }
    println!("{best:8.1} ns  {name}");
}
