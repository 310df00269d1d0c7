//! Fetches of frontends, backends and servers: how busy they are, what they are called, their timeouts (manual chapters
//! 7.3.2 and 7.3.3).

use super::{int, never, text, truth};
use crate::args::Arg;
use crate::env::{Env, Gauge, NameOf, ProxyId, ServerId, StreamInfo};
use crate::value::Fetched;

fetches! {
    "nbsrv" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::NbSrv) => "Usable servers of a backend.";
    "queue" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::Queue)
        => "Requests waiting in a backend and its servers.";
    "avg_queue" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::AvgQueue)
        => "Requests waiting in a backend for each usable server, twice all of them without one.";
    "be_conn" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::BeConn) => "Connections of a backend.";
    "be_conn_free" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::BeConnFree)
        => "Connections the servers of a backend may still take, -1 without a limit.";
    "connslots" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::ConnSlots)
        => "Connections and places in queues the servers of a backend still have, -1 without a limit.";
    "be_sess_rate" (Backend) -> Sint, PROCESS, |a, env, _| backend(a, env, Gauge::BeSessRate)
        => "New sessions of a backend in the last second.";
    "fe_conn" (Frontend) -> Sint, PROCESS, |a, env, _| frontend(a, env, Gauge::FeConn) => "Connections of a frontend.";
    "fe_req_rate" (Frontend) -> Sint, PROCESS, |a, env, _| frontend(a, env, Gauge::FeReqRate)
        => "HTTP requests to a frontend in the last second.";
    "fe_sess_rate" (Frontend) -> Sint, PROCESS, |a, env, _| frontend(a, env, Gauge::FeSessRate)
        => "New sessions of a frontend in the last second.";
    "srv_conn" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvConn) => "Connections of a server.";
    "srv_conn_free" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvConnFree)
        => "Connections a server may still take, -1 without a limit.";
    "srv_is_up" (Server) -> Bool, PROCESS, |a, env, _| truth(of_server(a, env, Gauge::SrvIsUp).map(|n| n != 0))
        => "Whether a server is up and not in maintenance.";
    "srv_queue" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvQueue)
        => "Requests waiting for a server.";
    "srv_sess_rate" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvSessRate)
        => "New sessions of a server in the last second.";
    "srv_weight" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvWeight)
        => "The weight of a server now.";
    "srv_iweight" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvInitialWeight)
        => "The weight of a server in the configuration.";
    "srv_uweight" (Server) -> Sint, PROCESS, |a, env, _| server(a, env, Gauge::SrvUserWeight)
        => "The weight of a server as users set it.";
    "be_id" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::PuId(s.backend)) => "The backend's id.";
    "be_name" () -> Str, BACKEND, |_, env, _| name(env, |s| Some(NameOf::Proxy(s.backend))) => "The backend's name.";
    "fe_id" () -> Sint, FRONTEND, |_, env, _| of_stream(env, |s| Gauge::PuId(s.frontend)) => "The frontend's id.";
    "fe_name" () -> Str, FRONTEND, |_, env, _| name(env, |s| Some(NameOf::Proxy(s.frontend)))
        => "The frontend's name.";
    "fe_defbe" () -> Str, FRONTEND, |_, env, _| name(env, |s| Some(NameOf::DefaultBackend(s.frontend)))
        => "The name of the frontend's default backend.";
    "srv_id" () -> Sint, SERVER, |_, env, _| srv_id(env) => "The server's id.";
    "srv_name" () -> Str, SERVER, |_, env, _| name(env, |s| s.server.map(NameOf::Server)) => "The server's name.";
    "so_id" () -> Sint, FRONTEND, |_, env, _| int(env.stream().map(|s| i64::from(s.listener_id)))
        => "The id of the socket the client connected to.";
    "so_name" () -> Str, FRONTEND, |_, env, _| text(env.stream().and_then(|s| s.listener_name.as_deref()).map(str::as_bytes))
        => "The name of the socket the client connected to.";
    "be_connect_timeout" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::BeConnectTimeoutMs(s.backend))
        => "The backend's `timeout connect` in ms.";
    "be_queue_timeout" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::BeQueueTimeoutMs(s.backend))
        => "The backend's `timeout queue` in ms.";
    "be_server_timeout" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::BeServerTimeoutMs(s.backend))
        => "The backend's `timeout server` in ms.";
    "be_tarpit_timeout" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::BeTarpitTimeoutMs(s.backend))
        => "The backend's `timeout tarpit` in ms.";
    "be_tunnel_timeout" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::BeTunnelTimeoutMs(s.backend))
        => "The backend's `timeout tunnel` in ms.";
    "be_max_retries" () -> Sint, BACKEND, |_, env, _| of_stream(env, |s| Gauge::BeMaxRetries(s.backend))
        => "The backend's `retries`.";
    "fe_client_timeout" () -> Sint, FRONTEND, |_, env, _| of_stream(env, |s| Gauge::FeClientTimeoutMs(s.frontend))
        => "The frontend's `timeout client` in ms.";
    "fe_tarpit_timeout" () -> Sint, FRONTEND, |_, env, _| of_stream(env, |s| Gauge::FeTarpitTimeoutMs(s.frontend))
        => "The frontend's `timeout tarpit` in ms.";
}

fn backend<'a>(args: &'a [Arg], env: &'a dyn Env, what: fn(ProxyId) -> Gauge) -> Fetched<'a> {
    match args.first() {
        Some(Arg::Backend(name)) => int(name.id().and_then(|id| env.gauge(what(id)))),
        _ => never(),
    }
}

fn frontend<'a>(args: &'a [Arg], env: &'a dyn Env, what: fn(ProxyId) -> Gauge) -> Fetched<'a> {
    match args.first() {
        Some(Arg::Frontend(name)) => int(name.id().and_then(|id| env.gauge(what(id)))),
        _ => never(),
    }
}

fn server<'a>(args: &'a [Arg], env: &'a dyn Env, what: fn(ServerId) -> Gauge) -> Fetched<'a> {
    int(of_server(args, env, what))
}

fn of_server(args: &[Arg], env: &dyn Env, what: fn(ServerId) -> Gauge) -> Option<i64> {
    match args.first() {
        Some(Arg::Server(name)) => env.gauge(what(name.id()?)),
        _ => None,
    }
}

fn of_stream<'a>(env: &'a dyn Env, what: fn(&StreamInfo) -> Gauge) -> Fetched<'a> {
    int(env.stream().and_then(|s| env.gauge(what(s))))
}

fn name<'a>(env: &'a dyn Env, what: fn(&StreamInfo) -> Option<NameOf>) -> Fetched<'a> {
    let name = env.stream().and_then(what).and_then(|of| env.name(of));
    text(name.map(str::as_bytes))
}

fn srv_id(env: &dyn Env) -> Fetched<'_> {
    let server = env.stream().and_then(|s| s.server);
    int(server.and_then(|id| env.gauge(Gauge::SrvId(id))))
}

#[cfg(test)]
mod tests {
    use crate::compile::Names;
    use crate::env::{Gauge, NameOf, ProxyId, ServerId};
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};

    const FE: ProxyId = ProxyId(0);
    const BE: ProxyId = ProxyId(1);
    const SRV: ServerId = ServerId {
        backend: BE,
        index: 0,
    };

    /// Frontend `web`, backend `app` with server `s1`; expressions stand in the backend.
    struct Config;
    impl Names for Config {
        fn frontend(&self, name: &str) -> Option<ProxyId> {
            (name == "web").then_some(FE)
        }
        fn backend(&self, name: &str) -> Option<ProxyId> {
            (name == "app").then_some(BE)
        }
        fn current(&self) -> Option<ProxyId> {
            Some(BE)
        }
        fn current_frontend(&self) -> Option<ProxyId> {
            None
        }
        fn server(&self, backend: &str, server: &str) -> Option<ServerId> {
            (matches!(backend, "" | "app") && server == "s1").then_some(SRV)
        }
        fn table(&self, _: &str) -> Option<ProxyId> {
            None
        }
        fn userlist(&self, _: &str) -> Option<u32> {
            None
        }
    }

    fn check(env: &TestEnv, expr: &str, want: Option<&str>) {
        let compiled = compile(expr, Place::BE_HTTP_REQ).expect(expr);
        assert_eq!(compiled.resolve(&Config), [], "{expr}");
        assert_eq!(env.eval_text(&compiled).as_deref(), want, "{expr}");
    }

    #[test]
    fn gauges_are_those_of_the_thing_named() {
        let mut env = TestEnv::new();
        let all = [
            (Gauge::NbSrv(BE), "nbsrv(app)"),
            (Gauge::Queue(BE), "queue"),
            (Gauge::AvgQueue(BE), "avg_queue()"),
            (Gauge::BeConn(BE), "be_conn"),
            (Gauge::BeConnFree(BE), "be_conn_free(app)"),
            (Gauge::ConnSlots(BE), "connslots(app)"),
            (Gauge::BeSessRate(BE), "be_sess_rate"),
            (Gauge::FeConn(FE), "fe_conn(web)"),
            (Gauge::FeReqRate(FE), "fe_req_rate(web)"),
            (Gauge::FeSessRate(FE), "fe_sess_rate(web)"),
            (Gauge::SrvConn(SRV), "srv_conn(app/s1)"),
            (Gauge::SrvConnFree(SRV), "srv_conn_free(s1)"),
            (Gauge::SrvQueue(SRV), "srv_queue(s1)"),
            (Gauge::SrvSessRate(SRV), "srv_sess_rate(s1)"),
            (Gauge::SrvWeight(SRV), "srv_weight(s1)"),
            (Gauge::SrvInitialWeight(SRV), "srv_iweight(s1)"),
            (Gauge::SrvUserWeight(SRV), "srv_uweight(s1)"),
            (Gauge::PuId(BE), "be_id"),
            (Gauge::PuId(FE), "fe_id"),
            (Gauge::BeConnectTimeoutMs(BE), "be_connect_timeout"),
            (Gauge::BeQueueTimeoutMs(BE), "be_queue_timeout"),
            (Gauge::BeServerTimeoutMs(BE), "be_server_timeout"),
            (Gauge::BeTarpitTimeoutMs(BE), "be_tarpit_timeout"),
            (Gauge::BeTunnelTimeoutMs(BE), "be_tunnel_timeout"),
            (Gauge::BeMaxRetries(BE), "be_max_retries"),
            (Gauge::FeClientTimeoutMs(FE), "fe_client_timeout"),
            (Gauge::FeTarpitTimeoutMs(FE), "fe_tarpit_timeout"),
        ];
        env.gauges = (100..)
            .zip(&all)
            .map(|(n, (gauge, _))| (*gauge, n))
            .collect();
        for ((_, expr), n) in all.iter().zip(100..) {
            check(&env, expr, Some(&n.to_string()));
        }
        env.gauges.clear();
        check(&env, "nbsrv(app)", None);
    }

    #[test]
    fn a_server_is_up_or_not() {
        let mut env = TestEnv::new();
        env.gauges = vec![(Gauge::SrvIsUp(SRV), 1)];
        check(&env, "srv_is_up(app/s1)", Some("1"));
        env.gauges = vec![(Gauge::SrvIsUp(SRV), 0)];
        check(&env, "srv_is_up(s1)", Some("0"));
    }

    #[test]
    fn things_have_names() {
        let mut env = TestEnv::new();
        env.names = vec![
            (NameOf::Proxy(FE), "web".into()),
            (NameOf::Proxy(BE), "app".into()),
            (NameOf::DefaultBackend(FE), "other".into()),
            (NameOf::Server(SRV), "s1".into()),
        ];
        env.gauges = vec![(Gauge::SrvId(SRV), 7)];
        env.check(&[
            ("fe_name", Some("web")),
            ("be_name", Some("app")),
            ("fe_defbe", Some("other")),
            ("srv_name", None),
            ("srv_id", None),
            ("so_id", Some("0")),
            ("so_name", None),
        ]);
        let stream = env.stream.as_mut().expect("a stream");
        stream.server = Some(SRV);
        (stream.listener_id, stream.listener_name) = (3, Some("public".into()));
        env.check(&[
            ("srv_name", Some("s1")),
            ("srv_id", Some("7")),
            ("so_id", Some("3")),
            ("so_name", Some("public")),
        ]);
    }

    #[test]
    fn unknown_names_are_told() {
        let message = |expr: &str| {
            let compiled = compile(expr, Place::BE_HTTP_REQ).expect(expr);
            let errors = compiled.resolve(&Config);
            errors
                .into_iter()
                .map(|e| e.message)
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(
            message("be_conn(ap)"),
            "`be_conn`: no backend is called 'ap'"
        );
        assert_eq!(
            message("fe_conn"),
            "`fe_conn`: name the frontend: the current section is none"
        );
        assert_eq!(
            message("srv_conn(app/s2)"),
            "`srv_conn`: no server is called 'app/s2'"
        );
        assert!(compile("srv_conn", Place::BE_HTTP_REQ).is_err());
    }
}
