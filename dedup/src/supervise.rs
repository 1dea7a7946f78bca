//! The parent's side: start the writer, feed it, note what it reports, kill it.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use crate::audience::Progress;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::tempo::Tempo;
use crate::wire::{FRAME_JOBS_MAX, Report, ReportReader, write_frame};

const SIGKILL: i32 = 9;
/// As much as a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// Which chunks the writer has reported, over all its lives.
pub(crate) struct Supervisor<'a> {
    plan: &'a Plan,
    writer: &'a dyn Fn() -> Command,
    frame_jobs: usize,
    acknowledged: Vec<bool>,
    acknowledged_count: u64,
    inserts: Tempo,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        writer: &'a dyn Fn() -> Command,
        threads: usize,
        kills: usize,
    ) -> Self {
        // A handful of reports between two kills even if there is little to store, so that a kill
        // finds the writer at work.
        let reports_wanted = 8 * threads * (kills + 1);
        Supervisor {
            plan,
            writer,
            frame_jobs: (plan.chunks.len() / reports_wanted).clamp(1, FRAME_JOBS_MAX),
            acknowledged: vec![false; plan.chunks.len()],
            acknowledged_count: 0,
            inserts: Tempo::default(),
        }
    }

    /// The chunks whose inserts have returned.
    pub(crate) fn acknowledged(&self) -> Vec<usize> {
        self.chunks_that_are(true).collect()
    }

    pub(crate) fn acknowledged_count(&self) -> u64 {
        self.acknowledged_count
    }

    pub(crate) fn inserts(&self) -> Tempo {
        self.inserts
    }

    fn chunks_that_are(&self, acknowledged: bool) -> impl Iterator<Item = usize> {
        let each = self.acknowledged.iter().enumerate();
        each.filter(move |(_, is)| **is == acknowledged).map(|(index, _)| index)
    }

    /// Starts the writer where it stopped and kills it once that many chunks are reported in all.
    /// It is fed no more than `feed_until` in all, which leaves the later kills something to do.
    pub(crate) fn run_and_kill(
        &mut self,
        kill_at: u64,
        feed_until: u64,
        progress: &dyn Progress,
    ) -> Result<()> {
        let (killed, status) = self.run(Some(kill_at), feed_until, progress)?;
        if !killed || status.signal() != Some(SIGKILL) {
            return Err(Error::EndedEarly(status));
        }
        Ok(())
    }

    /// Starts the writer where it stopped and lets it finish.
    pub(crate) fn run_to_the_end(&mut self, progress: &dyn Progress) -> Result<()> {
        let (_, status) = self.run(None, u64::MAX, progress)?;
        if !status.success() {
            return Err(Error::WriterFailed(status));
        }
        let chunks = self.plan.chunks.len() as u64;
        if self.acknowledged_count != chunks {
            return Err(Error::Incomplete { reported: self.acknowledged_count, chunks });
        }
        Ok(())
    }

    /// One life of the writer. Says whether it was killed, and how it ended.
    fn run(
        &mut self,
        kill_at: Option<u64>,
        feed_until: u64,
        progress: &dyn Progress,
    ) -> Result<(bool, ExitStatus)> {
        let room = feed_until.saturating_sub(self.acknowledged_count);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let work: Vec<usize> = self.chunks_that_are(false).take(room).collect();
        let (mut child, input, output) = self.spawn()?;
        let (plan, frame_jobs) = (self.plan, self.frame_jobs);
        thread::scope(|scope| {
            let feeding = thread::Builder::new().spawn_scoped(scope, move || {
                let fed = feed(input, plan, &work, frame_jobs);
                // Held open, the pipe keeps a writer that has done it all from ending before it
                // is killed.
                fed.map(|input| kill_at.map(|_| input))
            });
            let feeder = feeding.map_err(|error| {
                let _ = (child.kill(), child.wait());
                Error::system("starting a thread")(error)
            })?;
            let collected = self.collect(&mut child, output, kill_at, progress);
            if collected.is_err() {
                // Nobody reads its reports any more: it would never take the rest of the work.
                let _ = child.kill();
            }
            let fed = feeder.join();
            let status = child.wait().map_err(Error::system("waiting for the writing process"))?;
            let killed = collected?;
            match fed {
                Ok(fed) => drop(fed.map_err(Error::system("handing work to the writing process"))?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            Ok((killed, status))
        })
    }

    fn spawn(&self) -> Result<(Child, ChildStdin, ChildStdout)> {
        let spawned = (self.writer)()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on the terminal is for the parent to handle; with it, this process ends.
            .process_group(0)
            .spawn();
        let mut child = spawned.map_err(Error::system("starting the writing process"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok((child, input, output)),
            _ => unreachable!("both were asked for"),
        }
    }

    /// Notes the reports until the writer's end, and ends it when it is time. Reports that were in
    /// the pipe by then count: their inserts had returned.
    fn collect(
        &mut self,
        child: &mut Child,
        mut output: ChildStdout,
        kill_at: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<bool> {
        let mut reader = ReportReader::default();
        let mut buffer = vec![0; READ_BYTES];
        let mut killed = false;
        let mut stored = 0;
        let mut spans = Vec::new();
        loop {
            let acknowledged_before = self.acknowledged_count;
            let read = match output.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Error::system("reading the writing process's reports")(error));
                }
            };
            for report in reader.feed(&buffer[..read]) {
                match report {
                    Report::Stored(chunk) => {
                        self.acknowledge(chunk)?;
                        stored += 1;
                    }
                    Report::Took(span) => spans.push(span),
                }
            }
            if !killed && kill_at.is_some_and(|count| self.acknowledged_count >= count) {
                child.kill().map_err(Error::system("killing the writing process"))?;
                killed = true;
            }
            progress.advance(self.acknowledged_count - acknowledged_before);
        }
        self.inserts += Tempo::over(stored, spans);
        Ok(killed)
    }

    fn acknowledge(&mut self, chunk: u64) -> Result<()> {
        let index = usize::try_from(chunk).ok();
        let Some(seen) = index.and_then(|index| self.acknowledged.get_mut(index)) else {
            return Err(Error::Invented(chunk));
        };
        if !std::mem::replace(seen, true) {
            self.acknowledged_count += 1;
        }
        Ok(())
    }
}

/// Hands all the work over. A writer that is gone takes no more, which its end will tell.
fn feed(
    mut input: ChildStdin,
    plan: &Plan,
    work: &[usize],
    frame_jobs: usize,
) -> io::Result<ChildStdin> {
    let mut buffer = Vec::new();
    for jobs in work.chunks(frame_jobs) {
        match write_frame(&mut input, plan, jobs, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            result => result?,
        }
    }
    Ok(input)
}
