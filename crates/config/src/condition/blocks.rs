//! The directives: `.if` and its block, and the messages `.notice`, `.warning`, `.alert`, `.diag`.

use super::{Facts, eval_condition};
use crate::cx::Cx;
use crate::diag::Severity;
use crate::line::{Line, Word};

/// Deepest nesting of `.if` blocks.
const NESTED_MAX: usize = 1024;

/// One open `.if`.
struct Block {
    line: Line,
    /// A branch of it was taken already, or nothing in it may be.
    done: bool,
    /// Its lines are read now.
    active: bool,
    in_else: bool,
}

/// The nesting of conditional blocks in one file.
#[derive(Default)]
pub(crate) struct Blocks(Vec<Block>);

impl Blocks {
    /// Whether lines are read here.
    pub fn active(&self) -> bool {
        self.0.last().is_none_or(|b| b.active)
    }

    /// Complains about blocks that were left open.
    pub fn finish(self, cx: &mut Cx<'_>) {
        for block in self.0 {
            cx.error(
                &block.line,
                0,
                0..0,
                "non-terminated '.if' block.",
                Some("close it with '.endif'".into()),
            );
        }
    }
}

/// Runs a line that begins with a dot. True when it was a directive (known or not).
pub(crate) fn directive(cx: &mut Cx<'_>, blocks: &mut Blocks, line: &mut Line) -> bool {
    let name = line.word(0).to_owned();
    if !name.starts_with('.') {
        return false;
    }
    line.keyword_len = 1;
    let argument_allowed = matches!(
        name.as_str(),
        ".if" | ".elif" | ".notice" | ".warning" | ".alert" | ".diag"
    );
    let known = argument_allowed || matches!(name.as_str(), ".else" | ".endif");
    if !known {
        if blocks.active() {
            cx.error_at(line, 0, format!("unknown directive '{name}'."));
        }
        return true;
    }
    if !argument_allowed && line.has(1) {
        cx.error_at(
            line,
            1,
            format!("Unexpected argument '{}' for '{name}'.", line.word(1)),
        );
    }
    match name.as_str() {
        ".if" => open(cx, blocks, line),
        ".elif" | ".else" => alternative(cx, blocks, line, &name),
        ".endif" if blocks.0.pop().is_none() => {
            cx.error_at(line, 0, "lone '.endif' with no matching '.if'.");
        }
        ".endif" => {}
        _ if blocks.active() => message(cx, line, &name),
        _ => {}
    }
    true
}

fn open(cx: &mut Cx<'_>, blocks: &mut Blocks, line: &mut Line) {
    let outer = blocks.active();
    let active = outer && condition(cx, line);
    if blocks.0.len() >= NESTED_MAX {
        cx.error_at(
            line,
            0,
            format!("too many nested '.if', limit: {NESTED_MAX}"),
        );
    }
    blocks.0.push(Block {
        line: line.clone(),
        done: active || !outer,
        active,
        in_else: false,
    });
}

fn alternative(cx: &mut Cx<'_>, blocks: &mut Blocks, line: &mut Line, name: &str) {
    let Some(block) = blocks.0.last_mut() else {
        cx.error_at(line, 0, format!("lone '{name}' with no matching '.if'."));
        return;
    };
    if block.in_else {
        cx.error_at(line, 0, format!("'{name}' after '.else' is not permitted."));
        block.active = false;
        return;
    }
    block.in_else = name == ".else";
    block.active = !block.done && (block.in_else || condition(cx, line));
    block.done |= block.active;
}

/// The words after `.if` or `.elif`, as one text.
fn condition(cx: &mut Cx<'_>, line: &mut Line) -> bool {
    let joined = join(&line.words[1..]);
    line.words.truncate(1);
    line.words.push(joined);
    let facts = Facts {
        environ: &cx.environ,
        features: &cx.opts.features,
        enabled: &cx.opts.enabled,
        tls_library: &cx.opts.tls_library,
    };
    match eval_condition(line.word(1), &facts) {
        Ok(value) => value,
        Err(fault) => {
            let message = format!("{} in '{}'", fault.message, line.word(0));
            cx.error(line, 1, fault.span, message, fault.hint);
            false
        }
    }
}

fn join(words: &[Word]) -> Word {
    let mut joined = Word::default();
    if let (Some(first), Some(last)) = (words.first(), words.last()) {
        joined.span = first.span.start..last.span.end;
    }
    for (n, word) in words.iter().enumerate() {
        if n > 0 {
            joined.text.push(' ');
            joined.columns.push(word.span.start as u32);
        }
        joined.text.push_str(&word.text);
        joined.columns.extend(&word.columns);
    }
    joined
}

fn message(cx: &mut Cx<'_>, line: &Line, name: &str) {
    if line.has(2) {
        cx.error(
            line,
            2,
            0..0,
            format!("Unexpected argument '{}' for '{name}'.", line.word(2)),
            Some("use quotes if the message should contain spaces".into()),
        );
        return;
    }
    let severity = match name {
        ".diag" => Severity::Diag,
        ".notice" => Severity::Notice,
        ".warning" => Severity::Warning,
        _ => Severity::Alert,
    };
    let text = format!("'{}'.", line.word(1));
    cx.report(severity, line, 1, 0..0, text, None);
    if let Some(last) = cx.diagnostics.last_mut() {
        // The message is the source itself: no excerpt.
        last.excerpt = None;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::messages;

    #[test]
    fn blocks_nest() {
        let check = |text: &str, expect: &[&str]| assert_eq!(messages(text), expect, "{text}");
        check(
            ".if 0\n.foo\n.if bad\n.notice a\n.endif\n.elif 1\n.notice b\n.elif bad\n.else\n.notice c\n.endif\n.notice d\n",
            &["N7: 'b'.", "N12: 'd'."],
        );
        check(
            ".if 1\n.else\n.else\n.endif\n",
            &["A3: '.else' after '.else' is not permitted."],
        );
        check(".endif\n", &["A1: lone '.endif' with no matching '.if'."]);
        check(".if 1\n\n", &["A1: non-terminated '.if' block."]);
        check(".foo\n", &["A1: unknown directive '.foo'."]);
        check(
            ".notice a b\n",
            &["A1: Unexpected argument 'b' for '.notice'."],
        );
        check(
            "global\n.warning \"${.FILE}:${.LINE}:${.SECTION}\"\nfrontend x\n.alert \"${.SECTION}\"\n",
            &["W2: 't.cfg:2:global'.", "A4: 'x'."],
        );
    }
}
