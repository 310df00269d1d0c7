//! The `SSL` block: what SSL_GET presents to servers that ask for a client's certificate.
//!
//! Nothing is verified, as keepalived verifies nothing: a check asks whether the server works, not who it is.

use super::diagnostic::Severity;
use super::keyword::{Args, Context, Keyword, block, no_effect, not_yet, works};
use super::model::{CheckerKind, Config, Identity};
use super::tree::Node;

/// What of the block has been read.
#[derive(Default)]
pub struct Ssl {
    certificate: Option<String>,
    key: Option<String>,
}

pub static SSL: &[Keyword<Ssl>] = &[
    works(
        "certificate",
        "FILE",
        "certificates (PEM) shown to servers that ask, the client's first",
        |s, a| s.certificate = a.text("a file"),
    ),
    works(
        "key",
        "FILE",
        "its private key (PEM); the certificate's file if not given",
        |s, a| s.key = a.text("a file"),
    ),
    not_yet(
        "password",
        "TEXT",
        "a key under a password is not read: take it off with `openssl pkey -in KEY -out NEW`",
    ),
    no_effect(
        "ca",
        "FILE",
        "servers' certificates are not verified, as in keepalived",
    ),
];

pub fn ssl(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let mut ssl = Ssl::default();
    if std::mem::replace(&mut a.cx.ssl_seen, true) {
        a.dubious_at(
            a.keyword(),
            "a second SSL block takes the place of the first",
        );
    }
    block(a.block(), SSL, &mut ssl, a.cx, "SSL");
    let Some(certificate) = ssl.certificate else {
        if let Some(key) = ssl.key {
            let message = format!("SSL: the key {key} is of no use without its certificate");
            cx.report(Severity::Unsupported, node.place(), message);
        }
        return;
    };
    let key = ssl.key.unwrap_or_else(|| certificate.clone());
    cx.config.identity = Some(Identity { certificate, key });
}

/// Gives the identity to every SSL_GET, wherever in the file the block stands.
pub fn hand_out(config: &mut Config) {
    let Some(identity) = &config.identity else {
        return;
    };
    let servers = config
        .virtual_servers
        .iter_mut()
        .flat_map(|v| &mut v.real_servers);
    for checker in servers.flat_map(|r| &mut r.checkers) {
        if let CheckerKind::Http(http) = &mut checker.kind
            && http.tls
        {
            http.identity = Some(identity.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{NoHost, parse};

    fn check(ssl: &str, identity: Option<(&str, &str)>, expect: &[Severity]) {
        let text = format!(
            "virtual_server 10.0.0.1 443 {{\n lb_algo rr\n lb_kind DR\n protocol TCP\n real_server 10.0.0.2 443 {{\n SSL_GET {{\n url {{\n \
             path /\n }}\n }}\n HTTP_GET {{\n url {{\n path /\n }}\n }}\n }}\n}}\nSSL {{\n {ssl}\n}}\n"
        );
        let (config, found) = parse(&NoHost, "t", &text, "");
        let got: Vec<_> = found.iter().map(|d| d.severity).collect();
        assert_eq!(got, expect, "{found:?}");
        let of = |n: usize| match &config.virtual_servers[0].real_servers[0].checkers[n].kind {
            CheckerKind::Http(h) => h.identity.clone(),
            other => panic!("{other:?}"),
        };
        let wanted = identity.map(|(c, k)| Identity {
            certificate: c.into(),
            key: k.into(),
        });
        assert_eq!((of(0), of(1)), (wanted, None));
    }

    #[test]
    fn ssl_get_has_the_block_s_certificate() {
        check("", None, &[]);
        check("certificate /a\n key /b", Some(("/a", "/b")), &[]);
        check("certificate /a", Some(("/a", "/a")), &[]);
        check("key /b", None, &[Severity::Unsupported]);
        check("ca /c", None, &[Severity::Warning]);
        check("password x", None, &[Severity::Unsupported]);
    }
}
