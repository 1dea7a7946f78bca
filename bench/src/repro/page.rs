//! The claims as a page of Markdown.

use super::{Judged, Report, Run, paper_of};
use crate::paper::Verdict;
use crate::paper::costs::PREFIX;
use crate::row::Row;
use std::fmt::Write;

/// A page with a table for each paper.
pub(super) fn page(run: &Run, report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut text, run, report);
    text
}

fn write_page(text: &mut String, run: &Run, report: &Report) -> std::fmt::Result {
    writeln!(text, "{INTRODUCTION}")?;
    writeln!(text, "| | |\n|---|---|")?;
    writeln!(text, "| command | `{}` |", run.command)?;
    writeln!(text, "| scale, rounds | {}, {} |", run.options.scale, run.options.runs)?;
    for (name, fact) in run.machine.lines() {
        writeln!(text, "| {name} | {} |", cell(&fact))?;
    }
    writeln!(text, "\n{VERDICTS}")?;
    writeln!(text, "| paper | yes | nearly | no | cannot be run here |\n|---|---|---|---|---|")?;
    for judged in &report.papers {
        let count = |verdict| judged.claims.iter().filter(|claim| claim.verdict == verdict).count();
        let [yes, nearly, no, out] =
            [Verdict::Yes, Verdict::Nearly, Verdict::No, Verdict::OutOfReach].map(count);
        writeln!(text, "| {} | {yes} | {nearly} | {no} | {out} |", judged.paper)?;
    }
    report.papers.iter().try_for_each(|judged| {
        section(text, judged)?;
        costs(text, judged.paper, &report.rows)
    })
}

/// What the tables of a paper cost, if that was counted.
fn costs(text: &mut String, paper: &str, rows: &[Row]) -> std::fmt::Result {
    let counted = |row: &&Row| row.suite == paper && row.op.starts_with(PREFIX);
    let mut names: Vec<&str> = rows.iter().filter(counted).map(|row| &*row.contender).collect();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n{COSTS}\n")?;
    writeln!(
        text,
        "| table | {} |\n|---|{}",
        OPERATIONS.join(" | "),
        "---|".repeat(OPERATIONS.len())
    )?;
    for name in names {
        write!(text, "| {name} |")?;
        for op in OPERATIONS {
            let is_it =
                |row: &&Row| row.contender == name && row.op.strip_prefix(PREFIX) == Some(op);
            let row = rows.iter().filter(counted).find(is_it);
            let figures = row.map(|row| [row.lines_read, row.flushes, row.fences]);
            let shown = figures.map_or(String::new(), |figures| {
                figures.map(|figure| format!("{:.2}", figure.unwrap_or(0.0))).join(", ")
            });
            write!(text, " {shown} |")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn section(text: &mut String, judged: &Judged) -> std::fmt::Result {
    let Some(paper) = paper_of(judged.paper) else { return Ok(()) };
    writeln!(text, "\n## {}\n", judged.paper)?;
    writeln!(text, "{}", filled(&format!("{}: *{}*.", paper.by, paper.title)))?;
    writeln!(text, "\n{}\n", filled(paper.how))?;
    writeln!(text, "| claim | measured (paper) | verdict |\n|---|---|---|")?;
    for claim in &judged.claims {
        let (says, measured) = (cell(claim.says), cell(&claim.measured()));
        writeln!(text, "| {}: {says} | {measured} | {} |", claim.place, cell(&claim.judged()))?;
    }
    Ok(())
}

/// Text in lines of up to [`COLUMNS`].
fn filled(text: &str) -> String {
    let mut lines = String::new();
    let mut columns = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > COLUMNS {
            lines.push('\n');
            columns = 0;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += length;
    }
    lines
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Columns of a line that is no row of a table.
const COLUMNS: usize = 120;

/// What is counted of each table.
const OPERATIONS: [&str; 5] = ["insert", "hit", "miss", "update", "remove"];

const COSTS: &str = "Counted at a load factor of 0.8: lines of the pool read, flushes, fences.";

const INTRODUCTION: &str = "\
# What the papers say, and what was measured

This page is written by a run of `firndex-lab repro`, which repeats the measurements of the five papers. Do not edit it:
run the command again. `docs/engines/` has a page for each engine, with more figures and their conditions.
";

const VERDICTS: &str = "\
Absolute times of other machines cannot be repeated; proportions, counts and load factors can. Behind our figure stands
the paper's in brackets, or the bound that its words imply. Where there are none, figures are compared with each other:
millions of operations a second, or counts.

* **yes**: a count or a load factor is the paper's to within 2 % (ratios of times 30 %, space 10 %); a factor is at
  least 0.8 of the paper's, and what is to be faster is not slower; an order is the paper's, where less than 5 % apart
  counts as equal; a bound is kept.
* **nearly**: a count is within 6 %, or one and a half of what it may be off; what is to be faster is, but by a smaller
  factor; of an order the first is the paper's; a bound is missed by less than 10 %.
* **no**: anything else, with the cause.
* **cannot be run here**: with the reason.
* **not measured**: left out by `--figure`, or about other authors' maps without `--peers`.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_and_not_longer() {
        let text = "word ".repeat(60);
        let lines = filled(&text);
        assert!(lines.lines().all(|line| line.len() <= COLUMNS && !line.ends_with(' ')), "{lines}");
        assert_eq!(lines.lines().count(), 3);
        assert_eq!(lines.split_whitespace().count(), 60);
        let long = "x".repeat(200);
        assert_eq!(filled(&format!("a {long} b")), format!("a\n{long}\nb"));
    }

    #[test]
    fn text_in_a_cell_ends_no_cell() {
        assert_eq!(cell("a | b\nc"), "a \\| b c");
    }
}
