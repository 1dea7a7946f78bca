//! What a line log leaves after a power loss: an earlier image, and the cuts since then.
//!
//! In a history of a setup with a log ([`Setup::is_logged`](crate::subject::Setup::is_logged)) nothing else survives.
//! So such a history is judged only where an epoch is closed, by its flusher or at its end: until the next epoch is
//! closed, a power loss leaves the same.
//!
//! A checkpoint is made while the threads of the history run, as in `pmem`: read the number of the open epoch; copy the
//! pool word by word; wait until all threads that were inside the gate when the copy was complete have left it; close
//! an epoch. The copy and the cuts from that number on are an image, too.

use crate::history::Way;
use crate::images::{Image, has_words_of, is_left};
use pmem::line_log::Cut;
use pmem::medium::sim::{Durable, Sim};
use pmem::{LINE, Medium, Offset, WORD};

const LINE_WORDS: usize = (LINE / WORD) as usize;

/// An image to which cuts are applied.
#[derive(Debug)]
pub(crate) struct Base {
    words: Vec<u64>,
    /// The epoch of the first cut that belongs to it.
    first: u64,
    what: &'static str,
    /// Whether it is a copy made while others wrote. Of unflushed stores it may show a later one to a line without an
    /// earlier one. For flushed ones the log restores the order.
    is_copy: bool,
}

impl Base {
    /// A copy of the medium, word by word, for a checkpoint whose first cut is that of epoch `first`.
    pub(crate) fn copied(medium: &Sim, first: u64, way: Way) -> Base {
        let mut words = vec![0; (medium.size() / WORD) as usize];
        let all = 0..words.len();
        let mut copy = |index| words[index] = medium.load(Offset(index as u64 * WORD));
        match way {
            Way::Up => all.for_each(&mut copy),
            Way::Down => all.rev().for_each(&mut copy),
        }
        Base { words, first, what: "a checkpoint", is_copy: true }
    }
}

/// What a power loss leaves once an epoch is closed.
#[derive(Debug)]
pub struct Closed {
    /// The moment, among the beginnings and ends of calls, before which closing it began.
    pub from: u32,
    /// ... and before which it had ended.
    pub to: u32,
    /// What is left.
    pub image: Image,
    /// How it was made.
    pub what: String,
}

/// The log of a history, and what it has left so far.
#[derive(Debug)]
pub(crate) struct Logbook {
    bases: Vec<Base>,
    /// Unordered, if several threads close epochs.
    cuts: Vec<Cut>,
    closed: Vec<Closed>,
    /// Something in a cut that no crash could have left.
    wrong: Option<String>,
}

impl Logbook {
    /// Starts the log of a medium, if it has one, while nothing else runs.
    pub(crate) fn start(medium: &Sim) -> Option<Logbook> {
        let log = medium.line_log()?;
        let words = (0..medium.size() / WORD).map(|word| medium.load(Offset(word * WORD)));
        let base = Base {
            words: words.collect(),
            first: log.epoch(),
            what: "the pool as it was",
            is_copy: false,
        };
        log.start();
        Some(Logbook { bases: vec![base], cuts: Vec::new(), closed: Vec::new(), wrong: None })
    }

    /// What it has left, and what is wrong with it.
    pub(crate) fn end(self) -> (Vec<Closed>, Option<String>) {
        (self.closed, self.wrong)
    }

    /// A base with its cuts up to `epoch`, if all of them are there.
    fn image(&self, base: &Base, epoch: u64) -> Option<Image> {
        let mut words = base.words.clone();
        for epoch in base.first..=epoch {
            let cut = self.cuts.iter().find(|cut| cut.epoch() == epoch)?;
            cut.replay(|at, value| {
                let index = (at.0 / WORD) as usize;
                if index >= words.len() {
                    words.resize((index + 1).next_multiple_of(LINE_WORDS), 0);
                }
                words[index] = value;
            });
        }
        Some(Image::new(words))
    }

    /// Enters a cut that was made between two moments, and before it the checkpoint that it completes, if any.
    pub(crate) fn close(
        &mut self,
        base: Option<Base>,
        cut: Cut,
        (from, before): (u32, &Moment),
        (to, after): (u32, &Moment),
    ) {
        self.bases.extend(base);
        let epoch = cut.epoch();
        self.cuts.push(cut);
        for base in &self.bases {
            if let Some(image) = self.image(base, epoch) {
                let what = format!("{}, cuts {} to {epoch}", base.what, base.first);
                if let Err(wrong) = explained(&image, before, after, base.is_copy) {
                    self.wrong.get_or_insert(format!("{what}: {wrong}"));
                }
                self.closed.push(Closed { from, to, image, what });
            }
        }
    }
}

/// What a crash could leave, and the latest store to each line by then.
pub(crate) struct Moment {
    durable: Durable,
    latest_stores: Vec<u64>,
}

impl Moment {
    pub(crate) fn now(medium: &Sim) -> Moment {
        Moment { durable: medium.durable(), latest_stores: medium.latest_stores() }
    }
}

/// Whether a crash at some moment between two could have left an image, judged by what each of the two could have left.
/// Lines that were written in between are left to the judge.
fn explained(image: &Image, before: &Moment, after: &Moment, is_copy: bool) -> Result<(), String> {
    // A line may be again what it was, and have been something else in between.
    let is_stored_to =
        |line: usize| before.latest_stores.get(line) != after.latest_stores.get(line);
    let (before, after) = (&before.durable, &after.durable);
    let lines = after.words.len().div_ceil(LINE_WORDS);
    let mut pending = [before, after].map(|durable| durable.pending.iter().peekable());
    for line in 0..lines {
        let of_line = |words: &[u64]| -> [u64; LINE_WORDS] {
            std::array::from_fn(|word| words.get(line * LINE_WORDS + word).copied().unwrap_or(0))
        };
        let [stores, stores_after] = pending.each_mut().map(|lines| {
            lines
                .next_if(|pending| pending.line as usize == line)
                .map_or(&[][..], |p| &p.stores[..])
        });
        let certain = of_line(&before.words);
        let is_same =
            !is_stored_to(line) && certain == of_line(&after.words) && stores == stores_after;
        let found = of_line(&image.words);
        let is_explained = if is_copy {
            has_words_of(&certain, stores, &found)
        } else {
            is_left(&certain, stores, &found)
        };
        if is_same && !is_explained {
            return Err(format!(
                "no crash leaves line {line} as {found:x?}: {certain:x?} is certain, {stores:x?} may follow"
            ));
        }
    }
    Ok(())
}
