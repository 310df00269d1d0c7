//! Arguments of fetches and converters: the grammar of each (a table) and what it became after parsing.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use crate::env::{ProxyId, ServerId};
use crate::vars::VarRef;

/// The kind of one argument, as the manual names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgKind {
    Str,
    Sint,
    Ipv4,
    /// `/24` or `255.255.255.0`
    Mask4,
    Ipv6,
    Mask6,
    /// `10ms`; stored in milliseconds
    Time,
    /// `16k`; stored in bytes
    Size,
    Frontend,
    Backend,
    /// `[backend/]server`
    Server,
    /// A stick table's name
    Table,
    Userlist,
    /// `(regex)`
    Reg,
    /// A variable's name with its scope
    Var,
    /// A file with a map, of `map_*`
    Map,
    /// Dotted Protocol Buffers field numbers, `48.59.1`; arrives as [`Arg::Str`], checked by the converter's `prepare`
    FieldNumber,
    PtrResolvers,
}

impl ArgKind {
    /// What `-dKcnv` and `-dKsmp` print for it.
    pub fn name(self) -> &'static str {
        match self {
            ArgKind::Str => "string",
            ArgKind::Sint => "integer",
            ArgKind::Ipv4 => "IPv4 address",
            ArgKind::Mask4 => "IPv4 mask",
            ArgKind::Ipv6 => "IPv6 address",
            ArgKind::Mask6 => "IPv6 mask",
            ArgKind::Time => "delay",
            ArgKind::Size => "size",
            ArgKind::Frontend => "frontend",
            ArgKind::Backend => "backend",
            ArgKind::Server => "server",
            ArgKind::Table => "table",
            ArgKind::Userlist => "user list",
            ArgKind::Reg => "regex",
            ArgKind::Var => "variable",
            ArgKind::Map => "map",
            ArgKind::FieldNumber => "Protocol buffers field number",
            ArgKind::PtrResolvers => "resolvers",
        }
    }
}

/// The grammar of an argument list: the kinds, of which the first `required` must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgSpec {
    pub kinds: &'static [ArgKind],
    pub required: usize,
}

/// No argument at all.
pub const NO_ARGS: ArgSpec = ArgSpec {
    kinds: &[],
    required: 0,
};

/// A name in the configuration that is bound to its thing once everything has been read.
#[derive(Debug, Clone)]
pub struct NameRef<T> {
    pub name: String,
    /// Filled by the configuration's resolve pass ([`crate::compile::Names`]).
    pub id: OnceLock<T>,
}

impl<T: Copy> NameRef<T> {
    pub fn new(name: impl Into<String>) -> Self {
        NameRef {
            name: name.into(),
            id: OnceLock::new(),
        }
    }
    pub fn id(&self) -> Option<T> {
        self.id.get().copied()
    }
}

/// One parsed argument.
#[derive(Debug, Clone)]
pub enum Arg {
    /// Left out (an optional argument before a given one, or beyond the last).
    None,
    Str(Vec<u8>),
    Sint(i64),
    Ipv4(Ipv4Addr),
    Mask4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Mask6(Ipv6Addr),
    TimeMs(u64),
    Size(u64),
    /// An empty name means the current proxy.
    Frontend(NameRef<ProxyId>),
    Backend(NameRef<ProxyId>),
    Server(NameRef<ServerId>),
    Table(NameRef<ProxyId>),
    Userlist(NameRef<u32>),
    Reg(Arc<crate::pattern::Regex>),
    Var(VarRef),
    Map(Arc<crate::pattern::MapRef>),
    /// What a converter's `prepare` made of an argument (a decoded key, a literal or variable, a parsed path).
    Prepared(Arc<dyn std::any::Any + Send + Sync>),
}
