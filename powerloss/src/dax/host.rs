//! The host's part: kills the machine and starts it again. What the guest then finds must be no less than what it had
//! acknowledged.

use super::{Report, What, members};
use crate::filesystem;
use crate::judges::Wrong;
use crate::machine::{self, Machine};
use crate::notes::{DISK_BYTES, NOTES_FROM};
use crate::pool::THREADS;
use crate::trial;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workload::Random;

/// A namespace begins with so much that describes it (`pfn` in the kernel, with an alignment of 2 MiB).
const NAMESPACE_BYTES: u64 = 2 << 20;

/// How the machine is killed.
#[derive(Debug)]
pub struct Trial {
    /// What is killed.
    pub machine: Machine,
    /// A directory for the NVDIMM; best in memory.
    pub work: PathBuf,
    /// A directory for the NVDIMM if something is wrong.
    pub kept: PathBuf,
    /// How often the machine is killed while it writes or recovers.
    pub kills: usize,
    /// How long it writes: this, or up to twice as long.
    pub writes_for: Duration,
}

/// When the machine is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    /// While it writes to each pool.
    Writing,
    /// At a random moment, mostly while pools are recovered.
    Early,
    /// When all pools have been judged: the last time.
    Judged,
}

/// Operations of each thread of a pool.
type Counts = BTreeMap<String, [u64; THREADS]>;

impl Trial {
    /// Kills and starts the machine. Whether all is well.
    pub fn run(&self, random: &mut Random) -> Result<bool> {
        let nvdimm = self.work.join("nvdimm.img");
        filesystem::make(&nvdimm, NAMESPACE_BYTES, DISK_BYTES, NOTES_FROM)?;
        let mut acknowledged = Counts::new();
        let mut recoveries = 0;
        for start in 0..=self.kills {
            let kill = match start {
                last if last == self.kills => Kill::Judged,
                // The first time there is nothing to recover yet.
                early if early % 3 == 2 => Kill::Early,
                _ => Kill::Writing,
            };
            let began = Instant::now();
            let (seen, wrong) = self.start(&nvdimm, kill, &acknowledged, random)?;
            recoveries += seen.recoveries;
            acknowledged = seen.acknowledged;
            println!(
                "start {}: killed after {:.1} s ({kill:?}); {} pools opened, {} operations acknowledged so far",
                start + 1,
                began.elapsed().as_secs_f64(),
                seen.recoveries,
                sum(&acknowledged),
            );
            if !wrong.is_empty() {
                let with = format!("start {}", start + 1);
                let wrong: Vec<_> =
                    wrong.into_iter().map(|error| Wrong { with: with.clone(), error }).collect();
                trial::print(&wrong);
                println!("kept as {}", filesystem::keep(&nvdimm, &self.kept)?.display());
                return Ok(false);
            }
        }
        println!(
            "kills {}, pools opened and judged {recoveries}, operations {}, violations 0",
            self.kills,
            sum(&acknowledged)
        );
        Ok(true)
    }

    /// Starts the machine once. What it said of its pools, and what is wrong.
    fn start(
        &self,
        nvdimm: &Path,
        kill: Kill,
        before: &Counts,
        random: &mut Random,
    ) -> Result<(Seen, Vec<String>)> {
        let pools: BTreeSet<String> = members().into_iter().map(|member| member.name).collect();
        let time = match kill {
            Kill::Writing => self.writes_for.mul_f64(1.0 + random.unit()),
            Kill::Early => self.writes_for.mul_f64(random.unit()),
            Kill::Judged => Duration::ZERO,
        };
        let is_enough = |seen: &Seen| match kill {
            Kill::Writing => seen.written == pools,
            Kill::Early => true,
            Kill::Judged => seen.found == pools,
        };
        let run = || {
            self.machine.run(
                machine::nvdimm(nvdimm, NAMESPACE_BYTES + DISK_BYTES),
                "",
                time,
                |said| Ok(is_enough(&Seen::of(before, &said.lines))),
            )
        };
        // As for recorded disks: an emulated kernel may hang before it has started.
        let said = run().or_else(|_| run())?;
        let seen = Seen::of(before, &said.lines);
        let wrong = [&said.wrong[..], &seen.lost].concat();
        if wrong.is_empty() && !is_enough(&seen) {
            bail!("the guest was too slow, and said:\n{}", said.lines.join("\n"));
        }
        Ok((seen, wrong))
    }
}

fn sum(counts: &Counts) -> u64 {
    counts.values().flatten().sum()
}

/// What the guest said of its pools in one start.
#[derive(Debug, Default)]
struct Seen {
    /// What must not be lost any more.
    acknowledged: Counts,
    /// Pools that were recovered.
    found: BTreeSet<String>,
    /// Of these, the ones that were changed after that.
    written: BTreeSet<String>,
    /// How often pools were recovered.
    recoveries: u64,
    /// What was acknowledged and is not there.
    lost: Vec<String>,
}

impl Seen {
    /// `before`: what must not be lost from earlier starts.
    fn of(before: &Counts, lines: &[String]) -> Seen {
        let mut seen = Seen { acknowledged: before.clone(), ..Seen::default() };
        lines.iter().filter_map(|line| Report::of_line(line)).for_each(|report| seen.read(report));
        seen
    }

    fn read(&mut self, report: Report) {
        let known = self.acknowledged.entry(report.pool.clone()).or_default();
        let is_less = report.counts.iter().zip(&*known).any(|(said, known)| said < known);
        match report.what {
            What::Found => {
                if is_less {
                    self.lost.push(format!("{report}, but {known:?} were acknowledged"));
                }
                self.recoveries += 1;
                self.found.insert(report.pool);
            }
            // It was overtaken by what the next writer found.
            What::Acknowledged if is_less => return,
            What::Acknowledged => {
                if report.counts != *known && self.found.contains(&report.pool) {
                    self.written.insert(report.pool);
                }
            }
        }
        *known = report.counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use What::{Acknowledged, Found};

    fn seen(before: &Counts, reports: &[(What, [u64; THREADS])]) -> Seen {
        let line = |&(what, counts)| Report { what, pool: "one".into(), counts }.to_string();
        Seen::of(before, &reports.iter().map(line).collect::<Vec<_>>())
    }

    #[test]
    fn what_was_acknowledged_must_be_found() {
        let first = seen(&Counts::new(), &[(Found, [0, 0]), (Acknowledged, [5, 7])]);
        assert!(first.lost.is_empty() && first.written.contains("one"));
        for (found, is_lost) in [([5, 7], false), ([6, 9], false), ([6, 6], true), ([0, 0], true)] {
            let second = seen(&first.acknowledged, &[(Found, found)]);
            assert_eq!(!second.lost.is_empty(), is_lost, "{found:?}");
        }
        // In the same start, after the writer was killed.
        let again =
            seen(&first.acknowledged, &[(Found, [5, 8]), (Acknowledged, [9, 9]), (Found, [9, 8])]);
        assert_eq!((again.lost.len(), again.recoveries), (1, 2));
    }

    #[test]
    fn what_is_only_found_was_not_written() {
        let reports = [(Acknowledged, [5, 7]), (Found, [5, 8]), (Acknowledged, [5, 8])];
        let seen = seen(&Counts::new(), &reports);
        assert!(seen.found.contains("one") && seen.written.is_empty());
    }
}
