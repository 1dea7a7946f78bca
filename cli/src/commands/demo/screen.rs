//! A demonstration on the terminal: bars for its stages, lines for what is worth telling.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dedup::{Audience, Note, Progress, Stage};
use indicatif::{HumanCount, ProgressBar};

use crate::output;
use crate::progress::{self, Step};

/// Tells on stderr.
#[derive(Default)]
pub(super) struct Screen {
    bars: Arc<Mutex<Vec<ProgressBar>>>,
}

/// The bar of a stage, the last of the screen's bars.
struct Bar {
    bar: Step,
    bars: Arc<Mutex<Vec<ProgressBar>>>,
}

impl Audience for Screen {
    fn begin(&self, stage: Stage, steps: Option<u64>) -> Box<dyn Progress> {
        // What it counts; otherwise bytes.
        let (what, things) = match stage {
            Stage::Walk => ("walking", Some("files")),
            Stage::Cut => ("chunking", None),
            Stage::Store => ("writing", Some("chunks")),
            Stage::Check => ("checking", Some("chunks")),
            Stage::Reread => ("reading", None),
        };
        let bar = match (steps, things) {
            (None, Some(things)) => progress::unknown(what, things),
            (None, None) => progress::unknown_bytes(what),
            (Some(steps), Some(things)) => progress::count(what, things, steps),
            (Some(steps), None) => progress::bytes(what, steps),
        };
        lock(&self.bars).push(ProgressBar::clone(&bar));
        Box::new(Bar { bar, bars: Arc::clone(&self.bars) })
    }

    fn tell(&self, note: Note<'_>) {
        match lock(&self.bars).last() {
            Some(bar) => bar.suspend(|| say(note)),
            None => say(note),
        }
    }
}

impl Progress for Bar {
    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        lock(&self.bars).pop();
    }
}

fn lock(bars: &Mutex<Vec<ProgressBar>>) -> MutexGuard<'_, Vec<ProgressBar>> {
    bars.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(note: Note<'_>) {
    match note {
        Note::Skipped { path: Some(path), why } => {
            output::talk(format_args!("skipped {}: {why}", path.display()));
        }
        Note::Skipped { path: None, why } => output::talk(format_args!("skipped: {why}")),
        Note::FewerKills { chunks, kills, wanted } => output::talk(format_args!(
            "there are only {chunks} chunks: {kills} kills instead of {wanted}"
        )),
        Note::Killed { kill, kills, acknowledged, reopen_ms, lost } => output::talk(format_args!(
            "kill {kill} of {kills}: {} chunks acknowledged, reopened in {reopen_ms:.1} ms, {} lost",
            HumanCount(acknowledged),
            HumanCount(lost),
        )),
        Note::Unsound(finding) => output::complain(&format!("check: {finding}")),
        Note::Miscounted { keys, expected } => output::complain(&format!(
            "the pool counts {keys} keys, expected {expected}, one for each location it leads to"
        )),
        Note::Changed { chunks, files } => {
            output::talk(format_args!(
                "{} chunks no longer have their digests: these files changed meanwhile",
                HumanCount(chunks)
            ));
            for path in files {
                output::talk(format_args!("  changed: {}", path.display()));
            }
        }
    }
}
