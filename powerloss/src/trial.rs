//! One case from its beginning to its verdict.

use crate::cases::Case;
use crate::disk::Disk;
use crate::filesystem::{self, DIRECTORY};
use crate::loss::Loss;
use crate::machine::Machine;
use crate::notes::{DISK_BYTES, NOTES_FROM, Notes};
use crate::record::{self, Entry};
use anyhow::{Context, Result, anyhow, ensure};
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use workload::Random;

/// Of so many images one has its whole file system checked: were the images no disks that the record allows, that
/// would show it.
const IMAGES_PER_CHECK: usize = 16;
/// Images kept of a case.
const KEPT_MAX: usize = 5;

/// How cases are tried.
#[derive(Debug)]
pub struct Trial {
    /// Where they write.
    pub machine: Machine,
    /// A directory for what is large and short-lived; best in memory.
    pub work: PathBuf,
    /// A directory for images with which something is wrong.
    pub kept: PathBuf,
    /// Images of each start of the machine.
    pub images: usize,
    /// How long it writes: up to twice as long as this.
    pub writes_for: Duration,
    /// What is drawn at random follows from it; when the guest does what, does not.
    pub seed: u64,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Images judged.
    pub images: usize,
    /// What was wrong, each with the image it was wrong with.
    pub wrong: Vec<String>,
}

/// An image to be judged.
struct Image {
    number: usize,
    path: PathBuf,
    /// The state of the disk and what was taken from it.
    what: String,
}

impl Trial {
    /// Tries one case.
    pub fn run(&self, case: &Case) -> Result<Outcome> {
        let mut random = Random::new(self.seed ^ workload::mix(case.name.len() as u64));
        let mut outcome = Outcome::default();
        let base = self.work.join("base.img");
        filesystem::make(&base, DISK_BYTES, NOTES_FROM)?;
        for start in 1..=case.starts {
            self.start(case, start, &base, &mut random, &mut outcome)
                .with_context(|| format!("case {}, start {start}", case.name))?;
        }
        Ok(outcome)
    }

    /// Starts the machine once on the disk in `base`, which then becomes what that start may have left.
    fn start(
        &self,
        case: &Case,
        start: u32,
        base: &Path,
        random: &mut Random,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let began = Instant::now();
        let mut disk = Disk::of(&File::open(base)?, NOTES_FROM)?;
        let [device, record] = ["device.img", "record"].map(|name| self.work.join(name));
        disk.write_image(&File::create(&device)?, |_, _| true)?;
        File::create(&record)?;
        let writes_for = self.writes_for.mul_f64(1.0 + random.unit());
        let said = self.machine.run(case.name, &device, &record, writes_for)?;
        fs::remove_file(&device)?;
        let recorded = Instant::now();

        let bytes = fs::read(&record)?;
        fs::remove_file(&record)?;
        let entries = record::entries(&bytes)?;
        let flushes = entries.iter().filter(|entry| entry.is_flush).count();
        outcome.wrong.extend(said.into_iter().map(|line| format!("{}: {line}", case.name)));
        let name = format!("{}-{start}", case.name);
        let (images, mut wrong) = self.judge_all(case, &name, &mut disk, &entries, random, base)?;
        println!(
            "{name}: {} entries, {flushes} flushes, {} MiB; images {images}, violations {}; {:.1} s and {:.1} s",
            entries.len(),
            bytes.len() >> 20,
            wrong.len(),
            (recorded - began).as_secs_f64(),
            recorded.elapsed().as_secs_f64(),
        );
        outcome.images += images;
        outcome.wrong.append(&mut wrong);
        Ok(())
    }

    /// Replays entries, and judges images of the states between. One of them is left in `base`.
    fn judge_all<'a>(
        &self,
        case: &Case,
        name: &str,
        disk: &mut Disk<'a>,
        entries: &[Entry<'a>],
        random: &mut Random,
        base: &Path,
    ) -> Result<(usize, Vec<String>)> {
        ensure!(!entries.is_empty(), "nothing was recorded");
        let states = states(entries, self.images, random);
        let of_next_start = random.index(states.len());
        let wrong = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let workers = thread::available_parallelism()?.get();
            let (sender, images) = mpsc::sync_channel(workers);
            let images = Arc::new(Mutex::new(images));
            let judges: Vec<_> = (0..workers)
                .map(|worker| {
                    let (images, wrong) = (Arc::clone(&images), &wrong);
                    let directory = self.work.join(format!("files-{worker}"));
                    scope.spawn(move || self.judge_each(case, &directory, &images, wrong))
                })
                .collect();
            // Once the judges are gone, an image has nowhere to go.
            drop(images);
            for (number, &State { count, loss }) in states.iter().enumerate() {
                while disk.entries() < count {
                    disk.replay(&entries[disk.entries()])?;
                }
                let path = self.work.join(format!("{name}-{number}.img"));
                disk.write_image(&File::create(&path)?, |entry, at| loss.keeps(entry, at))?;
                if number == of_next_start {
                    disk.write_image(&File::create(base)?, |entry, at| loss.keeps(entry, at))?;
                }
                let open = disk.volatile_sectors();
                let what = format!("{name}, {count} entries, {open} sectors not flushed, {loss}");
                if sender.send(Image { number, path, what }).is_err() {
                    break;
                }
            }
            drop(sender);
            judges.into_iter().try_for_each(|judge| judge.join().expect("a judge does not panic"))
        })?;
        Ok((states.len(), wrong.into_inner().expect("no thread panicked")))
    }

    /// Judges images until there are no more.
    fn judge_each(
        &self,
        case: &Case,
        directory: &Path,
        images: &Mutex<Receiver<Image>>,
        wrong: &Mutex<Vec<String>>,
    ) -> Result<()> {
        loop {
            let Ok(image) = images.lock().expect("no thread panicked").recv() else {
                return Ok(());
            };
            fs::create_dir_all(directory)?;
            let verdict = catch_unwind(AssertUnwindSafe(|| judge(case, &image, directory)));
            let verdict = verdict.unwrap_or_else(|_| Err(anyhow!("the judge panicked")));
            fs::remove_dir_all(directory)?;
            if let Err(error) = verdict {
                let mut wrong = wrong.lock().expect("no thread panicked");
                let mut line = format!("{}: {error:#}", image.what);
                if wrong.len() < KEPT_MAX && !case.is_hasty {
                    let kept = self.kept.join(image.path.file_name().context("it has a name")?);
                    fs::create_dir_all(&self.kept)?;
                    fs::copy(&image.path, &kept)?;
                    line += &format!(" (kept as {})", kept.display());
                }
                wrong.push(line);
            }
            fs::remove_file(&image.path)?;
        }
    }
}

/// What is wrong with an image is the error.
fn judge(case: &Case, image: &Image, directory: &Path) -> Result<()> {
    filesystem::dump(&image.path, directory)?;
    if image.number.is_multiple_of(IMAGES_PER_CHECK) {
        filesystem::check(&image.path)?;
    }
    let files = directory.join(DIRECTORY);
    fs::create_dir_all(&files)?;
    case.judge(&files, &Notes::on_image(File::open(&image.path)?))
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
    let mut states: Vec<State> = (0..images)
        .map(|number| {
            // Some lose nothing right after a flush. Of the others much is under way.
            let is_flushed = number % 4 == 0 && !flushes.is_empty();
            let mut count =
                if is_flushed { *random.of(&flushes) } else { 1 + random.index(entries.len()) };
            // Later notes oblige to more.
            while entries.get(count).is_some_and(is_note) {
                count += 1;
            }
            let loss = if is_flushed { Loss::NOTHING } else { Loss::any(random) };
            State { count, loss }
        })
        .collect();
    states.sort_by_key(|state| state.count);
    states
}
