//! Where an expression stands (its checkpoint in the life of a connection) and what data a fetch needs: the validity
//! matrix of manual chapter 7.3, as bit sets.

use bitflags::bitflags;

bitflags! {
    /// The checkpoints at which an expression can be evaluated: one bit a column of `-dKsmp`, in its order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Place: u32 {
        /// frontend `tcp-request connection` rule
        const FE_CONNECTION = 1 << 0;
        /// frontend `tcp-request session` rule
        const FE_SESSION = 1 << 1;
        /// frontend `tcp-request content` rule
        const FE_REQ_CONTENT = 1 << 2;
        /// frontend `http-request` header rule
        const FE_HTTP_REQ = 1 << 3;
        /// frontend `http-request` body rule
        const FE_HTTP_REQ_BODY = 1 << 4;
        /// frontend `use_backend` rule
        const FE_USE_BACKEND = 1 << 5;
        /// backend `tcp-request content` rule
        const BE_REQ_CONTENT = 1 << 6;
        /// backend `http-request` header rule
        const BE_HTTP_REQ = 1 << 7;
        /// backend `http-request` body rule
        const BE_HTTP_REQ_BODY = 1 << 8;
        /// backend `use-server`, `balance` or `stick match` rule
        const BE_SET_SERVER = 1 << 9;
        /// server source selection
        const BE_SERVER_CONNECT = 1 << 10;
        /// backend `tcp-response content` rule
        const BE_RES_CONTENT = 1 << 11;
        /// backend `http-response` header rule
        const BE_HTTP_RES = 1 << 12;
        /// backend `http-response` body rule
        const BE_HTTP_RES_BODY = 1 << 13;
        /// backend `stick store-response` rule
        const BE_STORE = 1 << 14;
        /// frontend `tcp-response content` rule
        const FE_RES_CONTENT = 1 << 15;
        /// frontend `http-response` header rule
        const FE_HTTP_RES = 1 << 16;
        /// frontend `http-response` body rule
        const FE_HTTP_RES_BODY = 1 << 17;
        /// logs
        const LOG = 1 << 18;
        /// backend `tcp-check` rule
        const CHECK = 1 << 19;
        /// configuration parser (`.if`, `set-var` in global)
        const CFG = 1 << 20;
        /// runtime command line
        const CLI = 1 << 21;
    }
}

impl Place {
    /// Rules that see the request, on both sides.
    pub const ANY_REQ: Place = Place::FE_REQ_CONTENT
        .union(Place::FE_HTTP_REQ)
        .union(Place::FE_HTTP_REQ_BODY)
        .union(Place::FE_USE_BACKEND)
        .union(Place::BE_REQ_CONTENT)
        .union(Place::BE_HTTP_REQ)
        .union(Place::BE_HTTP_REQ_BODY)
        .union(Place::BE_SET_SERVER)
        .union(Place::BE_SERVER_CONNECT);
    /// Rules that see the response, on both sides.
    pub const ANY_RES: Place = Place::BE_RES_CONTENT
        .union(Place::BE_HTTP_RES)
        .union(Place::BE_HTTP_RES_BODY)
        .union(Place::BE_STORE)
        .union(Place::FE_RES_CONTENT)
        .union(Place::FE_HTTP_RES)
        .union(Place::FE_HTTP_RES_BODY);

    /// The place's name in a message, in the words of the manual.
    pub fn describe(self) -> &'static str {
        match self {
            Place::FE_CONNECTION => "a `tcp-request connection` rule",
            Place::FE_SESSION => "a `tcp-request session` rule",
            Place::FE_REQ_CONTENT => "a frontend `tcp-request content` rule",
            Place::BE_REQ_CONTENT => "a backend `tcp-request content` rule",
            Place::FE_HTTP_REQ | Place::BE_HTTP_REQ => "an `http-request` rule",
            Place::FE_HTTP_REQ_BODY | Place::BE_HTTP_REQ_BODY => {
                "an `http-request` rule on the body"
            }
            Place::FE_USE_BACKEND => "a `use_backend` rule",
            Place::BE_SET_SERVER => "a `use-server`, `balance` or `stick` rule",
            Place::BE_SERVER_CONNECT => "a server's `source`",
            Place::BE_RES_CONTENT | Place::FE_RES_CONTENT => "a `tcp-response content` rule",
            Place::BE_HTTP_RES | Place::FE_HTTP_RES => "an `http-response` rule",
            Place::BE_HTTP_RES_BODY | Place::FE_HTTP_RES_BODY => {
                "an `http-response` rule on the body"
            }
            Place::BE_STORE => "a `stick store-response` rule",
            Place::LOG => "a log format",
            Place::CHECK => "a check rule",
            Place::CFG => "the configuration itself",
            Place::CLI => "the runtime command line",
            _ => "this place",
        }
    }
}
