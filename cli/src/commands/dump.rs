//! `firndex dump`: write every pair to a file.

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::count::counted;
use crate::failure::{Failure, Status};
use crate::format::{Field, Format, is_stream};
use crate::output;
use crate::pool::AnyPool;
use crate::progress;
use crate::reading::Reading;

/// Bytes written in one call.
const BUFFER_BYTES: usize = 1 << 20;

/// Write every pair of a pool to a file
///
/// `firndex load` restores the same bytes from each format. In csv and tsv the first row is key,value. A field with a
/// delimiter, a quote or a line end in it is in quotes; a quote inside is written twice. In jsonl each line is an
/// object with a key and a value. Bytes that are not UTF-8 text are in base64, in a field named key_base64 or
/// value_base64. Tables of other types than numbers have values of simple types as Rust writes them, structs as JSON
/// objects, arrays and tuples as JSON arrays, and bytes in hexadecimal digits (0x...), as have tables that do not
/// record their types. Pairs come in no order. FILE must not exist yet; if the dump fails it is removed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex dump fruit.firn fruit.csv
  firndex dump fruit.firn - --format jsonl | gzip > fruit.jsonl.gz
  firndex dump old.firn - | firndex load new.firn -              copy into another pool")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// The file to write, or - for stdout
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Format to write [default: by the end of the file's name; csv for stdout]
    #[arg(long)]
    format: Option<Format>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let format = match arguments.format {
        Some(format) => format,
        None => Format::guess(&arguments.file)?,
    };
    // The pool before the file: no file is made for a pool that is not there.
    let pool = AnyPool::open_to_copy(&arguments.pool, &arguments.reading)?;
    let dumped = if is_stream(&arguments.file) {
        dump(&pool, format, &mut io::stdout().lock())
    } else {
        dump_to_file(&pool, format, &arguments.file)
    };
    let closed = pool.close();
    let pairs = dumped.with_context(|| format!("dumping {}", arguments.pool.display()))?;
    closed.with_context(|| format!("closing {}", arguments.pool.display()))?;
    if let Some(pairs) = pairs {
        output::talk(format_args!(
            "dumped {} of {}",
            counted(pairs, "record"),
            arguments.pool.display()
        ));
    }
    Ok(Status::Done)
}

fn dump_to_file(pool: &AnyPool, format: Format, path: &Path) -> Result<Option<u64>> {
    // Never over a file that is there: it may be the pool.
    let mut file = File::create_new(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => "name another file, or remove this one first",
            _ => "FILE is made by the dump; - stands for stdout",
        };
        Failure::new(format!("making {}", path.display()), hint).caused_by(error)
    })?;
    let dumped = dump(pool, format, &mut file)
        .and_then(|pairs| file.sync_all().map(|()| pairs).map_err(unwritable));
    if dumped.is_err() {
        // What is there is not all: nobody should take it for a dump.
        let _ = std::fs::remove_file(path);
    }
    dumped
}

fn unwritable(error: io::Error) -> anyhow::Error {
    Failure::new("writing", "is the disk full?").caused_by(error).into()
}

/// Writes every pair; returns how many. `None`: a reader of stdout has gone away, since it has what it wanted.
fn dump(pool: &AnyPool, format: Format, out: &mut dyn Write) -> Result<Option<u64>> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut pairs = 0;
    let step = progress::count("dumping", pool.len());
    format.begin(&mut buffer);
    let visited = {
        let mut visit = |key: Field<'_>, value: Field<'_>| -> ControlFlow<io::Error> {
            format.write(key, value, &mut buffer);
            pairs += 1;
            if buffer.len() < BUFFER_BYTES {
                return ControlFlow::Continue(());
            }
            let written = out.write_all(&buffer);
            buffer.clear();
            step.set_position(pairs);
            written.map_or_else(ControlFlow::Break, ControlFlow::Continue)
        };
        pool.try_for_each(&mut visit)?
    };
    let written = match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => out.write_all(&buffer).and_then(|()| out.flush()),
    };
    match written {
        Ok(()) => Ok(Some(pairs)),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(unwritable(error)),
    }
}
