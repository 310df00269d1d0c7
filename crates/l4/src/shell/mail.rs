//! Alerts by mail (`smtp_alert`): subjects and words as keepalived writes them. One task sends them one after the other; a mail
//! server that does not answer keeps nobody waiting, and what is too much is counted and left out.

use crate::check::smtp::{self, Message};
use crate::config::model::{Globals, Mail};
use crate::vrrp::machine::State;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A network that goes takes thousands of servers: nobody reads more mails than these.
const QUEUE_MAX: usize = 500;

pub struct Mailer {
    queue: mpsc::Sender<(Arc<Mail>, Message)>,
    left_out: std::cell::Cell<u64>,
}

impl Mailer {
    /// Must run inside a runtime.
    pub fn start() -> Self {
        let (queue, mut messages) = mpsc::channel::<(Arc<Mail>, Message)>(QUEUE_MAX);
        tokio::spawn(async move {
            while let Some((mail, message)) = messages.recv().await {
                let Some((server, port)) = &mail.server else {
                    continue;
                };
                let limit = std::time::Duration::from_micros(mail.connect_timeout_us);
                let helo = mail.helo.clone().unwrap_or_else(host_name);
                if let Err(e) = smtp::send(server, *port, &helo, limit, &message).await {
                    println!("no alert by {server}:{port}: {e}");
                }
            }
        });
        Mailer {
            queue,
            left_out: std::cell::Cell::new(0),
        }
    }

    /// Sends an alert to everybody in notification_email.
    pub fn alert(&self, globals: &Globals, subject: &str, body: &str) {
        let mail = &globals.mail;
        if mail.server.is_none() || mail.to.is_empty() {
            return;
        }
        let name = globals.router_id.clone().unwrap_or_else(host_name);
        let from = mail.from.clone();
        let message = Message {
            from: from.unwrap_or_else(|| format!("keepalived@{}", host_name())),
            to: mail.to.clone(),
            subject: format!("[{name}] {subject}"),
            body: body.into(),
        };
        if self
            .queue
            .try_send((Arc::new(mail.clone()), message))
            .is_err()
        {
            self.left_out.set(self.left_out.get() + 1);
            println!("{} alerts were not mailed: too many", self.left_out.get());
        }
    }

    /// An instance or a group entered a state.
    pub fn router(&self, globals: &Globals, what: &str, state: State) {
        if state == State::Fault && globals.mail.no_faults {
            return;
        }
        let body = match state {
            State::Master => "=> VRRP Instance is now owning VRRP VIPs <=",
            _ => "=> VRRP Instance is no longer owning VRRP VIPs <=",
        };
        let subject = format!("{what} - Entering {} state", state.name());
        self.alert(globals, &subject, body);
    }
}

fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
