//! The environment the configuration sees: the process's, as `setenv` and its relatives change it line by line.

use std::collections::BTreeMap;

/// Environment variables and the pseudo-variables `.FILE`, `.LINE`, `.SECTION`.
#[derive(Debug, Clone, Default)]
pub struct Environ {
    vars: BTreeMap<String, String>,
    pub file: String,
    pub line: u32,
    pub section: String,
    line_text: String,
}

impl Environ {
    pub fn new(vars: &[(String, String)]) -> Self {
        Environ {
            vars: vars.iter().cloned().collect(),
            ..Environ::default()
        }
    }

    /// Moves to a line, for the pseudo-variables.
    pub fn at(&mut self, file: &str, line: u32) {
        if self.file != file {
            file.clone_into(&mut self.file);
        }
        self.line = line;
        self.line_text = line.to_string();
    }

    /// A variable's value; names that begin with a dot are the pseudo-variables of manual chapter 2.3.
    pub fn var(&self, name: &str) -> Option<&str> {
        match name {
            ".FILE" => Some(&self.file),
            ".LINE" => Some(&self.line_text),
            ".SECTION" => Some(&self.section),
            _ => self.vars.get(name).map(String::as_str),
        }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.vars.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a variable that is not there yet.
    pub fn preset(&mut self, name: &str, value: &str) {
        self.vars
            .entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }

    pub fn unset(&mut self, name: &str) {
        self.vars.remove(name);
    }

    /// Keeps only the named variables.
    pub fn reset(&mut self, keep: &[&str]) {
        self.vars.retain(|name, _| keep.contains(&name.as_str()));
    }

    /// All variables, sorted by name.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}
