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

    /// Needs nothing but the configuration: constants, the clock.
    pub const ANYWHERE: Place = Place::all();
    /// Needs the running process: counters, servers.
    pub const PROCESS: Place = Place::ANYWHERE.difference(Place::CFG);
    /// Needs the client's connection.
    pub const CLIENT: Place = Place::PROCESS.difference(Place::CLI);
    /// Needs the frontend.
    pub const FRONTEND: Place = Place::CLIENT.difference(Place::CHECK);
    /// Needs the session, which begins once the connection's handshakes are done.
    pub const SESSION: Place = Place::FRONTEND.difference(Place::FE_CONNECTION);
    /// Needs facts of the request that are kept until the log is written.
    pub const REQUEST_KEPT: Place = Place::SESSION.difference(Place::FE_SESSION);
    /// Needs the request itself: its headers or its bytes.
    pub const REQUEST: Place = Place::ANY_REQ;
    /// Needs the backend to have been chosen.
    pub const BACKEND: Place = Place::BE_REQ_CONTENT
        .union(Place::BE_HTTP_REQ)
        .union(Place::BE_HTTP_REQ_BODY)
        .union(Place::BE_SET_SERVER)
        .union(Place::SERVER);
    /// Needs the server to have been chosen.
    pub const SERVER: Place = Place::BE_SERVER_CONNECT.union(Place::RESPONSE_KEPT);
    /// Needs the data of the request to be on its way.
    pub const TRANSFER: Place = Place::BE_SET_SERVER
        .union(Place::SERVER)
        .difference(Place::CHECK);
    /// Needs facts of the response that are kept until the log is written.
    pub const RESPONSE_KEPT: Place = Place::ANY_RES.union(Place::LOG).union(Place::CHECK);
    /// Needs the response itself.
    pub const RESPONSE: Place = Place::ANY_RES.union(Place::CHECK);
    /// Needs a message, whichever of the two passes by.
    pub const MESSAGE: Place = Place::REQUEST.union(Place::RESPONSE);

    /// Where something that needs this is valid, in a few words for the documentation.
    pub fn extent(self) -> &'static str {
        match self {
            Place::ANYWHERE => "anywhere",
            Place::PROCESS => "all rules, logs, checks, runtime commands",
            Place::CLIENT => "from the connection on, checks",
            Place::FRONTEND => "from the connection to the log",
            Place::SESSION => "from the session to the log",
            Place::REQUEST_KEPT => "from the request to the log",
            Place::REQUEST => "request rules",
            Place::BACKEND => "from the backend's rules to the log, checks",
            Place::SERVER => "from the connection to the server to the log, checks",
            Place::TRANSFER => "from the choice of the server to the log",
            Place::RESPONSE_KEPT => "from the response to the log, checks",
            Place::RESPONSE => "response rules, checks",
            Place::MESSAGE => "request and response rules, checks",
            _ => "some rules",
        }
    }

    /// Why something valid at `self` is not valid at `at`, and what to do about it; `None` when it is.
    pub fn refusal(self, at: Place) -> Option<(&'static str, Option<&'static str>)> {
        const KEEP: Option<&str> = Some(
            "keep the value in a variable (`http-request set-var`) or a capture while it is there",
        );
        if at.is_empty() || self.intersects(at) {
            return None;
        }
        let early = Place::FE_CONNECTION | Place::FE_SESSION;
        let (awaited, known) = if self.contains(Place::FE_SESSION) {
            (
                "the connection's handshakes are not done yet",
                "`tcp-request session` rules come after them",
            )
        } else if self.contains(Place::FE_REQ_CONTENT) {
            (
                "no request is parsed yet",
                "`http-request` rules see the request",
            )
        } else if self.contains(Place::BE_REQ_CONTENT) {
            (
                "no backend is chosen yet",
                "the backend's own rules know it",
            )
        } else if self.intersects(Place::BE_SERVER_CONNECT | Place::BE_SET_SERVER) {
            (
                "no server is chosen yet",
                "`http-response` rules and the log know it",
            )
        } else {
            (
                "no response has been received yet",
                "`http-response` rules see the response",
            )
        };
        Some(if at == Place::CFG {
            (
                "there is no traffic yet while the configuration is read",
                None,
            )
        } else if at == Place::CLI {
            ("a command belongs to no connection", None)
        } else if at == Place::CHECK {
            ("a check has no client and no request", None)
        } else if at == Place::LOG {
            ("the message is gone when the log is written", KEEP)
        } else if early.contains(at) || Place::ANY_REQ.contains(at) {
            (awaited, Some(known))
        } else {
            ("the request is gone by then", KEEP)
        })
    }

    /// What `-dKsmp` writes beside the column of one place.
    pub fn column(self) -> &'static str {
        match self {
            Place::FE_CONNECTION => "frontend tcp-request connection rule",
            Place::FE_SESSION => "frontend tcp-request session rule",
            Place::FE_REQ_CONTENT => "frontend tcp-request content rule",
            Place::FE_HTTP_REQ => "frontend http-request header rule",
            Place::FE_HTTP_REQ_BODY => "frontend http-request body rule",
            Place::FE_USE_BACKEND => "frontend use-backend rule",
            Place::BE_REQ_CONTENT => "backend tcp-request content rule",
            Place::BE_HTTP_REQ => "backend http-request header rule",
            Place::BE_HTTP_REQ_BODY => "backend http-request body rule",
            Place::BE_SET_SERVER => "backend use-server, balance or stick-match rule",
            Place::BE_SERVER_CONNECT => "server source selection",
            Place::BE_RES_CONTENT => "backend tcp-response content rule",
            Place::BE_HTTP_RES => "backend http-response header rule",
            Place::BE_HTTP_RES_BODY => "backend http-response body rule",
            Place::BE_STORE => "backend stick-store rule",
            Place::FE_RES_CONTENT => "frontend tcp-response content rule",
            Place::FE_HTTP_RES => "frontend http-response header rule",
            Place::FE_HTTP_RES_BODY => "frontend http-response body rule",
            Place::LOG => "logs",
            Place::CHECK => "backend tcp-check rule",
            Place::CFG => "configuration parser",
            Place::CLI => "CLI parser",
            _ => "",
        }
    }

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
