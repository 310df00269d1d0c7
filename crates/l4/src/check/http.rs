//! HTTP_GET and SSL_GET: a page is asked for, and its status, digest and pattern looked at.
//!
//! Certificates are not verified, as keepalived does not: a check asks whether the server works, not who it is, and servers
//! are checked by address with whatever certificate they have. TLS is 1.2 or 1.3 (rustls); older servers fail the check.

use super::md5::md5;
use super::probe::fail;
use super::reach::connect;
use crate::config::model::{Checker, HttpCheck, HttpVersion, Identity, Url};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Most of a page that is read: a check is no download.
const PAGE_MAX: usize = 4 << 20;
/// Most that may come before the end of the headers.
const HEAD_MAX: usize = 64 << 10;

/// Asks for every page of the checker.
pub async fn pages(checker: &Checker, http: &HttpCheck, to: SocketAddr) -> Result<(), String> {
    for url in &http.urls {
        page(checker, http, url, to)
            .await
            .map_err(|e| format!("{}: {e}", url.path))?;
    }
    Ok(())
}

async fn page(
    checker: &Checker,
    http: &HttpCheck,
    url: &Url,
    to: SocketAddr,
) -> Result<(), String> {
    let stream = connect(checker, to).await?;
    let virtualhost = url.virtualhost.as_deref().or(http.virtualhost.as_deref());
    let host = virtualhost.map_or_else(|| to.to_string(), Into::into);
    let (version, close) = match http.version {
        HttpVersion::V10 => ("1.0", ""),
        HttpVersion::V10Close => ("1.0", "Connection: close\r\n"),
        HttpVersion::V11 => ("1.1", "Connection: close\r\n"),
    };
    let request = format!(
        "GET {} HTTP/{version}\r\nUser-Agent: sluice-l4\r\n{close}Host: {host}\r\n\r\n",
        url.path
    );
    let answer = if http.tls {
        let config = client(http.sni, http.identity.as_ref()).map_err(|e| format!("TLS: {e}"))?;
        let address = || ServerName::IpAddress(to.ip().into());
        let name = virtualhost
            .filter(|_| http.sni)
            .and_then(|h| ServerName::try_from(h.to_string()).ok())
            .unwrap_or_else(address);
        let connector = tokio_rustls::TlsConnector::from(config);
        let stream = connector.connect(name, stream).await.map_err(fail("TLS"))?;
        ask(stream, &request, url).await?
    } else {
        ask(stream, &request, url).await?
    };
    judge(url, &answer)
}

async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
    url: &Url,
) -> Result<Vec<u8>, String> {
    stream
        .write_all(request.as_bytes())
        .await
        .map_err(fail("write"))?;
    let needs_body = url.digest.is_some() || url.regex.is_some();
    let mut answer = Vec::new();
    let mut chunk = vec![0; 16384];
    let mut end = None;
    loop {
        let n = match stream.read(&mut chunk).await {
            Ok(n) => n,
            // A TLS server that closes without saying so: the answer is what came.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(e) => return Err(format!("read: {e}")),
        };
        answer.extend_from_slice(chunk.get(..n).unwrap_or_default());
        if end.is_none() {
            end = head_end(&answer);
        }
        if end.is_none() && answer.len() > HEAD_MAX {
            return Err("the answer has no end of headers".into());
        }
        let whole = end.is_some_and(|e| !needs_body || complete(&answer, e));
        if n == 0 || answer.len() > PAGE_MAX || whole {
            return Ok(answer);
        }
    }
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|p| p + 4)
}

/// Whether the body is as long as Content-Length says.
fn complete(answer: &[u8], end: usize) -> bool {
    let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default());
    let length = head
        .lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(n, _)| n.eq_ignore_ascii_case("content-length"));
    length
        .and_then(|(_, v)| v.trim().parse::<usize>().ok())
        .is_some_and(|l| answer.len() - end >= l)
}

/// Status, digest and pattern of an answer.
fn judge(url: &Url, answer: &[u8]) -> Result<(), String> {
    let end = head_end(answer).ok_or("the answer has no end of headers")?;
    let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let status: u16 = match (words.next(), words.next().and_then(|s| s.parse().ok())) {
        (Some(v), Some(status)) if v.starts_with("HTTP/1.") => status,
        _ => return Err("the answer is not HTTP".into()),
    };
    let good = if url.status.is_empty() {
        (200..=299).contains(&status)
    } else {
        url.status.iter().any(|(l, h)| (*l..=*h).contains(&status))
    };
    if !good {
        return Err(format!("status {status}"));
    }
    let body = answer.get(end..).unwrap_or_default();
    if url.digest.is_some_and(|d| d != md5(body)) {
        return Err("the digest differs".into());
    }
    let Some(pattern) = &url.regex else {
        return Ok(());
    };
    let regex = regex::bytes::RegexBuilder::new(pattern)
        .case_insensitive(url.regex_caseless)
        .multi_line(url.regex_multiline)
        .dot_matches_new_line(url.regex_dotall)
        .size_limit(1 << 20)
        .build()
        .map_err(|e| format!("the pattern: {e}"))?;
    let found = regex
        .find_at(body, url.regex_min_offset.min(body.len()))
        .is_some_and(|m| url.regex_max_offset.is_none_or(|max| m.start() <= max));
    match (found, url.regex_no_match) {
        (true, true) => Err("the pattern matches".into()),
        (false, false) => Err("the pattern does not match".into()),
        _ => Ok(()),
    }
}

type Clients = HashMap<(bool, Option<Identity>), Arc<ClientConfig>>;

/// The TLS clients, with and without server name indication; each is made once.
static CLIENTS: LazyLock<Mutex<Clients>> = LazyLock::new(Mutex::default);

/// Certificates and keys are read again when they are needed next: after a reload their files may have changed.
pub fn forget_identities() {
    if let Ok(mut clients) = CLIENTS.lock() {
        clients.clear();
    }
}

fn client(sni: bool, identity: Option<&Identity>) -> Result<Arc<ClientConfig>, String> {
    let mut clients = CLIENTS.lock().map_err(|e| e.to_string())?;
    let key = (sni, identity.cloned());
    if let Some(client) = clients.get(&key) {
        return Ok(client.clone());
    }
    let client = Arc::new(make_client(sni, identity)?);
    clients.insert(key, client.clone());
    Ok(client)
}

fn make_client(sni: bool, identity: Option<&Identity>) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = read_identity(identity)?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|e| format!("{}: {e}", identity.certificate))?
        }
    };
    config.enable_sni = sni;
    // Each check shall make a whole handshake: that is part of what is checked.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

type Proof = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_identity(identity: &Identity) -> Result<Proof, String> {
    let file = &identity.certificate;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let chain = chain.map_err(|e| format!("{file}: {e}"))?;
    if chain.is_empty() {
        return Err(format!("{file} holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&identity.key)
        .map_err(|e| format!("{}: {e}", identity.key))?;
    Ok((chain, key))
}

/// Any certificate will do; what the server signs with it must be right all the same.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    fn check(change: impl Fn(&mut Url), answer: &str, expect: Result<(), &str>) {
        let mut url = Url {
            path: "/".into(),
            ..Url::default()
        };
        change(&mut url);
        let got = judge(&url, answer.as_bytes());
        match expect {
            Ok(()) => assert_eq!(got, Ok(())),
            Err(part) => assert!(got.clone().is_err_and(|e| e.contains(part)), "{got:?}"),
        }
    }

    #[test]
    fn status_digest_and_pattern_are_looked_at() {
        check(|_| (), PAGE, Ok(()));
        check(|u| u.status = vec![(404, 404)], PAGE, Err("status 200"));
        check(|_| (), "HTTP/1.0 503 No\r\n\r\n", Err("status 503"));
        check(|_| (), "SSH-2.0\r\n\r\n", Err("not HTTP"));
        check(|_| (), "HTTP/1.0 200 OK\r\n", Err("no end of headers"));
        check(|u| u.digest = Some(md5(b"hello")), PAGE, Ok(()));
        check(|u| u.digest = Some(md5(b"other")), PAGE, Err("digest"));
        check(|u| u.regex = Some("^h.l+o$".into()), PAGE, Ok(()));
        check(
            |u| u.regex = Some("HELLO".into()),
            PAGE,
            Err("does not match"),
        );
        check(
            |u| (u.regex, u.regex_no_match) = (Some("ell".into()), true),
            PAGE,
            Err("pattern matches"),
        );
    }

    #[test]
    fn a_page_is_whole_when_its_length_is_there() {
        let end = head_end(PAGE.as_bytes()).unwrap();
        assert!(complete(PAGE.as_bytes(), end));
        assert!(!complete(&PAGE.as_bytes()[..PAGE.len() - 1], end));
    }
}
