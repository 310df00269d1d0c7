//! The actions of rules (manual chapter 4.2, `http-request` and its relatives), one file a topic.
//!
//! [`actions!`] turns one row an action into one registry item for each rule set that takes it.

/// The keyword and the sections of a rule set.
macro_rules! rule_set {
    (conn, name) => {
        "tcp-request connection "
    };
    (sess, name) => {
        "tcp-request session "
    };
    (content, name) => {
        "tcp-request content "
    };
    (tcpres, name) => {
        "tcp-response content "
    };
    (req, name) => {
        "http-request "
    };
    (res, name) => {
        "http-response "
    };
    (after, name) => {
        "http-after-response "
    };
    (stats, name) => {
        "stats http-request "
    };
    (conn, sections) => {
        crate::registry::Sections::DFL
    };
    (sess, sections) => {
        crate::registry::Sections::DFL
    };
    (tcpres, sections) => {
        crate::registry::Sections::DLB
    };
    (stats, sections) => {
        crate::registry::Sections::FLB
    };
    ($other:ident, sections) => {
        crate::registry::Sections::ALL_PROXIES
    };
}

/// `"name" in [set ...] "args" "help" => parser;` rows as a table of keywords.
macro_rules! actions {
    ($( $name:literal in [$($set:ident)*] $args:literal $help:literal => $parser:expr; )*) => {
        pub(crate) static KEYWORDS: &[crate::registry::Keyword] = &[
            $( $(
                crate::registry::kw(
                    concat!(rule_set!($set, name), $name),
                    rule_set!($set, sections),
                    concat!($args, " [ { if | unless } <condition> ]"),
                    $help,
                    |cx, line| crate::proxy::rules::rule(cx, line, $parser),
                )
                .bytes(),
            )* )*
        ];
    };
}

/// `"name" in [set ...] "args" "help" "part";` rows: actions that other parts of Sluice bring.
macro_rules! later_actions {
    ($( $name:literal in [$($set:ident)*] $args:literal $help:literal $part:literal; )*) => {
        pub(crate) static KEYWORDS: &[crate::registry::Keyword] = &[
            $( $(
                crate::registry::later(
                    concat!(rule_set!($set, name), $name),
                    rule_set!($set, sections),
                    $part,
                )
                .doc(concat!($args, " [ { if | unless } <condition> ]"), $help),
            )* )*
        ];
    };
}

// After the macros: they are in scope in what follows them.
pub(super) mod header;
pub(super) mod later;
pub(super) mod store;
pub(super) mod stream;
pub(super) mod uri;
pub(super) mod verdict;
