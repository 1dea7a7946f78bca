//! Files of others in the pool's directory: never changed, renamed or removed.

use crate::disk::{Handle, SimulatedDisk, State, UUID};
use crate::pool::{Pool, WORDS};
use pmem::durability::{Config, LogError, Sizes, Steps};
use pmem::line_log::LineLog;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

type Files = BTreeMap<String, Vec<u8>>;

/// What begins as a file of the pool's does, and belongs to another one.
fn of_another_pool(magic: &[u8; 8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend((UUID + 1).to_le_bytes());
    bytes.resize(32 << 10, 9);
    bytes
}

fn begin(disk: &Arc<SimulatedDisk>) -> Result<(Arc<Pool>, Steps), LogError> {
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let config = Config {
        disk: Arc::new(Handle(Arc::clone(disk))),
        uuid: UUID,
        interval: Duration::ZERO,
        checkpoint_bytes_min: Some(1 << 14),
        is_in_doubt: false,
        clock: SystemTime::now,
    };
    let sizes =
        Sizes { segment_min: 16 << 10, segment_max: 16 << 10, chunk: 4096, rest: 0, lines_min: 40 };
    let steps = Steps::begin(config, sizes, log, Arc::clone(&pool) as _)?;
    Ok((pool, steps))
}

/// A disk with these files that fails as soon as one of them is touched.
fn guarded(files: &Files) -> Arc<SimulatedDisk> {
    let disk = SimulatedDisk::of(4096, files.clone());
    let files = files.clone();
    disk.observe(Some(Box::new(move |state: &State| {
        for (name, content) in &files {
            assert_eq!(state.content(name).as_ref(), Some(content), "{name}");
        }
    })));
    disk
}

#[test]
fn segments_of_others_are_left_alone() {
    let named = |(name, content): (&str, Vec<u8>)| (name.to_owned(), content);
    let files: Files = [
        ("log.1", b"an application's log".to_vec()),
        ("log.2", of_another_pool(b"FIRNSEG\0")),
        ("log.5", vec![0; 8192]),
        ("log.20261127", vec![7; 100]),
        ("log.18446744073709551615", b"a number too large".to_vec()),
        ("log.1.gz", vec![1; 5000]),
        ("checkpoint.2", of_another_pool(b"FIRNSAFE")),
        ("identity.bak", vec![3; 56]),
    ]
    .map(named)
    .into();
    let disk = guarded(&files);
    for _ in 0..3 {
        let (pool, steps) = begin(&disk).unwrap();
        for value in 1..60 {
            pool.operate(value);
            let _ = steps.flush();
            steps.keep().unwrap();
        }
    }
    let state = disk.state();
    assert!(state.files().len() < files.len() + 8, "{:?}", state.files());
}

#[test]
fn who_has_the_name_of_a_checkpoint_or_of_the_reserve_is_told() {
    // Behind the last one there is no number for a segment.
    let names = ["checkpoint.0", "checkpoint.1", "log.reserve", "log.9223372036854775807"];
    for name in names {
        for content in [b"precious".to_vec(), of_another_pool(b"FIRNROOM"), vec![0; 8192]] {
            let disk = guarded(&[(name.to_owned(), content)].into());
            let refused = begin(&disk).map(drop).unwrap_err();
            let LogError::InTheWay { path } = &refused else { panic!("{refused}") };
            assert!(path.ends_with(name), "{refused}");
        }
    }
}
