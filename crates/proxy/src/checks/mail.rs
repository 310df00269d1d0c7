//! Mails about servers (manual 3.6, `email-alert`): a conversation by RFC 5321 with each mail server of the section, one
//! mail after the other. What cannot be delivered in time is dropped, as a log message would be.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::model::{EmailAlert, PeerAddr};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use crate::logs;
use crate::net::peer::{self, Duplex};

/// Mails that wait for one mail server; more are dropped.
const WAITING: usize = 128;

/// Longest line a mail server may answer with (RFC 5321 section 4.5.3.1.5), and most lines of one answer.
const REPLY_MAX: u64 = 512;
const REPLY_LINES: usize = 32;

thread_local! {
    /// The queue of each mail server, by the address of its section (one allocation for all proxies) and its place there.
    static QUEUES: RefCell<HashMap<(usize, usize), mpsc::Sender<Mail>>> = RefCell::default();
}

struct Mail {
    alert: Arc<EmailAlert>,
    /// What we call ourselves.
    host: Arc<str>,
    text: String,
    date: String,
}

/// Mails a message of a level, if the proxy wants such. The text loses the full stop that ends log messages. Call it on
/// the main thread, inside its event loop.
pub fn send(alert: &Arc<EmailAlert>, host: &Arc<str>, level: u8, text: &str) {
    if level > alert.level {
        return;
    }
    let mailers = &alert.mailers;
    for (i, (_, addr)) in mailers.servers.iter().enumerate() {
        let mail = Mail {
            alert: alert.clone(),
            host: host.clone(),
            text: line(text),
            date: logs::mail_date(crate::clock::read().wall_us),
        };
        QUEUES.with_borrow_mut(|queues| {
            let key = (Arc::as_ptr(mailers) as usize, i);
            let queue = queues.entry(key).or_insert_with(|| {
                let (queue, mails) = mpsc::channel(WAITING);
                let timeout = Duration::from_millis(mailers.timeout_ms);
                tokio::task::spawn_local(deliver_all(addr.clone(), timeout, mails));
                queue
            });
            // a full queue: the mail server does not keep up
            let _ = queue.try_send(mail);
        });
    }
}

/// The text as a line of its own: what a server said in it must not end the mail and begin another.
fn line(text: &str) -> String {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.replace(char::is_control, " ")
}

async fn deliver_all(addr: PeerAddr, timeout: Duration, mut mails: mpsc::Receiver<Mail>) {
    while let Some(mail) = mails.recv().await {
        // what fails is lost, the next one may do better
        let _ = tokio::time::timeout(timeout, deliver(&addr, &mail)).await;
    }
}

async fn deliver(addr: &PeerAddr, mail: &Mail) -> io::Result<()> {
    converse(peer::connect(addr).await?, mail).await
}

/// One mail from the greeting to the farewell.
async fn converse(io: impl Duplex, mail: &Mail) -> io::Result<()> {
    let mut io = BufReader::new(io);
    let EmailAlert { from, to, .. } = &*mail.alert;
    let host = mail.alert.myhostname.as_deref().unwrap_or(&mail.host);
    let Mail { text, date, .. } = mail;
    let body = format!(
        "From: {from}\r\nTo: {to}\r\nDate: {date}\r\nSubject: [HAProxy Alert] {text}\r\n\r\n{}{text}\r\n\r\n.\r\n",
        // a line that begins with a dot has another put before it
        if text.starts_with('.') { "." } else { "" }
    );
    let steps = [
        (String::new(), b"220"),
        (format!("HELO {host}\r\n"), b"250"),
        (format!("MAIL FROM:<{from}>\r\n"), b"250"),
        (format!("RCPT TO:<{to}>\r\n"), b"250"),
        ("DATA\r\n".into(), b"354"),
        (body, b"250"),
        ("QUIT\r\n".into(), b"221"),
    ];
    for (said, wanted) in steps {
        io.write_all(said.as_bytes()).await?;
        reply(&mut io, wanted).await?;
    }
    Ok(())
}

/// Reads an answer, which has several lines when a `-` follows the code.
async fn reply(io: &mut (impl AsyncBufReadExt + Unpin), wanted: &[u8; 3]) -> io::Result<()> {
    for _ in 0..REPLY_LINES {
        let mut line = Vec::new();
        (&mut *io)
            .take(REPLY_MAX)
            .read_until(b'\n', &mut line)
            .await?;
        match line.get(..4) {
            Some([code @ .., b'-']) if code == wanted => {}
            Some([code @ .., _]) if code == wanted => return Ok(()),
            _ => break,
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::model::Mailers;

    fn mail(text: &str) -> Mail {
        let alert = EmailAlert {
            mailers: Arc::new(Mailers::default()),
            from: "a@x".into(),
            to: "b@x".into(),
            level: 7,
            myhostname: None,
        };
        Mail {
            alert: Arc::new(alert),
            host: "me".into(),
            text: text.into(),
            date: "today".into(),
        }
    }

    async fn check(replies: &str, text: &str, said: &str, is_ok: bool) {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        theirs.write_all(replies.as_bytes()).await.expect("room");
        let mail = mail(text);
        let result = tokio::time::timeout(Duration::from_secs(5), converse(ours, &mail)).await;
        assert_eq!(result.expect("an end").is_ok(), is_ok);
        let mut all = String::new();
        theirs.read_to_string(&mut all).await.expect("text");
        assert_eq!(all, said);
    }

    #[test]
    fn what_a_server_said_stays_in_its_line() {
        assert_eq!(
            line("down, info: \"a\".\r\n.\r\nQUIT."),
            "down, info: \"a\".  .  QUIT"
        );
    }

    #[tokio::test]
    async fn a_mail_is_delivered() {
        let head = "HELO me\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n";
        let body = "From: a@x\r\nTo: b@x\r\nDate: today\r\nSubject: [HAProxy Alert] .down\r\n\r\n..down\r\n\r\n.\r\n";
        check(
            "220 hi\r\n250-me\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 ok\r\n221 bye\r\n",
            ".down",
            &format!("{head}{body}QUIT\r\n"),
            true,
        )
        .await;
    }

    #[tokio::test]
    async fn a_refusal_ends_it() {
        check(
            "220 hi\r\n250 ok\r\n550 no\r\n",
            "x",
            "HELO me\r\nMAIL FROM:<a@x>\r\n",
            false,
        )
        .await;
        check("554 go away\r\n", "x", "", false).await;
    }
}
