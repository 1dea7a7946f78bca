//! `firndex scan`: print some pairs, and with which cursor to go on.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::failure::Failure;
use crate::failure::Status;
use crate::format::{Field, Format};
use crate::output;
use crate::pool::{AnyPool, Pool};
use crate::progress;
use crate::reading::Reading;

/// Print some pairs of a pool, and the cursor behind them
///
/// Prints about COUNT pairs as JSON lines, and on stderr the cursor for the next part. Cursor 0 is both the beginning
/// and the end. The pool may change between the parts of a scan. A key that is present from the first part to the last
/// is printed once. One that comes or goes meanwhile is printed once or not at all. A part may have fewer pairs, even
/// none. Each part reads the whole pool, so `firndex dump` is faster for all of a large one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex scan fruit.firn
  firndex scan fruit.firn --count 100 --cursor 1649267441665
  firndex scan fruit.firn --json | jq -r .cursor")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// About how many pairs
    #[arg(long, default_value_t = 10)]
    count: usize,
    /// The cursor to continue from; 0 for the beginning
    #[arg(long, default_value_t = 0, value_parser = cursor)]
    cursor: u64,
    /// Print one JSON object: the next cursor, as a string, and the pairs
    #[arg(long)]
    json: bool,
}

/// A number that a scan may have printed.
fn cursor(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| firndex::is_cursor(*number));
    number.ok_or_else(|| "expected what an earlier scan printed, or 0 for the beginning".into())
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let pool = AnyPool::open_to_copy(&arguments.pool, &arguments.reading)?;
    let mut lines = Vec::new();
    let mut write = |key: Field<'_>, value: Field<'_>| Format::Jsonl.write(key, value, &mut lines);
    let (cursor, count) = (arguments.cursor, arguments.count);
    let step = progress::waiting("scanning");
    let next = match &pool {
        AnyPool::Other(table) => {
            let (pairs, next) = table.scan(cursor, count)?;
            for (key, value) in &pairs {
                write(Field::Bytes(key), Field::Bytes(value));
            }
            next
        }
        AnyPool::Told(Pool::Table(table)) => {
            let (pairs, next) = table.scan(cursor, count)?;
            for (key, value) in pairs {
                write(Field::Number(key), Field::Number(value));
            }
            next
        }
        AnyPool::Told(Pool::Store(store)) => {
            let (pairs, next) = store.scan(cursor, count)?;
            for (key, value) in &pairs {
                write(Field::Bytes(key), Field::Bytes(value));
            }
            next
        }
        AnyPool::Cache(_) => {
            let what = format!("{} is a cache, which has no cursors", arguments.pool.display());
            return Err(Failure::new(what, "list all of its entries with `firndex dump`").into());
        }
    };
    drop(step);
    pool.close()?;
    if arguments.json {
        let pairs: Vec<&[u8]> = lines.trim_ascii_end().split(|&byte| byte == b'\n').collect();
        let head = format!("{{\"cursor\":\"{next}\",\"pairs\":[").into_bytes();
        output::data(&[head, pairs.join(&b","[..]), b"]}\n".to_vec()].concat())?;
        return Ok(Status::Done);
    }
    output::data(&lines)?;
    match next {
        0 => output::talk(format_args!("that was all")),
        _ => output::talk(format_args!("more with --cursor {next}")),
    }
    Ok(Status::Done)
}
