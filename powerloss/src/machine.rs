//! The virtual machine.

use crate::record;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What the guest says when it begins to write.
pub const BEGINS: &str = "guest begins";
/// What the guest says before what is wrong.
pub const WRONG: &str = "guest: wrong:";
/// Emulation on a busy host is slow. Then there are fewer entries.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How often the host looks how much has been recorded.
const INTERVAL: Duration = Duration::from_millis(20);

/// When the guest has written enough.
#[derive(Debug, Clone, Copy)]
pub struct Enough {
    /// It has written so long,
    pub time: Duration,
    /// and the record has so many entries.
    pub entries: u64,
}

/// What is started.
#[derive(Debug)]
pub struct Machine {
    /// A kernel with ext4.
    pub kernel: PathBuf,
    /// Its first file system, whose program `init` starts the guest with what the environment names.
    pub initramfs: PathBuf,
}

impl Machine {
    /// Starts the machine, lets it write until that is enough, and kills it. Every write and flush of the disk is
    /// recorded. What the guest found wrong.
    pub fn run(
        &self,
        case: &str,
        engine: &str,
        disk: &Path,
        record: &Path,
        enough: Enough,
    ) -> Result<Vec<String>> {
        let mut child =
            self.command(case, engine, disk, record).spawn().context("QEMU does not start")?;
        let console = child.stdout.take().context("QEMU has no console")?;
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(console).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let said = listen(&lines, || record::count(record), enough);
        // Killed, it finishes nothing: what was complete for the guest is in the record.
        child.kill().context("QEMU cannot be killed")?;
        child.wait()?;
        drop(lines);
        let _ = reader.join();
        said
    }

    fn command(&self, case: &str, engine: &str, disk: &Path, record: &Path) -> Command {
        // The kernel makes what it does not know the environment of the first program.
        let line =
            format!("console=ttyS0 quiet panic=-1 no_timer_check case={case} engine={engine}");
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"])
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initramfs)
            .args(["-append", &line])
            // QEMU is killed, the host is not: nothing need reach the host's disk.
            .args(["-blockdev", &file("disk", disk), "-blockdev", &file("record", record)])
            // The record's superblock counts each entry at once: one that is not counted would be lost.
            .args(["-blockdev", "driver=blklogwrites,node-name=recorded,file=disk,log=record,log-super-update-interval=1"])
            .args(["-device", "virtio-blk-pci,drive=recorded,discard=off,write-zeroes=off"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }
}

fn file(name: &str, path: &Path) -> String {
    // A comma in a path is doubled.
    let path = path.display().to_string().replace(',', ",,");
    format!("driver=file,node-name={name},filename={path},cache.no-flush=on")
}

/// Waits until the guest has begun to write and has written enough.
fn listen(
    lines: &mpsc::Receiver<String>,
    recorded: impl Fn() -> Result<u64>,
    enough: Enough,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    let started = Instant::now();
    let mut begun: Option<Instant> = None;
    loop {
        match lines.recv_timeout(INTERVAL) {
            Ok(line) if line.contains(BEGINS) => begun = Some(Instant::now()),
            Ok(line) => {
                if line.contains(WRONG) || line.contains("panic") {
                    wrong.push(line.trim().to_owned());
                }
                said.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the guest ended:\n{}", said.join("\n")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let is_late = started.elapsed() > TIME_MAX;
        if begun.is_none() && is_late {
            bail!("the guest did not begin:\n{}", said.join("\n"));
        }
        let has_had_time = begun.is_some_and(|begun| begun.elapsed() >= enough.time);
        if has_had_time && (is_late || !wrong.is_empty() || recorded()? >= enough.entries) {
            return Ok(wrong);
        }
    }
}
