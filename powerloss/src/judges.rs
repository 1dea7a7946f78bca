//! The images of a recorded disk, made one after another and judged by several threads.

use crate::cases::Case;
use crate::disk::Disk;
use crate::filesystem::{self, DIRECTORY};
use crate::loss::Loss;
use crate::notes::{NOTES_FROM, Notes};
use crate::record::Entry;
use anyhow::{Result, anyhow, ensure};
use firndex::Engine;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use workload::Random;

/// Of so many images one has its whole file system checked: were the images no disks that the record allows, that
/// would show it.
const IMAGES_PER_CHECK: usize = 16;

/// What judges the images of one start of the machine.
pub(crate) struct Judges<'a> {
    pub(crate) case: &'a Case,
    pub(crate) engine: Engine,
    /// Name of the start.
    pub(crate) name: &'a str,
    /// A directory for images while they are judged.
    pub(crate) work: &'a Path,
    /// A directory for images with which something is wrong.
    pub(crate) kept: &'a Path,
}

/// An image to be judged.
struct Image {
    number: usize,
    path: PathBuf,
    /// The state of the disk and what was taken from it.
    what: String,
}

/// Something that is wrong.
#[derive(Debug, Clone)]
pub struct Wrong {
    /// With what.
    pub with: String,
    /// What it is.
    pub error: String,
}

impl Wrong {
    /// What it is without its numbers: the same for all that go back to one fault, mostly.
    pub fn kind(&self) -> String {
        kind(&self.error)
    }
}

fn kind(error: &str) -> String {
    error.replace(|c: char| c.is_ascii_digit(), "")
}

impl Judges<'_> {
    /// Replays entries, and judges so many images of the states between. One of them is left in `base`. What is wrong.
    pub(crate) fn judge_all<'a>(
        &self,
        disk: &mut Disk<'a>,
        entries: &[Entry<'a>],
        images: usize,
        random: &mut Random,
        base: &Path,
    ) -> Result<Vec<Wrong>> {
        ensure!(!entries.is_empty(), "nothing was recorded");
        let states = states(entries, images, random);
        // Early states have nothing to go on with.
        let of_next_start = images / 2 + random.index(images - images / 2);
        let wrong = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let workers = thread::available_parallelism()?.get();
            let (sender, images) = mpsc::sync_channel(workers);
            let images = Arc::new(Mutex::new(images));
            let judges: Vec<_> = (0..workers)
                .map(|worker| {
                    let (images, wrong) = (Arc::clone(&images), &wrong);
                    let files = self.work.join(format!("files-{worker}"));
                    scope.spawn(move || self.judge_each(&files, &images, wrong))
                })
                .collect();
            // Once the judges are gone, an image has nowhere to go.
            drop(images);
            for (number, &State { count, loss }) in states.iter().enumerate() {
                while disk.entries() < count {
                    disk.replay(&entries[disk.entries()])?;
                }
                let path = self.work.join(format!("{}-{number}.img", self.name));
                disk.write_image(&File::create(&path)?, |entry, at| loss.keeps(entry, at))?;
                if number == of_next_start {
                    disk.write_image(&File::create(base)?, |entry, at| loss.keeps(entry, at))?;
                }
                let open = disk.volatile_sectors();
                let what =
                    format!("{}, {count} entries, {open} sectors not flushed, {loss}", self.name);
                if sender.send(Image { number, path, what }).is_err() {
                    break;
                }
            }
            drop(sender);
            judges.into_iter().try_for_each(|judge| judge.join().expect("a judge does not panic"))
        })?;
        Ok(wrong.into_inner().expect("no panic"))
    }

    /// Judges images until there are no more.
    fn judge_each(
        &self,
        files: &Path,
        images: &Mutex<Receiver<Image>>,
        wrong: &Mutex<Vec<Wrong>>,
    ) -> Result<()> {
        loop {
            let received = images.lock().expect("no panic").recv();
            let Ok(image) = received else { return Ok(()) };
            fs::create_dir_all(files)?;
            let verdict = catch_unwind(AssertUnwindSafe(|| self.judge(&image, files)));
            let verdict = verdict.unwrap_or_else(|_| Err(anyhow!("the judge panicked")));
            fs::remove_dir_all(files)?;
            if let Err(error) = verdict {
                self.note(&image, format!("{error:#}"), &mut wrong.lock().expect("no panic"))?;
            }
            fs::remove_file(&image.path)?;
        }
    }

    /// Adds what is wrong with an image. The first image with an error is kept.
    fn note(&self, image: &Image, error: String, wrong: &mut Vec<Wrong>) -> Result<()> {
        let is_first = wrong.iter().all(|known| known.kind() != kind(&error));
        let mut with = image.what.clone();
        if is_first && !self.case.is_hasty {
            let kept = filesystem::keep(&image.path, self.kept)?;
            with += &format!(" (kept as {})", kept.display());
        }
        wrong.push(Wrong { with, error });
        Ok(())
    }

    /// What is wrong with an image is the error.
    fn judge(&self, image: &Image, files: &Path) -> Result<()> {
        filesystem::replay_journal(&image.path)?;
        filesystem::dump(&image.path, files)?;
        if image.number.is_multiple_of(IMAGES_PER_CHECK) {
            filesystem::check(&image.path)?;
        }
        let files = files.join(DIRECTORY);
        fs::create_dir_all(&files)?;
        self.case.judge(self.engine, &files, &Notes::on_image(File::open(&image.path)?))
    }
}

/// When the power fails, and what is lost.
struct State {
    /// Entries that were complete.
    count: usize,
    loss: Loss,
}

/// States at random, in their order.
fn states(entries: &[Entry<'_>], images: usize, random: &mut Random) -> Vec<State> {
    let is_note = |entry: &Entry<'_>| entry.at >= NOTES_FROM;
    let flushes: Vec<usize> =
        (1..).zip(entries).filter(|(_, entry)| entry.is_flush).map(|(count, _)| count).collect();
    // Until the first note a pool is made, or made anew: few entries, and none like another.
    let opening = entries.iter().position(is_note).unwrap_or(entries.len()).max(1);
    let mut states: Vec<State> = (0..images)
        .map(|number| {
            let (mut count, loss) = match number % 4 {
                // Nothing is lost right after a flush.
                0 if !flushes.is_empty() => (*random.of(&flushes), Loss::NOTHING),
                1 => (1 + random.index(opening), Loss::any(random)),
                _ => (1 + random.index(entries.len()), Loss::any(random)),
            };
            // Later notes oblige to more.
            while entries.get(count).is_some_and(is_note) {
                count += 1;
            }
            State { count, loss }
        })
        .collect();
    states.sort_by_key(|state| state.count);
    states
}
