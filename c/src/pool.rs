//! What can be asked of stores and tables, and done with them, whatever they hold.

use crate::call::{call, out, out_if, path};
use crate::code::Code;
use crate::failure::{Failure, Outcome, tell};
use crate::options::{COptions, DURABILITIES, choose, options};
use crate::pools::{Opened, Visit};
use firndex::{Copied, Existing, Options, Role};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;

/// Mirrors `firndex_stats`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CStats {
    pub(crate) struct_size: usize,
    pub(crate) engine: *const c_char,
    pub(crate) pairs: u64,
    pub(crate) capacity: u64,
    pub(crate) resizes: u64,
    pub(crate) pool_bytes: u64,
    pub(crate) sidecar_bytes: u64,
    pub(crate) heap_bytes: u64,
    pub(crate) heap_used_bytes: u64,
    pub(crate) heap_vacant_bytes: u64,
    pub(crate) incarnation: u64,
    pub(crate) log_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) load_factor: f64,
    pub(crate) bytes_per_pair: f64,
    pub(crate) recovery_ms: f64,
    pub(crate) uuid: [u8; 16],
    pub(crate) durability: c_int,
    pub(crate) is_logged: bool,
    pub(crate) guests: u64,
    pub(crate) role: c_int,
}

/// Mirrors `firndex_copied`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CCopied {
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    pub(crate) is_of_one_moment: bool,
}

/// The values of `firndex_mode`.
pub(crate) const MODES: [(c_int, &str, Mode); 3] = [
    (1, "FIRNDEX_OPEN", Mode::Open),
    (2, "FIRNDEX_CREATE", Mode::Create),
    (3, "FIRNDEX_OPEN_OR_CREATE", Mode::OpenOrCreate),
];
/// The values of `firndex_existing`.
pub(crate) const EXISTING: [(c_int, &str, Existing); 2] =
    [(1, "FIRNDEX_KEEP", Existing::Keep), (2, "FIRNDEX_REPLACE", Existing::Replace)];

/// The values of `firndex_role`.
pub(crate) const ROLES: [(c_int, &str, Role); 2] =
    [(1, "FIRNDEX_OWNER", Role::Owner), (2, "FIRNDEX_GUEST", Role::Guest)];

fn number_of(role: Role) -> c_int {
    ROLES.iter().find(|(_, _, of)| *of == role).map_or(0, |(number, _, _)| *number)
}

/// How a pool is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    Open,
    Create,
    OpenOrCreate,
}

/// The names of engines, as C has strings.
fn engine_name(name: &str) -> *const c_char {
    use std::collections::HashMap;
    use std::ffi::CString;
    use std::sync::LazyLock;
    static NAMES: LazyLock<HashMap<&'static str, CString>> = LazyLock::new(|| {
        let engines = firndex::Engine::ALL.iter().map(|engine| engine.name());
        engines.map(|name| (name, CString::new(name).unwrap_or_default())).collect()
    });
    NAMES.get(name).map_or(c"".as_ptr(), |name| name.as_ptr())
}

/// Opens a pool and tells its handle.
///
/// # Safety
///
/// As the header says of `firndex_store_open`.
pub(crate) unsafe fn open<T: Opened, H>(
    at: *const c_char,
    mode: c_int,
    with: *const COptions,
    handle: *mut *mut H,
    opening: impl FnOnce(&Options, &Path, Mode) -> firndex::Result<T>,
) -> Outcome {
    // SAFETY: the caller vouches for the argument.
    let handle = unsafe { out(handle, "handle") }?;
    handle.write(std::ptr::null_mut());
    // SAFETY: the caller vouches for the arguments.
    let (at, with) = unsafe { (path(at, "path")?, options(with)?) };
    let mode = choose("mode", mode, &MODES)?;
    admit(opening(&with, at, mode)?, handle)
}

/// Tells the handle of a pool in memory.
///
/// # Safety
///
/// As the header says of `firndex_store_in_memory`.
pub(crate) unsafe fn in_memory<T: Opened, H>(
    with: *const COptions,
    handle: *mut *mut H,
    opening: impl FnOnce(&Options) -> firndex::Result<T>,
) -> Outcome {
    // SAFETY: the caller vouches for the argument.
    let handle = unsafe { out(handle, "handle") }?;
    handle.write(std::ptr::null_mut());
    // SAFETY: the caller vouches for the options.
    let with = unsafe { options(with) }?;
    admit(opening(&with)?, handle)
}

fn admit<T: Opened, H>(opened: T, handle: &mut MaybeUninit<*mut H>) -> Outcome {
    let admitted = crate::pools::admit(opened)?;
    handle.write(std::ptr::without_provenance_mut(admitted as usize));
    Ok(Code::Ok)
}

pub(crate) fn close<T: Opened>(handle: u64) -> Outcome {
    if handle != 0 {
        crate::pools::close::<T>(handle)?;
    }
    Ok(Code::Ok)
}

/// # Safety
///
/// As the header says of `firndex_store_len`.
pub(crate) unsafe fn len<T: Opened>(handle: u64, pairs: *mut u64) -> Outcome {
    // SAFETY: the caller vouches for it.
    let pairs = unsafe { out(pairs, "pairs") }?;
    let pool = Visit::<T>::begin(handle)?;
    // It tells whether the handle may be used, which a number cannot.
    pool.log()?;
    pairs.write(pool.len());
    Ok(Code::Ok)
}

pub(crate) fn sync<T: Opened>(handle: u64) -> Outcome {
    Visit::<T>::begin(handle)?.sync()?;
    Ok(Code::Ok)
}

pub(crate) fn commit<T: Opened>(handle: u64) -> Outcome {
    Visit::<T>::begin(handle)?.commit()?;
    Ok(Code::Ok)
}

/// # Safety
///
/// As the header says of `firndex_store_shrink`.
pub(crate) unsafe fn shrink<T: Opened>(handle: u64, is_halved: *mut bool) -> Outcome {
    // SAFETY: the caller vouches for it.
    let is_halved = unsafe { out_if(is_halved, "is_halved") }?;
    let halved = Visit::<T>::begin(handle)?.shrink()?;
    if let Some(is_halved) = is_halved {
        is_halved.write(halved);
    }
    Ok(Code::Ok)
}

pub(crate) fn check<T: Opened>(handle: u64) -> Outcome {
    let report = Visit::<T>::begin(handle)?.check()?;
    if report.is_sound() {
        return Ok(Code::Ok);
    }
    let found = report.findings.join("; ");
    let message = format!(
        "the pool is damaged: {found}; restore the file from a backup, or copy out what still reads well: \
         `firndex salvage POOL OUT`"
    );
    Err(Failure::new(Code::Damaged, message))
}

/// # Safety
///
/// As the header says of `firndex_store_role`.
pub(crate) unsafe fn role<T: Opened>(handle: u64, role: *mut c_int) -> Outcome {
    // SAFETY: the caller vouches for it.
    let role = unsafe { out(role, "role") }?;
    role.write(number_of(Visit::<T>::begin(handle)?.role()));
    Ok(Code::Ok)
}

pub(crate) fn was_reset<T: Opened>(handle: u64) -> Outcome {
    let pool = Visit::<T>::begin(handle)?;
    let Some(why) = pool.was_reset() else { return Ok(Code::Ok) };
    tell(why.to_string());
    Ok(Code::Reset)
}

/// # Safety
///
/// As the header says of `firndex_store_stats`.
pub(crate) unsafe fn stats<T: Opened>(handle: u64, into: *mut CStats) -> Outcome {
    if into.is_null() || !into.is_aligned() {
        return Err(Failure::argument(
            "`stats` is NULL, expected the address of a `firndex_stats`",
        ));
    }
    // SAFETY: it is not NULL, and aligned; the caller vouches for the first member.
    let size = unsafe { (&raw const (*into).struct_size).read() };
    if !(size_of::<usize>()..=4096).contains(&size) {
        return Err(Failure::argument(format!(
            "`stats->struct_size` is {size}, expected {}; begin with `firndex_stats stats = FIRNDEX_STATS_INIT;`",
            size_of::<CStats>()
        )));
    }
    let found = Visit::<T>::begin(handle)?.stats()?;
    let durability = DURABILITIES.iter().find(|(_, _, of)| *of == found.durability);
    let told = CStats {
        struct_size: size,
        engine: engine_name(found.engine.name()),
        pairs: found.pairs,
        capacity: found.capacity,
        resizes: found.resizes,
        pool_bytes: found.pool_bytes,
        sidecar_bytes: found.sidecar_bytes,
        heap_bytes: found.heap_bytes,
        heap_used_bytes: found.heap_used_bytes,
        heap_vacant_bytes: found.heap_vacant_bytes,
        incarnation: found.incarnation,
        log_bytes: found.log.as_ref().map_or(0, |log| log.log_bytes),
        checkpoint_bytes: found.log.as_ref().map_or(0, |log| log.checkpoint_bytes),
        load_factor: found.load_factor,
        bytes_per_pair: found.bytes_per_pair,
        recovery_ms: found.recovery_ms,
        uuid: found.uuid.to_be_bytes(),
        durability: durability.map_or(0, |(number, _, _)| *number),
        is_logged: found.log.is_some(),
        guests: found.guests,
        role: number_of(found.role),
    };
    let common = size.min(size_of::<CStats>());
    // SAFETY: the caller vouches for `size` bytes, which may have any value, and `told` has as many as are copied.
    unsafe { std::ptr::copy_nonoverlapping((&raw const told).cast::<u8>(), into.cast(), common) };
    Ok(Code::Ok)
}

/// # Safety
///
/// As the header says of `firndex_store_backup`.
pub(crate) unsafe fn backup<T: Opened>(
    handle: u64,
    to: *const c_char,
    existing: c_int,
    copied: *mut CCopied,
    backup: impl FnOnce(&T, &Path, Existing) -> firndex::Result<Copied>,
) -> Outcome {
    // SAFETY: the caller vouches for the arguments.
    let (to, copied) = unsafe { (path(to, "out")?, out_if(copied, "copied")?) };
    let existing = choose("existing", existing, &EXISTING)?;
    let pool = Visit::<T>::begin(handle)?;
    let Copied { pairs, bytes, is_of_one_moment, .. } = backup(&pool, to, existing)?;
    if let Some(copied) = copied {
        copied.write(CCopied { pairs, bytes, is_of_one_moment });
    }
    Ok(Code::Ok)
}

/// Removes a pool, with its log and checkpoint.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_remove(at: *const c_char, with: *const COptions) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (at, with) = unsafe { (path(at, "path")?, options(with)?) };
        with.remove(at)?;
        Ok(Code::Ok)
    })
}

/// The functions that stores and tables have in common.
macro_rules! pool_functions {
    ($opened:ty, $handle:ident, [$open:ident, $in_memory:ident, $close:ident, $len:ident, $sync:ident, $commit:ident,
      $shrink:ident, $check:ident, $role:ident, $was_reset:ident, $stats:ident, $backup:ident],
     $create_it:ident, $open_it:ident, $open_or_create_it:ident, $in_memory_it:ident) => {
        /// Opens or creates it.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open(
            path: *const c_char,
            mode: c_int,
            options: *const COptions,
            handle: *mut *mut $handle,
        ) -> c_int {
            call(|| {
                let opening = |options: &Options, path: &Path, mode| match mode {
                    Mode::Create => options.$create_it(path),
                    Mode::Open => options.$open_it(path),
                    Mode::OpenOrCreate => options.$open_or_create_it(path),
                };
                // SAFETY: the caller vouches for the arguments.
                unsafe { pool::open::<$opened, _>(path, mode, options, handle, opening) }
            })
        }

        /// Makes one in memory.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $in_memory(
            options: *const COptions,
            handle: *mut *mut $handle,
        ) -> c_int {
            // SAFETY: the caller vouches for the arguments.
            call(|| unsafe {
                pool::in_memory::<$opened, _>(options, handle, Options::$in_memory_it)
            })
        }

        /// Closes it.
        #[unsafe(no_mangle)]
        pub extern "C" fn $close(handle: *mut $handle) -> c_int {
            call(|| pool::close::<$opened>(handle.addr() as u64))
        }

        /// Tells how many pairs there are.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $len(handle: *mut $handle, pairs: *mut u64) -> c_int {
            // SAFETY: the caller vouches for the argument.
            call(|| unsafe { pool::len::<$opened>(handle.addr() as u64, pairs) })
        }

        /// Makes what has returned survive power loss.
        #[unsafe(no_mangle)]
        pub extern "C" fn $sync(handle: *mut $handle) -> c_int {
            call(|| pool::sync::<$opened>(handle.addr() as u64))
        }

        /// Waits until what this thread has done survives power loss.
        #[unsafe(no_mangle)]
        pub extern "C" fn $commit(handle: *mut $handle) -> c_int {
            call(|| pool::commit::<$opened>(handle.addr() as u64))
        }

        /// Halves the index.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $shrink(handle: *mut $handle, is_halved: *mut bool) -> c_int {
            // SAFETY: the caller vouches for the argument.
            call(|| unsafe { pool::shrink::<$opened>(handle.addr() as u64, is_halved) })
        }

        /// Verifies every pair and every invariant.
        #[unsafe(no_mangle)]
        pub extern "C" fn $check(handle: *mut $handle) -> c_int {
            call(|| pool::check::<$opened>(handle.addr() as u64))
        }

        /// Tells what this process is to the pool.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $role(handle: *mut $handle, role: *mut c_int) -> c_int {
            // SAFETY: the caller vouches for the argument.
            call(|| unsafe { pool::role::<$opened>(handle.addr() as u64, role) })
        }

        /// Tells whether the pool was made anew when it was opened.
        #[unsafe(no_mangle)]
        pub extern "C" fn $was_reset(handle: *mut $handle) -> c_int {
            call(|| pool::was_reset::<$opened>(handle.addr() as u64))
        }

        /// Tells figures of the pool.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $stats(handle: *mut $handle, stats: *mut CStats) -> c_int {
            // SAFETY: the caller vouches for the argument.
            call(|| unsafe { pool::stats::<$opened>(handle.addr() as u64, stats) })
        }

        /// Writes a clean copy of the pool.
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $backup(
            handle: *mut $handle,
            out: *const c_char,
            existing: c_int,
            copied: *mut CCopied,
        ) -> c_int {
            call(|| {
                let backup = |pool: &$opened, out: &Path, existing| pool.backup(out, existing);
                // SAFETY: the caller vouches for the arguments.
                unsafe { pool::backup(handle.addr() as u64, out, existing, copied, backup) }
            })
        }
    };
}
pub(crate) use pool_functions;
