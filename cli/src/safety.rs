//! The arguments that say what survives power loss, and where the pool's log is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use firndex::{Durability, Error, OpenError, Options};

use crate::explain::explain;
use crate::failure::Failure;
use crate::output;
use crate::progress;
use crate::waiting::Waiting;

/// No pool needs more than one process has of addresses; the command line opens one pool.
const MAX_BYTES: u64 = 1 << 40;

/// Where the log is, and whether to wait for the pool: all that a command needs if it changes nothing.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LogPlace {
    /// Directory of the pool's log and checkpoint (the directory POOL.safe) [default: the pool's directory]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

impl LogPlace {
    /// These choices.
    pub(crate) fn options(&self) -> Options {
        self.add_to(Options::default())
    }

    fn add_to(&self, options: Options) -> Options {
        let options = options.max_bytes(MAX_BYTES).survive_bus_errors(true);
        match &self.log_dir {
            Some(directory) => options.log_directory(directory),
            None => options,
        }
    }

    /// Restores the pool from its checkpoint and log if its file does not count.
    pub(crate) fn restore(&self, path: &Path) -> Result<()> {
        let bar = progress::bytes("restoring", 0);
        let told = bar.clone();
        let options = self.options().restore_progress(move |done, of| {
            told.set_length(of);
            told.set_position(done);
        });
        let state = state(path);
        let restored = self.waiting.until_free(path, &bar, || options.restore(path));
        drop(bar);
        if restored.map_err(|error| explain(path, error))? {
            output::talk(format_args!(
                "{} {state}: restored from its checkpoint and log",
                path.display()
            ));
        }
        Ok(())
    }
}

/// Why a pool's file may not count.
fn state(path: &Path) -> &'static str {
    match firndex::inspect(path) {
        Ok(_) => "was not closed",
        Err(Error::Open(OpenError::Missing { .. })) => "was missing",
        Err(_) => "was damaged",
    }
}

/// What survives power loss.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Safety {
    /// What survives power loss [default: as in the last opening; for a new pool periodic on a disk, process in
    /// /dev/shm]
    #[arg(long, value_parser = names())]
    durability: Option<Durability>,
    /// With `periodic`: how often changes are written to the disk, in milliseconds [default: 5]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    durable_every: Option<u64>,
    #[command(flatten)]
    pub(crate) log: LogPlace,
}

/// Reads the name of a durability.
pub fn names() -> impl TypedValueParser<Value = Durability> {
    let help = |durability: &Durability| match durability {
        Durability::Process => "the pool, if it was closed, or synced and not written since",
        Durability::Periodic => "everything but the last few milliseconds",
        Durability::Commit => "every change that returned",
    };
    let value = move |one: &Durability| PossibleValue::new(one.name()).help(help(one));
    PossibleValuesParser::new(Durability::ALL.iter().map(value))
        .try_map(|name| name.parse::<Durability>())
}

impl Safety {
    /// Refuses choices that exclude each other.
    pub(crate) fn check(&self) -> Result<()> {
        match (self.durability, self.durable_every) {
            (Some(durability), Some(_)) => demand_periodic(durability, "leave one of the two out"),
            _ => Ok(()),
        }
    }

    /// Adds these choices to `options`, once they are checked.
    pub(crate) fn add_to(&self, options: Options) -> Result<Options> {
        self.check()?;
        let options = self.log.add_to(options);
        let options = match self.durability {
            Some(durability) => options.durability(durability),
            None => options,
        };
        Ok(match self.durable_every {
            Some(ms) => options.durable_every(Duration::from_millis(ms)),
            None => options,
        })
    }

    /// These choices.
    pub(crate) fn options(&self) -> Result<Options> {
        self.add_to(Options::default())
    }

    /// Refuses what means nothing for a pool that has this durability.
    pub(crate) fn demand_meaning(&self, durability: Durability) -> Result<()> {
        match (self.durability, self.durable_every) {
            (None, Some(_)) => demand_periodic(durability, "ask for --durability periodic, too"),
            _ => Ok(()),
        }
    }

    /// Says of a pool that was made with this durability what meant nothing.
    pub(crate) fn note_what_means_nothing(&self, durability: Durability) {
        if let Err(error) = self.demand_meaning(durability) {
            output::talk(format_args!("note: {error}"));
        }
    }
}

/// An interval needs something that happens at intervals.
fn demand_periodic(durability: Durability, hint: &str) -> Result<()> {
    if durability == Durability::Periodic {
        return Ok(());
    }
    let what = format!(
        "--durable-every means nothing with --durability {durability}: it is the interval of periodic"
    );
    Err(Failure::new(what, hint).into())
}
