//! Core files.

use crate::roles;
use firndex::{Engine, Options, Store, Table};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

const MB: u64 = 1 << 20;
/// More than stacks and the allocator's own take.
const CORE_BYTES_MAX: u64 = 64 * MB;
const VALUE: &str = "value";

fn pools(directory: &Path) -> (Vec<Table>, Vec<Store>) {
    let make = |engine: &Engine| {
        let options = Options::new().engine(*engine);
        let table = options.create_table(directory.join(format!("{engine} table"))).unwrap();
        table.put(1, 1).unwrap();
        let store = options.create_store(directory.join(format!("{engine} store"))).unwrap();
        store.put("key", VALUE).unwrap();
        (table, store)
    };
    Engine::ALL.iter().map(make).unzip()
}

/// A role: ends with a core file, if the system writes any.
pub(crate) fn dump(directory: &Path) {
    let _pools = pools(directory);
    let memory = Options::new().in_memory_store().unwrap();
    memory.put("key", vec![1; 2 * CORE_BYTES_MAX as usize]).unwrap();
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: maximum, maximum }).unwrap();
    std::process::abort();
}

#[test]
fn a_core_has_no_pools() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ended = roles::process("dump", directory.path(), 0).current_dir(&directory).output();
    assert!(!ended.unwrap().status.success());
    let cores = std::fs::read_dir(&directory).unwrap().map(Result::unwrap);
    let mut cores = cores.filter(|entry| entry.file_name().to_string_lossy().starts_with("core"));
    let Some(core) = cores.next() else {
        eprintln!("skipped: the system writes no core file into the process's directory");
        return;
    };
    let bytes = core.metadata().unwrap().len();
    assert!(bytes < CORE_BYTES_MAX, "{bytes}");
}

/// The same, as the kernel tells it: for machines that write no cores.
#[test]
fn large_ranges_are_kept_out_of_cores() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pools = pools(directory.path());
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut large, mut dumped, mut bytes) = (0, Vec::new(), 0);
    for line in maps.lines() {
        if let Some(kb) = line.strip_prefix("Size:") {
            bytes = kb.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        }
        let Some(flags) = line.strip_prefix("VmFlags:") else { continue };
        let flags: Vec<&str> = flags.split(' ').collect();
        if bytes >= CORE_BYTES_MAX && (flags.contains(&"wr") || flags.contains(&"dd")) {
            large += 1;
            if !flags.contains(&"dd") {
                dumped.push(bytes);
            }
        }
    }
    assert!(large > 0 && dumped.is_empty(), "{large}: {dumped:?}");
    drop(pools);
}
