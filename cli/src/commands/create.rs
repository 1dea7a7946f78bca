//! `firndex create`: a new pool.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use firndex::{Kind, Medium, OpenError, Stats};

use crate::engine::Choice;
use crate::failure::{Failure, Status};
use crate::output;
use crate::progress;
use crate::safety::Safety;

/// Make a new, empty pool
///
/// An existing file is refused and stays as it is. With --or-open it is opened if it is a pool of this kind. The pool
/// starts small and grows by itself.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex create fruit.firn                 bytes to bytes
  firndex create --kind table numbers.firn  numbers to numbers: decimal u64 keys and values
  firndex create --or-open fruit.firn       for scripts: afterwards there is a pool, new or old")]
pub(crate) struct Arguments {
    /// The file to make
    pool: PathBuf,

    #[command(flatten)]
    engine: Choice,

    /// The memory under the pool: `dax` for a DAX file system on persistent memory, `mapped` for any other file system,
    /// `auto` to choose
    #[arg(long, default_value_t = Medium::Auto, value_parser = medium_names())]
    medium: Medium,

    /// `store` maps bytes to bytes; `table` maps u64 to u64, and is smaller and faster
    #[arg(long, default_value_t = Kind::Store, value_parser = kind_names())]
    kind: Kind,

    /// Open and keep a pool of this kind and engine that exists, recovering it if necessary
    #[arg(long)]
    or_open: bool,

    /// Whenever the pool is closed, write checksums of its file beside it (POOL.safe/sums), with which `firndex check`
    /// finds every bit that changes afterwards
    #[arg(long)]
    sums: bool,

    #[command(flatten)]
    safety: Safety,
}

/// All but `dram`, which has no file.
fn medium_names() -> impl TypedValueParser<Value = Medium> {
    let in_files = Medium::ALL.iter().filter(|medium| **medium != Medium::Dram);
    PossibleValuesParser::new(in_files.map(|medium| medium.name()))
        .try_map(|name| name.parse::<Medium>())
}

fn kind_names() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(["store", "table"]).try_map(|name| name.parse::<Kind>())
}

/// Adds which argument would help.
fn explain(path: &Path, error: firndex::Error) -> anyhow::Error {
    let shown = path.display();
    let (what, hint) = match &error {
        firndex::Error::Open(OpenError::Exists { .. }) => (
            format!("{shown} exists already"),
            "choose another name, or, if it is a pool, keep it: --or-open".into(),
        ),
        firndex::Error::Open(OpenError::Mismatch { field: "kind", found, expected, .. }) => (
            format!("{shown} is a {found}, not a {expected}"),
            format!("use --kind {found}, or choose another name"),
        ),
        firndex::Error::Open(OpenError::Mismatch { field: "engine", found, expected, .. }) => (
            format!("{shown} is on the engine {found}, not on {expected}"),
            format!("use --engine {found}, or choose another name"),
        ),
        _ => return anyhow::Error::new(error).context(format!("creating {shown}")),
    };
    Failure::new(what, hint).into()
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let path = &arguments.pool;
    let options = arguments.safety.add_to(arguments.engine.options())?.medium(arguments.medium);
    let options = if arguments.sums { options.keep_sums(true) } else { options };
    if arguments.or_open && !path.exists() && options.log_files(path)?.checkpoint_bytes > 0 {
        // It says so. Nobody who asks for a new pool expects an old one.
        arguments.safety.log.restore(path)?;
    }
    let create = || -> firndex::Result<Stats> {
        Ok(match (arguments.kind, arguments.or_open) {
            (Kind::Table, or_open) => {
                let table = if or_open {
                    options.open_or_create_table(path)?
                } else {
                    options.create_table(path)?
                };
                let stats = table.stats()?;
                table.close()?;
                stats
            }
            (Kind::Store, or_open) => {
                let store = if or_open {
                    options.open_or_create_store(path)?
                } else {
                    options.create_store(path)?
                };
                let stats = store.stats()?;
                store.close()?;
                stats
            }
        })
    };
    let step = progress::waiting("creating");
    let stats = arguments.safety.log.waiting.until_free(path, &step, create);
    drop(step);
    let stats = stats.map_err(|error| explain(path, error))?;
    arguments.safety.note_what_means_nothing(stats.durability);
    let done = if stats.incarnation > 1 { "opened" } else { "created" };
    output::talk(format_args!(
        "{done} {} (kind {}, engine {})",
        path.display(),
        arguments.kind,
        stats.engine
    ));
    Ok(Status::Done)
}
