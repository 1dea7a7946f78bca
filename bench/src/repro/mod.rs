//! `firndex-lab repro`: papers' figures measured here, and a verdict on each claim.
//!
//! A run measures the [parts](crate::paper::Part) that were asked for, round after round, and judges the
//! [claims](crate::paper::Claim) by the medians. Sizes are the paper's times [`Options::scale`].

mod html;
mod page;

use crate::contender::Contender;
use crate::machine::Machine;
use crate::medium::Medium;
use crate::paper::{Claim, Found, PAPERS, Paper, Part, Scene, Verdict};
use crate::preflight;
use crate::row::{self, Row};
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What to repeat, and where the results go.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The paper, by the name of its table [default: all]
    #[arg(value_parser = PossibleValuesParser::new(PAPERS.map(|paper| paper.name)))]
    pub paper: Option<String>,
    /// Only this figure; or a table or section, as in "table 2". May be repeated
    #[arg(long = "figure")]
    pub figures: Vec<String>,
    /// Pairs and operations, as a part of the paper's
    #[arg(long, default_value = "0.05", value_parser = scale)]
    pub scale: f64,
    /// Threads where a paper has several [default: as many as processors]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Rounds; the median counts
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Seed of keys and orders
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Write claims and rows to this file, as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write a page to this file: every claim, the paper's figures beside ours
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Write the claims to this file as a page of Markdown
    #[arg(long)]
    pub page: Option<PathBuf>,
    /// Also measure other authors' maps (needs a checkout)
    #[arg(long)]
    pub peers: bool,
}

/// The least scale at which every part still has something to measure.
const SCALE_MIN: f64 = 1e-5;
/// Below it a small table may be full at a load factor that larger ones reach.
const SCALE_SURE: f64 = 0.0005;
/// Bytes that a pair takes at most, in all tables of a part together.
const BYTES_PER_PAIR: u64 = 320;

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (SCALE_MIN..=1.0).contains(&scale) => Ok(scale),
        _ => Err(format!("{text:?} is no scale: expected {SCALE_MIN} to 1")),
    }
}

impl Options {
    /// The papers that are asked for.
    fn papers(&self) -> impl Iterator<Item = &'static Paper> {
        let is_wanted =
            |paper: &&Paper| self.paper.as_deref().is_none_or(|name| name == paper.name);
        PAPERS.into_iter().filter(is_wanted)
    }

    /// Whether a figure, table or section is asked for.
    fn wants(&self, place: &str) -> bool {
        let is_it = |asked: &String| {
            place == asked.to_lowercase() || place.strip_prefix("figure ") == Some(asked)
        };
        self.figures.is_empty() || self.figures.iter().any(is_it)
    }

    fn parts<'a>(&'a self, paper: &'static Paper) -> impl Iterator<Item = &'static Part> + 'a {
        paper.parts.iter().filter(|part| part.places.iter().any(|place| self.wants(place)))
    }

    fn check(&self) -> Result<()> {
        for figure in &self.figures {
            let one = Options { figures: vec![figure.clone()], ..self.clone() };
            let mut places: Vec<&str> = self
                .papers()
                .flat_map(|paper| claims(paper, &[]))
                .map(|claim| claim.place)
                .collect();
            places.dedup();
            ensure!(
                places.iter().any(|place| one.wants(place)),
                "nothing repeats {figure:?}; there are {}",
                places.join(", ")
            );
        }
        for path in [&self.json, &self.html, &self.page].into_iter().flatten() {
            preflight::check_writable(path)?;
        }
        let pairs = self.papers().map(|paper| setting(paper, self).pairs).max().unwrap_or(0);
        preflight::check_memory(pairs, BYTES_PER_PAIR)
    }
}

/// What a paper's tables hold at a scale.
fn setting(paper: &Paper, options: &Options) -> Setting {
    let scaled = |count: u64| ((count as f64 * options.scale) as u64).max(1);
    Setting {
        pairs: scaled(paper.pairs),
        capacity: scaled(paper.pairs),
        ops: scaled(paper.ops),
        seed: options.seed,
        ..Setting::of_words(Medium::Dram)
    }
}

/// A paper with its claims as they are judged.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The paper's name.
    pub paper: &'static str,
    /// Its claims, in its order.
    pub claims: Vec<Claim>,
}

/// What a run found.
#[derive(Debug, Clone)]
pub struct Report {
    /// Medians over the rounds.
    pub rows: Vec<Row>,
    /// Verdicts.
    pub papers: Vec<Judged>,
}

/// Measures, prints every claim with its verdict to `out`, and writes the requested files. `progress` is told what is
/// being measured.
pub fn run(
    options: &Options,
    contenders: &[Box<dyn Contender>],
    out: &mut dyn Write,
    progress: &dyn Fn(&str),
) -> Result<Report> {
    options.check()?;
    let machine = Machine::look(&std::env::temp_dir());
    let threads_max = options.threads.map_or(machine.processors.max(1), usize::from);
    let mut rows = Vec::new();
    for round in 1..=options.runs {
        for paper in options.papers() {
            let tell = |what: &str| progress(&format!("round {round} of {}: {what}", options.runs));
            let setting = setting(paper, options);
            let scene = Scene { setting, threads_max, contenders, tell: &tell };
            for part in options.parts(paper) {
                tell(&format!("{}, {}", paper.name, part.places.join(", ")));
                let measured = (part.run)(&scene);
                let what = || {
                    let what = format!("{}, {}", paper.name, part.places.join(", "));
                    if options.scale >= SCALE_SURE {
                        return what;
                    }
                    format!("{what} (small tables may be full early: try --scale {SCALE_SURE})")
                };
                rows.extend(measured.with_context(what)?);
            }
        }
    }
    let rows = row::merge(rows);
    let papers: Vec<Judged> = options.papers().map(|paper| judge(paper, &rows, options)).collect();
    let report = Report { rows, papers };
    let run = Run { machine: &machine, command: command(), options };
    // Files first: who reads the output may have gone away.
    if let Some(path) = &options.json {
        write(path, &run.json(&report)?)?;
    }
    if let Some(path) = &options.html {
        let claims = html::claims(&report);
        crate::html::write(path, &machine, &run.command, &claims, &report.rows)?;
    }
    if let Some(path) = &options.page {
        write(path, &page::page(&run, &report))?;
    }
    for (name, fact) in machine.lines() {
        writeln!(out, "{name}: {fact}")?;
    }
    report.papers.iter().try_for_each(|judged| print(judged, out))?;
    Ok(report)
}

/// The claims that are asked for, by the rows of their paper.
fn judge(paper: &'static Paper, rows: &[Row], options: &Options) -> Judged {
    let own: Vec<Row> = rows.iter().filter(|row| row.suite == paper.name).cloned().collect();
    let claims = claims(paper, &own).into_iter();
    Judged {
        paper: paper.name,
        claims: claims.filter(|claim| options.wants(claim.place)).collect(),
    }
}

/// A paper's claims, by its rows.
fn claims(paper: &Paper, rows: &[Row]) -> Vec<Claim> {
    (paper.claims)(&Found(rows))
}

fn print(Judged { paper, claims }: &Judged, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "\n{paper}")?;
    for claim in claims {
        writeln!(out, "{}: {}", claim.place, claim.says)?;
        if !claim.compared.is_empty() {
            writeln!(out, "    measured (paper): {}", claim.measured())?;
        }
        writeln!(out, "    as in the paper: {}", claim.judged())?;
    }
    if claims.iter().any(|claim| claim.verdict == Verdict::NotMeasured) {
        writeln!(
            out,
            "What is not measured is about other authors' maps (--peers), or was left out (--figure)."
        )?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// What a reader has to know about a run.
struct Run<'a> {
    machine: &'a Machine,
    command: String,
    options: &'a Options,
}

impl Run<'_> {
    fn json(&self, report: &Report) -> Result<String> {
        let papers: Vec<_> = report
            .papers
            .iter()
            .map(|judged| json!({ "paper": judged.paper, "claims": judged.claims }))
            .collect();
        let all = json!({
            "machine": self.machine,
            "command": self.command,
            "scale": self.options.scale,
            "rounds": self.options.runs,
            "papers": papers,
            "rows": report.rows,
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&all)?))
    }
}

/// What was run, in a form that its reader could type: another program may have been put into this one's place.
fn command() -> String {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let quoted = |word: &String| {
        if word.contains(char::is_whitespace) { format!("\"{word}\"") } else { word.clone() }
    };
    let from = words.iter().position(|word| word == "repro").unwrap_or(words.len());
    let words: Vec<String> = words[from..].iter().map(quoted).collect();
    format!("firndex-lab {}", words.join(" "))
}

/// The paper of this name.
fn paper_of(name: &str) -> Option<&'static Paper> {
    PAPERS.into_iter().find(|paper| paper.name == name)
}
