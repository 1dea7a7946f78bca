//! The guest's part: recovers all pools, judges them, and writes to them until it is killed. Each pool has a process of
//! its own, so that pools do not wait for each other's mappings.

use super::{Member, Report, What, members};
use crate::machine::WRONG;
use crate::notes::Notes;
use crate::pool::{self, THREADS};
use crate::victim;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The NVDIMM as the guest sees it.
const DISK: &str = "/dev/pmem0";
/// The command, linked statically.
const FIRNDEX: &str = "/firndex";
/// The shortest and the longest life of a writer. It may take seconds to open its pool and judge it.
const LIFE_MS: [u64; 2] = [1000, 15_000];
/// How often the host is told what was acknowledged.
const INTERVAL: Duration = Duration::from_millis(200);

/// Starts a writer for each pool in a directory, and kills and replaces each of them now and then. Tells the host what
/// was acknowledged.
pub fn run(directory: &Path) -> Result<()> {
    let members = members();
    thread::scope(|scope| {
        for member in &members {
            scope.spawn(|| {
                if let Err(error) = member.run(directory) {
                    println!("{WRONG} {}: {error:#}", member.name);
                }
            });
        }
        loop {
            thread::sleep(INTERVAL);
            members.iter().try_for_each(Member::report_acknowledged)?;
        }
    })
}

/// Recovers, judges and changes the pool of this name until it is killed.
pub fn write(directory: &Path, name: &str) -> Result<()> {
    let members = members();
    let member =
        members.iter().find(|member| member.name == name).context("there is no such pool")?;
    member.write(&directory.join(name)).with_context(|| member.name.clone())
}

impl Member {
    fn notes(&self) -> Result<Notes> {
        Ok(Notes::on_device(Path::new(DISK))?.of_threads_from(self.number * THREADS))
    }

    fn run(&self, directory: &Path) -> Result<()> {
        victim::run_and_kill(&["dax", &self.name], LIFE_MS, |random| {
            // Whichever comes first has to recover: the command, or the writer.
            if random.below(2) == 0 {
                self.ask_command(&directory.join(&self.name))
            } else {
                Ok(())
            }
        })
    }

    fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        let notes = self.notes()?;
        let found = self.pool.judge(self.engine, directory, &notes)?;
        // What a look-up has shown is as durable as what had returned.
        (0..).zip(found).try_for_each(|(thread, count)| notes.acknowledge(thread, count))?;
        self.report(What::Found, found);
        self.pool.write(self.engine, directory, &notes, false)
    }

    fn report_acknowledged(&self) -> Result<()> {
        let notes = self.notes()?;
        let mut counts = [0; THREADS];
        for (thread, count) in counts.iter_mut().enumerate() {
            *count = notes.acknowledged(thread)?;
        }
        self.report(What::Acknowledged, counts);
        Ok(())
    }

    fn report(&self, what: What, counts: [u64; THREADS]) {
        println!("{}", Report { what, pool: self.name.clone(), counts });
    }

    /// Fails unless the command finds the pool sound.
    fn ask_command(&self, directory: &Path) -> Result<()> {
        let pool = pool::path(directory);
        if !pool.exists() {
            return Ok(());
        }
        let asked = Command::new(FIRNDEX).arg("check").arg(&pool).output();
        let output = asked.context("the command does not start")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        ensure!(output.status.success(), "firndex check: {said}");
        Ok(())
    }
}
