//! `firndex load`: store every pair of a file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use firndex::ItemError;
use indicatif::HumanCount;

use crate::failure::{Failure, Status};
use crate::format::{Format, is_stream};
use crate::input::{Delimited, JsonLines, Pairs};
use crate::output;
use crate::pool::{Pool, decimal};
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
/// anything; a quote inside them is written twice. In jsonl each line is an object. A string is stored as its text, any
/// other value as its JSON text. A field whose name ends with _base64 holds bytes in base64, as `firndex dump` writes
/// them. A table pool takes decimal numbers only.
///
/// If a key is repeated, or is already in the pool, the last value wins; the summary counts these. A malformed record
/// ends the load and its line number is reported. The records before it stay stored.
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
        None => Format::guess(&arguments.file)?,
    };
    // The pool before the file: stdin is not consumed for a pool that is not there.
    let pool = Pool::open_to_write(&arguments.pool, &arguments.safety)?;
    let (input, step) = open(&arguments.file)?;
    let mut tally = Tally::default();
    let loaded = read_pairs(arguments, format, input)
        .and_then(|mut pairs| load(&pool, pairs.as_mut(), &mut tally));
    drop(step);
    let closed = pool.close();

    output::talk(format_args!(
        "loaded {} records into {}: {} new keys, {} duplicates (the last value won)",
        HumanCount(tally.stored),
        arguments.pool.display(),
        HumanCount(tally.stored - tally.replaced),
        HumanCount(tally.replaced),
    ));
    let source = if is_stream(&arguments.file) { Path::new("stdin") } else { &arguments.file };
    loaded.with_context(|| format!("loading {}", source.display()))?;
    closed.with_context(|| format!("closing {}", arguments.pool.display()))?;
    if tally.stored == 0 {
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

/// Opens the input below a bar that moves as it is read.
fn open(path: &Path) -> Result<(Box<dyn BufRead>, Step)> {
    let (source, step): (Box<dyn Read>, _) = if is_stream(path) {
        (Box::new(io::stdin()), progress::unknown("loading"))
    } else {
        let open = || -> io::Result<(File, u64)> {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Ok((file, metadata.len()))
        };
        let (file, bytes) = open().map_err(|error| {
            Failure::new(
                format!("opening {}", path.display()),
                "FILE is a csv, tsv or jsonl file, or - for stdin",
            )
            .caused_by(error)
        })?;
        (Box::new(file), progress::bytes("loading", bytes))
    };
    let reader = BufReader::with_capacity(READ_BUFFER_BYTES, step.wrap_read(source));
    Ok((Box::new(reader), step))
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

#[derive(Default)]
struct Tally {
    stored: u64,
    /// Of those, how many found their key taken.
    replaced: u64,
}

fn load(pool: &Pool, pairs: &mut dyn Pairs, tally: &mut Tally) -> Result<()> {
    match pool {
        Pool::Table(table) => load_batches(
            pairs,
            tally,
            |key, value| Ok((decimal("key", &key)?, decimal("value", &value)?)),
            |batch| Ok(count_some(&table.put_many(batch)?)),
        ),
        Pool::Store(store) => load_batches(pairs, tally, within_limits, |batch| {
            let slices: Vec<(&[u8], &[u8])> =
                batch.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
            Ok(count_some(&store.put_many(&slices)?))
        }),
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

fn count_some<T>(replaced: &[Option<T>]) -> u64 {
    replaced.iter().flatten().count() as u64
}

/// Stores the pairs in file order, a batch at a time. What was read before an error is stored
/// before the error is returned.
fn load_batches<P>(
    pairs: &mut dyn Pairs,
    tally: &mut Tally,
    convert: impl Fn(Vec<u8>, Vec<u8>) -> Result<P>,
    store: impl Fn(&[P]) -> Result<u64>,
) -> Result<()> {
    let mut batch = Vec::with_capacity(BATCH_PAIRS);
    loop {
        batch.clear();
        let mut bytes = 0;
        let mut lines = None;
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
                lines = Some((lines.map_or(line, |(first, _)| first), line));
            }
            Ok(true)
        };
        let more = read();
        if let Some((first, last)) = lines {
            tally.replaced +=
                store(&batch).with_context(|| format!("storing lines {first} to {last}"))?;
            tally.stored += batch.len() as u64;
        }
        if !more? {
            return Ok(());
        }
    }
}
