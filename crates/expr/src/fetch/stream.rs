//! Fetches of a stream's own facts: captures, timers, bytes, how it ended, its timeouts. Most feed log formats.

use std::sync::Arc;

use super::constant::{in_unit, prepare_unit};
use super::{arg_int, int, never, text, truth};
use crate::args::Arg;
use crate::conv::BadArg;
use crate::env::{Env, StreamInfo};
use crate::value::{Absent, Fetched, Sample};

fetches! {
    "capture.req.hdr" (Sint) -> Str, REQUEST_KEPT, |a, env, _| capture(a, env, |s| &s.req_captures), prepare |a, _| slot(a)
        => "The request header captured in a slot.";
    "capture.res.hdr" (Sint) -> Str, RESPONSE_KEPT, |a, env, _| capture(a, env, |s| &s.res_captures), prepare |a, _| slot(a)
        => "The response header captured in a slot.";
    "unique-id" () -> Str, ANYWHERE, |_, env, _| text(env.unique_id())
        => "The id `unique-id-format` made.";
    "accept_date" (; Str) -> Sint, CLIENT, |a, env, _| date(a, env, |s| s.accept_us), prepare |a, _| prepare_unit(a, 0)
        => "When the connection was accepted, in seconds (or `ms`, `us`) since the epoch.";
    "request_date" (; Str) -> Sint, REQUEST_KEPT, |a, env, _| date(a, env, |s| s.request_us), prepare |a, _| prepare_unit(a, 0)
        => "When the request's first byte came, in seconds (or `ms`, `us`) since the epoch.";
    "fc.timer.handshake" () -> Sint, CLIENT, |_, env, _| timer(env, |s| s.th_ms)
        => "ms spent on the connection's handshakes, `%Th`.";
    "fc.timer.total" () -> Sint, FRONTEND, |_, env, _| timer(env, |s| s.tt_ms) => "ms since the connection was accepted, `%Tt`.";
    "req.timer.idle" () -> Sint, REQUEST, |_, env, _| timer(env, |s| s.ti_ms)
        => "ms the connection was idle before the request, `%Ti`.";
    "req.timer.hdr" () -> Sint, REQUEST, |_, env, _| timer(env, |s| s.tr_ms) => "ms the client took for its request's head, `%TR`.";
    "req.timer.tq" () -> Sint, REQUEST, |_, env, _| tq(env) => "ms until the request was there: handshakes, idle and head, `%Tq`.";
    "req.timer.queue" () -> Sint, RESPONSE_KEPT, |_, env, _| timer(env, |s| s.tw_ms) => "ms spent in queues, `%Tw`.";
    "bc.timer.connect" () -> Sint, RESPONSE_KEPT, |_, env, _| timer(env, |s| s.tc_ms) => "ms to connect to the server, `%Tc`.";
    "res.timer.hdr" () -> Sint, RESPONSE, |_, env, _| timer(env, |s| s.tsrv_ms) => "ms until the response's head, `%Tr`.";
    "res.timer.data" () -> Sint, TRANSFER, |_, env, _| timer(env, |s| s.td_ms) => "ms the response's data took, `%Td`.";
    "txn.timer.total" () -> Sint, REQUEST_KEPT, |_, env, _| timer(env, |s| s.ta_ms) => "ms the request was active, `%Ta`.";
    "txn.timer.user" () -> Sint, REQUEST_KEPT, |_, env, _| timer(env, |s| s.tu_ms)
        => "ms as the user saw it, idle time left out, `%Tu`.";
    "bytes_in" () -> Sint, REQUEST_KEPT, |_, env, _| count(env, |s| s.bytes_in) => "Bytes received from the client, `%U`.";
    "bytes_out" () -> Sint, TRANSFER, |_, env, _| count(env, |s| s.bytes_out) => "Bytes sent to the client, `%B`.";
    "req.bytes_in" () -> Sint, REQUEST_KEPT, |_, env, _| count(env, |s| s.bytes_in)
        => "Bytes received from the client.";
    "req.bytes_out" () -> Sint, REQUEST_KEPT, |_, env, _| count(env, |s| s.req_bytes_out) => "Bytes sent to the server.";
    "res.bytes_in" () -> Sint, TRANSFER, |_, env, _| count(env, |s| s.res_bytes_in) => "Bytes received from the server.";
    "res.bytes_out" () -> Sint, TRANSFER, |_, env, _| count(env, |s| s.bytes_out) => "Bytes sent to the client.";
    "txn.conn_retries" () -> Sint, RESPONSE_KEPT, |_, env, _| count(env, |s| s.retries.into())
        => "How often connecting to the server was tried again.";
    "txn.redispatched" () -> Bool, RESPONSE_KEPT, |_, env, _| truth(env.stream().map(|s| s.redispatched))
        => "Whether the stream was given to another server.";
    "txn.id32" () -> Sint, PROCESS, |_, env, _| int(env.stream().map(|s| i64::from(s.request_counter as u32)))
        => "The stream's number, as 32 bits that wrap.";
    "txn.sess_term_state" () -> Str, PROCESS, |_, env, _| term_state(env)
        => "The two characters that say how the stream ended, as in `%ts`.";
    "term_events" () -> Str, PROCESS, |_, env, _| term_events(env)
        => "What ended the stream, as `side:event@phase` (`server:timeout@headers`); empty for an end in order.";
    "bc_be_queue" () -> Sint, RESPONSE_KEPT, |_, env, _| count(env, |s| s.backend_queue.into())
        => "Requests that were served before this one in the backend's queue.";
    "bc_srv_queue" () -> Sint, RESPONSE_KEPT, |_, env, _| count(env, |s| s.srv_queue.into())
        => "Requests that were served before this one in the server's queue.";
    "prio_class" () -> Sint, PROCESS, |_, env, _| int(env.stream().map(|s| s.prio_class.into()))
        => "The priority class, as `set-priority-class` set it.";
    "prio_offset" () -> Sint, PROCESS, |_, env, _| int(env.stream().map(|s| s.prio_offset.into()))
        => "The priority offset, as `set-priority-offset` set it.";
    "last_rule_file" () -> Str, PROCESS, |_, env, _| text(last_rule(env).map(|(file, _)| file.as_bytes()))
        => "The configuration file of the rule that ended the stream.";
    "last_rule_line" () -> Sint, PROCESS, |_, env, _| int(last_rule(env).map(|(_, line)| line.into()))
        => "The line of the rule that ended the stream.";
    "last_entity" () -> Str, PROCESS, |_, env, _| entity(env, |s| &s.last_rule)
        => "The rule that ended the stream, as `file:line`.";
    "waiting_entity" () -> Str, PROCESS, |_, env, _| entity(env, |s| &s.waiting_rule)
        => "The rule the stream waits for, as `file:line`.";
    "cur_client_timeout" () -> Sint, FRONTEND, |_, env, _| count(env, |s| s.client_timeout_ms)
        => "The client timeout now applied, in ms.";
    "cur_server_timeout" () -> Sint, BACKEND, |_, env, _| count(env, |s| s.server_timeout_ms)
        => "The server timeout now applied, in ms.";
    "cur_tunnel_timeout" () -> Sint, BACKEND, |_, env, _| count(env, |s| s.tunnel_timeout_ms)
        => "The tunnel timeout now applied, in ms.";
    "cur_connect_timeout" () -> Sint, BACKEND, |_, env, _| count(env, |s| s.connect_timeout_ms)
        => "The connect timeout now applied, in ms.";
    "cur_queue_timeout" () -> Sint, BACKEND, |_, env, _| count(env, |s| s.queue_timeout_ms)
        => "The queue timeout now applied, in ms.";
    "cur_tarpit_timeout" () -> Sint, CLIENT, |_, env, _| count(env, |s| s.tarpit_timeout_ms)
        => "The tarpit timeout now applied, in ms.";
    "cur_max_retries" () -> Sint, BACKEND, |_, env, _| count(env, |s| s.max_retries.into())
        => "How often connecting may be tried again, as `set-retries` left it.";
}

fn slot(args: &[Arg]) -> Result<(), BadArg> {
    match arg_int(args, 0) {
        Some(n) if n < 0 => Err(BadArg::new(0, "slots are counted from 0")),
        _ => Ok(()),
    }
}

type Captures = fn(&StreamInfo) -> &Vec<Option<Vec<u8>>>;

fn capture<'a>(args: &'a [Arg], env: &'a dyn Env, which: Captures) -> Fetched<'a> {
    let slot = arg_int(args, 0)
        .and_then(|n| usize::try_from(n).ok())
        .ok_or(Absent::Never)?;
    let captures = env.stream().map(which).ok_or(Absent::Never)?;
    text(captures.get(slot).and_then(Option::as_deref))
}

/// A moment the stream remembers; 0 is one that did not come.
fn date<'a>(args: &'a [Arg], env: &'a dyn Env, which: fn(&StreamInfo) -> i64) -> Fetched<'a> {
    let moment = env.stream().map(which).filter(|&us| us != 0);
    int(moment.map(|us| in_unit(args, 0, us)))
}

/// A timer as in the logs, -1 when its moment did not come.
fn timer<'a>(env: &'a dyn Env, which: fn(&StreamInfo) -> i32) -> Fetched<'a> {
    int(env.stream().map(|s| which(s).into()))
}

fn tq(env: &dyn Env) -> Fetched<'_> {
    int(env.stream().map(|s| match s.tr_ms {
        reached @ 0.. => i64::from(reached) + i64::from(s.th_ms.max(0)) + i64::from(s.ti_ms.max(0)),
        _ => -1,
    }))
}

fn count<'a>(env: &'a dyn Env, which: fn(&StreamInfo) -> u64) -> Fetched<'a> {
    int(env
        .stream()
        .map(|s| i64::try_from(which(s)).unwrap_or(i64::MAX)))
}

fn term_state(env: &dyn Env) -> Fetched<'_> {
    match env.stream() {
        Some(s) => Ok(Sample::string([s.term_cause, s.term_phase])),
        None => never(),
    }
}

/// The flags of `%ts` in words (manual chapter 8.5).
fn term_events(env: &dyn Env) -> Fetched<'_> {
    let Some(s) = env.stream() else {
        return never();
    };
    let event = match s.term_cause {
        b'C' => "client:abort",
        b'c' => "client:timeout",
        b'S' => "server:abort",
        b's' => "server:timeout",
        b'D' => "server:down",
        b'U' => "server:up",
        b'P' => "proxy:refusal",
        b'L' => "proxy:answer",
        b'R' => "proxy:resources",
        b'I' => "proxy:fault",
        b'K' => "operator:kill",
        _ => return Ok(Sample::string("")),
    };
    let phase = match s.term_phase {
        b'R' => "request",
        b'Q' => "queue",
        b'C' => "connect",
        b'H' => "headers",
        b'D' => "data",
        b'L' => "last",
        b'T' => "tarpit",
        _ => return Ok(Sample::string(event)),
    };
    Ok(Sample::string(format!("{event}@{phase}")))
}

fn last_rule(env: &dyn Env) -> Option<(&str, u32)> {
    let (file, line) = env.stream()?.last_rule.as_ref()?;
    Some((file, *line))
}

type Rule = Option<(Arc<str>, u32)>;

fn entity<'a>(env: &'a dyn Env, which: fn(&StreamInfo) -> &Rule) -> Fetched<'a> {
    match env.stream().map(which) {
        Some(Some((file, line))) => Ok(Sample::string(format!("{file}:{line}"))),
        _ => never(),
    }
}

#[cfg(test)]
mod tests {
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};

    #[test]
    fn captures_are_found_by_slot() {
        let mut env = TestEnv::new();
        let stream = env.stream.as_mut().expect("a stream");
        stream.req_captures = vec![Some(b"host".to_vec()), None];
        stream.res_captures = vec![Some(b"gzip".to_vec())];
        env.check(&[
            ("capture.req.hdr(0)", Some("host")),
            ("capture.req.hdr(1)", None),
            ("capture.req.hdr(2)", None),
            ("capture.res.hdr(0)", Some("gzip")),
        ]);
        assert!(compile("capture.req.hdr(-1)", Place::empty()).is_err());
    }

    #[test]
    fn timers_are_those_of_the_logs() {
        let mut env = TestEnv::new();
        let timers = [
            ("fc.timer.handshake", "1"),
            ("req.timer.idle", "2"),
            ("req.timer.hdr", "3"),
            ("req.timer.tq", "6"),
            ("req.timer.queue", "4"),
            ("bc.timer.connect", "5"),
            ("res.timer.hdr", "6"),
            ("res.timer.data", "7"),
            ("txn.timer.total", "8"),
            ("fc.timer.total", "9"),
            ("txn.timer.user", "10"),
        ];
        env.check(&[
            ("req.timer.tq", Some("-1")),
            ("bc.timer.connect", Some("-1")),
        ]);
        let s = env.stream.as_mut().expect("a stream");
        (s.th_ms, s.ti_ms, s.tr_ms, s.tw_ms, s.tc_ms) = (1, 2, 3, 4, 5);
        (s.tsrv_ms, s.td_ms, s.ta_ms, s.tt_ms, s.tu_ms) = (6, 7, 8, 9, 10);
        env.check(&timers.map(|(fetch, want)| (fetch, Some(want))));
    }

    #[test]
    fn dates_have_units() {
        let mut env = TestEnv::new();
        env.check(&[("accept_date", None), ("request_date", None)]);
        let s = env.stream.as_mut().expect("a stream");
        (s.accept_us, s.request_us) = (1_700_000_000_123_456, 1_700_000_001_000_000);
        env.check(&[
            ("accept_date", Some("1700000000")),
            ("accept_date(ms)", Some("1700000000123")),
            ("request_date(us)", Some("1700000001000000")),
        ]);
        assert!(compile("accept_date(h)", Place::empty()).is_err());
    }

    #[test]
    fn facts_are_shown() {
        let mut env = TestEnv::new();
        let s = env.stream.as_mut().expect("a stream");
        (s.bytes_in, s.bytes_out) = (1, 2);
        (s.req_bytes_out, s.res_bytes_in) = (4, 5);
        (s.retries, s.redispatched, s.request_counter) = (7, true, (8 << 32) + 9);
        (s.term_cause, s.term_phase) = (b'S', b'C');
        (s.backend_queue, s.srv_queue, s.prio_class, s.prio_offset) = (10, 11, -12, 13);
        s.last_rule = Some(("a.cfg".into(), 14));
        s.unique_id = b"abc".to_vec().into();
        (
            s.client_timeout_ms,
            s.server_timeout_ms,
            s.tunnel_timeout_ms,
        ) = (15, 16, 17);
        (
            s.connect_timeout_ms,
            s.queue_timeout_ms,
            s.tarpit_timeout_ms,
            s.max_retries,
        ) = (18, 19, 20, 21);
        env.check(&[
            ("bytes_in", Some("1")),
            ("bytes_out", Some("2")),
            ("req.bytes_in", Some("1")),
            ("req.bytes_out", Some("4")),
            ("res.bytes_in", Some("5")),
            ("res.bytes_out", Some("2")),
            ("txn.conn_retries", Some("7")),
            ("txn.redispatched", Some("1")),
            ("txn.id32", Some("9")),
            ("txn.sess_term_state", Some("SC")),
            ("term_events", Some("server:abort@connect")),
            ("bc_be_queue", Some("10")),
            ("bc_srv_queue", Some("11")),
            ("prio_class", Some("-12")),
            ("prio_offset", Some("13")),
            ("last_rule_file", Some("a.cfg")),
            ("last_rule_line", Some("14")),
            ("last_entity", Some("a.cfg:14")),
            ("waiting_entity", None),
            ("unique-id", Some("abc")),
            ("cur_client_timeout", Some("15")),
            ("cur_server_timeout", Some("16")),
            ("cur_tunnel_timeout", Some("17")),
            ("cur_connect_timeout", Some("18")),
            ("cur_queue_timeout", Some("19")),
            ("cur_tarpit_timeout", Some("20")),
            ("cur_max_retries", Some("21")),
        ]);
    }

    #[test]
    fn entities_are_named() {
        let mut env = TestEnv::new();
        let s = env.stream.as_mut().expect("a stream");
        s.last_rule = Some(("a.cfg".into(), 3));
        s.waiting_rule = Some(("b.cfg".into(), 4));
        env.check(&[
            ("last_entity", Some("a.cfg:3")),
            ("waiting_entity", Some("b.cfg:4")),
        ]);
    }
}
