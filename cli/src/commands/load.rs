//! `firndex load`: store every pair of a file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use firndex::{BatchError, Error, ItemError};

use crate::closed;
use crate::count::counted;
use crate::failure::{Failure, Status};
use crate::format::{Format, Towards, is_stream};
use crate::input::{Delimited, JsonLines, Pairs};
use crate::interrupt::{self, Interrupts};
use crate::output;
use crate::pool::{AnyPool, Pool, decimal};
use crate::progress::{self, Step};
use crate::safety::Safety;

/// Pairs stored in one call: enough for the table to overlap its cache misses.
const BATCH_PAIRS: usize = 1024;
/// Bytes held back at most before they are stored, for files with large values.
const BATCH_BYTES: usize = 4 << 20;
const READ_BUFFER_BYTES: usize = 1 << 20;

/// Store every pair of a CSV, TSV or JSON lines file
///
/// In csv and tsv the first row names the columns; with --no-header it is a pair, too. Fields in quotes may hold
/// anything; a quote inside them is written twice. Outside quotes, a carriage return must be part of a line end, and
/// NUL bytes are refused. In jsonl each line is an object. A string is stored as its text, any other value as its JSON
/// text. A field whose name ends with _base64 holds bytes in base64, as `firndex dump` writes them. A table pool takes
/// decimal numbers only. UTF-16 and compressed files are refused.
///
/// If a key is repeated, or is already in the pool, the last value wins; the summary counts these. A malformed record
/// ends the load and its line number is reported. The records before it stay stored. If the pool is full, the line of
/// the first record that was not stored is reported, and how many records behind it were. The first Ctrl-C ends the
/// load as the end of the file would, and says how much is stored.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex load fruit.firn fruit.csv                              first column: key, second: value
  firndex load fruit.firn fruit.tsv --key name --value colour
  firndex load fruit.firn log.jsonl --key id --value message
  firndex load fruit.firn plain.csv --no-header                  the first row is a pair, too
  zcat fruit.csv.gz | firndex load fruit.firn -")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    safety: Safety,
    /// The file to load, or - for stdin
    file: PathBuf,
    /// Format of the file [default: by the end of its name; csv for stdin]
    #[arg(long)]
    format: Option<Format>,
    /// In csv and tsv the first row is a pair, not column names: the first column is the key, the second the value
    #[arg(long, conflicts_with_all = ["key", "value"])]
    no_header: bool,
    /// Column or field of the keys [default: the first column; "key" in jsonl]
    #[arg(long, value_name = "COLUMN")]
    key: Option<OsString>,
    /// Column or field of the values [default: the second column; "value" in jsonl]
    #[arg(long, value_name = "COLUMN")]
    value: Option<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let format = match arguments.format {
        Some(format) => format,
        None => Format::guess(&arguments.file, Towards::Load)?,
    };
    // The pool before the file: stdin is not consumed for a pool that is not there.
    let pool = AnyPool::open_to_change(&arguments.pool, &arguments.safety)?;
    let interrupts = Interrupts::watch().context("watching for Ctrl-C")?;
    let (input, step) = open(&arguments.file, &interrupts)?;
    let (mut stored, pairs_before) = (0, pool.len());
    // Where the first pair is that was not read.
    let mut line = 1;
    let loaded = read_pairs(arguments, format, input).and_then(|mut pairs| {
        let loaded = load(&pool, pairs.as_mut(), &mut stored);
        line = pairs.record_line();
        loaded
    });
    drop(step);
    // Nobody else writes meanwhile.
    let new = pool.len().saturating_sub(pairs_before).min(stored);
    // Closing may take long, and may be interrupted, too.
    output::talk(format_args!(
        "loaded {} into {}: {}, {} (the last value won)",
        counted(stored, "record"),
        arguments.pool.display(),
        counted(new, "new key"),
        counted(stored - new, "duplicate"),
    ));
    let closed = pool.close();
    if let Err(error) = &loaded
        && interrupt::is_behind(error)
    {
        let what = match stored {
            0 => "nothing is stored".into(),
            _ => format!("all records before line {line} are stored, and none behind it"),
        };
        closed.with_context(|| format!("{what}; closing {}", arguments.pool.display()))?;
        return Err(interrupts.ended(what).into());
    }
    loaded.with_context(|| format!("loading {}", named(&arguments.file).display()))?;
    closed.with_context(|| format!("closing {}", arguments.pool.display()))?;
    if stored == 0 {
        output::talk(format_args!("{}", nothing_loaded(format, arguments.no_header)));
    }
    Ok(Status::Done)
}

/// What may be the matter with a file without pairs.
fn nothing_loaded(format: Format, no_header: bool) -> &'static str {
    match format {
        Format::Csv | Format::Tsv if !no_header => {
            "note: there was nothing to load: the first row was taken for the names of the columns; if it is a pair, use \
             --no-header"
        }
        _ => "note: there was nothing to load: the file has no records",
    }
}

/// A file as messages name it.
fn named(file: &Path) -> &Path {
    if is_stream(file) { Path::new("stdin") } else { file }
}

/// Opens the input below a bar that moves as it is read.
fn open(path: &Path, interrupts: &Interrupts) -> Result<(Box<dyn BufRead>, Step)> {
    let open = || -> io::Result<(File, Step)> {
        if is_stream(path) {
            return Ok((closed::stdin_file()?, progress::unknown_bytes("loading")));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((file, progress::bytes("loading", metadata.len())))
    };
    let (source, step) = open().map_err(|error| {
        Failure::new(
            format!("opening {}", named(path).display()),
            "FILE is a csv, tsv or jsonl file, or - for stdin",
        )
        .caused_by(error)
    })?;
    let source = step.wrap_read(interrupts.reader(source));
    Ok((Box::new(BufReader::with_capacity(READ_BUFFER_BYTES, source)), step))
}

fn read_pairs(
    arguments: &Arguments,
    format: Format,
    input: Box<dyn BufRead>,
) -> Result<Box<dyn Pairs>> {
    let key = arguments.key.as_deref();
    let value = arguments.value.as_deref();
    let delimiter = match format {
        Format::Csv => b',',
        Format::Tsv => b'\t',
        Format::Jsonl if arguments.no_header => {
            let hint = "leave --no-header out: each line of a jsonl file names its fields";
            return Err(Failure::new("a jsonl file has no header", hint).into());
        }
        Format::Jsonl => {
            let name = |field: Option<&std::ffi::OsStr>, default: &str| match field {
                None => Ok(default.to_owned()),
                Some(field) => field.to_str().map(str::to_owned).ok_or_else(|| {
                    Failure::new(
                        format!("the field name {} is not UTF-8, as JSON is", field.display()),
                        "",
                    )
                }),
            };
            let (key, value) = (name(key, "key")?, name(value, "value")?);
            return Ok(Box::new(JsonLines::new(input, &key, &value)?));
        }
    };
    if arguments.no_header {
        return Ok(Box::new(Delimited::without_header(input, delimiter)?));
    }
    Ok(Box::new(Delimited::new(
        input,
        delimiter,
        key.map(OsStrExt::as_bytes),
        value.map(OsStrExt::as_bytes),
    )?))
}

fn load(pool: &AnyPool, pairs: &mut dyn Pairs, stored: &mut u64) -> Result<()> {
    match pool {
        AnyPool::Other(table) => load_batches(
            pairs,
            stored,
            |key, value| table.read(&key, &value).map(|()| (key, value)),
            |batch| table.put_many(batch),
        ),
        AnyPool::Told(Pool::Table(table)) => load_batches(
            pairs,
            stored,
            |key, value| Ok((decimal("key", &key)?, decimal("value", &value)?)),
            |batch| table.put_many(batch).map(drop),
        ),
        AnyPool::Told(Pool::Store(store)) => load_batches(pairs, stored, within_limits, |batch| {
            let slices: Vec<(&[u8], &[u8])> =
                batch.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
            store.put_many(&slices).map(drop)
        }),
        AnyPool::Cache(cache) => {
            load_batches(pairs, stored, within_limits, |batch| cache.put_many(batch))
        }
    }
}

/// A batch with a record that is too long would fail as a whole, and the line could not be named.
fn within_limits(key: Vec<u8>, value: Vec<u8>) -> Result<(Vec<u8>, Vec<u8>)> {
    let (found, limit) = (key.len(), firndex::KEY_BYTES_MAX);
    if found > limit {
        return Err(ItemError::KeyTooLong { found, limit }.into());
    }
    let (found, limit) = (value.len(), firndex::VALUE_BYTES_MAX);
    if found > limit {
        return Err(ItemError::ValueTooLong { found, limit }.into());
    }
    Ok((key, value))
}

/// Says of a batch that failed which of its records, that begin at these lines, were stored.
fn say_what_was_stored(error: BatchError, lines: &[u64]) -> anyhow::Error {
    let behind = error.done() - error.first_undone();
    let what = match (lines.get(error.first_undone()), lines.last()) {
        _ if matches!(error.error(), Error::Vanished { .. }) => "storing the records".into(),
        (Some(line), _) if behind == 0 => {
            format!("storing line {line}: all records before it are stored, and none behind it")
        }
        (Some(line), _) => {
            format!("storing line {line}: all records before it are stored, and {behind} behind it")
        }
        (None, Some(line)) => {
            format!("storing line {line}: it and all records before it are stored")
        }
        (None, None) => "storing the records".into(),
    };
    anyhow::Error::new(error.into_error()).context(what)
}

/// Stores the pairs in file order, a batch at a time, and counts them. What was read before an error is stored
/// before the error is returned.
fn load_batches<P>(
    pairs: &mut dyn Pairs,
    stored: &mut u64,
    convert: impl Fn(Vec<u8>, Vec<u8>) -> Result<P>,
    store: impl Fn(&[P]) -> std::result::Result<(), BatchError>,
) -> Result<()> {
    let mut batch = Vec::with_capacity(BATCH_PAIRS);
    let mut lines = Vec::with_capacity(BATCH_PAIRS);
    loop {
        batch.clear();
        lines.clear();
        let mut bytes = 0;
        let mut read = || -> Result<bool> {
            while batch.len() < BATCH_PAIRS && bytes < BATCH_BYTES {
                let Some(pair) = pairs.next_pair()? else {
                    return Ok(false);
                };
                let line = pair.line;
                bytes += pair.key.len() + pair.value.len();
                let converted =
                    convert(pair.key, pair.value).with_context(|| format!("line {line}"))?;
                batch.push(converted);
                lines.push(line);
            }
            Ok(true)
        };
        let more = read();
        if !batch.is_empty() {
            let done = store(&batch);
            *stored += done.as_ref().map_or_else(BatchError::done, |()| batch.len()) as u64;
            done.map_err(|error| say_what_was_stored(error, &lines))?;
        }
        if !more? {
            return Ok(());
        }
    }
}
