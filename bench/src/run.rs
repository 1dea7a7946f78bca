//! Rounds of suites over contenders.

use crate::ceilings::{self, Ceilings, Ground};
use crate::contender::{Contender, Medium, Setting};
use crate::options::{Flushes, Options, PageSize, Suite};
use crate::row::{self, Row};
use crate::{machine::Machine, report};
use anyhow::{Context, Result, ensure};
use std::io::Write;

/// Measures, prints the rows as a table to `out`, and writes the files that were asked for.
/// `progress` is told what is being measured.
pub fn run(
    suite: Suite,
    options: &Options,
    contenders: &[Box<dyn Contender>],
    out: &mut dyn Write,
    progress: &dyn Fn(&str),
) -> Result<Vec<Row>> {
    let chosen = choose(options, contenders)?;
    if options.page_size == PageSize::Small {
        rustix::thread::disable_transparent_huge_pages(true)
            .context("asking the kernel for small pages")?;
    }
    let machine = Machine::look(&options.directory());
    let mut rows = Vec::new();
    for round in 1..=options.runs {
        for &medium in &options.media {
            let setting = |threads, flushes, ceilings| Setting {
                medium,
                directory: options.directory(),
                flushes,
                pairs: options.pairs,
                load_factor: options.load_factor,
                ops: options.ops(),
                threads,
                batch: options.batch.into(),
                skew: options.skew,
                seed: options.seed,
                ceilings,
            };
            progress(&format!("round {round} of {}: {medium}, ceilings", options.runs));
            let all_ceilings = measure_ceilings(options, &setting(1, false, None))?;
            for (threads, ceilings) in &all_ceilings {
                rows.extend(ceilings::rows(&setting(*threads, false, None), ceilings));
            }
            if suite == Suite::Ceilings {
                continue;
            }
            for (threads, ceilings) in all_ceilings {
                for flushes in flushes_of(options) {
                    let setting = setting(threads, flushes, Some(ceilings));
                    for contender in
                        chosen.iter().filter(|contender| can(**contender, medium, &setting))
                    {
                        let name = contender.name();
                        progress(&format!(
                            "round {round} of {}: {medium}, {threads} threads, {name}{}",
                            options.runs,
                            if flushes { " with flushes" } else { "" },
                        ));
                        let measured = contender.micro(&setting);
                        rows.extend(measured.with_context(|| format!("measuring {name}"))?);
                    }
                }
            }
        }
    }
    let rows = row::merge(rows);
    report::text(out, &machine, &rows)?;
    if let Some(path) = &options.json {
        report::json(path, &machine, &rows)?;
    }
    Ok(rows)
}

fn flushes_of(options: &Options) -> Vec<bool> {
    match options.flushes {
        Flushes::None => vec![false],
        Flushes::Real => vec![true],
        Flushes::Both => vec![false, true],
    }
}

fn can(contender: &dyn Contender, medium: Medium, setting: &Setting) -> bool {
    contender.lies_on(medium, setting.flushes) && setting.threads <= contender.threads_max()
}

fn measure_ceilings(options: &Options, setting: &Setting) -> Result<Vec<(usize, Ceilings)>> {
    let ground = Ground::new(setting)?;
    let measure = |&threads: &usize| Ok((threads, ground.measure(threads, options.seed)?));
    options.threads.iter().map(measure).collect()
}

/// The contenders asked for; all if none was.
fn choose<'a>(
    options: &Options,
    contenders: &'a [Box<dyn Contender>],
) -> Result<Vec<&'a dyn Contender>> {
    for name in &options.engines {
        let names: Vec<&str> = contenders.iter().map(|contender| contender.name()).collect();
        ensure!(
            names.contains(&name.as_str()),
            "no contender is called {name:?}; there are {}",
            names.join(", ")
        );
    }
    let is_wanted = |contender: &&dyn Contender| {
        options.engines.is_empty() || options.engines.iter().any(|name| name == contender.name())
    };
    Ok(contenders.iter().map(|contender| &**contender).filter(is_wanted).collect())
}
