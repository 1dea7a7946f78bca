//! What processes do with a pool, and what has to be there whenever the power fails.

use crate::device::{Moment, RETURNED, copy_files};
use crate::in_ram;
use firndex::{Durability, Error, Existing, OpenError, Options, Table, Verified};
use std::path::Path;

/// A process with a pool.
pub(crate) struct Life {
    pub(crate) name: &'static str,
    /// Makes what it finds.
    pub(crate) begin: fn(&Path),
    /// What it does, in the directory.
    pub(crate) live: fn(&Path),
    /// Judges what a device has at a moment.
    pub(crate) judge: fn(&Path, Moment),
    /// How many there are.
    pub(crate) steps: u64,
}

pub(crate) const LIVES: &[Life] = &[
    Life {
        name: "commits",
        begin: nothing,
        live: |directory| {
            let table = create(directory, Durability::Commit);
            puts(&table, 1..=COMMITS);
            close(table);
            let table = reopen(directory);
            puts(&table, COMMITS + 1..=COMMITS + 3);
            close(table);
        },
        judge: |image, Moment { returned, .. }| {
            let puts = returned.saturating_sub(1).min(COMMITS)
                + returned.saturating_sub(COMMITS + 3).min(3);
            has_at_least(image, puts);
        },
        steps: COMMITS + 7,
    },
    Life {
        name: "has its log elsewhere",
        begin: another_directory,
        live: |directory| {
            let options = options().durability(Durability::Commit);
            let options = options.log_directory(directory.join(LOGS));
            let table = options.create_table(directory.join(POOL)).unwrap();
            returned();
            puts(&table, 1..=3);
            close(table);
            let table = options.open_table(directory.join(POOL)).unwrap();
            returned();
            puts(&table, 4..=6);
            close(table);
        },
        judge: |image, Moment { returned, .. }| {
            let puts = returned.saturating_sub(1).min(3) + returned.saturating_sub(6).min(3);
            let options = options().log_directory(image.join(LOGS));
            has_at_least_with(&options, image, puts);
        },
        steps: 10,
    },
    Life {
        name: "is synced with a log",
        begin: nothing,
        live: |directory| {
            let table = create(directory, Durability::Periodic);
            syncs(&table, 1..=5);
            close(table);
        },
        judge: |image, Moment { returned, .. }| {
            has_at_least(image, 10 * returned.saturating_sub(1).min(5));
        },
        steps: 7,
    },
    Life {
        name: "has no log",
        begin: nothing,
        live: |directory| {
            let table = create(directory, Durability::Process);
            syncs(&table, 1..=2);
            // Not synced: after it, power loss leaves a pool that is refused.
            puts(&table, 21..=21);
            close(table);
            let table = reopen(directory);
            puts(&table, 22..=22);
            close(table);
        },
        judge: |image, Moment { returned, is_between }| {
            // Created, two syncs, a change, closed, opened, a change, closed.
            let puts = [0, 0, 10, 20, 21, 21, 21, 22, 22][returned as usize];
            // Closed or synced, it is whole.
            if is_between && [2, 3, 5, 8].contains(&returned) {
                return has_at_least(image, puts);
            }
            is_refused_or_has_at_least(image, puts);
        },
        steps: 8,
    },
    Life {
        name: "has lost its file",
        begin: |directory| {
            in_use(directory);
            std::fs::remove_file(directory.join(POOL)).unwrap();
        },
        live: |directory| {
            // While it is restored, the kernel may write anything back.
            let options = options().restore_progress(|_, _| looked());
            let table = options.open_table(directory.join(POOL)).unwrap();
            returned();
            puts(&table, 11..=12);
            close(table);
        },
        judge: |image, Moment { returned, .. }| {
            has_at_least(image, 10 + returned.saturating_sub(1).min(2))
        },
        steps: 4,
    },
    Life {
        name: "has an outdated file",
        begin: in_use,
        live: |directory| {
            let table = reopen(directory);
            puts(&table, 11..=12);
            close(table);
        },
        judge: |image, Moment { returned, .. }| {
            has_at_least(image, 10 + returned.saturating_sub(1).min(2))
        },
        steps: 4,
    },
    Life {
        name: "is backed up",
        begin: in_use,
        live: |directory| {
            let table = reopen(directory);
            table.backup(directory.join(COPY), Existing::Keep).unwrap();
            returned();
            puts(&table, 11..=11);
            table.backup(directory.join(COPY), Existing::Replace).unwrap();
            returned();
        },
        judge: |image, Moment { returned, .. }| {
            has_at_least(image, 10 + returned.saturating_sub(2).min(1));
            has_a_copy(image, returned > 1, 10 + u64::from(returned > 3));
        },
        steps: 4,
    },
    Life {
        name: "is copied",
        begin: nothing,
        live: |directory| {
            let table = create(directory, Durability::Process);
            syncs(&table, 1..=1);
            let options = Options::new().durability(Durability::Commit).helpers(0);
            table.convert(directory.join(COPY), Existing::Keep, &options).unwrap();
            returned();
            let copy = options.open_table(directory.join(COPY)).unwrap();
            returned();
            copy.close().unwrap();
            table.convert(directory.join(COPY), Existing::Replace, &options).unwrap();
            returned();
        },
        judge: |image, Moment { returned, is_between }| {
            // While it is opened for the first time, it is marked as in use before it has a log.
            if returned != 3 || is_between {
                has_a_copy(image, returned > 2, 10);
            }
        },
        steps: 5,
    },
    Life {
        name: "is rewritten",
        begin: closed,
        live: |directory| {
            let table = reopen(directory);
            table.rewrite().unwrap().unwrap();
            returned();
            let table = reopen(directory);
            puts(&table, 11..=11);
            close(table);
        },
        judge: |image, Moment { returned, .. }| {
            has_at_least(image, 10 + returned.saturating_sub(3).min(1))
        },
        steps: 5,
    },
    Life {
        name: "is rewritten without a log",
        begin: |directory| {
            let options = options().durability(Durability::Process);
            let table = options.create_table(directory.join(POOL)).unwrap();
            (1..=10).for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
            table.close().unwrap();
        },
        live: |directory| {
            let table = reopen(directory);
            table.rewrite().unwrap().unwrap();
            returned();
            let table = reopen(directory);
            puts(&table, 11..=11);
            close(table);
        },
        judge: |image, Moment { returned, is_between }| {
            let puts = 10 + returned.saturating_sub(3).min(1);
            if is_between && [2, 5].contains(&returned) {
                return has_at_least(image, puts);
            }
            is_refused_or_has_at_least(image, puts);
        },
        steps: 5,
    },
    Life {
        name: "keeps sums",
        begin: nothing,
        live: |directory| {
            let options = Options::new().durability(Durability::Process).helpers(0);
            for round in 1..=2 {
                let options = options.clone().keep_sums(true);
                let table = options.open_or_create_table(directory.join(POOL)).unwrap();
                puts(&table, round..=round);
                close(table);
            }
        },
        judge: |image, Moment { returned, is_between }| {
            let verified = firndex::verify(image.join(POOL));
            let is_damaged = matches!(verified, Ok(Verified::Damaged { .. }));
            assert!(!is_damaged, "after {returned} steps: {verified:?}");
            let is_closed = is_between && [2, 4].contains(&returned);
            let is_sound = matches!(verified, Ok(Verified::Sound { .. }));
            assert!(is_sound || !is_closed, "after {returned} steps: {verified:?}");
        },
        steps: 4,
    },
    Life {
        name: "ends its log",
        begin: in_use,
        live: |directory| {
            close(reopen(directory));
            let options = Options::new().durability(Durability::Process).helpers(0);
            let table = options.open_table(directory.join(POOL)).unwrap();
            returned();
            puts(&table, 11..=11);
            close(table);
            close(reopen(directory));
        },
        judge: |image, Moment { returned, .. }| {
            let puts = 10 + u64::from(returned > 3);
            if returned < 2 {
                has_at_least(image, puts)
            } else {
                is_refused_or_has_at_least(image, puts)
            }
        },
        steps: 7,
    },
];

const POOL: &str = "pool";
const COPY: &str = "copy";
const LOGS: &str = "logs";
/// Enough for some segments of a log, in which each takes a page.
const COMMITS: u64 = 80;

/// Says that a step has returned.
fn returned() {
    // Not through a buffer.
    assert_eq!(rustix::io::write(std::io::stdout(), RETURNED), Ok(RETURNED.len()));
}

/// Lets the files be looked at as they are now.
fn looked() {
    assert_eq!(rustix::io::write(std::io::stdout(), b"."), Ok(1));
}

fn nothing(_: &Path) {}

/// A directory for the log.
fn another_directory(directory: &Path) {
    std::fs::create_dir(directory.join(LOGS)).unwrap();
}

fn options() -> Options {
    Options::new().helpers(0).threads(1).checkpoint_at(1 << 16)
}

fn create(directory: &Path, durability: Durability) -> Table {
    let table = options().durability(durability).create_table(directory.join(POOL)).unwrap();
    returned();
    table
}

fn reopen(directory: &Path) -> Table {
    let table = options().open_table(directory.join(POOL)).unwrap();
    returned();
    table
}

fn puts(table: &Table, keys: std::ops::RangeInclusive<u64>) {
    for key in keys {
        table.put(key, key).unwrap();
        returned();
    }
}

/// Ten changes, and then a sync.
fn syncs(table: &Table, rounds: std::ops::RangeInclusive<u64>) {
    for round in rounds {
        (10 * round - 9..=10 * round)
            .for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
        table.sync().unwrap();
        returned();
    }
}

fn close(table: Table) {
    table.close().unwrap();
    returned();
}

/// A pool of ten pairs as power loss leaves it amid its use.
fn in_use(directory: &Path) {
    let elsewhere = in_ram();
    let path = elsewhere.path().join(POOL);
    // No checkpoint comes between its files when they are copied.
    let options = options().checkpoint_at(1 << 40);
    let table = options.durability(Durability::Commit).create_table(&path).unwrap();
    (1..=10).for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
    copy_files(elsewhere.path(), directory).unwrap();
}

/// The same pool after it was closed.
fn closed(directory: &Path) {
    in_use(directory);
    options().open_table(directory.join(POOL)).unwrap().close().unwrap();
}

/// The pairs of a table, which is in order.
fn pairs(table: &Table) -> u64 {
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let pairs = table.len();
    assert!((1..=pairs).all(|key| table.get(key).unwrap() == Some(key)), "not the first {pairs}");
    pairs
}

fn at_least(table: &Table, puts: u64) {
    let found = pairs(table);
    assert!(found >= puts, "{found} pairs of {puts} are there");
}

/// Whatever else was lost, these changes were not.
fn has_at_least(image: &Path, puts: u64) {
    has_at_least_with(&options(), image, puts);
}

fn has_at_least_with(options: &Options, image: &Path, puts: u64) {
    let path = image.join(POOL);
    let opened = match puts {
        // It may not have been created yet.
        0 => options.open_or_create_table(path),
        _ => options.open_table(path),
    };
    at_least(&opened.unwrap_or_else(|error| panic!("{puts} pairs: {error}")), puts);
}

/// As above, or the pool is refused because it was in use.
fn is_refused_or_has_at_least(image: &Path, puts: u64) {
    let in_use = |error: &Error| matches!(error, Error::Open(OpenError::Dirty { .. }));
    match options().open_table(image.join(POOL)) {
        Ok(table) => at_least(&table, puts),
        Err(Error::Open(OpenError::Missing { .. })) if puts == 0 => {}
        Err(error) => assert!(in_use(&error), "{puts} pairs: {error}"),
    }
}

/// The copy is there if it `must` be; if so, whole.
fn has_a_copy(image: &Path, must: bool, puts: u64) {
    let path = image.join(COPY);
    let opened = match options().open_table(&path) {
        Err(Error::Open(OpenError::Missing { .. })) if !must => return,
        opened => opened,
    };
    at_least(&opened.unwrap_or_else(|error| panic!("the copy: {error}")), puts);
}
