//! How a backend chooses a server: `balance` and `hash-type`.

use sluice_expr::Expr;

/// `balance ALGO`.
#[derive(Clone)]
pub enum Balance {
    RoundRobin,
    StaticRr,
    LeastConn,
    First,
    /// `random(draws)`, draws defaults to 2.
    Random {
        draws: u32,
    },
    Source,
    /// `uri [len N] [depth N] [whole] [path-only]`
    Uri {
        len: Option<u32>,
        depth: Option<u32>,
        whole: bool,
        path_only: bool,
    },
    /// `url_param NAME [check_post [max]]`
    UrlParam {
        name: String,
        check_post: Option<u32>,
    },
    /// `hdr(NAME) [use_domain_only]`
    Header {
        name: String,
        use_domain_only: bool,
    },
    /// `rdp-cookie[(NAME)]`
    RdpCookie {
        name: String,
    },
    /// `hash EXPR`
    Hash(Expr),
    /// `sticky` of log backends: the same server for as long as it is up.
    Sticky,
    /// `log-hash [CONVERTERS]` of log backends: the message, as a variable.
    LogHash(Expr),
}

/// `hash-type METHOD [FUNCTION] [MODIFIER]` with `hash-balance-factor`, `hash-preserve-affinity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashType {
    pub consistent: bool,
    pub function: HashFunction,
    pub avalanche: bool,
    /// Percent, 0 is off.
    pub balance_factor: u32,
}

impl Default for HashType {
    fn default() -> Self {
        HashType {
            consistent: false,
            function: HashFunction::Sdbm,
            avalanche: false,
            balance_factor: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashFunction {
    Sdbm,
    Djb2,
    Wt6,
    Crc32,
    /// `none`: the key itself, as an integer.
    None,
}
