//! The flags between `%{` and `}`: what they are called and what they do.

use std::ops::Range;

use crate::error::ExprError;
use crate::suggest;

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags {
    /// `Q`: in double quotes.
    pub quote: bool,
    /// `X`: addresses, ports and counters in hexadecimal.
    pub hex: bool,
    /// `E`: a backslash before `"`, `\` and `]`.
    pub escape: bool,
    /// `M`: `-` stands for what is absent.
    pub mandatory: bool,
    /// `json`: as a JSON value.
    pub json: bool,
    /// `cbor`: as a CBOR item, in hexadecimal.
    pub cbor: bool,
    /// `bin`: binary samples and CBOR as raw bytes.
    pub bin: bool,
}

const NAMES: [&str; 7] = ["Q", "X", "E", "M", "json", "cbor", "bin"];

impl Flags {
    fn named(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "Q" => &mut self.quote,
            "X" => &mut self.hex,
            "E" => &mut self.escape,
            "M" => &mut self.mandatory,
            "json" => &mut self.json,
            "cbor" => &mut self.cbor,
            "bin" => &mut self.bin,
            _ => return None,
        })
    }

    /// Changes the flags as `+Q,-E` says. `span` is where the text lies, for errors.
    pub(super) fn apply(mut self, text: &str, span: Range<usize>) -> Result<Flags, ExprError> {
        let mut at = span.start;
        for word in text.split(',') {
            let here = at..at + word.len();
            at += word.len() + 1;
            let trimmed = word.trim();
            let (on, name) = match trimmed.as_bytes().first() {
                Some(b'+') => (true, &trimmed[1..]),
                Some(b'-') => (false, &trimmed[1..]),
                None => continue,
                Some(_) => {
                    let error =
                        ExprError::new(format!("flag '{trimmed}' needs a '+' or '-' before it"));
                    return Err(error.at(here));
                }
            };
            match self.named(name) {
                Some(flag) => *flag = on,
                None => {
                    let error = ExprError::new(format!("unknown flag '{name}'")).at(here);
                    let near = suggest::nearest(name, NAMES.into_iter()).filter(|_| name.len() > 1);
                    return Err(match near {
                        Some(near) => error.hint(format!("did you mean '{near}'?")),
                        None => error.hint(format!("the flags are {}", NAMES.join(", "))),
                    });
                }
            }
        }
        if self.json && self.cbor {
            return Err(ExprError::new("a field is either JSON or CBOR").at(span));
        }
        Ok(self)
    }
}
