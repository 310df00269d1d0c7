//! Addresses that are words of a line: variables are expanded, faults reported under the word.

use std::net::IpAddr;

use super::{AddrFault, AddrRules, parse_bound, parse_peer};
use crate::cx::Cx;
use crate::environ::Environ;
use crate::line::Line;
use crate::model::{ListenAddr, PeerAddr};

impl Cx<'_> {
    /// The addresses of a `bind` or `stats socket` line; `${X}` is expanded even outside of quotes, as HAProxy does
    /// in addresses.
    pub fn listen_addrs(&mut self, line: &Line, word: usize) -> Option<Vec<ListenAddr>> {
        self.bound_addrs(line, word, false)
    }

    /// The addresses of a `dgram-bind` line.
    pub fn datagram_addrs(&mut self, line: &Line, word: usize) -> Option<Vec<ListenAddr>> {
        self.bound_addrs(line, word, true)
    }

    fn bound_addrs(&mut self, line: &Line, word: usize, datagram: bool) -> Option<Vec<ListenAddr>> {
        let text = self.need(line, word, "an address")?;
        let text = expand(&self.environ, text);
        let prefix = self.raw.global.unix_bind_prefix.clone();
        match parse_bound(&text, prefix.as_deref(), self.opts.lookup, datagram) {
            Ok(addrs) => Some(addrs),
            Err(fault) => {
                self.addr_fault(line, word, &text, fault);
                None
            }
        }
    }

    /// An address that is connected or sent to.
    pub fn peer_addr(&mut self, line: &Line, word: usize, rules: AddrRules) -> Option<PeerAddr> {
        let lookup = self.opts.lookup;
        self.peer_addr_with(line, word, rules, lookup)
    }

    /// The same without looking names up (`init-addr none`).
    pub fn peer_addr_unresolved(
        &mut self,
        line: &Line,
        word: usize,
        rules: AddrRules,
    ) -> Option<PeerAddr> {
        self.peer_addr_with(line, word, rules, &|_| None)
    }

    fn peer_addr_with(
        &mut self,
        line: &Line,
        word: usize,
        rules: AddrRules,
        lookup: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Option<PeerAddr> {
        let text = self.need(line, word, "an address")?;
        let text = expand(&self.environ, text);
        match parse_peer(&text, rules, lookup) {
            Ok(addr) => Some(addr),
            Err(fault) => {
                self.addr_fault(line, word, &text, fault);
                None
            }
        }
    }

    fn addr_fault(&mut self, line: &Line, word: usize, text: &str, fault: AddrFault) {
        // Offsets into an expanded text say nothing about the source.
        let span = match text == line.word(word) {
            true => fault.span,
            false => 0..0,
        };
        let (message, hint) = match fault.later {
            Some(part) => (
                format!(
                    "'{}' : {} is not implemented by Sluice yet",
                    line.keyword(),
                    fault.message
                ),
                Some(format!("it comes with: {part}")),
            ),
            None => (
                format!("'{}' : {}", line.keyword(), fault.message),
                fault.hint,
            ),
        };
        self.error(line, word, span, message, hint);
    }
}

/// Expands `$X` and `${X}` in a word that was not quoted.
pub(crate) fn expand(environ: &Environ, text: &str) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (braced, inner) = match rest.strip_prefix('{') {
            Some(inner) => (true, inner),
            None => (false, rest),
        };
        let len = inner
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(inner.len());
        let (name, after) = inner.split_at(len);
        out.push_str(environ.var(name).unwrap_or(""));
        rest = match braced {
            true => after.strip_prefix('}').unwrap_or(after),
            false => after,
        };
    }
    out.push_str(rest);
    out
}
