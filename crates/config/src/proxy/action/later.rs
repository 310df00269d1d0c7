//! Actions that other parts of Sluice bring: stick tables, caches, resolvers, Lua, SPOE.

later_actions! {
    "track-sc*" in [conn sess content req res] "stick tables";
    "track-sc0" in [conn sess content req res] "stick tables";
    "track-sc1" in [conn sess content req res] "stick tables";
    "track-sc2" in [conn sess content req res] "stick tables";
    "sc-add-gpc*" in [conn sess content tcpres req res after] "stick tables";
    "sc-inc-gpc*" in [conn sess content tcpres req res after] "stick tables";
    "sc-inc-gpc0*" in [conn sess content tcpres req res after] "stick tables";
    "sc-inc-gpc1*" in [conn sess content tcpres req res after] "stick tables";
    "sc-set-gpt*" in [conn sess content tcpres req res after] "stick tables";
    "sc-set-gpt0*" in [conn sess content tcpres req res after] "stick tables";
    "lua.*" in [content tcpres req res] "Lua";
    "cache-use" in [req] "the cache";
    "cache-store" in [res] "the cache";
    "do-resolve*" in [content req] "resolvers";
    "send-spoe-group" in [content tcpres req res] "SPOE";
    "attach-srv" in [sess] "reverse HTTP";
    "ot-group" in [content tcpres req res after] "OpenTracing";
    "add-headers-bin" in [req res after] "binary header lists";
    "set-headers-bin" in [req res after] "binary header lists";
    "del-headers-bin" in [req res after] "binary header lists";
}
