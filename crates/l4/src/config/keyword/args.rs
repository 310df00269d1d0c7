//! The cursor that a keyword's action reads its arguments through.

use super::*;

/// The arguments of one statement, read from left to right.
pub struct Args<'a, 'h> {
    pub node: &'a Node,
    pub at: usize,
    pub cx: &'a mut Context<'h>,
}

impl<'a> Args<'a, '_> {
    pub fn keyword(&self) -> &'a Word {
        self.node
            .words
            .get(self.at - 1)
            .unwrap_or(&self.node.words[0])
    }

    /// The block in braces; empty, with an error, if there is none.
    pub fn block(&mut self) -> &'a [Node] {
        match &self.node.block {
            Some(b) => b,
            None => {
                let word = self.keyword();
                self.cx.error(
                    Some(word.place()),
                    format!("{} needs a block in braces", word.text),
                );
                &[]
            }
        }
    }

    pub fn peek(&self) -> Option<&'a Word> {
        self.node.words.get(self.at)
    }

    /// The next word if there is one.
    pub fn optional(&mut self) -> Option<&'a Word> {
        let word = self.node.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The next word; its absence is an error.
    pub fn word(&mut self, what: &str) -> Option<&'a Word> {
        let found = self.optional();
        if found.is_none() {
            let keyword = self.node.words.last().or(self.node.words.first());
            let place = keyword.map(Word::place);
            let name = self.node.keyword().to_string();
            self.cx.error(place, format!("{name} needs {what}"));
        }
        found
    }

    pub fn text(&mut self, what: &str) -> Option<String> {
        self.word(what).map(|w| w.text.clone())
    }

    /// Reads over everything that is left, block included.
    pub fn skip(&mut self) {
        self.at = self.node.words.len();
    }

    pub fn error_at(&mut self, word: &Word, message: impl Into<String>) {
        self.cx.error(Some(word.place()), message);
    }

    pub fn dubious_at(&mut self, word: &Word, message: impl Into<String>) {
        self.cx
            .report(Severity::Dubious, Some(word.place()), message);
    }

    /// A whole number in a range.
    pub fn number(&mut self, range: RangeInclusive<i64>) -> Option<i64> {
        let word = self.word("a number")?;
        match word.text.parse::<i64>() {
            Ok(n) if range.contains(&n) => Some(n),
            Ok(_) => {
                self.error_at(
                    word,
                    format!(
                        "{} must lie between {} and {}",
                        self.node.keyword(),
                        range.start(),
                        range.end()
                    ),
                );
                None
            }
            Err(_) => {
                self.error_at(word, format!("'{}' is not a whole number", word.text));
                None
            }
        }
    }

    pub fn number_u32(&mut self, range: RangeInclusive<u32>) -> Option<u32> {
        let n = self.number(i64::from(*range.start())..=i64::from(*range.end()))?;
        u32::try_from(n).ok()
    }

    pub fn number_u8(&mut self, range: RangeInclusive<u8>) -> Option<u8> {
        let n = self.number(i64::from(*range.start())..=i64::from(*range.end()))?;
        u8::try_from(n).ok()
    }

    pub fn port(&mut self) -> Option<u16> {
        self.number(1..=65535).and_then(|n| u16::try_from(n).ok())
    }

    /// Seconds with decimals, in microseconds.
    pub fn seconds(&mut self, range: RangeInclusive<f64>) -> Option<u64> {
        let word = self.word("a time in seconds")?;
        match word.text.parse::<f64>() {
            Ok(s) if range.contains(&s) => Some((s * 1e6).round() as u64),
            Ok(_) => {
                self.error_at(
                    word,
                    format!(
                        "{} must lie between {} and {} seconds",
                        self.node.keyword(),
                        range.start(),
                        range.end()
                    ),
                );
                None
            }
            Err(_) => {
                self.error_at(word, format!("'{}' is not a number of seconds", word.text));
                None
            }
        }
    }

    /// on, off, true, false, yes, no; nothing means on.
    pub fn boolean(&mut self) -> Option<bool> {
        let Some(word) = self.peek() else {
            return Some(true);
        };
        match word.text.as_str() {
            "on" | "true" | "yes" => {
                self.at += 1;
                Some(true)
            }
            "off" | "false" | "no" => {
                self.at += 1;
                Some(false)
            }
            _ => {
                self.at += 1;
                self.error_at(
                    word,
                    format!("'{}' is none of on, off, true, false, yes, no", word.text),
                );
                None
            }
        }
    }

    pub fn address(&mut self) -> Option<IpAddr> {
        let word = self.word("an address")?;
        match word.text.parse() {
            Ok(ip) => Some(ip),
            Err(_) => {
                self.error_at(word, format!("'{}' is not an IP address", word.text));
                None
            }
        }
    }

    pub fn interface(&mut self) -> Option<String> {
        let word = self.word("an interface name")?;
        if word.text.len() > 15 {
            self.error_at(
                word,
                format!(
                    "interface name '{}' is longer than 15 characters",
                    word.text
                ),
            );
            return None;
        }
        self.cx.interface(word);
        Some(word.text.clone())
    }

    /// A script: one word, quoted if it has arguments, then user and group.
    pub fn script(&mut self) -> Option<Script> {
        let word = self.peek();
        let script = self.reader()?;
        let user = script.user.as_ref().map(|u| u.user.as_str());
        self.check_executable(word?, &script.argv, user);
        Some(script)
    }

    /// A fifo's reader: a script that runs only if there is something to tell (see `resolve`).
    pub fn reader(&mut self) -> Option<Script> {
        let word = self.word("a program")?;
        let argv = split_command(&word.text);
        let user = self.optional().map(|u| ScriptUser {
            user: u.text.clone(),
            group: self.optional().map(|g| g.text.clone()),
        });
        if argv.is_empty() {
            self.error_at(word, "the program's name is empty");
            return None;
        }
        Some(Script { argv, user })
    }

    /// keepalived looks whether a script is there, and complains about one that runs as root unguarded.
    pub fn check_executable(&mut self, word: &Word, argv: &[String], user: Option<&str>) {
        let Some(program) = argv.first() else { return };
        match self.cx.host.executable_exists(program) {
            Some(true) => self.cx.script_users.push(user.map(Into::into)),
            Some(false) => self.cx.report(
                Severity::Warning,
                Some(word.place()),
                format!("{program} does not exist or may not be executed"),
            ),
            _ => {}
        }
    }
}

/// Cuts a command at blanks; single quotes keep blanks (the words come without double quotes already).
pub fn split_command(text: &str) -> Vec<String> {
    let mut argv = Vec::new();
    let mut word = String::new();
    let mut open = false;
    let mut started = false;
    for c in text.chars() {
        match c {
            '\'' => {
                open = !open;
                started = true;
            }
            c if c.is_whitespace() && !open => {
                if started {
                    argv.push(std::mem::take(&mut word));
                }
                started = false;
            }
            c => {
                word.push(c);
                started = true;
            }
        }
    }
    if started {
        argv.push(word);
    }
    argv
}
