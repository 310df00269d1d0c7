//! Forms of old versions: those that still work with a warning, and those that were removed, with what to write instead.

use crate::proxy::reply::deny;
use crate::proxy::rules::rule;
use crate::registry::{Keyword, Sections, harmless, obsolete, refused};

const ALL: Sections = Sections::ALL_PROXIES;
const FLB: Sections = Sections::FLB;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    obsolete("block", FLB, "write `http-request deny { if | unless } <condition>`", Some(|cx, line| rule(cx, line, deny)))
        .doc("{ if | unless } <condition>", "answer requests with 403, before all other rules"),
    harmless("bind-process", ALL, "remove it; `bind ... thread` chooses workers").doc("<set>", "processes of the proxy"),
    harmless("grace", ALL, "remove it; `hard-stop-after` in the global section bounds a soft stop"),
    refused("redispatch", ALL, "write `option redispatch`"),
    refused("redisp", ALL, "write `option redispatch`"),
    refused("appsession", ALL, "write `cookie`, or `stick on` with a table"),
    refused("monitor-net", ALL, "write `http-request return status 200 if { src <network> }`"),
    refused("cliexp", ALL, "write `http-request replace-header`"),
    refused("srvexp", ALL, "write `http-response replace-header`"),
    refused("reqadd", ALL, "write `http-request add-header`"),
    refused("reqallow", ALL, "write `http-request allow`"),
    refused("reqiallow", ALL, "write `http-request allow`"),
    refused("reqdel", ALL, "write `http-request del-header`"),
    refused("reqidel", ALL, "write `http-request del-header`"),
    refused("reqdeny", ALL, "write `http-request deny`"),
    refused("reqideny", ALL, "write `http-request deny`"),
    refused("reqpass", ALL, "write `http-request allow`"),
    refused("reqipass", ALL, "write `http-request allow`"),
    refused("reqrep", ALL, "write `http-request replace-path`, `replace-uri` or `replace-header`"),
    refused("reqirep", ALL, "write `http-request replace-path`, `replace-uri` or `replace-header`"),
    refused("reqsetbe", ALL, "write `use_backend`"),
    refused("reqisetbe", ALL, "write `use_backend`"),
    refused("reqtarpit", ALL, "write `http-request tarpit`"),
    refused("reqitarpit", ALL, "write `http-request tarpit`"),
    refused("rspadd", ALL, "write `http-response add-header`"),
    refused("rspdel", ALL, "write `http-response del-header`"),
    refused("rspidel", ALL, "write `http-response del-header`"),
    refused("rspdeny", ALL, "write `http-response deny`"),
    refused("rspideny", ALL, "write `http-response deny`"),
    refused("rsprep", ALL, "write `http-response replace-header`"),
    refused("rspirep", ALL, "write `http-response replace-header`"),
];
