//! From a path to an engine on a medium, in one walk: [find](find) what is there, [restore](restore) it if it does not
//! count or [create](create) it if there is nothing, open the engine, and [start](start).

pub(crate) mod create;
mod find;
mod memory;
mod ready;
mod restore;
mod start;

use crate::companions::Companions;
use crate::contents::{Contents, check_superblock};
use crate::guests::{Guest, Own, join};
use crate::held::Held;
use crate::shapes::Shapes;
use crate::{Error, Kind, Options, Result};
use find::{Found, Locked};
pub(crate) use memory::medium_for;
use memory::{medium, watched};
use pmem::file::Located;
use pmem::{OpenError, Pool};
pub(crate) use ready::{Mode, Ready};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a process may be about to let others in, or to make way.
const ABOUT_TO: Duration = Duration::from_secs(1);
/// How soon a pool is tried again that somebody is about to let others into.
const AGAIN: Duration = Duration::from_millis(2);

/// Beside a process that lets nobody in. It may also have ended by now.
const LET_IN: &str = "close it there first, or have that process let others in (`Options::guests`)";

impl Ready {
    /// The engine of the pool, and what its calls go through.
    pub(crate) fn start<T: Held>(mut self, options: &Options) -> Result<T> {
        let is_new = self.is_new();
        start::resume(options, &mut self)?;
        let opened = T::engine(Arc::clone(&self.pool), self.engine, options);
        let mut engine = if is_new { opened.map_err(Error::of_a_new_pool)? } else { opened? };
        let renewals = engine.take_renewals();
        let pool = start::start(options, &mut self, T::body(&engine), renewals)?;
        Ok(T::new(engine, pool))
    }
}

pub(crate) fn open<T: Guest>(options: &Options, path: &Path, mode: Mode) -> Result<T> {
    let began = Instant::now();
    loop {
        let refused =
            match own(options, path, mode) {
                Err(
                    refused @ Error::Open(OpenError::Busy { .. } | OpenError::AlreadyOpen { .. }),
                ) if mode != Mode::Create => refused,
                opened => return opened,
            };
        // Another process may let others in, or another handle of this one.
        let shapes = asked_shapes::<T>(options)?;
        if let Some(guest) = join(options, path, shapes, own_boxed::<T>)? {
            return Ok(guest);
        }
        // Who has just locked the pool, or is closing it, is about to let others in, or to make way. Of processes that
        // are started together all are to come through.
        let is_over = began.elapsed() >= ABOUT_TO.min(options.patience);
        if !options.guests || options.read_only || is_over {
            return Err(match refused {
                Error::Open(OpenError::Busy { path, .. }) => {
                    OpenError::Busy { path, advice: LET_IN }.into()
                }
                other => other,
            });
        }
        std::thread::sleep(AGAIN);
    }
}

/// Opens the pool of a guest that is to be its owner.
fn own_boxed<T: Guest>(options: &Options, path: &Path) -> Result<Box<dyn Own>> {
    Ok(Box::new(own::<T>(options, path, Mode::Open)?))
}

/// Opens a pool that no other process has open.
fn own<T: Held>(options: &Options, path: &Path, mode: Mode) -> Result<T> {
    match try_open(options, path, mode) {
        // Where either would do and another one creates the pool meanwhile, what that one has made is as good. Its
        // log may be seen before its file is looked for again.
        Err(Error::Open(
            OpenError::Exists { .. } | OpenError::ForeignLog { .. } | OpenError::LeftLog { .. },
        )) if mode == Mode::OpenOrCreate && path.exists() => try_open(options, path, Mode::Open),
        opened => opened,
    }
}

fn try_open<T: Held>(options: &Options, path: &Path, mode: Mode) -> Result<T> {
    let began = Instant::now();
    let shapes = asked_shapes::<T>(options)?;
    let ready = Ready { began, ..ready(options, path, mode, T::contents(), shapes)? };
    // Before recovery, which may take long: guests wait at the door, and not in vain.
    let door = ready.door(options)?;
    let mut opened: T = ready.start(options)?;
    // Goes before the lock does: somebody else's may have its name after that.
    let door = door;
    let pool = opened.pool_mut();
    if options.survive_bus_errors {
        pool.handle.watch();
    }
    pool.handle.read()?;
    pool.handle.keep_sums(options.keep_sums)?;
    pool.start_background(options)?;
    if let (Some(door), Some(served)) = (door, opened.served()) {
        opened.pool_mut().serve(served, door)?;
    }
    Ok(opened)
}

pub(crate) fn in_memory<T: Held>(options: &Options) -> Result<T> {
    asked_shapes::<T>(options)?;
    // Nobody finds one.
    let options = &options.clone().guests(false);
    let mut opened: T = create::in_memory(options, T::contents())?.start(options)?;
    opened.pool_mut().start_background(options)?;
    Ok(opened)
}

/// The shapes that the options ask for in place of the types' own, which have the same sizes.
fn asked_shapes<T: Held>(options: &Options) -> Result<Shapes> {
    let contents = T::contents();
    let Some(asked) = options.shapes.clone().filter(|_| contents.kind == Kind::Table) else {
        return Ok(T::shapes());
    };
    for (shape, bytes) in [(&asked.key, contents.key_bytes), (&asked.value, contents.value_bytes)] {
        if let Some(shape) = shape
            && shape.bytes() != Some(bytes as usize)
        {
            let (found, expected) = (format!("`{shape}`"), format!("a shape of {bytes} bytes"));
            return Err(Error::OutOfRange { option: "shapes", found, expected });
        }
    }
    Ok(asked)
}

/// Not generic, so it is compiled once, and not by every user.
fn ready(
    options: &Options,
    path: &Path,
    mode: Mode,
    contents: Contents,
    shapes: Shapes,
) -> Result<Ready> {
    options.check()?;
    if mode == Mode::Create {
        let pool = Located::new(path)?;
        return create::in_file(options, Companions::of(options, &pool)?, contents);
    }
    let companions = Companions::of(options, &find::followed(path, mode)?)?;
    let locked = loop {
        match find::find(options, mode, &companions)? {
            Found::Pool(locked) => break locked,
            Found::Lost(lost) => {
                if let Some(locked) = restore::restore(options, &companions, lost)? {
                    break locked;
                }
            }
            Found::Nothing => return create::in_file(options, companions, contents),
        }
    };
    existing(options, companions, locked, contents, shapes)
}

/// The pool in a file that counts. It is refused before anything is changed in it.
fn existing(
    options: &Options,
    companions: Companions,
    Locked { file, superblock }: Locked,
    contents: Contents,
    shapes: Shapes,
) -> Result<Ready> {
    let engine = check_superblock(&superblock, options.engine, contents)?;
    if shapes != Shapes::default() {
        let read = |bytes: &mut [u8], at| file.read_exact_at(bytes, at).is_ok();
        Shapes::read(&superblock, read).allow(shapes)?;
    }
    superblock.check_state(&file.place())?;
    let (end, place) = (superblock.end, file.place());
    if options.read_only {
        // What could not be opened for writing is refused all the same.
        medium_for(options.medium, &file)?;
        let memory = watched(options, file.mapped(end, options.size_max(end))?)?;
        let pool = Pool::open_read_only(memory, place)?;
        return Ok(Ready::in_file(pool, engine, file, companions, None));
    }
    let logged = superblock.logged();
    if options.log_directory.is_none() && logged.is_some_and(|logged| logged.is_elsewhere) {
        // Without a log it goes on only if that one is removed: it would bring back what the pool was.
        return Err(OpenError::LogElsewhere { path: file.path().into() }.into());
    }
    let (medium, beginning) = medium(options, &file, end, &companions, superblock.durability())?;
    let pool = Pool::open(medium, place)?;
    let ready = Ready::in_file(pool, engine, file, companions, beginning);
    Ok(ready.closed_at(superblock.log_end()))
}

/// Makes the pool at `path` anew from its checkpoint and log, if its file does not count after power loss. Whether it
/// did so.
pub(crate) fn restore(options: &Options, path: &Path) -> Result<bool> {
    options.check()?;
    let companions = Companions::of(options, &find::followed(path, Mode::Open)?)?;
    if find::counts(&companions, path) {
        return Ok(false);
    }
    match find::find(options, Mode::Open, &companions)? {
        Found::Lost(lost) => {
            let restored = restore::restore(options, &companions, lost)?;
            Ok(restored.is_some())
        }
        Found::Pool(_) | Found::Nothing => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Medium};
    use pmem::Medium as _;
    use pmem::medium::Memory;
    use pmem::medium::{CacheFlush, MediumKind};

    /// Whether flushes cost anything, and the medium that the pool takes itself for.
    fn flushes(pool: &Pool<Memory>) -> (bool, MediumKind) {
        let medium = pool.medium();
        (medium.cache_flush() != CacheFlush::Nothing, medium.kind())
    }

    #[test]
    fn flushes_are_forced_where_asked_and_change_no_medium() {
        let directory = tempfile::tempdir().unwrap();
        let can_flush = CacheFlush::detect().is_some();
        for force in [false, true].into_iter().filter(|force| can_flush || !force) {
            let options = Options::new()
                .medium(Medium::Mapped)
                .durability(Durability::Process)
                .force_flushes(force);
            let words = Contents::table::<u64, u64>();
            for contents in [words, Contents::STORE, Contents::table::<u16, u64>()] {
                let made = create::in_memory(&options, contents).unwrap();
                assert_eq!(flushes(&made.pool), (force, MediumKind::Dram));
            }
            let path = directory.path().join(force.to_string());
            let open = |options: &Options, mode| {
                let ready = ready(options, &path, mode, words, Shapes::default()).unwrap();
                let (pool, mut in_file) = (ready.pool, ready.in_file.unwrap());
                in_file.file.publish().unwrap();
                let found = flushes(&pool);
                if !options.read_only {
                    pool.close().unwrap();
                }
                found
            };
            for mode in [Mode::Create, Mode::Open] {
                assert_eq!(open(&options, mode), (force, MediumKind::Mapped), "{mode:?}");
            }
            let read_only = options.clone().read_only(true);
            assert_eq!(open(&read_only, Mode::Open), (false, MediumKind::Mapped));
        }
    }
}
