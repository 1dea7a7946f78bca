//! `firndex dump`: write every pair to a file.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::count::counted;
use crate::failure::{Ended, Failure, Status};
use crate::format::{Field, Format, Towards, is_stream};
use crate::interrupt::{self, Interrupts};
use crate::output;
use crate::pool::AnyPool;
use crate::progress;
use crate::reading::Reading;
use crate::whole_file::{self, WholeFile};

/// Bytes written in one call.
const BUFFER_BYTES: usize = 1 << 20;

/// Write every pair of a pool to a file
///
/// `firndex load` restores the same bytes from each format. In csv and tsv the first row is key,value. A field with a
/// delimiter, a quote or a line end in it is in quotes; a quote inside is written twice. In jsonl each line is an
/// object with a key and a value. Bytes that are not UTF-8 text are in base64, in a field named key_base64 or
/// value_base64. Tables of other types than numbers have values of simple types as Rust writes them, structs as JSON
/// objects, arrays and tuples as JSON arrays, and bytes in hexadecimal digits (0x...), as have tables that do not
/// record their types. Pairs come in no order. FILE gets its name when it is complete and on the device. A new one can
/// be read by nobody who cannot read POOL.
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
    /// If FILE exists, replace it when the dump is complete. It keeps its mode
    #[arg(long)]
    replace: bool,
    /// Format to write [default: by the end of the file's name; csv for stdout]
    #[arg(long)]
    format: Option<Format>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let format = match arguments.format {
        Some(format) => format,
        None => Format::guess(&arguments.file, Towards::Dump)?,
    };
    let to_stdout = is_stream(&arguments.file);
    if to_stdout && arguments.replace {
        let hint = "leave it out, or name a file";
        return Err(Failure::new("--replace is for a file, and this goes to stdout", hint).into());
    }
    let mode = whole_file::mode_of_new_files();
    // The pool before the file: no file is made for a pool that is not there.
    let pool = AnyPool::open_to_copy(&arguments.pool, &arguments.reading)?;
    let dumped = if to_stdout {
        dump(&pool, format, &mut output::Stdout).map_err(|error| match error {
            Undumped::Pool(error) => error,
            Undumped::Target(error) => output::unwritten(error),
        })
    } else {
        dump_to_file(&pool, format, arguments, mode)
    };
    let closed = pool.close();
    if matches!(&dumped, Err(error) if error.is::<Ended>()) {
        dumped?;
        return Ok(Status::Failed);
    }
    let pairs = dumped.with_context(|| format!("dumping {}", arguments.pool.display()))?;
    closed.with_context(|| format!("closing {}", arguments.pool.display()))?;
    output::talk(format_args!(
        "dumped {} of {}",
        counted(pairs, "record"),
        arguments.pool.display()
    ));
    Ok(Status::Done)
}

fn dump_to_file(pool: &AnyPool, format: Format, arguments: &Arguments, mode: u32) -> Result<u64> {
    let Arguments { pool: source, file: path, replace, .. } = arguments;
    let interrupts = Interrupts::watch().context("watching for Ctrl-C")?;
    let mut file = interrupts.writer(WholeFile::begin(path, *replace, source, mode)?);
    let dumped = dump(pool, format, &mut file).and_then(|pairs| {
        let published = file.into_inner().publish(|| interrupts.check());
        published.map(|()| pairs).map_err(Undumped::Target)
    });
    match dumped {
        Ok(pairs) => Ok(pairs),
        Err(Undumped::Pool(error)) => Err(error),
        Err(Undumped::Target(error)) if interrupt::is_meant_by(&error) => {
            let shown = path.display();
            let what = match path.symlink_metadata() {
                Ok(_) => format!("{shown} is as it was"),
                Err(_) => format!("there is no {shown}"),
            };
            Err(interrupts.ended(what).into())
        }
        Err(Undumped::Target(error)) => {
            let hint = match error.kind() {
                io::ErrorKind::FileTooLarge => "is there a limit, such as ulimit -f?",
                io::ErrorKind::AlreadyExists => "somebody has made it meanwhile: name another file",
                _ => "is the disk full?",
            };
            Err(Failure::new(format!("writing {}", path.display()), hint).caused_by(error).into())
        }
    }
}

/// Where a dump failed.
enum Undumped {
    Pool(anyhow::Error),
    Target(io::Error),
}

/// Writes every pair; returns how many.
fn dump(pool: &AnyPool, format: Format, out: &mut dyn Write) -> Result<u64, Undumped> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut pairs = 0;
    let step = progress::count("dumping", "records", pool.len());
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
        pool.try_for_each(&mut visit).map_err(Undumped::Pool)?
    };
    let written = match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => out.write_all(&buffer).and_then(|()| out.flush()),
    };
    written.map(|()| pairs).map_err(Undumped::Target)
}
