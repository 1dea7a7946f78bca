//! Does one operation often, for `bench/instructions/run` to count its instructions.
//!
//! Without arguments it prints how often, then every pair of arguments that it takes: an engine and
//! an operation. What it does between is in [`counted`]: only that shall be counted.

use anyhow::{Result, bail, ensure};
use bench::keys::{Keys, Writer};
use firndex::{Engine, Options, Store, Table};

/// Pairs stored beforehand: so many that no operation has an unusually full or empty place.
const PAIRS: u64 = 100_000;
/// A multiple of [`BATCH`].
const TIMES: u64 = 2_048;
/// Keys per call of a `*_many`, whose cost is told per key.
const BATCH: usize = 32;
/// Everything follows from it.
const SEED: u64 = 1;
const STORE_KEY_BYTES: usize = 16;
const STORE_VALUE_BYTES: usize = 100;

const OPERATIONS: [&str; 13] = [
    "get_hit",
    "get_miss",
    "insert",
    "update",
    "upsert",
    "remove",
    "get_many_hit",
    "get_many_miss",
    "insert_many",
    "update_many",
    "remove_many",
    "store_get",
    "store_put",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            println!("{TIMES}");
            for operation in OPERATIONS {
                Engine::ALL.iter().for_each(|engine| println!("{engine} {operation}"));
            }
            Ok(())
        }
        [engine, operation] => {
            let engine = engine.parse().map_err(anyhow::Error::msg)?;
            // The helper works when the scheduler lets it, and locks what the operations lock.
            let capacity = PAIRS + TIMES;
            let options =
                Options::new().engine(engine).capacity(capacity).hash_seed(SEED).helpers(0);
            if operation.starts_with("store_") {
                on_store(&options.in_memory_store()?, operation)
            } else {
                on_table(&options.in_memory_table()?, operation)
            }
        }
        _ => bail!("usage: hot_paths [ENGINE OPERATION]"),
    }
}

/// What is counted: a function of its own, by whose name the counting is switched on and off.
#[inline(never)]
fn counted<T>(operations: impl FnOnce() -> T) -> T {
    operations()
}

/// Numbers of stored keys, from all over the table.
fn stored_numbers() -> impl Iterator<Item = u64> {
    (0..TIMES).map(|time| time * (PAIRS / TIMES))
}

fn on_table(table: &Table<u64, u64>, operation: &str) -> Result<()> {
    let keys = Keys::new(SEED, PAIRS);
    for number in 0..PAIRS {
        let key = keys.key(number);
        table.insert(key, Writer::Insert.value(key))?;
    }
    let is_stored = !operation.contains("miss") && !operation.contains("insert");
    let keys: Vec<u64> = if is_stored {
        stored_numbers().map(|number| keys.key(number)).collect()
    } else {
        (0..TIMES).map(|number| keys.absent(number)).collect()
    };
    let pairs: Vec<(u64, u64)> = keys.iter().map(|&key| (key, Writer::Update.value(key))).collect();
    let mut found = vec![None; keys.len()];
    let found_mut = found.as_mut_slice();
    match operation {
        "get_hit" | "get_miss" => each(&keys, found_mut, move |&key| table.get(key)),
        "insert" => each(&pairs, found_mut, move |&(key, value)| table.insert(key, value)),
        "update" => each(&pairs, found_mut, move |&(key, value)| table.update(key, value)),
        "upsert" => each(&pairs, found_mut, move |&(key, value)| table.put(key, value)),
        "remove" => each(&keys, found_mut, move |&key| table.remove(key)),
        "get_many_hit" | "get_many_miss" => {
            batches(&keys, found_mut, |keys, found| table.get_many_into(keys, found))
        }
        "insert_many" => {
            batches(&pairs, found_mut, |pairs, found| table.insert_many_into(pairs, found))
        }
        "update_many" => {
            batches(&pairs, found_mut, |pairs, found| table.update_many_into(pairs, found))
        }
        "remove_many" => {
            batches(&keys, found_mut, |keys, found| table.remove_many_into(keys, found))
        }
        _ => bail!("there is no operation {operation:?}"),
    }?;
    for (key, found) in keys.into_iter().zip(found) {
        let expected = is_stored.then(|| Writer::Insert.value(key));
        ensure!(found == expected, "{operation} of {key:#x} found {found:?}, not {expected:?}");
    }
    Ok(())
}

fn each<T, R>(
    inputs: &[T],
    found: &mut [Option<R>],
    operation: impl Fn(&T) -> firndex::Result<Option<R>>,
) -> firndex::Result<()> {
    counted(move || {
        for (input, found) in inputs.iter().zip(found) {
            *found = operation(input)?;
        }
        Ok(())
    })
}

fn batches<T, E: Into<firndex::Error>>(
    inputs: &[T],
    found: &mut [Option<u64>],
    operation: impl Fn(&[T], &mut [Option<u64>]) -> std::result::Result<(), E>,
) -> firndex::Result<()> {
    counted(|| {
        for (inputs, found) in inputs.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            operation(inputs, found).map_err(E::into)?;
        }
        Ok(())
    })
}

fn on_store(store: &Store, operation: &str) -> Result<()> {
    let keys = Keys::new(SEED, PAIRS);
    let key_of = |number: u64| {
        let mut bytes = [0; STORE_KEY_BYTES];
        bytes[..8].copy_from_slice(&keys.key(number).to_le_bytes());
        bytes
    };
    let value_of = |key: &[u8; STORE_KEY_BYTES]| [key[0]; STORE_VALUE_BYTES];
    for number in 0..PAIRS {
        let key = key_of(number);
        store.insert(key, value_of(&key))?;
    }
    let keys: Vec<[u8; STORE_KEY_BYTES]> = stored_numbers().map(key_of).collect();
    let new_value = [1; STORE_VALUE_BYTES];
    // A record is looked at at once: as long as it is held, nothing's space is used again.
    let first_byte =
        |record: Option<firndex::Record<'_>>| record.and_then(|record| record.first().copied());
    let mut found = vec![None; keys.len()];
    match operation {
        "store_get" => each(&keys, &mut found, move |key| store.get(key).map(first_byte)),
        "store_put" => {
            each(&keys, &mut found, move |key| store.put(key, new_value).map(first_byte))
        }
        _ => bail!("there is no operation {operation:?}"),
    }?;
    for (key, found) in keys.into_iter().zip(found) {
        let expected = Some(key[0]);
        ensure!(found == expected, "{operation} of {key:x?} found {found:?}, not {expected:?}");
    }
    Ok(())
}
