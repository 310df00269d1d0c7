//! Converters that ask the running process: for a backend or server whose name is only known when it runs, and for how
//! the stream has fared.

use crate::acl::Cond;
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, text_arg};
use crate::env::{Env, Gauge, ServerId};
use crate::value::{Absent, Fetched, Sample, Value};

converters! {
    "nbsrv" () Str -> Sint, |_, s, env| on_bytes(s, |s| {
            let backend = env.backend_named(&s)?;
            env.gauge(Gauge::NbSrv(backend)).map(Value::Sint)
        }) => "The number of usable servers of the backend of that name.";
    "srv_queue" () Str -> Sint, |_, s, env| on_bytes(s, |s| {
            env.gauge(Gauge::SrvQueue(server(&s, env)?)).map(Value::Sint)
        }) => "The number of requests queued at the server named, as `server` or `backend/server`.";
    "srv_is_up" () Str -> Bool, |_, s, env| on_bytes(s, |s| {
            env.gauge(Gauge::SrvIsUp(server(&s, env)?)).map(|up| Value::Bool(up != 0))
        }) => "Whether the server named, as `server` or `backend/server`, is up.";
    "fe_exists" () Str -> Bool, |_, s, env| on_bytes(s, |s| Some(Value::Bool(env.frontend_named(&s).is_some())))
        => "Whether there is a frontend of that name.";
    "when" (Str; Str, Str) Any -> Any, when, prepare prepare_when
        => "Passes the input on if the stream had an `error`, was `normal`, `forwarded`, `processed` or `toapplet`, or the \
            process is `stopping`, or the ACL named after `acl` passes; nothing otherwise. `!` before the word negates it.";
}

/// `backend/server`, or a server of the current backend.
fn server(name: &[u8], env: &dyn Env) -> Option<ServerId> {
    match name.iter().position(|c| *c == b'/') {
        Some(slash) => env.server_named(Some(&name[..slash]), &name[slash + 1..]),
        None => env.server_named(None, name),
    }
}

/// What `when` asks about.
enum Condition {
    Error,
    Forwarded,
    Processed,
    ToApplet,
    Stopping,
    Acl(Cond),
}

/// A condition of `when` with what it must be.
struct When {
    condition: Condition,
    wanted: bool,
}

fn prepare_when(args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    let text = text_arg(args, 0)?;
    let (word, wanted) = match text.strip_prefix('!') {
        Some(word) => (word, false),
        None => (text, true),
    };
    let (condition, wanted) = match word {
        "error" => (Condition::Error, wanted),
        "normal" => (Condition::Error, !wanted),
        "forwarded" => (Condition::Forwarded, wanted),
        "processed" => (Condition::Processed, wanted),
        "toapplet" => (Condition::ToApplet, wanted),
        "stopping" => (Condition::Stopping, wanted),
        "acl" => (Condition::Acl(acl_named(args, ctx)?), wanted),
        _ => {
            let known = "error, normal, forwarded, processed, toapplet, stopping and acl";
            return Err(BadArg::new(
                0,
                format!("'{word}' is no condition; there are {known}"),
            ));
        }
    };
    let taken = if matches!(condition, Condition::Acl(_)) {
        2
    } else {
        1
    };
    if let Some(index) = (taken..args.len()).find(|i| !matches!(args[*i], Arg::None)) {
        return Err(BadArg::new(
            index,
            format!("this is one argument more than '{word}' has"),
        ));
    }
    set_prepared(args, 0, When { condition, wanted });
    Ok(())
}

fn acl_named(args: &[Arg], ctx: &ParseCtx<'_>) -> Result<Cond, BadArg> {
    let name = text_arg(args, 1)?;
    let acls = ctx
        .acls
        .ok_or_else(|| BadArg::new(1, "no ACL can be used here"))?;
    if name.is_empty() {
        return Err(BadArg::new(1, "the name of an ACL is missing"));
    }
    Cond::parse(&["if", name], acls, ctx).map_err(|e| BadArg::new(1, e.message))
}

fn when<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    let When { condition, wanted } = prepared(args, 0).ok_or(Absent::Never)?;
    if condition.holds(env).ok_or(Absent::Never)? == *wanted {
        Ok(sample)
    } else {
        Err(Absent::Never)
    }
}

impl Condition {
    /// `None` where there is no stream.
    fn holds(&self, env: &dyn Env) -> Option<bool> {
        let stream = || env.stream();
        Some(match self {
            // What `option dontlog-normal` takes for abnormal: not the proxy's own answers, but retries and 5xx.
            Condition::Error => {
                let stream = stream()?;
                let retried = stream.retries > 0 || stream.redispatched;
                !matches!(stream.term_cause, b'-' | b'L') || retried || stream.status >= 500
            }
            Condition::Forwarded => stream()?.server.is_some(),
            Condition::ToApplet => stream()?.applet.is_some(),
            Condition::Processed => stream().map(|s| s.server.is_some() || s.applet.is_some())?,
            Condition::Stopping => env.gauge(Gauge::Stopping).unwrap_or(0) != 0,
            Condition::Acl(cond) => cond.eval_final(env),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::acl::AclTable;
    use crate::conv::testing::{self, check_new, check_refused};
    use crate::env::{Env, Gauge, Now, ProxyId, ServerId, StreamInfo};
    use crate::pattern::Store;

    /// A process with the backend `app` (2 usable servers) whose server `s1` is up with 3 requests queued.
    struct Process(StreamInfo);

    const APP: ProxyId = ProxyId(7);
    const S1: ServerId = ServerId {
        backend: APP,
        index: 0,
    };

    impl Env for Process {
        fn now(&self) -> Now {
            Now::default()
        }
        fn random(&self) -> u64 {
            0
        }
        fn backend_named(&self, name: &[u8]) -> Option<ProxyId> {
            (name == b"app").then_some(APP)
        }
        fn frontend_named(&self, name: &[u8]) -> Option<ProxyId> {
            (name == b"web").then_some(ProxyId(1))
        }
        fn server_named(&self, backend: Option<&[u8]>, server: &[u8]) -> Option<ServerId> {
            (backend.is_none_or(|b| b == b"app") && server == b"s1").then_some(S1)
        }
        fn gauge(&self, what: Gauge) -> Option<i64> {
            match what {
                Gauge::NbSrv(APP) => Some(2),
                Gauge::SrvQueue(S1) => Some(3),
                Gauge::SrvIsUp(S1) => Some(1),
                _ => None,
            }
        }
        fn stream(&self) -> Option<&StreamInfo> {
            Some(&self.0)
        }
    }

    fn check(stream: StreamInfo, expr: &str, expect: Option<&str>) {
        let mut acls = AclTable::new();
        let store = Store::new();
        let ctx = testing::ctx(&store, None);
        acls.declare(&["yes", "always_true"], &ctx).unwrap();
        acls.declare(&["no", "always_false"], &ctx).unwrap();
        let compiled = testing::compile(expr, Some(&acls)).unwrap();
        let process = Process(stream);
        let got = compiled.eval(&process).ok().map(|s| {
            let mut text = Vec::new();
            s.value.write_text(&mut text);
            String::from_utf8(text).unwrap()
        });
        assert_eq!(got.as_deref(), expect, "{expr}");
    }

    #[test]
    fn names() {
        let stream = || StreamInfo::new(ProxyId(1));
        for (expr, expect) in [
            ("str(app),nbsrv", Some("2")),
            ("str(nope),nbsrv", None),
            ("str(app/s1),srv_queue", Some("3")),
            ("str(s1),srv_queue", Some("3")),
            ("str(app/s2),srv_queue", None),
            ("str(app/s1),srv_is_up", Some("1")),
            ("str(x/s1),srv_is_up", None),
            ("str(web),fe_exists", Some("1")),
            ("str(app),fe_exists", Some("0")),
        ] {
            check(stream(), expr, expect);
        }
    }

    #[test]
    fn how_the_stream_fared() {
        let quiet = StreamInfo::new(ProxyId(1));
        check(quiet.clone(), "str(a),when(normal)", Some("a"));
        check(quiet.clone(), "str(a),when(error)", None);
        check(quiet.clone(), "str(a),when(!error)", Some("a"));
        check(quiet.clone(), "str(a),when(forwarded)", None);
        check(quiet.clone(), "str(a),when(!processed)", Some("a"));
        check(quiet.clone(), "str(a),when(stopping)", None);
        check(quiet.clone(), "str(a),when(acl,yes)", Some("a"));
        check(quiet.clone(), "str(a),when(!acl,yes)", None);
        check(quiet.clone(), "str(a),when(acl,!no)", Some("a"));

        let mut forwarded = quiet.clone();
        forwarded.server = Some(S1);
        check(forwarded.clone(), "str(a),when(forwarded)", Some("a"));
        check(forwarded.clone(), "str(a),when(processed)", Some("a"));
        check(forwarded, "str(a),when(toapplet)", None);

        let mut failed = quiet.clone();
        failed.term_cause = b'S';
        check(failed, "int(5),when(error),add(1)", Some("6"));
        let mut retried = quiet.clone();
        retried.retries = 1;
        check(retried, "str(a),when(error)", Some("a"));
        let mut bad = quiet;
        bad.status = 503;
        check(bad, "str(a),when(!normal)", Some("a"));
    }

    #[test]
    fn conditions_are_checked() {
        check_refused(&[
            ("str(a),when(sometimes)", "sometimes"),
            ("str(a),when(error,x)", "argument"),
            ("str(a),when(acl,x)", "ACL"),
            ("str(a),when(acl)", "ACL"),
        ]);
        check_new(&[("str(a),when(error)", None)]);
    }
}
