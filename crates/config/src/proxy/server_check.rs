//! The words of a server line that are about health checks and agents.

use std::sync::Arc;

use crate::addr::AddrRules;
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{CheckParams, InitState, Observe, OnError, PeerAddr, PortSpec};
use crate::raw::RawServer;
use crate::registry::{LineWord, word, word_later};
use crate::values::TimeUnit;

use super::choice;
use super::server::set;

#[rustfmt::skip]
pub(crate) static WORDS: &[LineWord<RawServer>] = &[
    word("check", "", "check its health", |_, _, _, s| set(&mut s.server.check.enabled, true)),
    word("no-check", "", "undo `check`", |_, _, _, s| set(&mut s.server.check.enabled, false)),
    word("addr", "<ip>[:<port>]", "where checks go instead of to its address", addr),
    word("port", "<port>", "the port checks go to", |cx, line, at, s| {
        let port = cx.uint(line, at + 1, 0..=65_535)?;
        s.server.check.port = u16::try_from(port).ok().filter(|p| *p > 0);
        Some(2)
    }),
    word("inter", "<delay>", "time between checks", |cx, line, at, s| {
        s.server.check.inter_ms = delay(cx, line, at + 1)?;
        Some(2)
    }),
    word("fastinter", "<delay>", "time between checks while its state changes", |cx, line, at, s| {
        s.server.check.fastinter_ms = Some(delay(cx, line, at + 1)?);
        Some(2)
    }),
    word("downinter", "<delay>", "time between checks while it is down", |cx, line, at, s| {
        s.server.check.downinter_ms = Some(delay(cx, line, at + 1)?);
        Some(2)
    }),
    word("rise", "<count>", "checks that must succeed for it to come up", |cx, line, at, s| {
        s.server.check.rise = cx.uint(line, at + 1, 1..=i32::MAX as u32)?;
        Some(2)
    }),
    word("fall", "<count>", "checks that must fail for it to go down", |cx, line, at, s| {
        s.server.check.fall = cx.uint(line, at + 1, 1..=i32::MAX as u32)?;
        Some(2)
    }),
    word("check-proto", "<name>", "the protocol checks speak", |cx, line, at, _| {
        // Checks speak HTTP/1 whatever is said; other names are refused.
        super::server::protocol(cx, line, at + 1)?;
        Some(2)
    }),
    word("check-send-proxy", "", "begin checks with a PROXY header", |_, _, _, s| {
        set(&mut s.server.check.send_proxy, true)
    }),
    word("no-check-send-proxy", "", "undo `check-send-proxy`", |_, _, _, s| {
        set(&mut s.server.check.send_proxy, false)
    }),
    word("observe", "{ none | layer4 | layer7 }", "learn its health from traffic", |cx, line, at, s| {
        let among = [("none", None), ("layer4", Some(Observe::Layer4)), ("layer7", Some(Observe::Layer7))];
        s.server.check.observe = choice(cx, line, at + 1, &among)?;
        Some(2)
    }),
    word("error-limit", "<count>", "errors in traffic after which `on-error` happens", |cx, line, at, s| {
        let limit = cx.uint(line, at + 1, 1..=i32::MAX as u32)?;
        s.server.check.error_limit = limit;
        s.server.error_limit = limit;
        Some(2)
    }),
    word("on-error", "{ fastinter | fail-check | sudden-death | mark-down }", "what to do after too many errors in traffic", |cx, line, at, s| {
        let among = [
            ("fastinter", OnError::FastInter),
            ("fail-check", OnError::FailCheck),
            ("sudden-death", OnError::SuddenDeath),
            ("mark-down", OnError::MarkDown),
        ];
        s.server.check.on_error = choice(cx, line, at + 1, &among)?;
        Some(2)
    }),
    word("init-state", "{ fully-up | up | down | fully-down }", "what is thought of it before its first check", |cx, line, at, s| {
        let among = [
            ("fully-up", InitState::FullyUp),
            ("up", InitState::Up),
            ("down", InitState::Down),
            ("fully-down", InitState::FullyDown),
        ];
        s.server.check.init_state = choice(cx, line, at + 1, &among)?;
        Some(2)
    }),
    word("agent-check", "", "ask an agent beside it for its state, weight and limit", |_, _, _, s| set(&mut s.server.agent.enabled, true)),
    word("no-agent-check", "", "do not ask an agent", |_, _, _, s| set(&mut s.server.agent.enabled, false)),
    word("agent-addr", "<addr>", "where the agent is asked instead of at its address", |cx, line, at, s| {
        let addr = cx.peer_addr(line, at + 1, AddrRules::OPTIONAL_PORT)?;
        s.server.agent.addr = match addr {
            PeerAddr::Ip { ip, .. } => Some(ip),
            _ => None,
        };
        Some(2)
    }),
    word("agent-port", "<port>", "the port the agent listens on", |cx, line, at, s| {
        let port = cx.uint(line, at + 1, 1..=65_535)?;
        s.server.agent.port = u16::try_from(port).ok();
        Some(2)
    }),
    word("agent-inter", "<delay>", "time between questions to the agent", |cx, line, at, s| {
        s.server.agent.inter_ms = Some(delay(cx, line, at + 1)?);
        Some(2)
    }),
    word("agent-send", "<string>", "what the agent is sent before it answers", |cx, line, at, s| {
        let text = cx.need(line, at + 1, "a string after 'agent-send'")?;
        s.server.agent.send = Some(text.to_owned());
        Some(2)
    }),
    word("no-check-reuse-pool", "", "checks use connections of their own", |_, _, _, _| Some(1)),
    word_later("check-pool-conn-name", "<name>", "checks on pooled connections"),
    word_later("check-reuse-pool", "", "checks on pooled connections"),
    word("check-via-socks4", "", "checks go through its `socks4` proxy", |_, _, _, s| {
        set(&mut s.server.check.via_socks4, true)
    }),
    word_later("healthcheck", "<name>", "named health checks"),
];

fn delay(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<u64> {
    let name = line.word(word - 1);
    cx.need(line, word, &format!("a delay after '{name}'"))?;
    let ms = cx.time_ms(line, word, TimeUnit::Ms)?;
    if ms == 0 {
        cx.error_at(line, word, format!("invalid value 0 for '{name}'"));
        return None;
    }
    Some(ms)
}

fn addr(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize, server: &mut RawServer) -> Option<usize> {
    let addr = cx.peer_addr(line, at + 1, AddrRules::OPTIONAL_PORT)?;
    let check: &mut CheckParams = &mut server.server.check;
    if let PeerAddr::Ip {
        port: PortSpec::Fixed(port),
        ..
    } = addr
    {
        check.port = Some(port);
    }
    check.addr = Some(addr);
    Some(2)
}
