//! A server line by itself, as `add server` writes it: read like one of a configuration, outside of any.

use std::net::IpAddr;

use sluice_expr::Loader;

use crate::diag::Severity;
use crate::model::{Mode, Server};
use crate::{LoadOptions, SourceFile};

/// Words of a `server` line that HAProxy refuses for a server added while it runs.
const REFUSED: [&str; 11] = [
    "cookie",
    "init-addr",
    "max-reuse",
    "namespace",
    "no-check",
    "non-stick",
    "redir",
    "resolvers",
    "socks4",
    "stick",
    "tcp-ut",
];

/// A server by itself.
pub struct OneServer {
    /// Its `id` is 0 unless one was written. `track` is as written.
    pub server: Server,
    /// `enabled` was written.
    pub enabled: bool,
}

struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("no file can be read now: {path}"))
    }
}

/// Reads the words behind `server`: an address, then settings. `default-server` has no part in it. The error is a line
/// for whoever typed the words.
pub fn parse_server(name: &str, mode: Mode, words: &[&str]) -> Result<OneServer, String> {
    if words.is_empty() {
        return Err("'server' expects <name> and <addr>[:<port>] as arguments.".into());
    }
    if let Some(word) = words.iter().find(|w| REFUSED.contains(w)) {
        return Err(format!(
            "'{word}' option is not accepted for dynamic server"
        ));
    }
    let mut words = words.to_vec();
    let track = words.iter().position(|w| *w == "track");
    let track = match track.filter(|at| at + 1 < words.len()) {
        Some(at) => words.drain(at..at + 2).nth(1).map(str::to_owned),
        None => None,
    };
    let has_id = words.contains(&"id");
    let enabled = words.contains(&"enabled");
    let line: Vec<String> = words.iter().map(|w| escaped(w)).collect();
    let text = format!(
        "defaults\n mode {}\n timeout connect 1s\n timeout client 1s\n timeout server 1s\nbackend {}\n server {} {} init-addr none\n",
        mode.name(),
        "runtime",
        escaped(name),
        line.join(" ")
    );
    let nobody = |_: &str| -> Option<IpAddr> { None };
    let opts = LoadOptions::new(&NoFiles, &nobody);
    let file = SourceFile {
        name: "CLI".into(),
        text: text.into_bytes(),
    };
    let loaded = crate::load(&[file], &opts);
    let server = loaded
        .model
        .as_ref()
        .and_then(|m| Some((**m.proxies.first()?.servers.first()?).clone()));
    let Some(server) = server else {
        let alert = loaded
            .diagnostics
            .iter()
            .find(|d| d.severity == Severity::Alert);
        return Err(match alert {
            None => "the server cannot be read".into(),
            Some(d) => match &d.hint {
                Some(hint) => format!("{} ({hint})", d.message),
                None => d.message.clone(),
            },
        });
    };
    let server = Server {
        id: if has_id { server.id } else { 0 },
        track,
        ..server
    };
    Ok(OneServer { server, enabled })
}

/// A word that the configuration reads as it is.
fn escaped(word: &str) -> String {
    word.chars()
        .flat_map(|c| {
            let plain = c.is_ascii_alphanumeric() || !c.is_ascii() || "-_.:/@,+%=[]*".contains(c);
            [(!plain).then_some('\\'), Some(c)]
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_by_themselves() {
        let read = |text: &str| {
            let words: Vec<&str> = text.split(' ').filter(|w| !w.is_empty()).collect();
            parse_server("s", Mode::Http, &words)
                .map(|o| (o.server.id, o.server.weight, o.enabled, o.server.track))
        };
        assert_eq!(read("127.0.0.1:80"), Ok((0, 1, false, None)));
        assert_eq!(
            read("127.0.0.1:80 id 7 weight 3 enabled check inter 1s track b/t"),
            Ok((7, 3, true, Some("b/t".into())))
        );
        assert_eq!(
            read("127.0.0.1:80 cookie x"),
            Err("'cookie' option is not accepted for dynamic server".into())
        );
        assert_eq!(
            read(""),
            Err("'server' expects <name> and <addr>[:<port>] as arguments.".into())
        );
        for wrong in [
            "127.0.0.1:80 nonsense",
            "127.0.0.1:80 weight 300",
            "127.0.0.1:x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_word_ends_its_line() {
        for word in [
            "127.0.0.1:1\nserver x 1.1.1.1:1",
            "a\"b",
            "a'b",
            "$HOME",
            "a#b",
            "a b",
        ] {
            if let Ok(one) = parse_server("s", Mode::Tcp, &[word]) {
                assert_eq!(&*one.server.name, "s", "{word:?}");
            }
        }
    }
}
