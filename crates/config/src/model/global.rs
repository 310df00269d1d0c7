//! The `global` section.

use super::*;

/// `global`: process-wide settings. `None` means "not given": the process chooses.
#[derive(Clone)]
pub struct Global {
    pub nbthread: Option<u32>,
    /// `nbproc N` of old files: as many worker threads, unless `nbthread` says otherwise.
    pub nbproc: Option<u32>,
    /// `thread-hard-limit`: the number of workers chosen by the process stays below.
    pub thread_hard_limit: Option<u32>,
    /// CPUs each worker may run on: index is the worker (from 0); empty: anywhere.
    pub cpu_map: Vec<CpuMap>,
    /// `cpu-set`, in order: CPUs that the process keeps to.
    pub cpu_set: Vec<CpuRule>,
    /// `cpu-policy first-usable-node`
    pub first_cpu_node: bool,
    pub maxconn: Option<u32>,
    pub maxconnrate: u32,
    pub maxsessrate: u32,
    pub maxpipes: Option<u32>,
    pub ulimit_n: Option<u64>,
    pub fd_hard_limit: Option<u64>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub chroot: Option<String>,
    pub daemon: bool,
    /// `external-check`: health checks may start programs.
    pub external_check: bool,
    pub master_worker: bool,
    /// `master-worker no-exit-on-failure`: the master process outlives its workers.
    pub no_exit_on_failure: bool,
    /// `mworker-max-reloads`: reloads an old worker may live through.
    pub mworker_max_reloads: Option<u32>,
    pub quiet: bool,
    pub zero_warning: bool,
    pub pidfile: Option<String>,
    pub node: Option<String>,
    pub description: Option<String>,
    pub localpeer: Option<String>,
    pub hard_stop_after_ms: Option<u64>,
    pub grace_ms: Option<u64>,
    pub close_spread_time_ms: Option<u64>,
    pub spread_checks_percent: u32,
    pub max_spread_checks_ms: Option<u64>,
    pub nosplice: bool,
    pub noreuseport: bool,
    pub strict_limits: bool,
    pub busy_polling: bool,
    pub logs: Vec<LogTarget>,
    pub log_send_hostname: Option<String>,
    pub log_tag: Option<String>,
    pub stats_sockets: Vec<StatsSocket>,
    pub stats_timeout_ms: u64,
    pub stats_maxconn: u32,
    pub unix_bind: UnixPerms,
    pub unix_bind_prefix: Option<String>,
    pub tune: Tune,
    /// `set-var proc.x EXPR`, evaluated once at start, in order.
    pub set_vars: Vec<(sluice_expr::vars::VarRef, SetVarSource)>,
    /// `setenv`/`presetenv` results, for children (external checks, master).
    pub env: Vec<(String, String)>,
    pub h1_accept_payload_with_any_method: bool,
    /// `h1-do-not-close-on-insecure-transfer-encoding`
    pub h1_keeps_insecure_encoding: bool,
    /// Some expression looks at bodies: those that nothing waits for are shown as far as they are there.
    pub looks_at_bodies: bool,
    /// `h1-case-adjust`: names in lower case, and how they are written.
    pub h1_case_adjust: std::collections::HashMap<String, String>,
    /// Those of them that came from the file.
    pub h1_case_from_file: Vec<String>,
    /// `harden.reject-privileged-ports.tcp`
    pub rejects_privileged_ports: bool,
    /// `prealloc-fd`
    pub prealloc_fd: bool,
    /// `tune.renice.startup` and `.runtime`: the process's nice values.
    pub renice_startup: Option<i32>,
    pub renice_runtime: Option<i32>,
    /// `setcap`: the kernel's numbers of what stays when the user changes.
    pub capabilities: Vec<u8>,
    pub http_err_codes: Option<Vec<(u16, u16)>>,
    pub http_fail_codes: Option<Vec<(u16, u16)>>,
    pub server_state_file: Option<String>,
    pub server_state_base: Option<String>,
}

/// The source of a variable set in `global`.
#[derive(Clone)]
pub enum SetVarSource {
    Expr(sluice_expr::Expr),
    Format(sluice_expr::LogFormat),
}

impl Default for Global {
    fn default() -> Self {
        Global {
            nbthread: None,
            nbproc: None,
            thread_hard_limit: None,
            cpu_map: Vec::new(),
            cpu_set: Vec::new(),
            first_cpu_node: false,
            maxconn: None,
            maxconnrate: 0,
            maxsessrate: 0,
            maxpipes: None,
            ulimit_n: None,
            fd_hard_limit: None,
            user: None,
            group: None,
            uid: None,
            gid: None,
            chroot: None,
            daemon: false,
            external_check: false,
            master_worker: false,
            no_exit_on_failure: false,
            mworker_max_reloads: None,
            quiet: false,
            zero_warning: false,
            pidfile: None,
            node: None,
            description: None,
            localpeer: None,
            hard_stop_after_ms: None,
            grace_ms: None,
            close_spread_time_ms: None,
            spread_checks_percent: 0,
            max_spread_checks_ms: None,
            nosplice: false,
            noreuseport: false,
            strict_limits: true,
            busy_polling: false,
            logs: Vec::new(),
            log_send_hostname: None,
            log_tag: None,
            stats_sockets: Vec::new(),
            stats_timeout_ms: 10_000,
            stats_maxconn: 10,
            unix_bind: UnixPerms::default(),
            unix_bind_prefix: None,
            tune: Tune::default(),
            set_vars: Vec::new(),
            env: Vec::new(),
            h1_accept_payload_with_any_method: false,
            h1_keeps_insecure_encoding: false,
            looks_at_bodies: false,
            h1_case_adjust: std::collections::HashMap::new(),
            h1_case_from_file: Vec::new(),
            rejects_privileged_ports: false,
            prealloc_fd: false,
            renice_startup: None,
            renice_runtime: None,
            capabilities: Vec::new(),
            http_err_codes: None,
            http_fail_codes: None,
            server_state_file: None,
            server_state_base: None,
        }
    }
}

/// One `cpu-map` line, expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuMap {
    /// Worker number from 0; `None` when the line named processes only and means them all.
    pub worker: u32,
    pub cpus: Vec<u32>,
    pub origin: Origin,
}

/// `stats socket ADDR ...`: a bind line whose connections speak the runtime command language.
#[derive(Debug, Clone)]
pub struct StatsSocket {
    pub addrs: Vec<ListenAddr>,
    pub level: CliLevel,
    pub expose_fd_listeners: bool,
    pub perms: UnixPerms,
    pub severity_output: SeverityOutput,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CliLevel {
    User,
    #[default]
    Operator,
    Admin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeverityOutput {
    #[default]
    None,
    Number,
    String,
}

/// Owner and mode of a Unix socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnixPerms {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub user: Option<String>,
    pub group: Option<String>,
}

/// The `tune.*` settings Sluice obeys.
#[derive(Debug, Clone)]
pub struct Tune {
    pub bufsize: usize,
    pub maxrewrite: usize,
    pub maxaccept: Option<u32>,
    pub pipesize: Option<usize>,
    pub http_maxhdr: usize,
    pub http_cookielen: usize,
    pub http_logurilen: usize,
    pub rcvbuf_client: Option<usize>,
    pub rcvbuf_server: Option<usize>,
    pub sndbuf_client: Option<usize>,
    pub sndbuf_server: Option<usize>,
    pub notsent_lowat_client: Option<usize>,
    pub notsent_lowat_server: Option<usize>,
    pub pool_high_fd_ratio: u32,
    pub pool_low_fd_ratio: u32,
    /// `tune.cli.max-payload-size`
    pub cli_payload_max: Option<usize>,
    /// `tune.listener.default-shards`
    pub default_shards: super::Shards,
    /// Workers take idle server connections from each other.
    pub idle_pool_shared: bool,
    pub vars_global_max: usize,
    pub vars_proc_max: usize,
    pub vars_sess_max: usize,
    pub vars_txn_max: usize,
    pub vars_reqres_max: usize,
    pub vars_check_max: usize,
    pub max_checks_per_thread: u32,
}

impl Default for Tune {
    fn default() -> Self {
        Tune {
            bufsize: 16384,
            maxrewrite: 1024,
            maxaccept: None,
            pipesize: None,
            http_maxhdr: 101,
            http_cookielen: 63,
            http_logurilen: 1024,
            rcvbuf_client: None,
            rcvbuf_server: None,
            sndbuf_client: None,
            sndbuf_server: None,
            notsent_lowat_client: None,
            notsent_lowat_server: None,
            pool_high_fd_ratio: 25,
            pool_low_fd_ratio: 20,
            cli_payload_max: None,
            default_shards: super::Shards::ByThread,
            idle_pool_shared: true,
            vars_global_max: 0,
            vars_proc_max: 0,
            vars_sess_max: 0,
            vars_txn_max: 0,
            vars_reqres_max: 0,
            vars_check_max: 0,
            max_checks_per_thread: 0,
        }
    }
}

/// One directive of `cpu-set` (HAProxy 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuRule {
    /// All CPUs of the machine, whatever the process was started on.
    Reset,
    OnlyCpu(Vec<u32>),
    DropCpu(Vec<u32>),
    OnlyNode(Vec<u32>),
    DropNode(Vec<u32>),
}
