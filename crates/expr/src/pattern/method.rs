//! The match methods of `-m` and what each looks at (manual chapter 7.1).

use crate::value::Type;

/// How a sample is compared with patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// There is a sample; it is not looked at.
    Found,
    Bool,
    Int,
    Ip,
    /// The bytes, written in hexadecimal.
    Bin,
    /// The length, compared as an integer.
    Len,
    Str,
    Beg,
    /// Anywhere inside.
    Sub,
    /// Between slashes.
    Dir,
    /// Between dots, colons and slashes.
    Dom,
    End,
    Reg,
}

impl Match {
    pub const ALL: [Match; 13] = [
        Match::Found,
        Match::Bool,
        Match::Int,
        Match::Ip,
        Match::Bin,
        Match::Len,
        Match::Str,
        Match::Beg,
        Match::Sub,
        Match::Dir,
        Match::Dom,
        Match::End,
        Match::Reg,
    ];

    /// The word after `-m`.
    pub fn name(self) -> &'static str {
        match self {
            Match::Found => "found",
            Match::Bool => "bool",
            Match::Int => "int",
            Match::Ip => "ip",
            Match::Bin => "bin",
            Match::Len => "len",
            Match::Str => "str",
            Match::Beg => "beg",
            Match::Sub => "sub",
            Match::Dir => "dir",
            Match::Dom => "dom",
            Match::End => "end",
            Match::Reg => "reg",
        }
    }

    pub fn parse(word: &str) -> Option<Match> {
        Match::ALL.into_iter().find(|m| m.name() == word)
    }

    /// What the sample is cast to before it is compared.
    pub fn expects(self) -> Type {
        match self {
            Match::Found => Type::Any,
            Match::Bool | Match::Int => Type::Sint,
            Match::Ip => Type::Addr,
            Match::Bin => Type::Bin,
            Match::Len
            | Match::Str
            | Match::Beg
            | Match::Sub
            | Match::Dir
            | Match::Dom
            | Match::End
            | Match::Reg => Type::Str,
        }
    }

    /// The method a type of sample implies; `None` when `-m` must say.
    pub fn default_for(of: Type) -> Option<Match> {
        match of {
            Type::Bool => Some(Match::Bool),
            Type::Sint => Some(Match::Int),
            Type::Addr | Type::Ipv4 | Type::Ipv6 => Some(Match::Ip),
            Type::Str | Type::Meth => Some(Match::Str),
            Type::Any | Type::Same | Type::Bin => None,
        }
    }

    /// Whether patterns mean anything to it.
    pub fn takes_patterns(self) -> bool {
        !matches!(self, Match::Found | Match::Bool)
    }

    /// Whether `-i` changes anything.
    pub fn has_case(self) -> bool {
        matches!(self.expects(), Type::Str) && self != Match::Len
    }
}
