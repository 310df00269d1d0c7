//! The words of `bind` and `server` lines, read by a table.

use std::sync::Arc;

use super::Cx;
use crate::line::Line;
use crate::registry::{LineWord, WordRun};

impl Cx<'_> {
    /// Reads the words from an index on by a table. False after an error was reported.
    pub fn line_words<T>(
        &mut self,
        line: &Arc<Line>,
        from: usize,
        tables: &[&'static [LineWord<T>]],
        into: &mut T,
    ) -> bool {
        let mut at = from;
        let mut good = true;
        while line.has(at) {
            let text = line.word(at);
            let Some(item) = tables
                .iter()
                .flat_map(|table| table.iter())
                .find(|w| crate::registry::word_matches(w.name, text))
            else {
                let near = crate::diag::suggest(
                    text,
                    tables.iter().flat_map(|t| t.iter()).map(|w| w.name),
                );
                let maybe = near.map_or(String::new(), |n| format!("; did you mean '{n}' maybe ?"));
                self.error(
                    line,
                    at,
                    0..0,
                    format!("'{}' : unknown keyword '{text}'{maybe}", line.keyword()),
                    None,
                );
                return false;
            };
            match item.run {
                WordRun::Do(run) => match run(self, line, at, into) {
                    Some(taken) => at += taken.max(1),
                    None => return false,
                },
                WordRun::Obsolete { instead, run } => {
                    self.warn(
                        line,
                        at,
                        format!("'{text}' is obsolete"),
                        Some(instead.to_owned()),
                    );
                    match run(self, line, at, into) {
                        Some(taken) => at += taken.max(1),
                        None => return false,
                    }
                }
                WordRun::Later(part) => {
                    self.not_yet(line, at, text, part);
                    good = false;
                    at += 1 + item.args.split_whitespace().count();
                }
                WordRun::Refused(why) => {
                    self.error(
                        line,
                        at,
                        0..0,
                        format!("'{text}' is not supported"),
                        Some(why.to_owned()),
                    );
                    good = false;
                    at += 1 + item.args.split_whitespace().count();
                }
            }
        }
        good
    }

    /// Warns that a word is understood and changes nothing, and why that is so.
    pub fn no_effect(&mut self, line: &Line, word: usize, why: &str) {
        let name = line.word(word).to_owned();
        self.warn(
            line,
            word,
            format!("'{name}' has no effect in Sluice"),
            Some(why.into()),
        );
    }

    /// Reports a keyword or value that another part brings.
    pub fn not_yet(&mut self, line: &Line, word: usize, name: &str, part: &str) {
        self.error(
            line,
            word,
            0..0,
            format!("'{name}' is not implemented by Sluice yet"),
            Some(format!("it comes with: {part}")),
        );
    }
}
