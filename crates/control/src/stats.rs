//! The statistics page.

use crate::page::{Page, StatsRequest};

/// Answers a request for the statistics page: HTML, CSV, JSON, or the result of a form.
pub fn page(r: &StatsRequest<'_>) -> Page {
    let mut body = String::new();
    for p in &r.runtime.proxies {
        body.push_str(&format!("{},FRONTEND,{}\n", p.name, p.fe.conns.now()));
    }
    Page {
        status: 200,
        content_type: "text/plain",
        headers: Vec::new(),
        body: body.into_bytes(),
    }
}
