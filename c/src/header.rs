//! `include/firndex.h`, which is written by hand, says what the library has: each function with its types, each struct
//! with its fields, each number with its name.

use crate::code::Code;
use crate::options::{CHOICES, COptions, CParameter, DURABILITIES, MEDIA, NO_HELPERS};
use crate::pool::{CCopied, CStats, EXISTING, MODES, ROLES};
use crate::store::{CBytes, CPair, CValue, StoreHandle, StoreIteratorHandle};
use crate::table::{CState, TableHandle, TableIteratorHandle};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::mem::offset_of;
use std::process::{Command, Stdio};

const HEADER: &str = include_str!("../include/firndex.h");

/// A type as C writes it.
trait InC {
    fn written() -> String;

    fn returned() -> String {
        Self::written()
    }
}

macro_rules! in_c {
    ($($type:ty: $written:literal),+ $(,)?) => {$(
        impl InC for $type {
            fn written() -> String {
                $written.into()
            }
        }
    )+};
}

in_c! {
    u8: "void", u32: "uint32_t", u64: "uint64_t", usize: "size_t", bool: "bool", c_char: "char",
    StoreHandle: "firndex_store", StoreIteratorHandle: "firndex_store_iterator", TableHandle: "firndex_table",
    TableIteratorHandle: "firndex_table_iterator", COptions: "firndex_options", CStats: "firndex_stats",
    CCopied: "firndex_copied", CBytes: "firndex_bytes", CPair: "firndex_pair", CValue: "firndex_value",
    CState: "firndex_state",
}

impl InC for c_int {
    fn written() -> String {
        "int".into()
    }

    fn returned() -> String {
        "firndex_code".into()
    }
}

impl<T: InC> InC for *mut T {
    fn written() -> String {
        format!("{} *", T::written()).replace("* *", "**")
    }
}

impl<T: InC> InC for *const T {
    fn written() -> String {
        format!("const {} *", T::written())
    }
}

/// A function's types as C writes them.
trait Prototype {
    fn types(&self) -> String;
}

macro_rules! prototypes {
    ($(($($argument:ident),*))+) => {$(
        impl<Returned: InC, $($argument: InC),*> Prototype for unsafe extern "C" fn($($argument),*) -> Returned {
            fn types(&self) -> String {
                let arguments: Vec<String> = vec![$($argument::written()),*];
                let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
                format!("{}({arguments})", Returned::returned())
            }
        }
    )+};
}
prototypes! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// All functions with their types.
fn functions() -> BTreeMap<String, String> {
    let mut functions = BTreeMap::new();
    macro_rules! of {
        ($($arguments:tt $module:ident: $($name:ident)+;)+) => {$($(
            let function: unsafe extern "C" fn $arguments -> _ = crate::$module::$name;
            functions.insert(stringify!($name).to_owned(), function.types());
        )+)+};
    }
    of! {
        (_) store: firndex_store_close firndex_store_sync firndex_store_commit firndex_store_check
            firndex_store_was_reset firndex_value_release firndex_store_iterator_free;
        (_) table: firndex_table_close firndex_table_sync firndex_table_commit firndex_table_check
            firndex_table_was_reset firndex_table_iterator_free;
        (_, _) pool: firndex_remove;
        (_, _) store: firndex_store_in_memory firndex_store_len firndex_store_shrink firndex_store_role
            firndex_store_stats firndex_store_compact firndex_store_iterate firndex_values_release;
        (_, _) table: firndex_table_in_memory firndex_table_len firndex_table_shrink firndex_table_role
            firndex_table_stats firndex_table_iterate firndex_table_contains;
        (_, _, _) store: firndex_store_contains firndex_store_iterator_next;
        (_, _, _) table: firndex_table_get firndex_table_remove firndex_table_iterator_next;
        (_, _, _, _) store: firndex_store_open firndex_store_backup firndex_store_get_value firndex_store_remove
            firndex_store_get_many firndex_store_put_many firndex_store_insert_many firndex_store_update_many
            firndex_store_remove_many;
        (_, _, _, _) table: firndex_table_open firndex_table_backup firndex_table_put firndex_table_insert
            firndex_table_update firndex_table_get_many firndex_table_remove_many;
        (_, _, _, _, _) table: firndex_table_compare_exchange firndex_table_put_many firndex_table_insert_many
            firndex_table_update_many;
        (_, _, _, _, _, _) store: firndex_store_get firndex_store_put firndex_store_insert firndex_store_update
            firndex_store_compare_exchange;
    }
    let of_crate: [(&str, unsafe extern "C" fn() -> *const c_char); 2] =
        [("firndex_version", crate::firndex_version), ("firndex_message", crate::firndex_message)];
    for (name, function) in of_crate {
        functions.insert(name.to_owned(), function.types());
    }
    let name: unsafe extern "C" fn(_) -> _ = crate::firndex_code_name;
    functions.insert("firndex_code_name".to_owned(), name.types());
    functions
}

/// The header without comments and preprocessor, in one line.
fn code() -> String {
    let mut code = String::new();
    let mut rest = HEADER;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("comments end").1;
    }
    code.push_str(rest);
    let lines = code.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// A parameter without its name.
fn type_of(parameter: &str) -> String {
    let parameter = parameter.trim();
    let at = parameter.rfind([' ', '*']).map_or(parameter.len(), |at| at + 1);
    parameter[..at].trim().to_owned()
}

#[test]
fn functions_have_the_types_that_the_header_says() {
    let mut declared = BTreeMap::new();
    for statement in code().split(';') {
        let Some((head, parameters)) = statement.split_once('(') else { continue };
        let at = head.rfind([' ', '*']).expect("it returns something") + 1;
        // A brace before the first one.
        let returned = head[..at].rsplit(['{', '}']).next().unwrap_or_default().trim();
        let returned = returned.trim_start_matches("extern \"C\"").trim();
        let parameters: Vec<String> = parameters
            .trim_end_matches(')')
            .split(',')
            .map(|one| if one == "void" { "void".into() } else { type_of(one) })
            .collect();
        declared.insert(head[at..].to_owned(), format!("{returned}({})", parameters.join(", ")));
    }
    let made = functions();
    assert!(made.len() > 50);
    for (name, types) in &made {
        assert_eq!(declared.get(name), Some(types), "{name}");
    }
    assert!(declared.keys().eq(made.keys()), "the header declares others, too: {declared:#?}");
}

fn bytes_of<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layout {
    ($asserts:ident, $($struct:ident as $name:literal { $($field:ident),+ })+) => {$(
        $asserts.push(format!("sizeof({}) == {}", $name, size_of::<$struct>()));
        $(
            let (offset, bytes) = (offset_of!($struct, $field), bytes_of(|of: &$struct| &of.$field));
            let field = stringify!($field);
            $asserts.push(format!("offsetof({}, {field}) == {offset}", $name));
            $asserts.push(format!("sizeof((({} *)0)->{field}) == {bytes}", $name));
        )+
    )+};
}

#[test]
fn structs_and_numbers_are_those_of_the_header() {
    let mut asserts = vec![format!("FIRNDEX_NO_HELPERS == {NO_HELPERS}")];
    asserts.push(format!("sizeof(firndex_code) == {}", size_of::<c_int>()));
    let mut numbers: Vec<(String, c_int)> = Code::ALL
        .iter()
        .map(|code| (code.name().to_str().expect("a name").to_owned(), *code as c_int))
        .collect();
    fn named<T: Copy>(values: &[(c_int, &str, T)]) -> impl Iterator<Item = (String, c_int)> {
        values
            .iter()
            .map(|(number, name, _)| (name.to_string(), *number))
            .collect::<Vec<_>>()
            .into_iter()
    }
    numbers.extend(named(&DURABILITIES).chain(named(&MEDIA)).chain(named(&CHOICES)));
    numbers.extend(named(&MODES).chain(named(&EXISTING)).chain(named(&ROLES)));
    asserts.extend(numbers.iter().map(|(name, number)| format!("{name} == {number}")));
    layout! { asserts,
        CBytes as "firndex_bytes" { data, size }
        CPair as "firndex_pair" { key, value }
        CValue as "firndex_value" { data, size, hold }
        CState as "firndex_state" { value, is_present }
        CCopied as "firndex_copied" { pairs, bytes, is_of_one_moment }
        CParameter as "firndex_parameter" { name, value }
        COptions as "firndex_options" {
            struct_size, engine, log_directory, parameters, parameters_count, capacity, max_bytes, durable_every_us,
            checkpoint_at, wait_ms, resize_at, shrink_at, compact_at, durability, medium, keep_sums, helpers, threads,
            read_only, may_lack_pairs, reset_if_refused, survive_bus_errors, patience_ms, guests, never_own
        }
        CStats as "firndex_stats" {
            struct_size, engine, pairs, capacity, resizes, pool_bytes, sidecar_bytes, heap_bytes, heap_used_bytes,
            heap_vacant_bytes, incarnation, log_bytes, checkpoint_bytes, load_factor, bytes_per_pair, recovery_ms, uuid,
            durability, is_logged, guests, role
        }
    }
    let mut program = "#include \"firndex.h\"\n".to_owned();
    for assert in asserts {
        program.push_str(&format!("_Static_assert({assert}, \"the library has {assert}\");\n"));
    }
    let mut compiler = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
            "-x",
            "c",
            "-",
        ])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    compiler.stdin.take().expect("a pipe").write_all(program.as_bytes()).expect("it reads");
    assert!(compiler.wait().expect("it ends").success(), "the header says something else");

    let code = code();
    let constants = code.split([',', '{', '}']).filter_map(|part| part.trim().split_once(" = "));
    let constants: Vec<&str> = constants.map(|(name, _)| name).collect();
    for constant in &constants {
        assert!(numbers.iter().any(|(name, _)| name == constant), "{constant}");
    }
    assert_eq!(constants.len(), numbers.len(), "{constants:?}");
}

#[test]
fn the_header_has_the_version_of_the_library() {
    let line = format!("#define FIRNDEX_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(HEADER.lines().any(|found| found == line), "{line}");
}
