//! `firndex create`: a new pool.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use firndex::{Kind, Medium, OpenError, Stats};
use indicatif::BinaryBytes;

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
  firndex create --kind cache --capacity 1G pages.firn
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

    /// `store` maps bytes to bytes; `table` maps u64 to u64, and is smaller and faster; `cache` maps bytes to bytes
    /// within a bound, and lets go of what is seldom asked for
    #[arg(long, default_value_t = Kind::Store, value_parser = kind_names())]
    kind: Kind,

    /// Most bytes of a cache, as a number with an optional K, M, G or T
    #[arg(long, value_parser = parse_bytes, required_if_eq("kind", "cache"))]
    capacity: Option<u64>,

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
    PossibleValuesParser::new(["store", "table", "cache"]).try_map(|name| name.parse::<Kind>())
}

/// A number of bytes, with an optional unit of 1,024 bytes and its powers.
fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    let wrong = || "expected a number of bytes, as 500000, 64M or 1.5G would be".to_owned();
    let (digits, unit) = match text.char_indices().next_back() {
        Some((place, unit)) if unit.is_ascii_alphabetic() => (&text[..place], unit),
        _ => (text, 'B'),
    };
    let power = "BKMGT".find(unit.to_ascii_uppercase()).ok_or_else(wrong)?;
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * 1024f64.powi(power as i32);
    if (1.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
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
            (Kind::Cache, or_open) => {
                let bytes = arguments.capacity.unwrap_or(0);
                let cache = if or_open {
                    options.open_or_create_cache(path, bytes)?
                } else {
                    options.create_cache(path, bytes)?
                };
                let stats = firndex::Pool::stats(&cache)?;
                cache.close()?;
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
    let shown = path.display();
    match (arguments.kind, arguments.capacity) {
        (Kind::Cache, Some(bytes)) => output::talk(format_args!(
            "{done} {shown} (kind {}, capacity {})",
            arguments.kind,
            BinaryBytes(bytes)
        )),
        (kind, _) => {
            output::talk(format_args!("{done} {shown} (kind {kind}, engine {})", stats.engine))
        }
    }
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, bytes) in
            [("300000", 300_000), ("64K", 64 << 10), ("1.5g", 3 << 29), ("2T", 2 << 40)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for wrong in ["", "G", "1X", "-1M", "1e30", "NaN", "12MB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
