//! Actions that other parts of Sluice bring: stick tables, caches, resolvers, Lua, SPOE.

later_actions! {
    "track-sc*" in [conn sess content req res] "<key> [ table <table> ]" "count the connection or request under a key" "stick tables";
    "track-sc0" in [conn sess content req res] "<key> [ table <table> ]" "count the connection or request under a key" "stick tables";
    "track-sc1" in [conn sess content req res] "<key> [ table <table> ]" "count under a second key" "stick tables";
    "track-sc2" in [conn sess content req res] "<key> [ table <table> ]" "count under a third key" "stick tables";
    "sc-add-gpc*" in [conn sess content tcpres req res after] "(<idx>,<sc-id>) { <int> | <expr> }" "add to a general purpose counter" "stick tables";
    "sc-inc-gpc*" in [conn sess content tcpres req res after] "(<idx>,<sc-id>)" "count one up" "stick tables";
    "sc-inc-gpc0*" in [conn sess content tcpres req res after] "(<sc-id>)" "count the first counter one up" "stick tables";
    "sc-inc-gpc1*" in [conn sess content tcpres req res after] "(<sc-id>)" "count the second counter one up" "stick tables";
    "sc-set-gpt*" in [conn sess content tcpres req res after] "(<idx>,<sc-id>) { <int> | <expr> }" "set a general purpose tag" "stick tables";
    "sc-set-gpt0*" in [conn sess content tcpres req res after] "(<sc-id>) { <int> | <expr> }" "set the first tag" "stick tables";
    "lua.*" in [content tcpres req res] "<function> [ <argument> ... ]" "run a function written in Lua" "Lua";
    "cache-use" in [req] "<cache>" "answer from a cache" "the cache";
    "cache-store" in [res] "<cache>" "keep the response in a cache" "the cache";
    "do-resolve*" in [content req] "(<var>,<resolvers>[,ipv4|ipv6]) <expr>" "look a name up" "resolvers";
    "send-spoe-group" in [content tcpres req res] "<engine> <group>" "ask an agent" "SPOE";
    "attach-srv" in [sess] "<server> [ name <expr> ]" "use the connection to reach a server" "reverse HTTP";
    "ot-group" in [content tcpres req res after] "<filter> <group>" "trace with OpenTracing" "OpenTracing";
}
