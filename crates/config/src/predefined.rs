//! Environment variables that are set before the first line is read (manual chapter 2.3).

use sluice_expr::logformat as formats;

use crate::condition::LANGUAGE_VERSION;
use crate::environ::Environ;
use crate::{LoadOptions, SourceFile};

/// Names and values known without running anything. `HAPROXY_CLI` and `HAPROXY_MASTER_CLI` are the process's to set once
/// its sockets exist.
pub(crate) fn set(environ: &mut Environ, files: &[SourceFile], opts: &LoadOptions<'_>) {
    let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
    let branch = LANGUAGE_VERSION
        .rsplit_once('.')
        .map_or(LANGUAGE_VERSION, |(branch, _)| branch);
    environ.set("HAPROXY_CFGFILES", &names.join(";"));
    environ.set("HAPROXY_LOCALPEER", &opts.localpeer);
    environ.set("HAPROXY_VERSION", LANGUAGE_VERSION);
    environ.set("HAPROXY_BRANCH", branch);
    // The master passes on the version it was started with.
    environ.preset("HAPROXY_STARTUP_VERSION", LANGUAGE_VERSION);
    if opts.master_worker {
        environ.set("HAPROXY_MWORKER", "1");
    }
    environ.set("HAPROXY_HTTP_LOG_FMT", formats::HTTPLOG);
    environ.set("HAPROXY_HTTP_CLF_LOG_FMT", formats::CLF);
    environ.set("HAPROXY_HTTPS_LOG_FMT", formats::HTTPSLOG);
    environ.set("HAPROXY_TCP_LOG_FMT", formats::TCPLOG);
    environ.set("HAPROXY_TCP_CLF_LOG_FMT", formats::TCPLOG_CLF);
}
