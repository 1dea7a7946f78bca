//! Rows as one page that needs nothing else: style and charts are in it, nothing is loaded.
//!
//! Charts are SVG written by hand: `scale` places figures on axes, `svg` writes shapes,
//! `ladder` and `plot` make charts of them, `charts`, `series` and `level` sort rows into charts,
//! `sections` says which of them a suite gets.
//! The page is XML as well as HTML, so that a test can read it.

mod charts;
mod ladder;
mod level;
mod palette;
mod plot;
mod rows;
#[cfg(test)]
mod sample;
mod scale;
mod sections;
mod series;
mod svg;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use crate::machine::Machine;
use crate::row::Row;
use anyhow::{Context, Result};
use palette::Palette;
use std::fs;
use std::path::Path;
use text::escape;

const STYLE: &str = include_str!("style.css");

const WORDS: &str = "\
<p>A <b>ceiling</b> is what the machine's memory lets one thread do, measured in the same run, on \
the same medium and at the size of the tables: for look-ups and unflushed changes half the random \
lines a second that a thread reads with 16 under way, for durable changes the lines it persists a \
second.</p>
<p>The <b>ratio</b> is an operation's rate per thread divided by that ceiling. Rates are those of \
all threads together, medians over the rounds; whiskers are as long as the distance from the \
slowest round to the fastest. A star (*) means that the threads had a processor for less than \
90&#160;% of the time: others used the machine. Point at a figure to see all of its row.</p>
";

/// The page. `command` is what was run, as its reader could type it.
pub fn page(machine: &Machine, command: &str, rows: &[Row]) -> String {
    let rows: Vec<Row> = rows.iter().map(rows::finite).collect();
    let palette = Palette::of(&rows);
    let sections = sections::sections(&rows, &palette);
    let facts: String = machine
        .lines()
        .iter()
        .map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(fact)))
        .collect();
    let links: String = sections
        .iter()
        .map(|section| format!("<a href=\"#{}\">{}</a>", section.id, escape(&section.title)))
        .collect();
    let bodies: String = sections
        .iter()
        .map(|section| {
            let title = escape(&section.title);
            format!(
                "<section id=\"{}\">\n<h2>{title}</h2>\n{}</section>\n",
                section.id, section.body
            )
        })
        .collect();
    let end = match rows.len() {
        0 => "<p><b>Nothing was measured: there are no rows.</b></p>\n".to_owned(),
        count => format!(
            "<details><summary>All rows ({count})</summary>\n{}</details>\n",
            tables::everything(&rows)
        ),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>firndex: benchmark</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>firndex: how fast, beside whom</h1>\n\
         <code class=\"command\">{}</code>\n\
         <div class=\"head\">\n<dl>\n{facts}</dl>\n<div>\n{WORDS}</div>\n</div>\n\
         <nav>{links}</nav>\n</header>\n<main>\n{bodies}{end}</main>\n</body>\n</html>\n",
        escape(command)
    )
}

/// Writes the page to a file.
pub fn write(path: &Path, machine: &Machine, command: &str, rows: &[Row]) -> Result<()> {
    fs::write(path, page(machine, command, rows))
        .with_context(|| format!("writing {}", path.display()))
}
