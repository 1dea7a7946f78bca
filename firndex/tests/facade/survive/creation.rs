//! Creation killed at any moment leaves no file or a working pool.

use crate::superblocks::PREFERRED;
use crate::{places, processes};
use firndex::{Engine, Options};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use workload::Random;

const BEGUN: u8 = 0xef;
const MADE: u8 = 0xee;
const KILLS: u64 = 15;

/// Tables and stores take turns, and so do the engines under each.
fn engine(number: u64) -> Engine {
    Engine::ALL[(number / 2) as usize % Engine::ALL.len()]
}

fn options(number: u64) -> Options {
    let capacity = if number.is_multiple_of(3) { 50_000 } else { 0 };
    Options::new().engine(engine(number)).capacity(capacity)
}

/// A role: makes numbered pools, stores where the number is odd, and uses each a little. Tells of each.
pub(crate) fn create_pools(directory: &Path) {
    let mut output = processes::unbuffered_output();
    output.write_all(&[BEGUN]).unwrap();
    for number in 0u64.. {
        let path = directory.join(number.to_string());
        if number % 2 == 0 {
            options(number).create_table(&path).unwrap().put(number, 1).unwrap();
        } else {
            options(number).create_store(&path).unwrap().put("number", "1").unwrap();
        }
        output.write_all(&[MADE]).unwrap();
    }
}

fn works(path: &Path, number: u64) {
    if number.is_multiple_of(2) {
        let table = options(number).open_table(path).unwrap();
        assert!(table.check().unwrap().is_sound());
        assert!(matches!(table.put(number, 2).unwrap(), None | Some(1)));
        assert_eq!((table.get(number).unwrap(), table.len()), (Some(2), 1));
    } else {
        let store = options(number).open_store(path).unwrap();
        assert!(store.check().unwrap().is_sound());
        let before = store.put("number", "2").unwrap();
        assert!(before.is_none_or(|before| before == "1"));
        assert_eq!(store.get("number").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.len(), 1);
    }
}

/// Kills within `pause_us` microseconds, about as long as it takes to make a pool, after some pools.
fn kill_creators(in_directory: fn() -> tempfile::TempDir, pause_us: u64) {
    let (mut created, mut told) = (0, 0);
    for round in 1..=KILLS {
        let directory = in_directory();
        let mut command = processes::process("create pools", PREFERRED, directory.path(), 0);
        let mut creator = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = creator.stdout.take().unwrap();
        let mut byte = [0];
        while byte != [BEGUN] {
            output.read_exact(&mut byte).unwrap();
        }
        let mut made = vec![0; round as usize % 4];
        output.read_exact(&mut made).unwrap();
        told += made.len();
        // Somewhere in the next one: where, the clock chooses, and nothing depends on it.
        std::thread::sleep(Duration::from_micros(Random::new(round).below(pause_us)));
        creator.kill().unwrap();
        creator.wait().unwrap();
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            // The directory of a pool that is there: that was named first.
            if let Some(pool) = name.strip_suffix(".safe") {
                assert!(directory.path().join(pool).exists(), "{name} has no pool");
                continue;
            }
            let number = name.parse().unwrap_or_else(|_| panic!("{name} was left behind"));
            works(&directory.path().join(name), number);
            created += 1;
        }
    }
    assert!(created >= told && told > 3, "{created} and {told} pools were created");
}

#[test]
fn killed_in_memory() {
    kill_creators(places::in_ram, 5_000);
}

#[test]
fn killed_on_a_disk() {
    kill_creators(places::on_disk, 30_000);
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    for &engine in Engine::ALL {
        let options = Options::new().engine(engine);
        // The last ends amid the first extents.
        for max_bytes in [8192, 8200] {
            let options = options.clone().max_bytes(max_bytes);
            let table = options.create_table(&path).map(drop).unwrap_err();
            let store = options.open_or_create_store(&path).map(drop).unwrap_err();
            for error in [table, store] {
                assert!(matches!(error, firndex::Error::PoolFull(_)), "{error:?}");
                let says = error.to_string();
                assert!(says.contains(&format!("limit is {max_bytes} bytes")), "{says}");
                assert!(says.contains("no room for the new pool"), "{says}");
                assert!(!says.contains("remove"), "there is nothing to remove: {says}");
            }
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
        // Not on a disk: it would be full for a moment, and other tests refused.
        let in_ram = places::in_ram();
        let error = options.capacity(1 << 40).create_table(in_ram.path().join("pool")).unwrap_err();
        assert!(matches!(error, firndex::Error::PoolFull(_)), "{error:?}");
    }
    let error = Options::new().medium(firndex::Medium::Dax).create_table(&path).unwrap_err();
    assert!(error.to_string().contains("use the medium `mapped`"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
