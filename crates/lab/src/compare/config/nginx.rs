//! The job in nginx's words.

use super::{Act, Job, REDIRECT_TO};
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;

/// The job as an nginx.conf.
///
/// # Errors
/// When nginx has no words for it.
pub fn nginx(job: &Job, dir: &Path) -> Result<String> {
    let mut text = String::new();
    let buffer_bytes = job.buffer_bytes.unwrap_or(16384);
    let _ = write!(
        text,
        "{stream}daemon off;\nworker_processes {};\nworker_rlimit_nofile {};\npid {dir}/nginx.pid;\n\
         error_log {dir}/nginx-error.log warn;\nevents {{ worker_connections {}; }}\n",
        job.workers,
        job.conns_max * 2 + 1000,
        job.conns_max * 2 + 100,
        dir = dir.display(),
        stream = if job.tcp { nginx_stream_module() } else { "" },
    );
    let mut servers = String::new();
    for server in &job.servers {
        let _ = write!(servers, " server {server};");
    }
    if job.tcp {
        let _ = write!(
            text,
            "stream {{\n  upstream out {{{servers} }}\n  server {{\n    listen {} backlog=65535;\n    proxy_pass out;\n    \
             proxy_buffer_size {buffer_bytes};\n    tcp_nodelay on;\n  }}\n}}\n",
            job.listen
        );
        return Ok(text);
    }
    let keep = if job.close {
        String::new()
    } else {
        format!(" keepalive {};", job.conns_max)
    };
    let connection = if job.close { "close" } else { "\"\"" };
    let act = match job.act {
        Act::Forward => "proxy_pass http://out;".to_owned(),
        // nginx knows no count of servers: it redirects without looking.
        Act::Redirect | Act::RedirectIfDown => format!("return 302 {REDIRECT_TO};"),
        Act::Reject => "return 444;".to_owned(),
        Act::Rules { .. } => {
            anyhow::bail!("nginx has no equivalent of this job")
        }
    };
    let client = if job.close {
        "keepalive_timeout 0;"
    } else {
        "keepalive_timeout 60s; keepalive_requests 1000000000;"
    };
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {}/nginx-{kind};\n", dir.display()))
        .collect();
    let _ = write!(
        text,
        "http {{\n  access_log off;\n{temp}  client_max_body_size 0;\n  upstream out {{{servers}{keep} }}\n  server {{\n    \
         listen {} backlog=65535;\n    {client}\n    tcp_nodelay on;\n    location / {{\n      {act}\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection {connection};\n      proxy_buffer_size {buffer_bytes};\n      \
         proxy_buffers 8 {buffer_bytes};\n      proxy_busy_buffers_size {};\n      proxy_max_temp_file_size 0;\n      \
         proxy_request_buffering off;\n    }}\n  }}\n}}\n",
        job.listen,
        buffer_bytes * 2,
    );
    Ok(text)
}

/// Debian ships the stream module apart; elsewhere it is built in.
fn nginx_stream_module() -> &'static str {
    const MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
    if Path::new(MODULE).exists() {
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n"
    } else {
        ""
    }
}
