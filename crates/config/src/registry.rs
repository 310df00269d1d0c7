//! The keyword registry: one item a keyword, with its sections, argument grammar, help line and action.
//!
//! The parser, "did you mean", `-dKcfg`, the documentation's table and the coverage report are all made from these
//! tables. A keyword without an item is unknown; an item says whether it works, comes later, is obsolete or refused.

use std::sync::{Arc, OnceLock};

use bitflags::bitflags;

use crate::cx::Cx;
use crate::line::Line;

bitflags! {
    /// The sections a keyword is valid in.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Sections: u32 {
        const GLOBAL = 1 << 0;
        const DEFAULTS = 1 << 1;
        const FRONTEND = 1 << 2;
        const LISTEN = 1 << 3;
        const BACKEND = 1 << 4;
        const USERLIST = 1 << 5;
        const PEERS = 1 << 6;
        const RESOLVERS = 1 << 7;
        const MAILERS = 1 << 8;
        const PROGRAM = 1 << 9;
        const CACHE = 1 << 10;
        const FCGI_APP = 1 << 11;
        const HTTP_ERRORS = 1 << 12;
        const RING = 1 << 13;
        const LOG_FORWARD = 1 << 14;
        const LOG_PROFILE = 1 << 15;
        const CRT_STORE = 1 << 16;
        const TRACES = 1 << 17;
        const ACME = 1 << 18;
        const HEALTHCHECK = 1 << 19;

        /// Columns of the manual's keyword matrix (chapter 4.1).
        const ALL_PROXIES = Self::DEFAULTS.bits() | Self::FRONTEND.bits() | Self::LISTEN.bits() | Self::BACKEND.bits();
        /// Frontend side, defaults included.
        const DFL = Self::DEFAULTS.bits() | Self::FRONTEND.bits() | Self::LISTEN.bits();
        /// Backend side, defaults included.
        const DLB = Self::DEFAULTS.bits() | Self::LISTEN.bits() | Self::BACKEND.bits();
        const FL = Self::FRONTEND.bits() | Self::LISTEN.bits();
        const LB = Self::LISTEN.bits() | Self::BACKEND.bits();
        const FLB = Self::FRONTEND.bits() | Self::LISTEN.bits() | Self::BACKEND.bits();
    }
}

/// What a keyword's line does. It reads `line.words[line.keyword_len..]`, reports through `cx` and changes the section
/// under construction ([`Cx::proxy`], [`Cx::global`]).
pub type Handler = fn(&mut Cx<'_>, &Arc<Line>);

/// What happens to a line with this keyword.
#[derive(Clone, Copy)]
pub enum Run {
    /// Sluice implements it.
    Do(Handler),
    /// 'not implemented by Sluice yet'; names the part that brings it ("TLS", "stick tables").
    Later(&'static str),
    /// It still does what it did (`run`), or nothing where nothing is needed; a warning says what to write instead.
    Obsolete {
        instead: &'static str,
        run: Option<Handler>,
    },
    /// Accepted without effect, because Sluice needs no such setting; a warning gives the reason.
    Harmless(&'static str),
    /// The same for one that is read all the same, so that its values are checked and kept in the model.
    NoEffect { why: &'static str, run: Handler },
    /// HAProxy refuses it too; the reason says what to write instead.
    Refused(&'static str),
}

/// One keyword.
pub struct Keyword {
    /// One or several words: `maxconn`, `timeout client`. A last word that ends in `*` also takes a parenthesis:
    /// `http-request set-var*` matches `set-var(txn.x)`.
    pub name: &'static str,
    pub sections: Sections,
    /// Grammar of the arguments, in the manual's notation.
    pub args: &'static str,
    /// One line, for the documentation.
    pub help: &'static str,
    pub run: Run,
    /// `no`/`default` may stand before it.
    pub negatable: bool,
    /// Its arguments may hold bytes that are no UTF-8 (see [`crate::line::Word::bytes`]).
    pub binary: bool,
    /// In a proxy section without the capability it needs, it is a warning ("'balance' ignored because frontend 'f' has
    /// no backend capability"), as in HAProxy; otherwise it is unknown there.
    pub ignored_elsewhere: bool,
}

/// A keyword that works.
pub const fn kw(
    name: &'static str,
    sections: Sections,
    args: &'static str,
    help: &'static str,
    run: Handler,
) -> Keyword {
    Keyword {
        name,
        sections,
        args,
        help,
        run: Run::Do(run),
        negatable: false,
        binary: false,
        ignored_elsewhere: false,
    }
}

/// A keyword that another part brings.
pub const fn later(name: &'static str, sections: Sections, part: &'static str) -> Keyword {
    Keyword {
        name,
        sections,
        args: "",
        help: "",
        run: Run::Later(part),
        negatable: false,
        binary: false,
        ignored_elsewhere: false,
    }
}

/// A keyword that does nothing here because nothing is needed.
pub const fn harmless(name: &'static str, sections: Sections, why: &'static str) -> Keyword {
    Keyword {
        name,
        sections,
        args: "",
        help: "",
        run: Run::Harmless(why),
        negatable: false,
        binary: false,
        ignored_elsewhere: false,
    }
}

/// An old form that still works, with a warning.
pub const fn obsolete(
    name: &'static str,
    sections: Sections,
    instead: &'static str,
    run: Option<Handler>,
) -> Keyword {
    Keyword {
        name,
        sections,
        args: "",
        help: "",
        run: Run::Obsolete { instead, run },
        negatable: false,
        binary: false,
        ignored_elsewhere: false,
    }
}

/// An old form that HAProxy refuses as well.
pub const fn refused(name: &'static str, sections: Sections, why: &'static str) -> Keyword {
    Keyword {
        name,
        sections,
        args: "",
        help: "",
        run: Run::Refused(why),
        negatable: false,
        binary: false,
        ignored_elsewhere: false,
    }
}

impl Keyword {
    /// Accepts `no` and `default`.
    pub const fn no(mut self) -> Self {
        self.negatable = true;
        self
    }

    /// Accepts words that are no UTF-8.
    pub const fn bytes(mut self) -> Self {
        self.binary = true;
        self
    }

    /// A warning, not an error, in a proxy section that lacks the capability.
    pub const fn ignored(mut self) -> Self {
        self.ignored_elsewhere = true;
        self
    }

    /// Gives grammar and help to a keyword made by a short constructor.
    pub const fn doc(mut self, args: &'static str, help: &'static str) -> Self {
        self.args = args;
        self.help = help;
        self
    }

    /// It is read and kept in the model, but nothing obeys it yet: it is refused until the named part does, which then
    /// takes this off.
    pub const fn awaits(mut self, part: &'static str) -> Self {
        self.run = Run::Later(part);
        self
    }

    /// It is read and kept in the model, but changes nothing; a warning gives the reason.
    pub const fn no_effect(mut self, why: &'static str) -> Self {
        if let Run::Do(run) = self.run {
            self.run = Run::NoEffect { why, run };
        }
        self
    }

    /// How many words the name has.
    pub fn word_count(&self) -> usize {
        self.name.split(' ').count()
    }

    /// How many words of its name the given words begin with.
    fn common_words(&self, words: &[&str]) -> usize {
        self.name
            .split(' ')
            .zip(words)
            .take_while(|(own, word)| word_matches(own, word))
            .count()
    }

    /// Whether the words begin with this keyword.
    fn matches(&self, words: &[&str]) -> bool {
        let mut given = words.iter();
        self.name
            .split(' ')
            .all(|own| given.next().is_some_and(|word| word_matches(own, word)))
    }
}

/// `own` is a word of a keyword's name; one that ends in `*` matches itself alone or followed by a parenthesis (or, where
/// a dot comes before it, by anything: `lua.*`).
pub(crate) fn word_matches(own: &str, word: &str) -> bool {
    match own.strip_suffix('*') {
        Some(stem) => word
            .strip_prefix(stem)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('(') || stem.ends_with('.')),
        None => own == word,
    }
}

/// Every keyword.
pub fn keywords() -> impl Iterator<Item = &'static Keyword> {
    crate::section::tables()
        .chain(crate::proxy::TABLES.iter().copied())
        .flat_map(|table| table.iter())
}

/// What the registry knows about the first words of a line.
pub enum Lookup {
    Found(&'static Keyword),
    /// A keyword for a capability this proxy section has not, to be ignored with a warning.
    Ignored(&'static Keyword),
    /// The first `known` words begin one or more keywords of this section, the next word fits none of them.
    /// `next` lists the words that would have fitted.
    Partial {
        known: usize,
        next: Vec<&'static str>,
    },
    /// No keyword of this section begins so. `elsewhere`: sections that do know the whole keyword.
    Unknown {
        elsewhere: Option<&'static Keyword>,
    },
}

/// Finds the keyword with the longest name that the words begin with.
pub fn lookup(section: Sections, words: &[&str]) -> Lookup {
    let Some(first) = words.first() else {
        return Lookup::Unknown { elsewhere: None };
    };
    let here: Vec<&'static Keyword> = by_first_word(first)
        .filter(|k| k.sections.intersects(section))
        .collect();
    if let Some(found) = here
        .iter()
        .filter(|k| k.matches(words))
        .max_by_key(|k| k.word_count())
    {
        return Lookup::Found(found);
    }
    let known = here
        .iter()
        .map(|k| k.common_words(words))
        .max()
        .unwrap_or(0);
    let elsewhere = by_first_word(first)
        .filter(|k| k.matches(words))
        .max_by_key(|k| k.word_count());
    // What is known in full elsewhere says more than what is half known here.
    if let Some(keyword) = elsewhere.filter(|k| k.word_count() > known) {
        let both_proxies =
            Sections::FLB.contains(section) && keyword.sections.intersects(Sections::FLB);
        return match keyword.ignored_elsewhere && both_proxies {
            true => Lookup::Ignored(keyword),
            false => Lookup::Unknown { elsewhere },
        };
    }
    if known > 0 {
        let mut next: Vec<&'static str> = here
            .iter()
            .filter(|k| k.common_words(words) == known)
            // What is gone or does nothing is not what somebody looks for.
            .filter(|k| matches!(k.run, Run::Do(_) | Run::Later(_)))
            .filter_map(|k| k.name.split(' ').nth(known))
            .collect();
        next.dedup();
        return Lookup::Partial { known, next };
    }
    Lookup::Unknown { elsewhere }
}

/// Keywords whose first word matches, found by an index that is made once.
fn by_first_word(word: &str) -> impl Iterator<Item = &'static Keyword> {
    static SORTED: OnceLock<Vec<(&'static str, &'static Keyword)>> = OnceLock::new();
    let sorted = SORTED.get_or_init(|| {
        let mut all: Vec<_> = keywords()
            .map(|k| (k.name.split(' ').next().unwrap_or(k.name), k))
            .collect();
        all.sort_by_key(|(first, _)| *first);
        all
    });
    let word = word.to_owned();
    let start = sorted.partition_point(|(first, _)| *first < word.as_str());
    sorted[start..]
        .iter()
        .take_while(move |(first, _)| *first == word)
        .map(|(_, k)| *k)
}

/// The first words of all keywords of a section, for "did you mean".
pub fn first_words(section: Sections) -> Vec<&'static str> {
    let mut words: Vec<&'static str> = keywords()
        .filter(|k| k.sections.intersects(section))
        .filter_map(|k| k.name.split(' ').next())
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// A word of a `bind` or `server` line. `T` is the thing the line describes.
pub struct LineWord<T: 'static> {
    pub name: &'static str,
    /// Grammar of its arguments; "" for a plain switch.
    pub args: &'static str,
    pub help: &'static str,
    pub run: WordRun<T>,
}

/// What a word of a `bind` or `server` line does: it is given the word's index and returns how many words it took, itself
/// included, or `None` after it reported an error (the rest of the line is then skipped).
pub type WordHandler<T> = fn(&mut Cx<'_>, &Arc<Line>, usize, &mut T) -> Option<usize>;

/// See [`Run`].
pub enum WordRun<T: 'static> {
    Do(WordHandler<T>),
    Later(&'static str),
    Obsolete {
        instead: &'static str,
        run: WordHandler<T>,
    },
    Refused(&'static str),
}

/// A word that works.
pub const fn word<T>(
    name: &'static str,
    args: &'static str,
    help: &'static str,
    run: WordHandler<T>,
) -> LineWord<T> {
    LineWord {
        name,
        args,
        help,
        run: WordRun::Do(run),
    }
}

/// A word that another part brings.
pub const fn word_later<T>(
    name: &'static str,
    args: &'static str,
    part: &'static str,
) -> LineWord<T> {
    LineWord {
        name,
        args,
        help: "",
        run: WordRun::Later(part),
    }
}
