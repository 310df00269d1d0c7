//! What a page made by the proxy itself is, and what is known of the request for it.

use sluice_config::model::Stats;
use sluice_engine::Runtime;
use sluice_expr::ProxyId;

/// One look at the statistics page.
pub struct StatsRequest<'a> {
    pub runtime: &'a Runtime,
    /// The proxy whose `stats` lines brought it.
    pub proxy: ProxyId,
    pub stats: &'a Stats,
    /// Path and query after `stats uri`.
    pub rest: &'a [u8],
    /// The whole path and query, for links.
    pub uri: &'a [u8],
    /// `stats admin` holds for this client.
    pub admin: bool,
    /// The form of a POST.
    pub form: Option<&'a [u8]>,
    /// Monotonic clock.
    pub now_ms: u64,
}

/// A page made by the proxy itself.
pub struct Page {
    pub status: u16,
    /// Empty: none.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}
