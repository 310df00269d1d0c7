//! SMTP (RFC 5321), as much as a check and a short message need.

use super::probe::fail;
use super::reach::connect;
use crate::config::model::Checker;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LINE_MAX: usize = 4096;

/// SMTP_CHECK: greeted, and greets.
pub(super) async fn check(
    checker: &Checker,
    to: SocketAddr,
    helo: Option<&str>,
) -> Result<(), String> {
    let mut stream = connect(checker, to).await?;
    expect(&mut stream, "220").await?;
    let name = helo.unwrap_or("localhost");
    stream
        .write_all(format!("HELO {name}\r\n").as_bytes())
        .await
        .map_err(fail("write"))?;
    expect(&mut stream, "250").await?;
    // Good manners; whether it is answered does not matter.
    let _ = stream.write_all(b"QUIT\r\n").await;
    Ok(())
}

/// Reads one reply (all lines of it) and compares its code.
async fn expect(stream: &mut TcpStream, code: &str) -> Result<(), String> {
    let mut line = Vec::new();
    loop {
        let byte = stream.read_u8().await.map_err(fail("read"))?;
        line.push(byte);
        if line.len() > LINE_MAX {
            return Err("a reply without end".into());
        }
        if byte == b'\n' {
            if line.get(3) != Some(&b'-') {
                break;
            }
            line.clear();
        }
    }
    if line.starts_with(code.as_bytes()) {
        return Ok(());
    }
    Err(format!(
        "expected {code}, got {}",
        String::from_utf8_lossy(&line).trim()
    ))
}

/// A message of a few lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub from: String,
    pub to: Vec<String>,
    pub subject: String,
    pub body: String,
}

/// Hands a message to a mail server; the words of the one that refuses are the error.
pub async fn send(
    server: &str,
    port: u16,
    helo: &str,
    limit: Duration,
    message: &Message,
) -> Result<(), String> {
    let connecting = tokio::time::timeout(limit, TcpStream::connect((server, port)));
    let mut stream = connecting
        .await
        .map_err(|_| format!("no answer within {limit:?}"))?
        .map_err(fail("connect"))?;
    let talk = async {
        expect(&mut stream, "220").await?;
        say(&mut stream, &format!("HELO {helo}"), "250").await?;
        say(&mut stream, &format!("MAIL FROM:<{}>", message.from), "250").await?;
        for to in &message.to {
            say(&mut stream, &format!("RCPT TO:<{to}>"), "25").await?;
        }
        say(&mut stream, "DATA", "354").await?;
        say(&mut stream, &text(message), "250").await?;
        let _ = stream.write_all(b"QUIT\r\n").await;
        Ok(())
    };
    // RFC 5321 4.5.3.2 is more patient; an alert is of use now or never.
    match tokio::time::timeout(2 * limit, talk).await {
        Ok(result) => result,
        Err(_) => Err(format!("not taken within {:?}", 2 * limit)),
    }
}

async fn say(stream: &mut TcpStream, words: &str, code: &str) -> Result<(), String> {
    let line = format!("{words}\r\n");
    stream
        .write_all(line.as_bytes())
        .await
        .map_err(fail("write"))?;
    expect(stream, code).await
}

/// Headers and body up to the lonely dot; a line cannot end the message or add a header.
fn text(m: &Message) -> String {
    let one_line = |text: &str| text.replace(['\r', '\n'], " ");
    let mut out = format!(
        "From: {}\r\nTo: {}\r\nSubject: {}\r\nX-Mailer: sluice-l4\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n",
        one_line(&m.from),
        one_line(&m.to.join(", ")),
        one_line(&m.subject)
    );
    for line in m.body.lines() {
        // RFC 5321 4.5.2.
        let dot = if line.starts_with('.') { "." } else { "" };
        out.push_str(&format!("{dot}{line}\r\n"));
    }
    out.push('.');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::TcpListener;

    /// What a server that answers `refuse` to the line beginning with it, and is content otherwise, is told.
    fn told(refuse: &'static str) -> (Result<(), String>, Vec<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                stream.write_all(b"220 here\r\n").await.unwrap();
                let (mut lines, mut data) = (Vec::new(), false);
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                        return lines;
                    }
                    let line = line.trim_end().to_string();
                    let answer = match line.as_str() {
                        "." => Some("250 taken"),
                        _ if data => None,
                        "DATA" => Some("354 go on"),
                        l if !refuse.is_empty() && l.starts_with(refuse) => Some("550 not here"),
                        _ => Some("250 well"),
                    };
                    data = (data || line == "DATA") && line != ".";
                    lines.push(line);
                    if let Some(answer) = answer {
                        let answer = format!("{answer}\r\n");
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
            let message = Message {
                from: "lb@example.com".into(),
                to: vec!["one@example.com".into(), "two@example.com".into()],
                subject: "[lb]\r\nBcc: x".into(),
                body: "first\n.second".into(),
            };
            let limit = Duration::from_secs(30);
            let sent = send("127.0.0.1", port, "lb", limit, &message).await;
            (sent, server.await.unwrap())
        })
    }

    #[test]
    fn a_message_is_handed_over() {
        let (sent, lines) = told("");
        assert_eq!(sent, Ok(()));
        for line in [
            "HELO lb",
            "MAIL FROM:<lb@example.com>",
            "RCPT TO:<two@example.com>",
            "Subject: [lb]  Bcc: x",
            "..second",
            "QUIT",
        ] {
            assert!(lines.contains(&line.to_string()), "{line}: {lines:?}");
        }
    }

    #[test]
    fn a_refusal_is_told() {
        let (sent, _) = told("RCPT");
        assert!(sent.is_err_and(|e| e.contains("550 not here")));
    }
}
