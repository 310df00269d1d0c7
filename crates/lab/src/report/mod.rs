//! What an experiment reports: text, tables, charts and the exact configurations, as one description that becomes
//! a table in the terminal, a JSON file and a self-contained HTML page.

pub mod bars;
pub mod canvas;
pub mod chart;
mod font;
pub mod html;
pub mod machine;

use anyhow::{Context, Result};
use bars::Bars;
use canvas::Picture;
use chart::Chart;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One experiment's report.
#[derive(Debug, Clone)]
pub struct Report {
    /// File name without extension.
    pub name: String,
    /// Title.
    pub title: String,
    /// What was done and why, in a few sentences.
    pub lead: String,
    /// The rest, in order.
    pub blocks: Vec<Block>,
    /// How it was run: captions and preformatted texts, folded away at the end of the page.
    pub appendix: Vec<(String, String)>,
    /// What it comes to, a few words each: for the page that leads to all reports.
    pub headlines: Vec<String>,
    /// Everything that was measured.
    pub data: Value,
    /// The run was ended by a signal.
    pub interrupted: bool,
    /// Something could not be measured; the blocks say what and why.
    pub failed: bool,
}

/// A piece of a report.
#[derive(Debug, Clone)]
pub enum Block {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A chart; the name is that of its SVG and PNG files.
    Chart(String, Figure),
}

/// A picture of a report.
#[derive(Debug, Clone)]
pub enum Figure {
    /// Lines over an axis.
    Lines(Chart),
    /// Bars beside each other.
    Bars(Bars),
}

impl Figure {
    /// What draws it.
    #[must_use]
    pub fn picture(&self) -> &dyn Picture {
        match self {
            Self::Lines(chart) => chart,
            Self::Bars(bars) => bars,
        }
    }

    /// As an SVG element.
    #[must_use]
    pub fn svg(&self) -> String {
        canvas::svg(self.picture())
    }
}

impl From<Chart> for Figure {
    fn from(chart: Chart) -> Self {
        Self::Lines(chart)
    }
}

impl From<Bars> for Figure {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

/// A table; the first column holds names, the others figures.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Rows, each as long as `heads`.
    pub rows: Vec<Vec<String>>,
    /// The cells are words, not figures: aligned left, and wrapped on a page.
    pub words: bool,
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        Self {
            heads: heads.iter().map(|h| (*h).to_owned()).collect(),
            rows: Vec::new(),
            words: false,
        }
    }

    /// The same for cells that are words.
    #[must_use]
    pub fn of_words(self) -> Self {
        Self {
            words: true,
            ..self
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.heads).chain(&self.rows);
        let width = |column: usize| {
            lines()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let mut text = String::new();
        for row in lines() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => text.push_str(&format!("{cell:<width$}")),
                    _ if self.words => text.push_str(&format!("  {cell:<width$}")),
                    _ => text.push_str(&format!("  {cell:>width$}")),
                }
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

impl Table {
    /// The table as Markdown; columns without a single figure are left out.
    #[must_use]
    pub fn markdown(&self) -> String {
        let is_empty = |n: usize| {
            self.rows
                .iter()
                .all(|row| row.get(n).is_none_or(|cell| cell.is_empty() || cell == "-"))
        };
        let columns: Vec<usize> = (0..self.heads.len())
            .filter(|&n| n == 0 || !is_empty(n))
            .collect();
        let line = |cells: &[String]| {
            let cells: Vec<_> = columns
                .iter()
                .filter_map(|&n| cells.get(n))
                .map(|cell| cell.replace('|', "\\|"))
                .collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<_> = columns
            .iter()
            .map(|&n| if n == 0 || self.words { "---" } else { "---:" })
            .collect();
        let mut text = format!("{}| {} |\n", line(&self.heads), rule.join(" | "));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }
}

impl Report {
    /// An empty one.
    #[must_use]
    pub fn new(name: &str, title: &str, lead: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            lead: lead.to_owned(),
            blocks: Vec::new(),
            appendix: Vec::new(),
            headlines: Vec::new(),
            data: Value::Null,
            interrupted: false,
            failed: false,
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_owned()));
    }

    /// Adds a headline for the page that leads to all reports.
    pub fn headline(&mut self, text: impl Into<String>) {
        self.headlines.push(text.into());
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a chart.
    pub fn chart(&mut self, name: &str, figure: impl Into<Figure>) {
        self.blocks
            .push(Block::Chart(name.to_owned(), figure.into()));
    }

    /// Adds preformatted text to the appendix.
    pub fn code(&mut self, caption: &str, text: &str) {
        self.appendix.push((caption.to_owned(), text.to_owned()));
    }

    /// The report for a terminal: no charts, no configurations.
    #[must_use]
    pub fn terminal(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for block in &self.blocks {
            match block {
                Block::Heading(heading) => text.push_str(&format!("\n{heading}\n")),
                Block::Text(paragraph) => text.push_str(&format!("{paragraph}\n")),
                Block::Table(table) => text.push_str(&table.text()),
                Block::Chart(..) => {}
            }
        }
        if self.interrupted {
            text.push_str("interrupted: what was measured until then\n");
        }
        text
    }

    /// The report as Markdown, for docs: tables and text, no charts, no configurations.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n", self.title, self.lead);
        for block in &self.blocks {
            match block {
                Block::Heading(heading) => text.push_str(&format!("\n### {heading}\n\n")),
                Block::Text(paragraph) => text.push_str(&format!("{paragraph}\n\n")),
                Block::Table(table) => {
                    text.push_str(&table.markdown());
                    text.push('\n');
                }
                Block::Chart(..) => {}
            }
        }
        text
    }

    /// Notes what could not be measured, and why.
    pub fn fail(&mut self, text: impl Into<String>) {
        self.failed = true;
        self.text(text);
    }

    /// Writes page, data and pictures into `dir`; returns the page's file.
    ///
    /// # Errors
    /// When a file cannot be written, with its name.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let put = |name: String, text: &str| {
            let file = dir.join(name);
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok::<_, anyhow::Error>(file)
        };
        for block in &self.blocks {
            if let Block::Chart(name, chart) = block {
                put(format!("{}-{name}.svg", self.name), &chart.svg())?;
                canvas::png(
                    chart.picture(),
                    &dir.join(format!("{}-{name}.png", self.name)),
                )?;
            }
        }
        put(
            format!("{}.json", self.name),
            &serde_json::to_string_pretty(&self.data)?,
        )?;
        put(format!("{}.md", self.name), &self.markdown())?;
        put(format!("{}.html", self.name), &html::page(self))
    }
}

/// Makes the folder for reports, and sees that files can be made in it: before anything is measured.
///
/// # Errors
/// When not, with its name.
pub fn prepare(dir: &Path) -> Result<()> {
    let probe = dir.join(".sluice-lab");
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| {
            let why = crate::net::plain_words(&error);
            anyhow::anyhow!("cannot write into {}: {why}", dir.display())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["proxy", "us"]);
        table.row(["haproxy".to_owned(), "9.5".to_owned()]);
        table.row(["x".to_owned(), "10.25".to_owned()]);
        table.heads.push("none".to_owned());
        let markdown = table.markdown();
        assert_eq!(
            markdown,
            "| proxy | us |\n| --- | ---: |\n| haproxy | 9.5 |\n| x | 10.25 |\n"
        );
        table.heads.pop();
        assert_eq!(
            table.text(),
            "proxy       us\nhaproxy    9.5\nx        10.25\n"
        );
    }

    #[test]
    fn a_report_leaves_its_files() {
        let dir = crate::process::WorkDir::new().unwrap();
        let mut report = Report::new("r", "A <title>", "lead");
        report.table(Table::new(&["a"]));
        report.code("config", "a < b & c");
        let file = report.write(dir.path()).unwrap();
        let page = std::fs::read_to_string(file).unwrap();
        assert!(page.contains("A &lt;title&gt;") && page.contains("a &lt; b &amp; c"));
        assert!(dir.path().join("r.json").is_file());
    }
}
