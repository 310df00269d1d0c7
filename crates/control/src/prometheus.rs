//! The Prometheus exporter.

use sluice_engine::Runtime;

use crate::page::Page;

/// Answers a scrape; `query` is what stands behind `?`.
pub fn page(runtime: &Runtime, query: &[u8], now_ms: u64) -> Page {
    let _ = (query, now_ms);
    Page {
        status: 200,
        content_type: "text/plain; version=0.0.4",
        headers: Vec::new(),
        body: format!("haproxy_process_nbthread {}\n", runtime.workers).into_bytes(),
    }
}
