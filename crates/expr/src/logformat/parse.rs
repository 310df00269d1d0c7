//! The parser of log-format texts (manual chapter 8.2.6; names and types of items: HAProxy 3.0).
//!
//! ```text
//! item  := '%' [ '(' name [ ':' type ] ')' ] [ '{' flags '}' ] ( tag | '[' expression ']' )
//! text  := anything else; '%%' is a percent sign
//! ```

use super::flags::Flags;
use super::tag::{self, Stage, TAGS};
use super::{Cast, Item, Name, Purpose, What};
use crate::compile::{Expr, ParseCtx};
use crate::error::ExprError;
use crate::place::Place;
use crate::suggest;

/// What a text became.
pub(super) struct Parsed {
    pub items: Vec<Item>,
    /// The texts of all text items, one after the other.
    pub texts: Vec<u8>,
    /// Flags set for the whole line by the last `%o`.
    pub global: Flags,
    pub stage: Stage,
    pub warnings: Vec<ExprError>,
}

pub(super) fn parse(text: &str, ctx: &ParseCtx<'_>, purpose: Purpose) -> Result<Parsed, ExprError> {
    let mut parser = Parser {
        text,
        ctx,
        merges_spaces: purpose.merges_spaces(),
        out: Parsed {
            items: Vec::new(),
            texts: Vec::with_capacity(text.len()),
            global: Flags {
                mandatory: purpose.shows_absence(),
                ..Flags::default()
            },
            stage: Stage::Accept,
            warnings: Vec::new(),
        },
    };
    let mut at = 0;
    while at < text.len() {
        at = match text.as_bytes()[at] {
            b'%' => parser.item(at)?,
            b' ' if parser.merges_spaces => {
                parser.push(What::Space);
                at + 1
            }
            _ => parser.literal(at),
        };
    }
    Ok(parser.out)
}

/// A name, the type asked for, and where what they are of begins.
type Named = (Option<Box<Name>>, Option<Cast>, usize);

struct Parser<'p> {
    text: &'p str,
    ctx: &'p ParseCtx<'p>,
    merges_spaces: bool,
    out: Parsed,
}

impl Parser<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn push(&mut self, what: What) {
        self.out.items.push(Item {
            what,
            flags: self.out.global,
            name: None,
            cast: None,
        });
    }

    fn push_text(&mut self, text: &str) {
        let start = self.out.texts.len() as u32;
        self.out.texts.extend_from_slice(text.as_bytes());
        let end = self.out.texts.len() as u32;
        match self.out.items.last_mut().map(|i| &mut i.what) {
            Some(What::Text { end: before, .. }) if *before == start => *before = end,
            _ => self.push(What::Text { start, end }),
        }
    }

    /// Text up to the next item or space.
    fn literal(&mut self, at: usize) -> usize {
        let ends = |b: u8| b == b'%' || (b == b' ' && self.merges_spaces);
        let rest = &self.text.as_bytes()[at..];
        let len = rest.iter().position(|b| ends(*b)).unwrap_or(rest.len());
        // '%' and ' ' are ASCII, so that both ends are character boundaries.
        let text = &self.text[at..at + len];
        self.push_text(text);
        at + len
    }

    /// What begins with the `%` at `start`; gives where it ends.
    fn item(&mut self, start: usize) -> Result<usize, ExprError> {
        let mut at = start + 1;
        match self.byte(at) {
            Some(b'%') => {
                self.push_text("%");
                return Ok(at + 1);
            }
            None => {
                return Err(self.truncated(start));
            }
            Some(c) if c == b'(' || c == b'{' || c == b'[' || c.is_ascii_alphabetic() => {}
            Some(c) if c.is_ascii_digit() || c == b' ' || c == b'\t' => {
                return Err(ExprError::new("a '%' followed by no tag")
                    .at(start..at + 1)
                    .hint("write '%%' for a percent sign"));
            }
            Some(_) => {
                // As HAProxy: the percent sign goes, the rest stays.
                self.out.warnings.push(
                    ExprError::new("a lone '%' is dropped")
                        .at(start..at)
                        .hint("write '%%' for a percent sign"),
                );
                return Ok(at);
            }
        }
        let (mut name, mut cast) = (None, None);
        if self.byte(at) == Some(b'(') {
            (name, cast, at) = self.name(at)?;
        }
        let mut flags = self.out.global;
        if self.byte(at) == Some(b'{') {
            let Some(len) = self.text[at..].find('}') else {
                return Err(
                    ExprError::new("the '{' of these flags is not closed").at(at..self.text.len())
                );
            };
            let inside = at + 1..at + len;
            flags = flags.apply(&self.text[inside.clone()], inside)?;
            at += len + 1;
        }
        match self.byte(at) {
            Some(b'[') => {
                let (expr, end) = self.expression(at)?;
                let item = Item {
                    what: What::Expr(Box::new(expr)),
                    flags,
                    name,
                    cast,
                };
                self.out.items.push(item);
                Ok(end)
            }
            Some(c) if c.is_ascii_alphanumeric() => {
                let rest = self.text[at..].bytes();
                let len = rest.take_while(u8::is_ascii_alphanumeric).count();
                self.tag(at, at + len, flags, name, cast)?;
                Ok(at + len)
            }
            _ => Err(ExprError::new("a tag or '[' is missing after this")
                .at(start..at)
                .hint("`%{+Q}r` writes a tag with flags, `%[path]` a sample")),
        }
    }

    fn truncated(&self, start: usize) -> ExprError {
        ExprError::new("the format ends within an item")
            .at(start..self.text.len())
            .hint("write '%%' for a percent sign")
    }

    /// `(name)` or `(name:type)`.
    fn name(&self, open: usize) -> Result<Named, ExprError> {
        let Some(len) = self.text[open..].find(')') else {
            return Err(
                ExprError::new("the '(' of this name is not closed").at(open..self.text.len())
            );
        };
        let close = open + len;
        let inside = &self.text[open + 1..close];
        let (name, cast) = match inside.split_once(':') {
            None => (inside, None),
            Some((name, kind)) => {
                let cast = Cast::parse(kind).ok_or_else(|| {
                    ExprError::new(format!("unknown type '{kind}'"))
                        .at(close - kind.len()..close)
                        .hint("the types are str, sint and bool")
                })?;
                (name, Some(cast))
            }
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        if let Some((at, c)) = name.char_indices().find(|(_, c)| !plain(*c)) {
            let at = open + 1 + at;
            return Err(ExprError::new(format!(
                "character '{c}' is not permitted in an item's name"
            ))
            .at(at..at + c.len_utf8()));
        }
        let name = (!name.is_empty()).then(|| Box::new(Name::new(name)));
        Ok((name, cast, close + 1))
    }

    /// The expression after the `[` at `open`; gives where the item ends.
    fn expression(&mut self, open: usize) -> Result<(Expr, usize), ExprError> {
        let from = open + 1;
        let (expr, len) = Expr::parse_prefix(&self.text[from..], self.ctx).map_err(|e| {
            let span = e.span.start + from..e.span.end + from;
            e.at(span)
        })?;
        let end = from + len;
        if self.byte(end) != Some(b']') {
            let span = open..(end + 1).min(self.text.len());
            return Err(
                ExprError::new(format!("a ']' is missing after `{}`", expr.text))
                    .at(self.boundary(span.start)..self.boundary(span.end)),
            );
        }
        self.out.stage = self.out.stage.max(stage_of(&expr));
        Ok((expr, end + 1))
    }

    fn boundary(&self, mut at: usize) -> usize {
        while !self.text.is_char_boundary(at) {
            at += 1;
        }
        at
    }

    fn tag(
        &mut self,
        start: usize,
        end: usize,
        flags: Flags,
        name: Option<Box<Name>>,
        cast: Option<Cast>,
    ) -> Result<(), ExprError> {
        let word = &self.text[start..end];
        if word == "o" {
            self.out.global = flags;
            return Ok(());
        }
        let Some(def) = tag::find(word) else {
            let error = ExprError::new(format!("unknown tag '%{word}'")).at(start..end);
            // Case matters in tags, and they are short: only the same letters are near enough.
            let same = |t: &&str| t.eq_ignore_ascii_case(word);
            let names = || TAGS.iter().map(|t| t.name);
            let near = names()
                .find(same)
                .or_else(|| suggest::nearest(word, names()).filter(|_| word.len() > 2));
            return Err(match near {
                Some(near) => error.hint(format!("did you mean '%{near}'?")),
                None => error.hint("write '%%' for a percent sign, '%[...]' for a sample"),
            });
        };
        if def.http && !self.ctx.http {
            return Err(ExprError::new(format!(
                "'%{word}' ({}) is reserved for mode http",
                def.help
            ))
            .at(start..end));
        }
        self.out.stage = self.out.stage.max(def.stage);
        self.out.items.push(Item {
            what: What::Tag(def.tag),
            flags,
            name,
            cast,
        });
        Ok(())
    }
}

/// From when on an expression's value is final: constants at once, those that look at the response with it, anything
/// that may change until then at the end.
fn stage_of(expr: &Expr) -> Stage {
    if expr.needs_request() {
        Stage::Request
    } else if expr.needs_response() && !expr.places().intersects(Place::LOG) {
        Stage::Response
    } else {
        Stage::Close
    }
}
