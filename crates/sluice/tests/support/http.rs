//! An exchange with a proxy as a text to compare, and a server that echoes or misbehaves.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// How long a connection must stay quiet to count as open.
const QUIET: Duration = Duration::from_millis(700);

/// Sends the bytes on a connection of their own and describes what came back, and how it ended.
pub fn exchange(port: u16, bytes: &[u8]) -> String {
    let mut io = TcpStream::connect(("127.0.0.1", port)).unwrap();
    io.set_read_timeout(Some(QUIET)).unwrap();
    io.write_all(bytes).unwrap();
    let mut got = Vec::new();
    let mut chunk = [0; 65536];
    let fate = loop {
        match io.read(&mut chunk) {
            Ok(0) => break "closed",
            Ok(n) => got.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break "open";
            }
            // a close and a reset after the answer look the same to a client that has it
            Err(_) if !got.is_empty() => break "closed",
            Err(_) => break "reset",
        }
    };
    format!("{}[{fate}]", describe(&got))
}

/// Heads with their headers in lower case and sorted, bodies as they are.
pub fn describe(mut bytes: &[u8]) -> String {
    let mut out = String::new();
    while let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        out.push_str(lines.next().unwrap_or_default());
        out.push('\n');
        let mut headers: Vec<String> = lines
            .map(|l| {
                l.split_once(':').map_or(l.to_string(), |(n, v)| {
                    format!("{}:{}", n.to_ascii_lowercase(), v.trim())
                })
            })
            .collect();
        headers.sort();
        let length = headers
            .iter()
            .find_map(|h| h.strip_prefix("content-length:")?.parse::<usize>().ok());
        for h in headers {
            out.push_str(&h);
            out.push('\n');
        }
        bytes = &bytes[end + 4..];
        let body = length.unwrap_or(0).min(bytes.len());
        // an answer to HEAD is followed by the next head, not by the body it announces
        let body = if bytes.starts_with(b"HTTP/1.") {
            0
        } else {
            body
        };
        out.push_str(&format!("{}\n", bytes[..body].escape_ascii()));
        bytes = &bytes[body..];
    }
    out.push_str(&bytes.escape_ascii().to_string());
    out
}

/// The server behind the proxies: echoes the request's head, or misbehaves as the path asks.
pub struct Origin {
    pub port: u16,
}

impl Origin {
    pub fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for io in listener.incoming().flatten() {
                std::thread::spawn(move || serve(io));
            }
        });
        Origin { port }
    }
}

fn serve(mut io: TcpStream) {
    let mut buf = Vec::new();
    let mut chunk = [0; 65536];
    loop {
        let end = loop {
            if let Some(at) = buf.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            match io.read(&mut chunk) {
                Ok(n) if n > 0 => buf.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        };
        let head: Vec<u8> = buf.drain(..end).collect();
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = text
            .split("\r\n")
            .find_map(|l| {
                l.strip_prefix("content-length:")?
                    .trim()
                    .parse::<usize>()
                    .ok()
            })
            .unwrap_or(0);
        let chunked = text.contains("transfer-encoding: chunked");
        while buf.len() < length || (chunked && !buf.ends_with(b"0\r\n\r\n")) {
            match io.read(&mut chunk) {
                Ok(n) if n > 0 => buf.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        }
        let body: Vec<u8> = if chunked {
            std::mem::take(&mut buf)
        } else {
            buf.drain(..length).collect()
        };
        let path = text.split(' ').nth(1).unwrap_or("").to_string();
        let fixed: Option<&[u8]> = match path.as_str() {
            "/origin/junk" => Some(b"hello\r\n\r\n"),
            "/origin/close" => Some(b""),
            "/origin/cut" => Some(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
            "/origin/nolen" => Some(b"HTTP/1.1 200 OK\r\n\r\nabc"),
            "/origin/twolen" => {
                Some(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
            }
            "/origin/space" => Some(b"HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 0\r\n\r\n"),
            _ => None,
        };
        if let Some(answer) = fixed {
            let _ = io.write_all(answer);
            return;
        }
        let answer: Vec<u8> = match path.as_str() {
            "/origin/silent" => {
                // longer than the proxies' `timeout server`
                let _ = io.read(&mut chunk);
                return;
            }
            "/origin/chunked" => {
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                    .to_vec()
            }
            "/origin/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "/origin/304" => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n".to_vec(),
            "/origin/100" => {
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                    .to_vec()
            }
            _ => {
                let mut lines: Vec<String> =
                    text.trim_end().split("\r\n").map(String::from).collect();
                lines[1..].sort();
                // addresses and ports differ between the two proxies
                let seen = lines.join("|")
                    + "|"
                    + &String::from_utf8_lossy(&body).escape_debug().to_string();
                let set_cookie = if path.starts_with("/setcookie") {
                    "Set-Cookie: app=1\r\n"
                } else {
                    ""
                };
                let mut a = format!(
                    "HTTP/1.1 200 OK\r\n{set_cookie}Content-Length: {}\r\n\r\n",
                    seen.len()
                )
                .into_bytes();
                if !text.starts_with("head") {
                    a.extend_from_slice(seen.as_bytes());
                }
                a
            }
        };
        if io.write_all(&answer).is_err() || text.contains("connection: close") {
            return;
        }
    }
}
