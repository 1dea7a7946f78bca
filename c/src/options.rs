//! How a pool is opened or created: the header's `firndex_options`.

use crate::call::{array, path, text};
use crate::code::Code;
use crate::failure::Failure;
use firndex::{Durability, Engine, Medium, Options};
use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::time::Duration;

/// Mirrors `firndex_parameter`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CParameter {
    pub(crate) name: *const c_char,
    pub(crate) value: u64,
}

/// Mirrors `firndex_options`. Zero is the default of each field.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct COptions {
    pub(crate) struct_size: usize,
    pub(crate) engine: *const c_char,
    pub(crate) log_directory: *const c_char,
    pub(crate) parameters: *const CParameter,
    pub(crate) parameters_count: usize,
    pub(crate) capacity: u64,
    pub(crate) max_bytes: u64,
    pub(crate) durable_every_us: u64,
    pub(crate) checkpoint_at: u64,
    pub(crate) wait_ms: u64,
    pub(crate) resize_at: f64,
    pub(crate) shrink_at: f64,
    pub(crate) compact_at: f64,
    pub(crate) durability: c_int,
    pub(crate) medium: c_int,
    pub(crate) keep_sums: c_int,
    pub(crate) helpers: c_int,
    pub(crate) threads: u32,
    /// C's `bool` may have been filled with any byte.
    pub(crate) read_only: u8,
    pub(crate) may_lack_pairs: u8,
    pub(crate) reset_if_refused: u8,
    pub(crate) survive_bus_errors: u8,
    pub(crate) patience_ms: u64,
    pub(crate) guests: c_int,
    pub(crate) never_own: c_int,
}

/// The values of `firndex_durability`, `firndex_medium`, `firndex_mode`, `firndex_choice`, `firndex_existing`.
pub(crate) const DURABILITIES: [(c_int, &str, Durability); 3] = [
    (1, "FIRNDEX_PROCESS", Durability::Process),
    (2, "FIRNDEX_PERIODIC", Durability::Periodic),
    (3, "FIRNDEX_COMMIT", Durability::Commit),
];
pub(crate) const MEDIA: [(c_int, &str, Medium); 2] =
    [(1, "FIRNDEX_MAPPED", Medium::Mapped), (2, "FIRNDEX_DAX", Medium::Dax)];
pub(crate) const CHOICES: [(c_int, &str, bool); 2] =
    [(1, "FIRNDEX_YES", true), (2, "FIRNDEX_NO", false)];
/// No helper threads: 0 is the default.
pub(crate) const NO_HELPERS: c_int = -1;

/// The value with this number, of those that an argument may have.
pub(crate) fn choose<T: Copy>(
    what: &str,
    number: c_int,
    values: &[(c_int, &str, T)],
) -> Result<T, Failure> {
    if let Some((_, _, value)) = values.iter().find(|(of, _, _)| *of == number) {
        return Ok(*value);
    }
    let names: Vec<&str> = values.iter().map(|(_, name, _)| *name).collect();
    let names = names.join(", ");
    Err(Failure::argument(format!(
        "`{what}` is {number}, expected one of {names}; pass one of these"
    )))
}

/// Reads as much of the struct as the caller's header has.
///
/// # Safety
///
/// If `options` is not NULL, and aligned, its first member says how many bytes can be read there, and nobody writes to
/// them meanwhile.
unsafe fn read(options: *const COptions) -> Result<COptions, Failure> {
    if !options.is_aligned() {
        return Err(Failure::argument("`options` is no address of a `firndex_options`; pass that"));
    }
    // SAFETY: it is not NULL, and aligned; the caller vouches for the first member.
    let size = unsafe { (&raw const (*options).struct_size).read() };
    // A larger struct is that of a newer header. It may be no larger than any header will make it, so that a struct
    // whose author has forgotten to fill it is found.
    let (least, most) = (size_of::<usize>(), 4096);
    if !(least..=most).contains(&size) {
        return Err(Failure::argument(format!(
            "`options->struct_size` is {size}, expected {}; begin with `firndex_options options = \
             FIRNDEX_OPTIONS_INIT;`",
            size_of::<COptions>()
        )));
    }
    // SAFETY: the struct has integers, floats and pointers, of which zeros are values.
    let mut read: COptions = unsafe { std::mem::zeroed() };
    let common = size.min(size_of::<COptions>());
    // SAFETY: the caller vouches for `size` bytes, and `read` has as many as are copied. Any bytes are values of all
    // fields.
    unsafe { std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut read).cast(), common) };
    for at in common..size {
        // SAFETY: the caller vouches for `size` bytes.
        let byte = unsafe { options.cast::<u8>().add(at).read() };
        if byte != 0 {
            return Err(Failure::argument(format!(
                "byte {at} of `options` is {byte}, which a newer header has given a meaning that this library, {}, \
                 does not know: link the library of that header",
                env!("CARGO_PKG_VERSION")
            )));
        }
    }
    Ok(read)
}

/// The options of the library. NULL has all defaults.
///
/// # Safety
///
/// If `options` is not NULL, and aligned, its first member says how many bytes can be read there; what its pointers
/// lead to are strings that end with a NUL, and an array of `parameters_count`. Nobody writes to any of them meanwhile.
pub(crate) unsafe fn options(options: *const COptions) -> Result<Options, Failure> {
    let mut made = Options::new();
    if options.is_null() {
        return Ok(made);
    }
    // SAFETY: it is not NULL; the caller vouches for the rest.
    let of = unsafe { read(options) }?;
    if !of.engine.is_null() {
        // SAFETY: the caller vouches for the string.
        let name = unsafe { text(of.engine, "options->engine") }?.to_string_lossy();
        let engine = name.parse::<Engine>();
        made = made.engine(engine.map_err(|error| Failure::new(Code::Option, error.to_string()))?);
    }
    if !of.log_directory.is_null() {
        // SAFETY: the caller vouches for the string.
        made = made.log_directory(unsafe { path(of.log_directory, "options->log_directory") }?);
    }
    // SAFETY: the caller vouches for the array.
    let parameters = unsafe { array(of.parameters, of.parameters_count, "options->parameters") }?;
    for parameter in parameters {
        // SAFETY: the caller vouches for the string.
        let name = unsafe { text(parameter.name, "options->parameters[].name") }?;
        made = made.parameter(&name.to_string_lossy(), parameter.value);
    }
    if of.max_bytes != 0 {
        made = made.max_bytes(of.max_bytes);
    }
    if of.durable_every_us != 0 {
        made = made.durable_every(Duration::from_micros(of.durable_every_us));
    }
    if of.checkpoint_at != 0 {
        made = made.checkpoint_at(of.checkpoint_at);
    }
    if of.resize_at != 0.0 {
        made = made.resize_at(of.resize_at);
    }
    if of.durability != 0 {
        made = made.durability(choose("options->durability", of.durability, &DURABILITIES)?);
    }
    if of.medium != 0 {
        made = made.medium(choose("options->medium", of.medium, &MEDIA)?);
    }
    if of.keep_sums != 0 {
        made = made.keep_sums(choose("options->keep_sums", of.keep_sums, &CHOICES)?);
    }
    if of.patience_ms != 0 {
        made = made.patience(Duration::from_millis(of.patience_ms));
    }
    if of.guests != 0 {
        made = made.guests(choose("options->guests", of.guests, &CHOICES)?);
    }
    if of.never_own != 0 {
        made = made.never_own(choose("options->never_own", of.never_own, &CHOICES)?);
    }
    match of.helpers {
        0 => {}
        NO_HELPERS => made = made.helpers(0),
        // A negative number is as far out of range as it can be.
        more => made = made.helpers(usize::try_from(more).unwrap_or(usize::MAX)),
    }
    Ok(made
        .capacity(of.capacity)
        .wait(Duration::from_millis(of.wait_ms))
        .shrink_at(of.shrink_at)
        .compact_at(of.compact_at)
        .threads(of.threads as usize)
        .read_only(of.read_only != 0)
        .may_lack_pairs(of.may_lack_pairs != 0)
        .reset_if_refused(of.reset_if_refused != 0)
        .survive_bus_errors(of.survive_bus_errors != 0))
}

const _: () = assert!(offset_of!(COptions, struct_size) == 0);
