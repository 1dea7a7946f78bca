//! Mutated pools: opened, read, changed, checked and salvaged.

use crate::choices::Choices;
use crate::mutant::Mutant;
use crate::seeds::{SIZE_MAX_BYTES, in_ram, options};
use crate::subject::{Form, Pair, Subject};
use firndex::{Existing, Orphans, Result, Salvage};
use pmem::file::PoolFile;
use pmem::superblock::Place;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;

/// Where a thread's mutants are files, one after the other: of one file, so that what says where it is can be true.
struct Scratch {
    _directory: TempDir,
    pool: PathBuf,
    out: PathBuf,
    place: Place,
}

impl Scratch {
    fn new() -> Scratch {
        let directory = in_ram();
        let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
        std::fs::write(&pool, b"").expect("a file in memory");
        let place = PoolFile::place_of(&pool).expect("it is there");
        Scratch { _directory: directory, pool, out, place }
    }

    /// Makes a mutant a file, and shows it to `work`.
    fn with(data: &[u8], work: impl FnOnce(&Scratch, &Mutant, &mut Choices<'_>) -> bool) -> bool {
        thread_local! {
            static SCRATCH: OnceCell<Scratch> = const { OnceCell::new() };
        }
        SCRATCH.with(|scratch| {
            let scratch = scratch.get_or_init(Scratch::new);
            let mut choices = Choices::new(data);
            let mutant = Mutant::of(&mut choices, &scratch.place);
            std::fs::write(&scratch.pool, &mutant.bytes).expect("room for a pool");
            work(scratch, &mutant, &mut choices)
        })
    }

    /// Opens the mutant for reading, which changes nothing in it.
    fn open_to_read(&self, mutant: &Mutant) -> Result<Box<dyn Subject>> {
        let opened =
            mutant.seed.form.open(&options().read_only(true).may_lack_pairs(true), &self.pool);
        if opened.is_err() {
            self.assert_unchanged(mutant);
        }
        opened
    }

    /// Opens the mutant for writing. Of some, whose bytes say so, the sidecar is built afterwards.
    fn open_to_write(&self, mutant: &Mutant) -> Result<Box<dyn Subject>> {
        let is_later = builds_later(mutant);
        let options = if is_later { options().built_at_once_max(0) } else { options() };
        mutant.seed.form.open(&options, &self.pool)
    }

    fn assert_unchanged(&self, mutant: &Mutant) {
        let now = std::fs::read(&self.pool).expect("it is there");
        assert!(now == mutant.bytes, "what was only to be read was changed");
    }

    fn assert_no_larger(&self) {
        let bytes = std::fs::metadata(&self.pool).expect("it is there").len();
        assert!(bytes <= SIZE_MAX_BYTES.max(1 << 20) * 2, "the pool has {bytes} bytes");
    }
}

fn builds_later(mutant: &Mutant) -> bool {
    mutant.bytes.iter().step_by(61).fold(0u8, |sum, byte| sum.wrapping_add(*byte)) & 1 != 0
}

/// Opens a mutant as what it was and as what it was not, for reading and for writing, and closes it. Whether it opens.
pub fn open(data: &[u8]) -> bool {
    Scratch::with(data, |scratch, mutant, choices| {
        let _ = firndex::inspect(&scratch.pool);
        if choices.one_in(8) {
            let form = choices.of(&Form::ALL).unwrap_or(Form::Store);
            let _ = form
                .open(&options().read_only(true).may_lack_pairs(true), &scratch.pool)
                .map(|other| other.len());
        }
        if let Ok(subject) = scratch.open_to_read(mutant) {
            std::hint::black_box((subject.len(), subject.get(1).is_ok()));
            drop(subject);
            scratch.assert_unchanged(mutant);
        }
        let opened = scratch.open_to_write(mutant);
        let is_opened = opened.is_ok();
        if let Ok(subject) = opened {
            std::hint::black_box((subject.len(), subject.get(2).is_ok()));
            if choices.one_in(2) {
                let _ = subject.close();
            }
        }
        scratch.assert_no_larger();
        is_opened
    })
}

/// What a pool answers that is not what its seed answers: keys, and pairs that a scan shows.
fn wrong_answers(mutant: &Mutant, subject: &dyn Subject) -> usize {
    let seed = mutant.seed;
    let model = &seed.pairs;
    let expected = |number: u32| model.get(&seed.form.pair(number).0);
    let is_right =
        |number: &u32| subject.get(*number).is_ok_and(|found| found.as_ref() == expected(*number));
    let wrong = (0..seed.numbers).filter(|number| !is_right(number)).count();
    let Ok(shown) = subject.pairs() else { return wrong + 1 };
    let of_others = shown.iter().filter(|(key, value)| model.get(key) != Some(value)).count();
    let distinct: BTreeMap<&Vec<u8>, &Vec<u8>> =
        shown.iter().map(|pair| (&pair.0, &pair.1)).collect();
    let missing = model.keys().filter(|key| !distinct.contains_key(key)).count();
    wrong.max(of_others).max(missing).max(shown.len() - distinct.len())
}

/// What a sound pool may answer wrongly: what no checksum and no count protects.
fn excused(mutant: &Mutant) -> usize {
    let changed = mutant.seed.words_changed_in(&mutant.bytes);
    match mutant.seed.form {
        // Any item may be any other one then.
        Form::Store if mutant.is_forged => usize::MAX,
        // Of two keys, the one is absent and the other, which was removed, present.
        Form::Store if mutant.is_counted && mutant.is_revived => 2 * changed,
        Form::Store if mutant.is_counted => 0,
        // Of a key that is another one by now, the one is absent and the other present.
        _ if mutant.is_counted => 2 * changed,
        // Nobody knows how many pairs there were.
        _ => usize::MAX,
    }
}

/// Checks a mutant. If nothing is found, it must answer as its seed does. Whether nothing is found.
pub fn check(data: &[u8]) -> bool {
    Scratch::with(data, |scratch, mutant, choices| {
        let is_to_read = !choices.one_in(3);
        let opened =
            if is_to_read { scratch.open_to_read(mutant) } else { scratch.open_to_write(mutant) };
        let Ok(subject) = opened else { return false };
        let report = match subject.check() {
            // What is built later is refused when damage is met.
            Err(_) if !is_to_read && builds_later(mutant) => return false,
            checked => checked.expect("a check reports what it finds"),
        };
        if !report.is_sound() {
            return false;
        }
        let (wrong, excused) = (wrong_answers(mutant, &*subject), excused(mutant));
        assert!(
            wrong <= excused,
            "{wrong} wrong answers, {excused} of them excused, and `check` finds nothing: {}",
            mutant.seed.changes_in(&mutant.bytes)
        );
        true
    })
}

/// Reads all of a mutant and changes it. Whether it opens.
pub fn get(data: &[u8]) -> bool {
    Scratch::with(data, |scratch, mutant, choices| {
        let numbers: Vec<u32> = (0..mutant.seed.numbers).collect();
        let read = |subject: &dyn Subject| {
            numbers.iter().step_by(3).for_each(|&number| {
                let _ = subject.get(number);
            });
            let _ = (subject.get_many(&numbers), subject.pairs(), subject.pairs_in_parts());
        };
        if let Ok(subject) = scratch.open_to_read(mutant) {
            read(&*subject);
            drop(subject);
            scratch.assert_unchanged(mutant);
        }
        let Ok(subject) = scratch.open_to_write(mutant) else { return false };
        read(&*subject);
        for _ in 0..2 + choices.below(6) {
            let number = choices.below(numbers.len()) as u32;
            for number in number..number + 8 {
                let _ = match choices.below(8) {
                    0..3 => subject.put(number),
                    3 => subject.change(number),
                    4 => subject.remove(number),
                    5 => subject.change_many(&numbers[..number as usize % 50]),
                    6 => subject.tidy(),
                    _ => subject.sync(),
                };
            }
        }
        let _ = (subject.check(), subject.pairs().map(drop), subject.close());
        scratch.assert_no_larger();
        // What writers made of it.
        if let Ok(subject) = scratch.open_to_write(mutant) {
            let _ = (subject.check(), subject.pairs().map(drop));
        }
        true
    })
}

/// Salvages a mutant. Of a store nothing comes back that it never held; what comes back is sound. Whether a pool comes.
pub fn salvage(data: &[u8]) -> bool {
    Scratch::with(data, |scratch, mutant, choices| {
        let orphans = if choices.one_in(2) { Orphans::Copy } else { Orphans::Leave };
        let form = if choices.one_in(8) { Form::Store } else { mutant.seed.form };
        let salvaged = salvage_as(scratch, form, orphans);
        scratch.assert_unchanged(mutant);
        let Ok(saved) = salvaged else { return false };
        let out = form
            .open(&options().read_only(true).may_lack_pairs(true), &scratch.out)
            .expect("it was just made");
        let pairs = out.pairs().expect("it was just made");
        assert_eq!(pairs.len() as u64, saved);
        assert!(out.check().expect("it was just made").is_sound());
        if form == Form::Store && mutant.seed.form == Form::Store && !mutant.is_forged {
            let held = |(key, value): &Pair| is_of_store(mutant, key, value);
            assert!(pairs.iter().all(held), "{}: a pair is invented", mutant.seed.engine);
        }
        true
    })
}

/// Whether a store ever held this pair: its values change in the course of its making.
fn is_of_store(mutant: &Mutant, key: &[u8], value: &[u8]) -> bool {
    let form = mutant.seed.form;
    let mut numbers = 0..mutant.seed.numbers;
    let Some(number) = numbers.find(|&number| form.pair(number).0 == key) else { return false };
    [number, number / 2].iter().any(|&number| form.pair(number).1 == value)
}

fn salvage_as(scratch: &Scratch, form: Form, orphans: Orphans) -> Result<u64> {
    let salvage = Salvage::open(&scratch.pool)?;
    let (out, replace) = (&scratch.out, Existing::Replace);
    let saved = match form {
        Form::Words => salvage.table_of::<u64, u64>(out, replace, &options()),
        Form::Odd => salvage.table_of::<[u8; 12], u32>(out, replace, &options()),
        Form::Store => salvage.store(out, replace, &options(), orphans),
    }?;
    Ok(saved.pairs)
}
