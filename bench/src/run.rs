//! Rounds of suites over contenders.

use crate::byte_store::Reopens;
use crate::ceilings::Ceilings;
use crate::choices::{CacheParts, Suite};
use crate::contender::Contender;
use crate::ground::{self, Ground};
use crate::kept::Kept;
use crate::medium::Medium;
use crate::options::{Flushes, Options, PageSize};
use crate::row::{self, Row};
use crate::setting::Setting;
use crate::suite::{self, cache, durable, open, values};
use crate::victim::{self, Obeyed, Order};
use crate::{html, machine::Machine, preflight, report};
use anyhow::{Context, Result};
use firndex::Engine;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Suites in the order in which `all` has them.
const SUITES: [Suite; 13] = [
    Suite::Ceilings,
    // The space of maps that do not know their size can only be measured in a process that has not measured others.
    Suite::Space,
    Suite::Micro,
    Suite::Store,
    Suite::Values,
    Suite::Cache,
    Suite::Ycsb,
    Suite::Latency,
    Suite::LoadFactor,
    Suite::Resize,
    Suite::Open,
    Suite::Writes,
    Suite::Durable,
];

impl Suite {
    /// The suites that this one stands for.
    fn parts(self, options: &Options) -> Vec<Suite> {
        match self {
            Suite::All => SUITES.to_vec(),
            // Peers have no rows in the other part, which takes much longer.
            Suite::Store if options.peers => vec![Suite::Values],
            Suite::Store => vec![Suite::Store, Suite::Values],
            suite => vec![suite],
        }
    }

    /// Whether its rows are compared with the machine's ceilings.
    fn has_ceilings(self) -> bool {
        let is_of_files = matches!(self, Suite::Values | Suite::Durable | Suite::Open);
        !is_of_files && !matches!(self, Suite::Space | Suite::Writes | Suite::Cache)
    }

    /// The media on which it runs.
    fn media(self, options: &Options) -> Vec<Medium> {
        match self {
            Suite::Writes => vec![Medium::Count],
            Suite::Cache => vec![Medium::Dram],
            Suite::Durable | Suite::Values | Suite::Open => vec![Medium::Disk],
            Suite::Space | Suite::Store => {
                let is_wanted = |medium: &&Medium| medium.latency().is_none();
                options.media.iter().filter(is_wanted).copied().collect()
            }
            _ => options.media.clone(),
        }
    }

    /// Whether it is run with real flushes and without.
    fn flushes(self, options: &Options) -> Vec<bool> {
        match (self, options.flushes) {
            // Nothing is timed, or nothing is flushed.
            (Suite::Space | Suite::Writes | Suite::Cache, _) => vec![false],
            (Suite::Durable | Suite::Values | Suite::Open, _) => vec![false],
            (_, Flushes::None) => vec![false],
            (_, Flushes::Real) => vec![true],
            (_, Flushes::Both) => vec![false, true],
        }
    }

    /// The numbers of threads with which it runs.
    fn threads(self, options: &Options) -> Vec<usize> {
        match self {
            // Suite `durable` chooses its threads itself.
            Suite::Space | Suite::Writes | Suite::Durable => vec![1],
            // Several of the stores have one writer at a time.
            Suite::Values | Suite::Open => vec![1],
            _ => options.threads.clone(),
        }
    }

    /// The sizes of values with which it runs.
    fn value_bytes(self, options: &Options) -> Vec<Option<usize>> {
        match self {
            Suite::Values => options.value_bytes.iter().copied().map(Some).collect(),
            _ => vec![None],
        }
    }

    /// Whether it can measure this contender.
    fn takes(self, contender: &dyn Contender, options: &Options) -> bool {
        match self {
            Suite::Cache => contender.is_cache(),
            _ if contender.is_cache() => false,
            // Engines differ little there, so one stands for all.
            Suite::Durable | Suite::Values | Suite::Open
                if options.engines.is_empty() && contender.engine().is_some() =>
            {
                contender.engine() == Some(Engine::ALL[0])
            }
            Suite::Values => contender.after_kill().is_some(),
            Suite::Open => contender.reopens() != Reopens::Never,
            Suite::Store | Suite::LoadFactor | Suite::Writes => contender.engine().is_some(),
            Suite::Resize | Suite::Space => contender.grows(),
            // Measured by itself.
            Suite::Ceilings | Suite::All => false,
            _ => true,
        }
    }
}

/// Measures, prints the rows as a table to `out`, and writes the requested files. `progress` is told what is being
/// measured.
///
/// In a process that suite `open`, `values` or `cache` has started, this does what it was ordered to instead, and waits
/// to be told to close, or killed.
pub fn run(
    suite: Suite,
    options: &Options,
    contenders: &[Box<dyn Contender>],
    out: &mut dyn Write,
    progress: &dyn Fn(&str),
) -> Result<Vec<Row>> {
    if victim::obey_if_ordered(|order| obey(order, contenders))? {
        return Ok(Vec::new());
    }
    preflight::check(suite, options, contenders)?;
    if options.page_size == PageSize::Small {
        rustix::thread::disable_transparent_huge_pages(true)
            .context("asking the kernel for small pages")?;
    }
    let machine = Machine::look(&options.directory());
    let runner =
        Runner { options, contenders: choose(options, contenders), kept: Arc::default(), progress };
    let suites = suite.parts(options);
    let mut rows = Vec::new();
    for round in 1..=options.runs {
        rows.extend(runner.round(round, &suites)?);
    }
    let mut rows = row::merge(rows);
    // Rounds go from medium to medium, but a reader from suite to suite.
    rows.sort_by_key(|row| suites.iter().position(|suite| name(*suite) == row.suite));
    report::text(out, &machine, &rows)?;
    if let Some(path) = &options.json {
        report::json(path, &machine, &rows)?;
    }
    if let Some(path) = &options.html {
        html::write(path, &machine, &command(), "", &rows)?;
    }
    Ok(rows)
}

/// Does what a process was ordered to, and leaves open what it has opened.
fn obey(order: &Order, contenders: &[Box<dyn Contender>]) -> Result<Obeyed> {
    match order {
        Order::Load(order) => values::load(order, contenders),
        Order::Open(order) => open::obey(order, contenders),
        Order::Warm(order) => cache::warm(order, contenders),
    }
}

/// The command that started this program. Of the program's path it has only the name, which is enough elsewhere.
pub(crate) fn command() -> String {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut()
        && let Some(name) = Path::new(program).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    words.join(" ")
}

/// Runs rounds of suites over the chosen contenders.
struct Runner<'a> {
    options: &'a Options,
    contenders: Vec<&'a dyn Contender>,
    kept: Arc<Kept>,
    progress: &'a dyn Fn(&str),
}

impl Runner<'_> {
    /// One round: on each medium the ceilings, then each suite with each contender in turn.
    fn round(&self, round: u16, suites: &[Suite]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for medium in media(suites, self.options) {
            let suites: Vec<Suite> = suites
                .iter()
                .copied()
                .filter(|suite| suite.media(self.options).contains(&medium))
                .collect();
            let said = format!("round {round} of {}: {medium}", self.options.runs);
            let mut all_ceilings = Vec::new();
            if suites.iter().any(|suite| suite.has_ceilings()) {
                (self.progress)(&format!("{said}, ceilings"));
                all_ceilings = self.ceilings(medium)?;
                for (threads, ceilings) in &all_ceilings {
                    rows.extend(ground::rows(
                        &self.setting(Suite::Ceilings, medium, *threads),
                        ceilings,
                    ));
                }
            }
            for suite in suites {
                for threads in suite.threads(self.options) {
                    let ceilings = all_ceilings.iter().find(|(measured, _)| *measured == threads);
                    for flushes in suite.flushes(self.options) {
                        let setting = Setting {
                            flushes,
                            ceilings: ceilings.map(|(_, ceilings)| *ceilings),
                            ..self.setting(suite, medium, threads)
                        };
                        for value_bytes in suite.value_bytes(self.options) {
                            let setting = with_values(&setting, value_bytes);
                            rows.extend(self.contenders(suite, &setting, &said)?);
                        }
                    }
                }
            }
        }
        Ok(rows)
    }

    fn contenders(&self, suite: Suite, setting: &Setting, said: &str) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for contender in &self.contenders {
            let is_able = contender.lies_on(setting.medium, setting.flushes)
                && setting.threads <= contender.threads_max();
            if !is_able || !suite.takes(*contender, self.options) {
                continue;
            }
            let (suite_name, name) = (name(suite), contender.name());
            let with = if setting.flushes { " with flushes" } else { "" };
            let of = match suite {
                Suite::Values => format!("values of {} bytes", setting.value_bytes),
                _ => format!("{} threads", setting.threads),
            };
            (self.progress)(&format!("{said}, {suite_name}, {of}, {name}{with}"));
            let measured = contender.round(suite, setting);
            rows.extend(measured.with_context(|| format!("suite {suite_name}, measuring {name}"))?);
        }
        Ok(rows)
    }

    fn setting(&self, suite: Suite, medium: Medium, threads: usize) -> Setting {
        let options = self.options;
        Setting {
            medium,
            directory: options.directory(),
            flushes: false,
            pairs: suite::pairs(suite, options),
            capacity: suite::pairs(suite, options),
            grows: options.load_factor.is_none(),
            load_factor: options.load_factor,
            ops: options.ops(),
            threads,
            batch: options.batch.into(),
            value_bytes: WORD_BYTES,
            skew: options.skew,
            seed: options.seed,
            grow_from: options.grow_from(),
            again: options.again.clone(),
            durable: options.durable(),
            cache_parts: CacheParts(options.cache_parts.clone()),
            openings: options.openings(),
            kept: Arc::clone(&self.kept),
            ceilings: None,
        }
    }

    fn ceilings(&self, medium: Medium) -> Result<Vec<(usize, Ceilings)>> {
        let ground = Ground::new(&self.setting(Suite::Ceilings, medium, 1))?;
        let measure = |&threads: &usize| Ok((threads, ground.measure(threads, self.options.seed)?));
        self.options.threads.iter().map(measure).collect()
    }
}

/// Bytes of a value if no other size is asked for.
const WORD_BYTES: usize = 8;

/// The setting with values of this size, and no more pairs than fit into a store's limit.
fn with_values(setting: &Setting, value_bytes: Option<usize>) -> Setting {
    let Some(value_bytes) = value_bytes else { return setting.clone() };
    let pairs = values::pairs(setting.pairs, value_bytes);
    Setting { value_bytes, pairs, capacity: pairs, ..setting.clone() }
}

/// The media of all these suites, each once.
fn media(suites: &[Suite], options: &Options) -> Vec<Medium> {
    let mut media = Vec::new();
    for medium in suites.iter().flat_map(|suite| suite.media(options)) {
        if !media.contains(&medium) {
            media.push(medium);
        }
    }
    media
}

/// The suite's name on the command line and in its rows.
fn name(suite: Suite) -> &'static str {
    match suite {
        Suite::Micro => "micro",
        Suite::Store => "store",
        Suite::Values => values::NAME,
        Suite::Ycsb => "ycsb",
        Suite::LoadFactor => "load-factor",
        Suite::Resize => "resize",
        Suite::Latency => "latency",
        Suite::Open => open::NAME,
        Suite::Cache => cache::NAME,
        Suite::Space => "space",
        Suite::Writes => "writes",
        Suite::Durable => durable::NAME,
        Suite::Ceilings => "ceilings",
        Suite::All => "all",
    }
}

/// The contenders asked for; if none were, those that need not be.
fn choose<'a>(options: &Options, contenders: &'a [Box<dyn Contender>]) -> Vec<&'a dyn Contender> {
    let is_wanted = |contender: &&dyn Contender| {
        let is_named = options.engines.iter().any(|name| name == contender.name());
        is_named || options.engines.is_empty() && !contender.is_by_name()
    };
    contenders.iter().map(|contender| &**contender).filter(is_wanted).collect()
}
