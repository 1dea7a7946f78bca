//! One case from its beginning to its verdict.

use crate::cases::Case;
use crate::disk::Disk;
use crate::filesystem;
use crate::judges::{Judges, Wrong};
use crate::machine::{self, Machine};
use crate::notes::{DISK_BYTES, NOTES_FROM};
use crate::record;
use anyhow::{Context, Result};
use firndex::Engine;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workload::Random;

/// Fewer entries say little.
const ENTRIES_MIN: u64 = 400;

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
    /// How long it writes: this, or up to twice as long.
    pub writes_for: Duration,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Images judged.
    pub images: usize,
    /// Images with which something is wrong, and what the guest complained of.
    pub violations: usize,
}

impl Trial {
    /// Tries one case.
    pub fn run(&self, case: &Case, engine: Engine, random: &mut Random) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let base = self.work.join("base.img");
        filesystem::make(&base, 0, DISK_BYTES, NOTES_FROM)?;
        for start in 1..=case.starts {
            let name = format!("{}-{engine}-{start}", case.name);
            let wrong = self.start(case, engine, &name, &base, random).context(name)?;
            outcome.images += self.images;
            outcome.violations += wrong.len();
            if !case.is_hasty {
                print(&wrong);
            }
        }
        Ok(outcome)
    }

    /// Starts the machine once on the disk in `base`, which then becomes what that start may have left.
    fn start(
        &self,
        case: &Case,
        engine: Engine,
        name: &str,
        base: &Path,
        random: &mut Random,
    ) -> Result<Vec<Wrong>> {
        let began = Instant::now();
        let mut disk = Disk::of(&File::open(base)?, NOTES_FROM)?;
        let [device, record] = ["device.img", "record"].map(|name| self.work.join(name));
        let time = self.writes_for.mul_f64(1.0 + random.unit());
        let enough = ENTRIES_MIN + random.below(ENTRIES_MIN);
        let run = || {
            disk.write_image(&File::create(&device)?, |_, _| true)?;
            File::create(&record)?;
            self.machine.run(
                machine::recorded_disk(&device, &record),
                &format!("case={} engine={engine}", case.name),
                time,
                |_| Ok(record::count(&record)? >= enough),
            )
        };
        // On a busy host an emulated kernel hangs now and then before it has started.
        let said = run().or_else(|_| run())?;
        let recorded = Instant::now();

        let bytes = fs::read(&record)?;
        fs::remove_file(&record)?;
        fs::remove_file(&device)?;
        let entries = record::entries(&bytes)?;
        let judges = Judges { case, engine, name, work: &self.work, kept: &self.kept };
        let mut wrong = judges.judge_all(&mut disk, &entries, self.images, random, base)?;
        wrong.extend(said.wrong.into_iter().map(|error| Wrong { with: name.into(), error }));
        println!(
            "{name}: {} entries, {} flushes, {} notes, {} MiB; images {}, violations {}; {:.1} s and {:.1} s",
            entries.len(),
            entries.iter().filter(|entry| entry.is_flush).count(),
            entries.iter().filter(|entry| entry.at >= NOTES_FROM).count(),
            bytes.len() >> 20,
            self.images,
            wrong.len(),
            (recorded - began).as_secs_f64(),
            recorded.elapsed().as_secs_f64(),
        );
        Ok(wrong)
    }
}

/// One line for each kind of error.
pub(crate) fn print(wrong: &[Wrong]) {
    let mut kinds: Vec<String> = wrong.iter().map(Wrong::kind).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let mut alike = wrong.iter().filter(|wrong| wrong.kind() == kind);
        if let Some(Wrong { with, error }) = alike.next() {
            println!("violation: {error}\n    with {with}, and {} others", alike.count());
        }
    }
}
