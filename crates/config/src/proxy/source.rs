//! `source ADDR[:PORT[-PORT]] [usesrc ...] [interface IF]`, as a line of its own and as words of a server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::addr::{AddrRules, parse_peer};
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{PeerAddr, PortSpec, Source, UseSrc};
use crate::registry::{Keyword, Sections, kw};

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[kw(
    "source",
    Sections::DLB,
    "<addr>[:<port>] [ usesrc { <addr>[:<port>] | client | clientip | hdr_ip(<name>[,<occ>]) } ] [ interface <name> ]",
    "the address connections to servers come from",
    |cx, line| {
        let mut at = line.keyword_len;
        if let Some(source) = source(cx, line, &mut at, false)
            && cx.no_more(line, at)
        {
            cx.proxy().settings.source = Some(source);
        }
    },
)
.ignored()];

/// Reads a source from the address on; servers may name a range of ports.
pub(super) fn source(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    at: &mut usize,
    range_allowed: bool,
) -> Option<Source> {
    let word = *at;
    let text = cx.need(line, word, "an address")?;
    let (ip, ports) = address(cx, line, word, text, range_allowed)?;
    *at += 1;
    let mut source = Source {
        ip,
        ports,
        usesrc: None,
        interface: None,
    };
    loop {
        match line.word(*at) {
            "usesrc" => source.usesrc = Some(usesrc(cx, line, *at + 1)?),
            "interface" => {
                let name = cx.need(line, *at + 1, "an interface's name after 'interface'")?;
                source.interface = Some(name.to_owned());
            }
            _ => return Some(source),
        }
        *at += 2;
    }
}

type IpAndPorts = (Option<IpAddr>, Option<(u16, u16)>);

fn address(
    cx: &mut Cx<'_>,
    line: &Line,
    word: usize,
    text: &str,
    range_allowed: bool,
) -> Option<IpAndPorts> {
    // A range is cut off before the address itself is read.
    let range = text.rsplit_once(':').and_then(|(host, ports)| {
        let (low, high) = ports.split_once('-')?;
        Some((host, low.parse::<u16>().ok()?, high.parse::<u16>().ok()?))
    });
    let (addr, ports) = match range {
        Some((_, low, high)) if !range_allowed || low > high || low == 0 => {
            let message = match range_allowed {
                true => format!("invalid port range in '{text}'"),
                false => format!("port range not permitted here in '{text}'"),
            };
            cx.error_at(line, word, format!("'{}' : {message}", line.keyword()));
            return None;
        }
        Some((host, low, high)) => {
            let addr = parse_peer(host, AddrRules::OPTIONAL_PORT, cx.opts.lookup);
            (addr.ok(), Some((low, high)))
        }
        None => (cx.peer_addr(line, word, AddrRules::OPTIONAL_PORT), None),
    };
    match addr {
        Some(PeerAddr::Ip { ip, port }) => {
            let ports = ports.or(match port {
                PortSpec::Fixed(port) => Some((port, port)),
                PortSpec::FromClient | PortSpec::Offset(_) => None,
            });
            Some(((!ip.is_unspecified()).then_some(ip), ports))
        }
        Some(PeerAddr::Unresolved { host, .. }) => {
            cx.error_at(
                line,
                word,
                format!(
                    "'{}' : invalid address: '{host}' in '{text}'",
                    line.keyword()
                ),
            );
            None
        }
        Some(_) => {
            cx.error_at(
                line,
                word,
                format!(
                    "'{}' : an IP address is expected, not '{text}'",
                    line.keyword()
                ),
            );
            None
        }
        // Already reported, but for the host of a range.
        None => {
            if ports.is_some() {
                cx.error_at(
                    line,
                    word,
                    format!("'{}' : invalid address in '{text}'", line.keyword()),
                );
            }
            None
        }
    }
}

fn usesrc(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<UseSrc> {
    let text = cx.need(
        line,
        word,
        "an address, 'client', 'clientip' or 'hdr_ip(name)' after 'usesrc'",
    )?;
    match text {
        "client" => return Some(UseSrc::Client),
        "clientip" => return Some(UseSrc::ClientIp),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix("hdr_ip(") {
        let Some(inner) = rest.strip_suffix(')') else {
            cx.error_at(
                line,
                word,
                format!("missing closing parenthesis in '{text}'"),
            );
            return None;
        };
        let (name, occurrence) = inner.split_once(',').unwrap_or((inner, "-1"));
        let occurrence = occurrence.trim().parse::<i32>();
        return match (name.trim(), occurrence) {
            (name, Ok(occurrence)) if !name.is_empty() && occurrence.abs() <= 10 => {
                Some(UseSrc::Header {
                    name: name.to_owned(),
                    occurrence,
                })
            }
            _ => {
                let message = format!(
                    "'{text}' : expects a header name and an occurrence between -10 and 10"
                );
                cx.error_at(line, word, message);
                None
            }
        };
    }
    match cx.peer_addr(line, word, AddrRules::OPTIONAL_PORT)? {
        PeerAddr::Ip { ip, port } => {
            let port = match port {
                PortSpec::Fixed(port) => port,
                PortSpec::FromClient | PortSpec::Offset(_) => 0,
            };
            Some(UseSrc::Addr(SocketAddr::new(ip, port)))
        }
        _ => {
            cx.error_at(line, word, format!("'usesrc' : invalid address '{text}'"));
            None
        }
    }
}
