//! Reports as HTML: one file that needs no other, light and dark, readable on a phone.

use super::{Block, Report, Table, machine};
use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light dark; --fg: #1d2733; --dim: #5b6876; --bg: #fbfcfd; --card: #fff; --line: #dde3ea; --accent: #2f6fde; --good: #14803a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e9ef; --dim: #98a4b3; --bg: #12161b; --card: #1a2027; --line: #2c353f; --accent: #7aa7ff; --good: #5bd285; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.7em; line-height: 1.2; margin: .4em 0; }
h2 { font-size: 1.2em; margin: 2em 0 .5em; }
p { max-width: 75ch; }
.lead { color: var(--dim); font-size: 1.05em; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: .8em 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
td:first-child { white-space: normal; min-width: 7em; max-width: 30em; }
.words th, .words td { text-align: left; white-space: normal; vertical-align: top; min-width: 7em; }
.words td.good, .words td.bad { white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
th { color: var(--dim); font-weight: 600; font-size: .9em; }
td.good { color: var(--good); font-weight: 600; } td.bad { color: var(--bad); font-weight: 600; }
figure { margin: 1em 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 0 14px; align-items: start; }
figure { overflow-x: auto; } figure svg { min-width: 560px; }
svg { width: 100%; height: auto; color: var(--fg); }
details { margin: .5em 0; } summary { cursor: pointer; color: var(--accent); }
pre { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px; font-size: 13px; }
a { color: var(--accent); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(290px, 1fr)); gap: 14px; }
.card { display: block; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; color: inherit; text-decoration: none; }
.card ul { margin: .6em 0 0; padding-left: 1.1em; color: var(--dim); font-size: .93em; }
.card:hover { border-color: var(--accent); } .card b { color: var(--accent); }
.note { border-left: 3px solid var(--bad); padding-left: 12px; }
footer { margin-top: 3em; color: var(--dim); font-size: .9em; }
";

/// Text as it may stand in HTML, attributes included.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A whole report.
#[must_use]
pub fn page(report: &Report) -> String {
    let mut body = format!(
        "<p><a href=\"index.html\">all experiments</a></p>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n",
        escape(&report.title),
        escape(&report.lead)
    );
    if report.interrupted {
        body.push_str("<p class=\"note\">The run was interrupted: this is what was measured until then.</p>\n");
    }
    for (n, block) in report.blocks.iter().enumerate() {
        // Pictures that follow each other stand side by side where there is room.
        let is_figure = |n: usize| matches!(report.blocks.get(n), Some(Block::Chart(..)));
        if is_figure(n) && !(n > 0 && is_figure(n - 1)) {
            body.push_str("<div class=\"figures\">");
        }
        // Writing to a String cannot fail.
        let _ = match block {
            Block::Heading(text) => writeln!(body, "<h2>{}</h2>", escape(text)),
            Block::Text(text) => writeln!(body, "<p>{}</p>", escape(text)),
            Block::Table(table) => writeln!(body, "{}", table_html(table)),
            Block::Chart(_, chart) => writeln!(body, "<figure>{}</figure>", chart.svg()),
        };
        if is_figure(n) && !is_figure(n + 1) {
            body.push_str("</div>\n");
        }
    }
    if !report.appendix.is_empty() {
        body.push_str("<h2>How it was run</h2>\n");
    }
    for (caption, text) in &report.appendix {
        let _ = writeln!(
            body,
            "<details><summary>{}</summary><pre>{}</pre></details>",
            escape(caption),
            escape(text)
        );
    }
    frame(&report.title, &body)
}

/// The page that leads to all reports.
#[must_use]
pub fn index(reports: &[Report]) -> String {
    let mut body = String::from(
        "<h1>Sluice lab</h1>\n<p class=\"lead\">The experiments that load balancers are judged by, run on this machine: \
         the same work through each proxy in turns, with the smallest possible relay as the floor.</p>\n<div class=\"cards\">\n",
    );
    for report in reports {
        let _ = writeln!(
            body,
            "<a class=\"card\" href=\"{}.html\"><b>{}</b><br>{}{}</a>",
            escape(&report.name),
            escape(&report.title),
            escape(&report.lead),
            headlines(report)
        );
    }
    body.push_str("</div>\n");
    for report in reports {
        let first_chart = report.blocks.iter().find_map(|block| match block {
            Block::Chart(_, chart) => Some(format!("<figure>{}</figure>", chart.svg())),
            _ => None,
        });
        let first_table = report.blocks.iter().find_map(|block| match block {
            Block::Table(table) => Some(table_html(table)),
            _ => None,
        });
        if let Some(picture) = first_chart.or(first_table) {
            let _ = writeln!(
                body,
                "<h2><a href=\"{}.html\">{}</a></h2>\n{picture}",
                escape(&report.name),
                escape(&report.title)
            );
        }
    }
    frame("Sluice lab", &body)
}

/// What a report comes to, as a list.
fn headlines(report: &Report) -> String {
    let interrupted = report
        .interrupted
        .then_some("interrupted: what was measured until then");
    let all = report
        .headlines
        .iter()
        .map(String::as_str)
        .chain(interrupted);
    let items: String = all
        .map(|text| format!("<li>{}</li>", escape(text)))
        .collect();
    if items.is_empty() {
        items
    } else {
        format!("<ul>{items}</ul>")
    }
}

fn table_html(table: &Table) -> String {
    let class = if table.words { " class=\"words\"" } else { "" };
    let mut out = format!("<div class=\"scroll\"><table{class}><thead><tr>");
    for head in &table.heads {
        let _ = write!(out, "<th>{}</th>", escape(head));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let class = match cell.as_str() {
                c if c.starts_with("reached") || c == "shown" => " class=\"good\"",
                c if c.to_ascii_lowercase().starts_with("not reached") || c == "not shown" => {
                    " class=\"bad\""
                }
                _ => "",
            };
            let _ = write!(out, "<td{class}>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    out
}

fn frame(title: &str, body: &str) -> String {
    let machine: Vec<_> = machine::describe()
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let command: Vec<_> = std::env::args().collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\
         <style>{STYLE}</style></head><body><main>\n{body}\n<footer><p>{}</p><pre>{}</pre></footer></main></body></html>\n",
        escape(title),
        escape(&machine.join(" · ")),
        escape(&command.join(" ")),
    )
}
