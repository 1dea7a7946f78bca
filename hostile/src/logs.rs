//! Mutated checkpoints and logs, and the pools that come of them.

use crate::choices::Choices;
use crate::files::Files;
use crate::seeds::{SIZE_MAX_BYTES, in_ram, make_store, options};
use crate::subject::Form;
use crate::words::{WORD, another, load, store, strike_anywhere};
use engines::Engine;
use firndex::Durability;
use pmem::Medium;
use pmem::Offset;
use pmem::durability::{RestoreError, SafeCopy};
use pmem::medium::Memory;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

const PAGE: usize = 4096;
/// The directory beside a pool, and whose it is: what no mutant changes.
const DIRECTORY: &str = "pool.safe";
const IDENTITY: &str = "identity";
/// The word of a checkpoint's header that has its checksum; that of the table of checksums; bytes of the image.
const CHECKPOINT_CRCS: [usize; 2] = [15, 19];
const SUMS_CRC: usize = 13;
const IMAGE_BYTES: usize = 12;
/// The word of a segment's header that has its checksum.
const SEGMENT_CRC: usize = 9;
/// Words of a frame: how many words it has, its checksum, where its content begins.
const FRAME_LENGTH: usize = 5;
const FRAME_CRC: usize = 6;
const FRAME_CONTENT: usize = 8;
/// Most blows that fall on one set of files.
const BLOWS_MAX: usize = 4;
/// Rounds of changes, each with a sync.
const ROUNDS: u32 = 5;

/// The files in the directory of a pool, and what may come of them when their end is torn.
struct Seed {
    form: Form,
    identity: Vec<u8>,
    files: Files,
    /// Checksums of the images of all prefixes of the log.
    images: BTreeSet<u32>,
}

/// A pool in the midst of work: with a checkpoint of when it was empty, or of when it was opened again.
fn make(engine: Engine, form: Form, is_reopened: bool) -> Option<Seed> {
    let directory = in_ram();
    let path = directory.path().join("pool");
    let logged = options().durability(Durability::Periodic);
    let mut subject = if form == Form::Store {
        make_store(engine, &path);
        form.open(&logged, &path).expect("it was just made")
    } else {
        form.create(&logged.clone().engine(engine), &path).ok()?
    };
    if is_reopened {
        (0..60).for_each(|number| subject.put(number).expect("there is room"));
        subject.close().expect("it can be synced");
        // Without a log meanwhile there is none to go on with, and a checkpoint is made.
        let unlogged = options().durability(Durability::Process);
        let between = form.open(&unlogged, &path).expect("it was closed");
        between.close().expect("it can be synced");
        subject = form.open(&logged, &path).expect("it was closed");
    }
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            // Its log goes on.
            subject.close().expect("it can be synced");
            subject = form.open(&logged, &path).expect("it was closed");
        }
        (0..12).for_each(|number| subject.put(round * 9 + number).expect("there is room"));
        subject.remove(round * 9 + 1).expect("a removal needs no room");
        subject.sync().expect("there is room for the log");
    }
    let directory = directory.path().join(DIRECTORY);
    let identity = std::fs::read(directory.join(IDENTITY)).expect("it has an identity");
    let files = companions(&directory);
    drop(subject);
    let images = prefixes(&files).filter_map(|files| restore(files).ok()).collect();
    Some(Seed { form, identity, files, images })
}

/// The files of log and checkpoints, without what segments are allocated ahead.
fn companions(directory: &Path) -> Files {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == IDENTITY {
            continue;
        }
        let mut bytes = std::fs::read(entry.path()).expect("a file");
        if !is_checkpoint(&name) {
            let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(used.next_multiple_of(PAGE));
        }
        if !bytes.is_empty() {
            files.push((name, Arc::new(bytes)));
        }
    }
    files.sort();
    Files(files)
}

fn is_checkpoint(name: &str) -> bool {
    name.starts_with("checkpoint.")
}

/// The files as they are when the log ends earlier. Its last segment need not be the one that was made last: that may
/// be ready for what comes next.
fn prefixes(files: &Files) -> impl Iterator<Item = Files> {
    let is_of_log = |file: &(String, Arc<Vec<u8>>)| !is_checkpoint(&file.0);
    let segments = (0..files.0.len()).filter(move |&nth| is_of_log(&files.0[nth]));
    segments.flat_map(move |segment| {
        let pages = files.0[segment].1.len() / PAGE;
        (1..=pages).map(move |pages| {
            let mut files = files.clone();
            Arc::make_mut(&mut files.0[segment].1).truncate(pages * PAGE);
            files
        })
    })
}

fn all() -> &'static [Seed] {
    static ALL: OnceLock<Vec<Seed>> = OnceLock::new();
    ALL.get_or_init(|| {
        let kinds =
            [(Form::Words, false), (Form::Odd, true), (Form::Store, false), (Form::Store, true)];
        let pools = Engine::ALL.iter().flat_map(|&engine| kinds.map(|kind| (engine, kind)));
        pools.filter_map(|(engine, (form, again))| make(engine, form, again)).collect()
    })
}

/// Restores; the checksum of the image.
fn restore(files: Files) -> Result<u32, RestoreError> {
    let missing = RestoreError::Missing { path: DIRECTORY.into() };
    let safe = SafeCopy::find(Arc::new(files))?.ok_or(missing)?;
    let memory = Memory::dram(SIZE_MAX_BYTES).expect("addresses");
    safe.restore(&memory, &|_, _| ())?;
    assert!(memory.size() <= SIZE_MAX_BYTES);
    let words = (0..memory.size()).step_by(WORD).map(|at| memory.load(Offset(at)));
    Ok(words.fold(0, |crc, word| crc32c::crc32c_append(crc, &word.to_ne_bytes())))
}

/// A checksum over words of a file, in another word of it.
fn mend(bytes: &mut [u8], first: usize, words: usize, at: usize) {
    let start = first * WORD;
    let Some(covered) = bytes.get(start..start + words * WORD) else { return };
    let sum = crc32c::crc32c(covered);
    store(bytes, at * WORD, sum.into());
}

/// Makes the checksum of the frame right that begins at this page.
fn mend_frame(bytes: &mut [u8], page: usize) {
    let first = page * PAGE / WORD;
    let length = load(bytes, (first + FRAME_LENGTH) * WORD) as u32 as usize;
    let content = (first + FRAME_CONTENT) * WORD;
    let header = bytes.get(first * WORD..(first + FRAME_CRC) * WORD).map(crc32c::crc32c);
    let content =
        length.checked_mul(WORD).and_then(|len| bytes.get(content..content.checked_add(len)?));
    if let (Some(header), Some(content)) = (header, content) {
        let sum = crc32c::crc32c_append(header, content);
        store(bytes, (first + FRAME_CRC) * WORD, sum.into());
    }
}

/// A word of a header, a frame or the image is another one, and all checksums fit; whether it is so.
fn forge(files: &mut Files, choices: &mut Choices<'_>) -> bool {
    let nth = choices.below(files.0.len());
    let Some((name, bytes)) = files.0.get_mut(nth) else { return false };
    let bytes = Arc::make_mut(bytes);
    let header_word = 1 + choices.below(CHECKPOINT_CRCS[1] - 1);
    let mut change = |bytes: &mut Vec<u8>, word: usize| {
        let value = another(load(bytes, word * WORD), bytes, choices);
        store(bytes, word * WORD, value);
        choices.below(256)
    };
    if is_checkpoint(name) {
        let choice = change(bytes, header_word);
        let image = load(bytes, IMAGE_BYTES * WORD) as usize;
        if choice.is_multiple_of(2) && image <= bytes.len() {
            // Of the image, which has one chunk here, as small as it is.
            let sums = (PAGE + image.next_multiple_of(PAGE)) / WORD;
            change(bytes, PAGE / WORD + choice * 7 % (image / WORD).max(1));
            mend(bytes, PAGE / WORD, image / WORD, sums);
            mend(bytes, sums, PAGE / WORD, SUMS_CRC);
        }
        CHECKPOINT_CRCS.into_iter().for_each(|crc| mend(bytes, 0, crc, crc));
        return true;
    }
    let page = change(bytes, 0) % (bytes.len() / PAGE).max(1);
    if page == 0 {
        change(bytes, 1 + bytes.len() % 8);
        mend(bytes, 0, SEGMENT_CRC, SEGMENT_CRC);
    } else {
        let first = page * PAGE / WORD;
        let word = change(bytes, first + 1) % 40;
        change(bytes, first + word);
        mend_frame(bytes, page);
    }
    true
}

/// Files that are missing, exchanged, or under another name.
fn shuffle(files: &mut Files, choices: &mut Choices<'_>) {
    let (one, other) = (choices.below(files.0.len()), choices.below(files.0.len()));
    if files.0.is_empty() {
        return;
    }
    match choices.below(4) {
        0 => drop(files.0.remove(one)),
        1 => {
            let bytes = Arc::clone(&files.0[one].1);
            files.0[one].1 = std::mem::replace(&mut files.0[other].1, bytes);
        }
        2 => files.0[one].0 = format!("log.{}", choices.below(4)),
        _ => {
            let name = format!("log.{}", choices.word() >> choices.below(64));
            let bytes = Arc::clone(&files.0[other].1);
            files.0.push((name, bytes));
        }
    }
}

/// A mutant of a seed's files, and whether checksums were made to fit.
fn mutant(choices: &mut Choices<'_>) -> (&'static Seed, Files, bool) {
    let all = all();
    let seed = &all[choices.below(all.len())];
    let (mut files, mut is_forged) = (seed.files.clone(), false);
    for _ in 0..=choices.below(BLOWS_MAX) {
        match choices.below(8) {
            0 => shuffle(&mut files, choices),
            1..4 => is_forged |= forge(&mut files, choices),
            _ => {
                let nth = choices.below(files.0.len());
                if let Some((_, bytes)) = files.0.get_mut(nth) {
                    strike_anywhere(Arc::make_mut(bytes), 0, choices);
                }
            }
        }
    }
    (seed, files, is_forged)
}

/// Restores from a mutant. Unless it was forged, what comes is what the pool was at one moment. Whether one comes.
pub fn log(data: &[u8]) -> bool {
    let mut choices = Choices::new(data);
    let (seed, files, is_forged) = mutant(&mut choices);
    let Ok(image) = restore(files.clone()) else { return false };
    if !is_forged {
        let found = seed.files.changes_in(&files);
        assert!(seed.images.contains(&image), "an image that the pool never was: {found}");
    }
    true
}

/// Opens a pool whose file does not count, from mutated companions. Whether it opens.
pub fn restored(data: &[u8]) -> bool {
    let mut choices = Choices::new(data);
    let (seed, files, _) = mutant(&mut choices);
    let directory = in_ram();
    let path = directory.path().join("pool");
    let safe = directory.path().join(DIRECTORY);
    std::fs::create_dir(&safe).expect("room for a directory");
    std::fs::write(safe.join(IDENTITY), &seed.identity).expect("room for a file");
    for (name, bytes) in &files.0 {
        std::fs::write(safe.join(name), &**bytes).expect("room for a file");
    }
    if choices.one_in(3) {
        // Cut off before it says anything.
        std::fs::write(&path, b"FIRNDEX\0").expect("room for a file");
    }
    let opened = seed.form.open(&options(), &path);
    let is_opened = opened.is_ok();
    if let Ok(subject) = opened {
        let _ = (subject.check(), subject.pairs().map(drop), subject.put(3), subject.close());
    }
    is_opened
}
