//! The memory of a pool's file, and the log under it.

use crate::companions::Companions;
use crate::contents::mismatch;
use crate::durability::default_durability;
use crate::{Durability, Error, Medium, Options, Result};
use pmem::OpenError;
use pmem::durability::Logged;
use pmem::file::PoolFile;
use pmem::line_log::LineLog;
use pmem::medium::{CacheFlush, Memory};
use std::sync::Arc;

/// How many words a thread may be ahead of the log: 4 MiB.
const RING_WORDS: usize = 1 << 19;
/// The same where the system grants few addresses: 64 KiB.
const RING_WORDS_MIN: usize = 1 << 13;

/// A log that has not begun yet, of a pool that is being opened.
pub(super) struct Beginning {
    pub(super) log: Arc<LineLog>,
    pub(super) logged: Logged,
}

/// The file's first `bytes`, for writing, as the medium that is asked for, and its log if it has one.
pub(super) fn medium(
    options: &Options,
    file: &PoolFile,
    bytes: u64,
    companions: &Companions,
    recorded: Option<Durability>,
) -> Result<(Memory, Option<Beginning>)> {
    if medium_for(options.medium, file)? == Medium::Dax {
        return Ok((watched(options, file.dax(bytes, options.size_max(bytes))?)?, None));
    }
    let flush = flush(options)?;
    let beginning = begin(companions, durability(options, file, recorded, companions))?;
    if beginning.is_some() && !file.is_unnamed() {
        // Before anything is changed.
        file.ownership()?.demand(file.path())?;
    }
    let memory = watched(options, file.mapped(bytes, options.size_max(bytes))?)?;
    let memory = match &beginning {
        Some(beginning) => memory.logged(Arc::clone(&beginning.log)),
        None => memory.flushed(flush),
    };
    Ok((memory, beginning))
}

/// The memory, watched if the options ask for it.
pub(super) fn watched(options: &Options, memory: Memory) -> Result<Memory> {
    if !options.survive_bus_errors {
        return Ok(memory);
    }
    memory.watched().map_err(|source| Error::Io { action: "watching for bus errors", source })
}

/// The medium to use for a file: `Mapped` or `Dax`.
pub(crate) fn medium_for(asked: Medium, file: &PoolFile) -> Result<Medium> {
    match asked {
        Medium::Mapped | Medium::Dax => Ok(asked),
        Medium::Auto => Ok(match file.probe_dax() {
            Ok(_) => Medium::Dax,
            Err(_) => Medium::Mapped,
        }),
        Medium::Dram => Err(mismatch(
            "medium",
            asked,
            "auto, mapped or dax for a pool in a file",
            "use `Options::in_memory_table` or `in_memory_store` for a pool without a file",
        )),
    }
}

/// What a flush is on media other than `dax`: nothing, or what [`Options::force_flushes`] asks for, the one that
/// `dax` would use.
pub(super) fn flush(options: &Options) -> Result<CacheFlush> {
    if !options.force_flushes {
        return Ok(CacheFlush::Nothing);
    }
    CacheFlush::detect().ok_or(Error::Open(OpenError::Unsupported {
        missing: "the flush instruction that `Options::force_flushes` asks for",
    }))
}

/// The durability of a pool in `file`. `recorded` is that of its last opening, if it is not new.
fn durability(
    options: &Options,
    file: &PoolFile,
    recorded: Option<Durability>,
    companions: &Companions,
) -> Durability {
    if let Some(asked) = options.durability.or(recorded) {
        return asked;
    }
    let is_in_memory = file.is_in_memory() && !companions.is_elsewhere();
    default_durability(is_in_memory || options.force_flushes)
}

/// A log for a pool of this durability; `None` if it needs none.
fn begin(companions: &Companions, durability: Durability) -> Result<Option<Beginning>> {
    if durability == Durability::Process {
        return Ok(None);
    }
    companions.at()?;
    let mut ring_words = RING_WORDS;
    let log = loop {
        match LineLog::new(ring_words) {
            Ok(log) => break log,
            // A process with limited addresses waits for the disk more often.
            Err(_) if ring_words > RING_WORDS_MIN => ring_words /= 4,
            Err(source) => {
                return Err(Error::Io { action: "reserving memory for the log", source });
            }
        }
    };
    let logged = Logged { durability, is_elsewhere: companions.is_elsewhere() };
    Ok(Some(Beginning { log: Arc::new(log), logged }))
}
