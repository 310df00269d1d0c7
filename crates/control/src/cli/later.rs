//! Commands of the language that a later part of Sluice brings: known by name, answered with what they wait for.

/// A command's words and the part that brings it.
pub type LaterCommand = (&'static str, &'static str);

/// The part of the commands that only a master process knows.
pub(super) const MASTER: &str = "the master process";

/// Commands of the master process's own command line.
pub(super) const MASTERS: [&str; 6] = [
    "@!<pid>",
    "@<relative pid>",
    "@master",
    "hard-reload",
    "reload",
    "show proc",
];

/// Sorted by name.
pub const LATER: &[LaterCommand] = &[
    ("_loadstatus", MASTER),
    ("_send_status", MASTER),
    ("abort ssl ca-file", "TLS"),
    ("abort ssl cert", "TLS"),
    ("abort ssl crl-file", "TLS"),
    ("acme challenge_ready", "ACME"),
    ("acme renew", "ACME"),
    ("acme status", "ACME"),
    ("add backend", "proxies added while running"),
    ("add ssl ca-file", "TLS"),
    ("add ssl crt-list", "TLS"),
    ("add ssl jwt", "TLS"),
    ("clear table", "stick tables"),
    ("commit ssl ca-file", "TLS"),
    ("commit ssl cert", "TLS"),
    ("commit ssl crl-file", "TLS"),
    ("debug counters", "debugging commands"),
    ("debug dev abort", "debugging commands"),
    ("debug dev bug", "debugging commands"),
    ("debug dev check", "debugging commands"),
    ("debug dev close", "debugging commands"),
    ("debug dev deadlock", "debugging commands"),
    ("debug dev delay", "debugging commands"),
    ("debug dev exit", "debugging commands"),
    ("debug dev fd", "debugging commands"),
    ("debug dev hash", "debugging commands"),
    ("debug dev hex", "debugging commands"),
    ("debug dev log", "debugging commands"),
    ("debug dev loop", "debugging commands"),
    ("debug dev memstats", "debugging commands"),
    ("debug dev panic", "debugging commands"),
    ("debug dev sched", "debugging commands"),
    ("debug dev stream", "debugging commands"),
    ("debug dev sym", "debugging commands"),
    ("debug dev task", "debugging commands"),
    ("debug dev tkill", "debugging commands"),
    ("debug dev warn", "debugging commands"),
    ("debug dev write", "debugging commands"),
    ("del backend", "proxies added while running"),
    ("del ssl ca-file", "TLS"),
    ("del ssl cert", "TLS"),
    ("del ssl crl-file", "TLS"),
    ("del ssl crt-list", "TLS"),
    ("del ssl jwt", "TLS"),
    ("dump ssl cert", "TLS"),
    ("dump stats-file", "statistics files"),
    ("httpclient", "the HTTP client"),
    ("mcli-debug-mode", MASTER),
    ("new ssl ca-file", "TLS"),
    ("new ssl cert", "TLS"),
    ("new ssl crl-file", "TLS"),
    ("set anon global-key", "anonymised output"),
    ("set anon off", "anonymised output"),
    ("set anon on", "anonymised output"),
    ("set profiling", "profiling"),
    ("set ssl ca-file", "TLS"),
    ("set ssl cert", "TLS"),
    ("set ssl crl-file", "TLS"),
    ("set ssl ocsp-response", "TLS"),
    ("set ssl tls-key", "TLS"),
    ("set table", "stick tables"),
    ("show anon", "anonymised output"),
    ("show cache", "the cache"),
    ("show default-server", "commands about defaults"),
    ("show defaults", "commands about defaults"),
    ("show dev", "debugging commands"),
    ("show peers", "peers"),
    ("show quic", "QUIC"),
    ("show resolvers", "resolvers"),
    ("show ssl ca-file", "TLS"),
    ("show ssl cert", "TLS"),
    ("show ssl crl-file", "TLS"),
    ("show ssl crt-list", "TLS"),
    ("show ssl jwt", "TLS"),
    ("show ssl ocsp-response", "TLS"),
    ("show ssl ocsp-updates", "TLS"),
    ("show ssl providers", "TLS"),
    ("show ssl sni", "TLS"),
    ("show table", "stick tables"),
    ("show tls-keys", "TLS"),
    ("show trace", "tracing"),
    ("trace", "tracing"),
    ("update ssl ocsp-response", "TLS"),
];

/// Lists that can only be empty as long as no configuration can bring something into them, and how they are shown then.
const NOTHING: &[(&str, &str)] = &[
    ("show cache", ""),
    ("show peers", ""),
    ("show resolvers", ""),
    ("show ssl ca-file", "# filename\n"),
    ("show ssl cert", ""),
    ("show ssl crl-file", "# filename\n"),
    ("show ssl crt-list", ""),
    ("show table", ""),
    ("show tls-keys", "# id (file)\n"),
];

/// The empty list that a command shows which asks for all there is.
pub(super) fn nothing(name: &str, words: &[&str]) -> Option<&'static str> {
    let asks_for_all = name.split(' ').count() == words.len();
    let (_, text) = NOTHING.iter().find(|(n, _)| *n == name)?;
    asks_for_all.then_some(*text)
}

/// The command with the longest name that the words begin with.
pub(super) fn find(words: &[&str]) -> Option<&'static LaterCommand> {
    LATER
        .iter()
        .filter(|(name, _)| {
            let mut given = words.iter();
            name.split(' ').all(|own| given.next() == Some(&own))
        })
        .max_by_key(|(name, _)| name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_none_of_them_works() {
        assert!(LATER.is_sorted());
        for (name, _) in LATER {
            let working = super::super::commands().any(|c| c.words.join(" ") == *name);
            assert!(!working, "{name} works: take it out of here");
        }
    }

    #[test]
    fn a_command_is_found_by_its_first_words() {
        assert_eq!(
            find(&["show", "table", "t1"]),
            Some(&("show table", "stick tables"))
        );
        assert_eq!(find(&["show"]), None);
        assert_eq!(find(&["show", "info"]), None);
    }
}
