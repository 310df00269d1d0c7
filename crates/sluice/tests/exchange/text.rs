//! Bytes as text and back, and what of an outcome may vary taken out of it.

/// `\r`, `\n`, `\t`, `\\`, `\xNN`, and `\*3{ab}` for ababab.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let kind = rest[at + 1..].chars().next().expect("something after \\");
        rest = &rest[at + 2..];
        match kind {
            'r' => out.push(b'\r'),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            '\\' => out.push(b'\\'),
            'x' => {
                out.push(u8::from_str_radix(&rest[..2], 16).expect("\\x takes two digits"));
                rest = &rest[2..];
            }
            '*' => {
                let (times, after) = rest.split_once('{').expect("\\*N{...}");
                let (part, after) = after.split_once('}').expect("\\*N{...}");
                out.extend(unescape(part).repeat(times.parse().expect("\\*N{...}")));
                rest = after;
            }
            other => panic!("what is \\{other}?"),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// The bytes on one line, long runs shortened.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for run in bytes.chunk_by(|a, b| a == b) {
        let one = match run[0] {
            b'\r' => "\\r".to_string(),
            b'\n' => "\\n".to_string(),
            b'\t' => "\\t".to_string(),
            b'\\' => "\\\\".to_string(),
            b @ b' '..=b'~' => (b as char).to_string(),
            b => format!("\\x{b:02x}"),
        };
        match run.len() {
            n if n > 20 => out.push_str(&format!("\\*{n}{{{one}}}")),
            n => out.push_str(&one.repeat(n)),
        }
    }
    out
}

/// Heads with their header names in lower case and sorted by them, dates left out. Ports of this run become `PORT`.
pub fn tidy(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(start) = head_start(rest) {
        let Some(end) = rest[start..].windows(4).position(|w| w == b"\r\n\r\n") else {
            break;
        };
        out.extend_from_slice(&rest[..start]);
        out.extend(tidy_head(&rest[start..start + end]));
        rest = &rest[start + end + 4..];
    }
    out.extend_from_slice(rest);
    without_ports(&escape(&out))
}

/// Where the first head begins: a status line anywhere, a request line at the beginning of a line.
fn head_start(bytes: &[u8]) -> Option<usize> {
    let digits = |b: &[u8]| b.iter().all(u8::is_ascii_digit);
    let status = bytes.windows(12).position(|w| {
        w.starts_with(b"HTTP/1.") && w[8] == b' ' && digits(&w[7..8]) && digits(&w[9..])
    });
    let mut at = 0;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if status.is_some_and(|s| s <= at) {
            return status;
        }
        let text = line.strip_suffix(b"\r\n").unwrap_or_default();
        if text.len() > 9 && text[..text.len() - 3].ends_with(b" HTTP/") {
            return Some(at);
        }
        at += line.len();
    }
    status
}

fn tidy_head(head: &[u8]) -> Vec<u8> {
    let mut lines = head
        .split(|b| *b == b'\n')
        .map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    let mut out = lines.next().unwrap_or_default().to_vec();
    let mut headers: Vec<Vec<u8>> = lines
        .map(|line| {
            let name = line.iter().position(|b| *b == b':').unwrap_or(line.len());
            [line[..name].to_ascii_lowercase(), line[name..].to_vec()].concat()
        })
        .filter(|line| !line.starts_with(b"date:"))
        .collect();
    headers.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    for header in headers {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(header.trim_ascii_end());
    }
    out.extend_from_slice(b"\r\n\r\n");
    out
}

fn name_of(header: &[u8]) -> &[u8] {
    header.split(|b| *b == b':').next().unwrap_or_default()
}

fn without_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        out.push_str("127.0.0.1:PORT");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

/// A log line without what differs from run to run: envelope, date, ports, times, sizes (haproxy 2.6 counts those of its
/// own form of the message) and connections of the whole process.
pub fn tidy_log(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line
        .split_once("]: ")
        .map_or(&*line, |(_, message)| message);
    let mut out: Vec<String> = Vec::new();
    let (mut dated, mut slashed, mut after_times) = (false, 0, 0);
    for word in without_ports(line.trim_end()).split(' ') {
        let is_date =
            word.starts_with('[') && word.ends_with(']') && word.matches(':').count() == 3;
        let numbers = word.matches('/').count() == 4
            && word
                .chars()
                .all(|c| c.is_ascii_digit() || "/-+".contains(c));
        after_times += usize::from(slashed == 1);
        let word = match word {
            _ if is_date => "[DATE]".to_string(),
            w if dated && numbers && slashed == 0 => {
                w.split('/').map(time).collect::<Vec<_>>().join("/")
            }
            w if dated && numbers && slashed == 1 => {
                format!("n/{}", w.split_once('/').map_or("", |(_, rest)| rest))
            }
            w if after_times == 2 && w != "0" => "B".to_string(),
            w => w.to_string(),
        };
        dated |= is_date;
        slashed += usize::from(numbers && dated);
        out.push(word);
    }
    out.join(" ")
}

fn time(part: &str) -> &str {
    match part {
        "-1" => part,
        _ => "t",
    }
}
