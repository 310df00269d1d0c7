//! The predicates of conditions, one item each.

use super::{Facts, LANGUAGE_VERSION};

/// One predicate of manual chapter 2.4.
pub struct Predicate {
    pub name: &'static str,
    /// Names of its arguments.
    pub args: &'static [&'static str],
    pub help: &'static str,
    pub(super) test: fn(&Facts<'_>, &str, &str) -> bool,
}

/// Every predicate.
pub static PREDICATES: &[Predicate] = &[
    Predicate {
        name: "defined",
        args: &["name"],
        help: "an environment variable of this name exists",
        test: |facts, name, _| facts.environ.var(name).is_some(),
    },
    Predicate {
        name: "feature",
        args: &["name"],
        help: "the feature is listed with a '+' by -vv",
        test: |facts, name, _| facts.features.iter().any(|f| f == name),
    },
    Predicate {
        name: "streq",
        args: &["str1", "str2"],
        help: "the strings are equal",
        test: |_, a, b| a == b,
    },
    Predicate {
        name: "strneq",
        args: &["str1", "str2"],
        help: "the strings differ",
        test: |_, a, b| a != b,
    },
    Predicate {
        name: "strstr",
        args: &["str", "sub"],
        help: "the second string is found in the first",
        test: |_, a, b| a.contains(b),
    },
    Predicate {
        name: "version_atleast",
        args: &["version"],
        help: "the language is at least that of this version",
        test: |_, version, _| version_key(LANGUAGE_VERSION) >= version_key(version),
    },
    Predicate {
        name: "version_before",
        args: &["version"],
        help: "the language is older than that of this version",
        test: |_, version, _| version_key(LANGUAGE_VERSION) < version_key(version),
    },
    // Sluice is linked with no OpenSSL and no AWS-LC in OpenSSL's clothes: their versions are never reached, nor old.
    Predicate {
        name: "openssl_version_atleast",
        args: &["version"],
        help: "never true: the TLS library is no OpenSSL",
        test: |_, _, _| false,
    },
    Predicate {
        name: "openssl_version_before",
        args: &["version"],
        help: "never true: the TLS library is no OpenSSL",
        test: |_, _, _| false,
    },
    Predicate {
        name: "awslc_api_atleast",
        args: &["version"],
        help: "never true: the TLS library is not used through AWS-LC's OpenSSL API",
        test: |_, _, _| false,
    },
    Predicate {
        name: "awslc_api_before",
        args: &["version"],
        help: "never true: the TLS library is not used through AWS-LC's OpenSSL API",
        test: |_, _, _| false,
    },
    Predicate {
        name: "ssllib_name_startswith",
        args: &["name"],
        help: "the TLS library's name begins so",
        test: |facts, name, _| facts.tls_library.starts_with(name),
    },
    Predicate {
        name: "enabled",
        args: &["name"],
        help: "the option (EPOLL, SPLICE, REUSEPORT, ...) is in use",
        test: |facts, name, _| facts.enabled.iter().any(|f| f == name),
    },
];

/// A version as numbers that compare: `2.4-dev19` is before `2.4`. Missing parts are zero, other text is ignored.
fn version_key(version: &str) -> [u64; 5] {
    let (numbers, suffix) = match version.split_once('-') {
        Some((numbers, suffix)) => (numbers, suffix),
        None => (version, ""),
    };
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    };
    let mut parts = numbers.split('.').map(number);
    let mut next = || parts.next().unwrap_or(0);
    let (major, minor, patch) = (next(), next(), next());
    let (stage, count) = match suffix {
        s if s.starts_with("dev") => (0, number(&s[3..])),
        s if s.starts_with("rc") => (1, number(&s[2..])),
        _ => (2, 0),
    };
    [major, minor, patch, stage, count]
}
