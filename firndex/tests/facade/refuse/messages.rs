//! Every public error says what was found, what was expected and a way on, and says nothing twice.

use firndex::{
    Corrupt, Displaced, Error, ItemError, LogError, OpenError, Options, SpaceError, Table,
};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a user is told to do begins with one of these.
const WAYS: [&str; 26] = [
    "ask for",
    "choose",
    "close it",
    "copy",
    "create",
    "free",
    "keep",
    "leave it out",
    "make",
    "mend",
    "mount",
    "move",
    "name",
    "open",
    "put",
    "raise",
    "remove",
    "restore",
    "run",
    "share",
    "store it in parts",
    "use",
    "try again",
    "do again once",
    "do it again",
    "end it",
];

fn path() -> PathBuf {
    "/some/pool".into()
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// What the system calls it.
const REFUSED: &str = "Input/output error";

/// Each variant with what its message has to tell.
fn open_errors() -> Vec<(&'static str, OpenError, Vec<&'static str>)> {
    let (found, advice) = (|| String::from("what was found"), "use another one");
    let io = |kind: io::ErrorKind| io::Error::from(kind);
    vec![
        ("Exists", OpenError::Exists { path: path() }, vec!["/some/pool", "exists"]),
        ("Missing", OpenError::Missing { path: path() }, vec!["/some/pool", "no pool"]),
        ("NoDirectory", OpenError::NoDirectory { path: path() }, vec!["/some/pool", "directory"]),
        (
            "NotAFile",
            OpenError::NotAFile { path: path(), found: "a socket" },
            vec!["a socket", "regular"],
        ),
        (
            "NotAPool",
            OpenError::NotAPool { found: found(), advice },
            vec!["what was found", advice],
        ),
        ("Damaged", OpenError::Damaged { found: found() }, vec!["what was found", "both copies"]),
        (
            "Truncated",
            OpenError::Truncated { found_bytes: 17, expected_bytes: 99 },
            vec!["17", "99"],
        ),
        (
            "Mismatch",
            OpenError::Mismatch {
                field: "kind",
                found: "table".into(),
                expected: "store".into(),
                advice,
            },
            vec!["kind", "table", "expected store", advice],
        ),
        (
            "Busy",
            OpenError::Busy { path: path(), advice: "close it there first" },
            vec!["/some/pool", "another process"],
        ),
        (
            "AlreadyOpen",
            OpenError::AlreadyOpen { path: path() },
            vec!["/some/pool", "this process"],
        ),
        ("Dirty", OpenError::Dirty { found: found(), advice }, vec!["what was found", advice]),
        ("NeedsRecovery", OpenError::NeedsRecovery, vec!["not closed"]),
        (
            "NotWritable",
            OpenError::NotWritable {
                path: path(),
                needs_recovery: false,
                source: io(io::ErrorKind::PermissionDenied),
            },
            vec!["/some/pool", "permission denied"],
        ),
        (
            "NotWritable",
            OpenError::NotWritable {
                path: path(),
                needs_recovery: true,
                source: io(io::ErrorKind::ReadOnlyFilesystem),
            },
            vec!["/some/pool", "recovery"],
        ),
        (
            "NoDax",
            OpenError::NoDax { path: path(), source: refused() },
            vec!["/some/pool", REFUSED],
        ),
        ("Unsupported", OpenError::Unsupported { missing: "flying" }, vec!["flying"]),
        ("Corrupt", OpenError::Corrupt { found: found() }, vec!["what was found"]),
        ("Miscounted", OpenError::Miscounted { found: 17, expected: 99 }, vec!["17", "99"]),
        (
            "NotRestored",
            OpenError::NotRestored {
                path: path(),
                state: "is missing",
                found: found(),
                advice: ", or do another thing".into(),
            },
            vec!["/some/pool is missing", "what was found", "or do another thing"],
        ),
        (
            "ForeignLog",
            OpenError::ForeignLog { path: path(), found: 0xabc },
            vec!["/some/pool", "abc"],
        ),
        (
            "InTheWay",
            OpenError::InTheWay { path: path(), found: found() },
            vec!["/some/pool", "what was found"],
        ),
        ("BusyLog", OpenError::BusyLog { path: path() }, vec!["/some/pool"]),
        ("NoLogDirectory", OpenError::NoLogDirectory { path: path() }, vec!["/some/pool"]),
        (
            "NoRightToLog",
            OpenError::NoRightToLog { path: path(), source: refused() },
            vec!["/some/pool", REFUSED, "process"],
        ),
        (
            "NameTooLong",
            OpenError::NameTooLong { path: path(), found_bytes: 252, expected_bytes: 250 },
            vec!["/some/pool", "252", "250"],
        ),
        (
            "OthersFile",
            OpenError::OthersFile { path: path(), owner: "user 7".into(), caller: "user 8".into() },
            vec!["/some/pool", "user 7", "user 8"],
        ),
        (
            "LeftLog",
            OpenError::LeftLog { path: path(), companions: path() },
            vec!["restores", "remove"],
        ),
        ("LogElsewhere", OpenError::LogElsewhere { path: path() }, vec!["/some/pool"]),
        ("Log", OpenError::Log(LogError::Closed), vec!["closed"]),
        (
            "Space",
            OpenError::Space(SpaceError::Full { needed_bytes: 17, reason: "free some".into() }),
            vec!["17"],
        ),
        (
            "Io",
            OpenError::Io { action: "reading", path: path(), source: refused() },
            vec!["reading", "/some/pool", REFUSED],
        ),
    ]
}

fn errors() -> Vec<(&'static str, Error, Vec<&'static str>)> {
    let full = SpaceError::Full { needed_bytes: 17, reason: "the disk is full".into() };
    vec![
        ("Open", Error::Open(OpenError::NeedsRecovery), vec!["not closed"]),
        ("PoolFull", Error::PoolFull(full), vec!["17", "the disk is full"]),
        (
            "Corrupt",
            Error::Corrupt(Corrupt { at: pmem::Offset(64), found: "a hole".into() }),
            vec!["a hole"],
        ),
        ("Limit", Error::Limit(ItemError::KeyTooLong { found: 99, limit: 17 }), vec!["99", "17"]),
        (
            "PairSizes",
            Error::PairSizes {
                engine: "this",
                takes: "words",
                key_bytes: 17,
                value_bytes: 99,
                advice: "use the engine that".into(),
            },
            vec!["this", "words", "17", "99", "use the engine that"],
        ),
        (
            "Parameter",
            Error::Parameter {
                engine: "this",
                name: "slots".into(),
                value: 99,
                exists: true,
                advice: "leave it out".into(),
            },
            vec!["`slots` cannot be 99 on this", "leave it out"],
        ),
        (
            "Parameter",
            Error::Parameter {
                engine: "this",
                name: "slots".into(),
                value: 99,
                exists: false,
                advice: "leave it out".into(),
            },
            vec!["this has no parameter `slots`", "leave it out"],
        ),
        (
            "OutOfRange",
            Error::OutOfRange {
                option: "resize_at",
                found: "NaN".into(),
                expected: "0.1 or more".into(),
            },
            vec!["Options::resize_at", "NaN", "expected 0.1 or more"],
        ),
        (
            "Value",
            Error::Value { action: "read", type_name: "u32", found: "1 bytes".into() },
            vec!["read", "u32", "1 bytes"],
        ),
        (
            "Log",
            Error::Log(LogError::Io {
                action: "writing",
                path: path(),
                source: Arc::new(refused()),
            }),
            vec!["writing", "/some/pool", REFUSED],
        ),
        ("NotLogged", Error::NotLogged, vec!["process", "Options::durability"]),
        ("ReadOnly", Error::ReadOnly, vec!["read-only"]),
        (
            "TooLarge",
            Error::TooLarge { found: 999, limit: 500 },
            vec!["999 bytes", "at most 500", "give the cache more"],
        ),
        ("CacheHeld", Error::CacheHeld, vec!["still held", "drop the `Record`s"]),
        ("Forked", Error::Forked, vec!["forked", "Options::guests"]),
        ("Interrupted", Error::Interrupted, vec!["done or not", "do it again"]),
        (
            "Silent",
            Error::Silent { process: 17, waited: Duration::from_secs(99) },
            vec!["process 17, which owns the pool,", "99.0 s", "Options::patience"],
        ),
        (
            "Silent",
            Error::Silent { process: 0, waited: Duration::from_secs(99) },
            vec!["the process that owns the pool has not answered"],
        ),
        (
            "Owner",
            Error::Owner { found: "it has 17 scans: use fewer".into() },
            vec!["could not do it", "17 scans"],
        ),
        (
            "ForOwner",
            Error::ForOwner { what: "`check`", advice: "close it there first" },
            vec!["`check`", "a guest", "close it there first"],
        ),
        (
            "Vanished",
            Error::Vanished { file_bytes: 4096, pool_bytes: 65536 },
            vec!["4096", "65536", "truncated", "Salvage::open(POOL)"],
        ),
        (
            "Vanished",
            Error::Vanished { file_bytes: 65536, pool_bytes: 65536 },
            vec!["65536", "device failed", "Salvage::open(POOL)"],
        ),
        ("Io", Error::Io { action: "syncing", source: refused() }, vec!["syncing", REFUSED]),
    ]
}

/// What is found inside of others.
fn parts() -> Vec<(&'static str, Box<dyn std::error::Error>, Vec<&'static str>)> {
    let io = || Arc::new(refused());
    let full = || Arc::new(io::Error::from(io::ErrorKind::StorageFull));
    vec![
        (
            "Io",
            Box::new(SpaceError::Io { needed_bytes: 17, source: refused() }),
            vec!["17", REFUSED],
        ),
        (
            "Full",
            Box::new(SpaceError::Full { needed_bytes: 17, reason: "the disk is full".into() }),
            vec!["17", "the disk is full"],
        ),
        (
            "NoRoom",
            Box::new(SpaceError::NoRoom { needed_bytes: 17, reason: "free some".into() }),
            vec!["17", "new pool", "free some"],
        ),
        (
            "Crowded",
            Box::new(SpaceError::Crowded { pairs: 17, slots: 99 }),
            vec!["99 slots for 17 pairs", "another seed"],
        ),
        (
            "Full",
            Box::new(LogError::Full { path: path(), source: full() }),
            vec!["/some/pool", "free space"],
        ),
        (
            "Io",
            Box::new(LogError::Io { action: "writing", path: path(), source: io() }),
            vec![REFUSED],
        ),
        (
            "Displaced",
            Box::new(LogError::Displaced {
                displaced: Displaced { path: path(), found: "was moved or removed" },
            }),
            vec!["/some/pool", "moved or removed"],
        ),
        ("InTheWay", Box::new(LogError::InTheWay { path: path() }), vec!["/some/pool"]),
        (
            "NoThread",
            Box::new(LogError::NoThread { source: io() }),
            vec!["thread", "ulimit -u", REFUSED],
        ),
        ("Closed", Box::new(LogError::Closed), vec!["closed"]),
        (
            "ValueTooLong",
            Box::new(ItemError::ValueTooLong { found: 99, limit: 17 }),
            vec!["99", "17"],
        ),
        ("KeyTooLong", Box::new(ItemError::KeyTooLong { found: 99, limit: 17 }), vec!["99", "17"]),
        ("TooManyCollisions", Box::new(ItemError::TooManyCollisions { limit: 17 }), vec!["17"]),
    ]
}

/// `main` and `unwrap` show the message and the name; `{:#?}` the fields.
fn shows(name: &str, error: &dyn std::error::Error) {
    let message = error.to_string();
    let shown = format!("{error:?}");
    let behind = shown.strip_prefix(&message).unwrap_or_else(|| panic!("{name} shows {shown}"));
    assert!(behind.starts_with(" [") && behind.ends_with(']'), "{name}: {behind}");
    assert!(behind.contains(&format!("::{name}")), "{name}: {behind}");
    let fields = format!("{error:#?}");
    assert!(fields.contains(name) && !fields.contains(&message), "{name}: {fields}");
}

fn holds(name: &str, error: &dyn std::error::Error, says: &[&str]) {
    let message = error.to_string();
    for part in says {
        assert!(message.contains(part), "{name} does not say {part:?}: {message}");
    }
    assert!(WAYS.iter().any(|way| message.contains(way)), "{name} tells no way on: {message}");
    // A program cannot type.
    for typed in ["firndex salvage", "firndex create", "--"] {
        assert!(!message.contains(typed), "{name} tells a program to type: {message}");
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        assert!(!message.contains(&error.to_string()), "{name} says its cause twice: {message}");
        cause = error.source();
    }
}

#[test]
fn every_error_says_what_was_found_and_a_way_on_and_nothing_twice() {
    for (name, error, says) in open_errors() {
        holds(name, &error, &says);
        shows(name, &error);
        holds(name, &Error::from(error), &says);
    }
    for (name, error, says) in errors() {
        holds(name, &error, &says);
        shows(name, &error);
    }
    for (name, error, says) in parts() {
        holds(name, error.as_ref(), &says);
        shows(name, error.as_ref());
    }
}

#[test]
fn what_main_returns_is_shown_as_text_with_its_name() {
    let missing = Error::from(OpenError::Missing { path: "nope.firn".into() });
    let shown = format!("{missing:?}");
    let text = "there is no pool at nope.firn; create it first, or open it with `open_or_create`";
    assert_eq!(shown, format!("{text} [Error::Open(OpenError::Missing)]"));
    let fields: String = format!("{missing:#?}").split_whitespace().collect();
    assert_eq!(fields, r#"Open(Missing{path:"nope.firn",},)"#);

    let crowded = SpaceError::Crowded { pairs: 1, slots: 2 };
    let within = Error::from(ItemError::from(crowded));
    let shown = format!("{within:?}");
    assert!(shown.ends_with(" [Error::Limit(ItemError::Space(SpaceError::Crowded))]"), "{shown}");

    let small: Table = Options::new().max_bytes(1 << 20).in_memory_table().unwrap();
    let pairs: Vec<(u64, u64)> = (0..100_000).map(|n| (n, n)).collect();
    let failed = small.put_many(&pairs).unwrap_err();
    let shown = format!("{failed:?}");
    assert!(shown.starts_with(&failed.to_string()), "{shown}");
    assert!(shown.ends_with(" [BatchError of Error::PoolFull(SpaceError::Full)]"), "{shown}");
    assert!(format!("{failed:#?}").contains("entries: 100000"));
}

/// Names of the variants of an enum in a source.
fn variants(source: &str, of: &str) -> BTreeSet<String> {
    let body =
        source.split_once(&format!("pub enum {of} {{\n")).unwrap().1.split_once("\n}").unwrap().0;
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    names
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned())
        .collect()
}

/// A new error must be put on trial above.
#[test]
fn no_error_is_forgotten() {
    fn names<T>(tried: Vec<(&str, T, Vec<&str>)>) -> BTreeSet<String> {
        tried.into_iter().map(|(name, ..)| name.to_owned()).collect()
    }
    let facade = variants(include_str!("../../../src/error.rs"), "Error");
    assert_eq!(facade, names(errors()));
    let opening = variants(include_str!("../../../../pmem/src/error.rs"), "OpenError");
    assert_eq!(opening, names(open_errors()));
    let (space, log, item) = (
        variants(include_str!("../../../../pmem/src/space_error.rs"), "SpaceError"),
        variants(include_str!("../../../../pmem/src/durability/error.rs"), "LogError"),
        variants(include_str!("../../../../index/src/error.rs"), "ItemError"),
    );
    // Those of an item that are others' are tried as such. What another process has said is an error of its.
    let others = ["Space", "Corrupt", "Other", "Told"].map(str::to_owned);
    let others = BTreeSet::from(others);
    let all: BTreeSet<_> = space.into_iter().chain(log).chain(item).collect();
    assert_eq!(&all - &others, names(parts()));
}
