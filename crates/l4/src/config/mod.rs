//! keepalived.conf: text in, model and findings out. No file is opened and nothing is looked up except through [`Host`].
//!
//! Source: keepalived.conf(5) of keepalived 2.2.7, and the program itself where the manual is silent.

pub mod address;
pub mod bfd;
pub mod checker;
pub mod diagnostic;
pub mod globals;
pub mod keyword;
pub mod lvs;
pub mod model;
pub mod resolve;
pub mod route;
pub mod rule;
pub mod source;
pub mod ssl;
pub mod tree;
pub mod vrrp;

pub use diagnostic::{Diagnostic, Severity};
pub use model::Config;
pub use resolve::SCRIPTS_AS_ROOT;
pub use source::{Host, NoHost};

use diagnostic::nearest;
use keyword::{Args, Context, Status};
use tree::Node;

/// Blocks and statements at the top of the file.
struct Root {
    name: &'static str,
    status: Status,
    apply: fn(&mut Context<'_>, &Node),
}

const fn root(name: &'static str, apply: fn(&mut Context<'_>, &Node)) -> Root {
    Root {
        name,
        status: Status::Works,
        apply,
    }
}

const fn root_not_yet(name: &'static str, why: &'static str) -> Root {
    Root {
        name,
        status: Status::NotYet(why),
        apply: |_, _| {},
    }
}

const fn root_no_effect(name: &'static str, why: &'static str) -> Root {
    Root {
        name,
        status: Status::NoEffect(why),
        apply: |_, _| {},
    }
}

static ROOT: &[Root] = &[
    root("global_defs", |cx, node| {
        let mut globals = cx.config.globals.clone();
        let mut a = Args { node, at: 1, cx };
        keyword::block(
            a.block(),
            globals::GLOBALS,
            &mut globals,
            a.cx,
            "global_defs",
        );
        cx.config.globals = globals;
    }),
    root("virtual_server", lvs::virtual_server),
    root("virtual_server_group", lvs::group),
    root("vrrp_instance", vrrp::instance),
    root("vrrp_sync_group", vrrp::sync_group),
    root("vrrp_script", vrrp::script),
    root("track_file", vrrp::track_file),
    root("vrrp_track_file", vrrp::track_file),
    root("vrrp_track_process", vrrp::track_process),
    root("track_process", vrrp::track_process),
    root("static_ipaddress", |cx, node| {
        let mut list = Vec::new();
        let mut a = Args { node, at: 1, cx };
        address::addresses(&mut list, &mut a);
        if list.iter().any(|a| a.use_vmac) {
            a.dubious_at(
                a.keyword(),
                "a static address has no virtual router whose MAC it could use",
            );
        }
        cx.config.static_addresses.extend(list);
    }),
    root("static_routes", |cx, node| {
        let mut list = Vec::new();
        route::routes(&mut list, &mut Args { node, at: 1, cx });
        cx.config.static_routes.extend(list);
    }),
    root("static_rules", |cx, node| {
        let mut list = Vec::new();
        rule::rules(&mut list, &mut Args { node, at: 1, cx });
        cx.config.static_rules.extend(list);
    }),
    root("bfd_instance", bfd::bfd_instance),
    root_not_yet("track_group", "static addresses are not tracked"),
    root_not_yet(
        "garp_group",
        "gratuitous ARPs are paced by vrrp_garp_interval only",
    ),
    root_not_yet("interface_up_down_delays", "link changes act at once"),
    root("SSL", ssl::ssl),
    root_not_yet("net_namespace", "start the program inside the namespace"),
    root_not_yet(
        "net_namespace_ipvs",
        "start the program inside the namespace",
    ),
    root_no_effect("linkbeat_interfaces", "link state comes from netlink"),
    root_no_effect("linkbeat_use_polling", "link state comes from netlink"),
    root_no_effect("namespace_with_ipsets", "no firewall rules are made"),
    root_no_effect(
        "instance",
        "the control socket's name tells instances apart",
    ),
    root_no_effect("use_pid_dir", "there are no pid files"),
    root_no_effect("child_wait_time", "there is one process"),
];

/// Reads a configuration. `config_id` is what `@ID` lines are compared with.
///
/// The model is always given; it may be used only if no finding is an error (see [`accepted`] and [`runnable`]).
pub fn parse(
    host: &dyn Host,
    name: &str,
    text: &str,
    config_id: &str,
) -> (Config, Vec<Diagnostic>) {
    let (lines, mut diagnostics) = source::lines(host, name, text, config_id);
    let (nodes, shape) = tree::build(lines);
    diagnostics.extend(shape);
    let mut cx = Context {
        host,
        diagnostics,
        config: Config::default(),
        script_users: Vec::new(),
        missing_interfaces: std::collections::HashSet::new(),
        ssl_seen: false,
        next_rule_priority: 16384,
    };
    // keepalived reads global_defs before anything else in each of its processes; so do we.
    let (first, rest): (Vec<&Node>, Vec<&Node>) =
        nodes.iter().partition(|n| n.keyword() == "global_defs");
    for node in first.into_iter().chain(rest) {
        statement(&mut cx, node);
    }
    resolve::whole(&mut cx);
    ssl::hand_out(&mut cx.config);
    (cx.config, cx.diagnostics)
}

fn statement(cx: &mut Context<'_>, node: &Node) {
    let Some(root) = ROOT.iter().find(|r| r.name == node.keyword()) else {
        let hint = match nearest(node.keyword(), ROOT.iter().map(|r| r.name)) {
            Some(name) => format!("; did you mean {name}?"),
            None => String::new(),
        };
        return cx.error(
            node.place(),
            format!("unknown keyword '{}'{hint}", node.keyword()),
        );
    };
    match root.status {
        Status::Works => {}
        Status::NoEffect(why) => cx.report(
            Severity::Warning,
            node.place(),
            format!("{} has no effect here: {why}", root.name),
        ),
        Status::NotYet(why) => cx.report(
            Severity::Unsupported,
            node.place(),
            format!("{} is not supported yet: {why}", root.name),
        ),
    }
    (root.apply)(cx, node);
}

/// Whether `keepalived -t` would exit with 0.
pub fn accepted(diagnostics: &[Diagnostic]) -> bool {
    diagnostics
        .iter()
        .all(|d| !matches!(d.severity, Severity::Error | Severity::Dubious))
}

/// Whether `run` can do what the file says.
pub fn runnable(diagnostics: &[Diagnostic]) -> bool {
    diagnostics
        .iter()
        .all(|d| !matches!(d.severity, Severity::Error | Severity::Unsupported))
}

/// Every keyword with its block, arguments, status and help, for the documentation.
pub fn reference() -> Vec<(
    &'static str,
    &'static str,
    &'static str,
    Status,
    &'static str,
)> {
    fn rows<T>(
        block: &'static str,
        table: &'static [keyword::Keyword<T>],
    ) -> impl Iterator<
        Item = (
            &'static str,
            &'static str,
            &'static str,
            Status,
            &'static str,
        ),
    > {
        table
            .iter()
            .map(move |k| (block, k.name, k.args, k.status, k.help))
    }
    let mut out: Vec<_> = ROOT
        .iter()
        .map(|r| ("", r.name, "", r.status, ""))
        .collect();
    out.extend(rows("global_defs", globals::GLOBALS));
    out.extend(rows("virtual_server", lvs::VIRTUAL_SERVER));
    out.extend(rows("real_server", lvs::REAL_SERVER));
    out.extend(rows("SSL", ssl::SSL));
    out.extend(rows("TCP_CHECK", checker::TCP));
    out.extend(rows("HTTP_GET", checker::HTTP));
    out.extend(rows("SMTP_CHECK", checker::SMTP));
    out.extend(rows("DNS_CHECK", checker::DNS));
    out.extend(rows("UDP_CHECK", checker::UDP));
    out.extend(rows("MISC_CHECK", checker::MISC));
    out.extend(rows("FILE_CHECK", checker::FILE));
    out.extend(rows("bfd_instance", bfd::BFD_INSTANCE));
    out.extend(rows("BFD_CHECK", checker::BFD));
    out.extend(rows("vrrp_instance", vrrp::INSTANCE));
    out.extend(rows("vrrp_sync_group", vrrp::SYNC_GROUP));
    out.extend(rows("vrrp_script", vrrp::SCRIPT));
    out.extend(rows("track_file", vrrp::TRACK_FILE));
    out.extend(rows("vrrp_track_process", vrrp::TRACK_PROCESS));
    out
}
