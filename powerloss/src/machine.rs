//! The virtual machine.

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
/// Emulation on a busy host is slow. Then there is less to judge.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How often the host looks whether the guest has done enough.
const INTERVAL: Duration = Duration::from_millis(20);

/// What the guest has said.
#[derive(Debug, Default)]
pub struct Said {
    /// All of it.
    pub lines: Vec<String>,
    /// What it found wrong.
    pub wrong: Vec<String>,
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
    /// Starts the machine with these arguments to QEMU, lets it write for so long and until that is enough, and kills
    /// it. `environment` is that of the first program.
    pub fn run(
        &self,
        devices: Vec<String>,
        environment: &str,
        time: Duration,
        is_enough: impl Fn(&Said) -> Result<bool>,
    ) -> Result<Said> {
        let mut child =
            self.command(devices, environment).spawn().context("QEMU does not start")?;
        let console = child.stdout.take().context("QEMU has no console")?;
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(console).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let said = listen(&lines, time, is_enough);
        // Killed, it finishes nothing. What was complete for the guest is in the files of its disks.
        child.kill().context("QEMU cannot be killed")?;
        child.wait()?;
        drop(lines);
        let _ = reader.join();
        said
    }

    fn command(&self, devices: Vec<String>, environment: &str) -> Command {
        // The kernel makes what it does not know the environment of the first program.
        let line = format!("console=ttyS0 quiet panic=-1 no_timer_check {environment}");
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"])
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initramfs)
            .args(["-append", &line])
            .args(devices)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }
}

/// A disk whose every write and flush is recorded.
pub(crate) fn recorded_disk(disk: &Path, record: &Path) -> Vec<String> {
    // QEMU is killed, the host is not: nothing need reach the host's disk.
    let file = |name, path| {
        format!("driver=file,node-name={name},filename={},cache.no-flush=on", escaped(path))
    };
    // The record's superblock counts each entry at once: one that is not counted would be lost.
    let recorded =
        "driver=blklogwrites,node-name=recorded,file=disk,log=record,log-super-update-interval=1";
    let device = "virtio-blk-pci,drive=recorded,discard=off,write-zeroes=off";
    owned([
        ["-blockdev", &file("disk", disk)],
        ["-blockdev", &file("record", record)],
        ["-blockdev", recorded],
        ["-device", device],
    ])
}

/// A module of persistent memory, whose content is a file of this size.
pub(crate) fn nvdimm(file: &Path, bytes: u64) -> Vec<String> {
    // Shared: the guest's stores reach the file, where the kill leaves them.
    let memory =
        format!("memory-backend-file,id=memory,share=on,mem-path={},size={bytes}", escaped(file));
    owned([
        ["-machine", "nvdimm=on"],
        ["-m", "slots=1,maxmem=8G"],
        ["-object", &memory],
        ["-device", "nvdimm,memdev=memory"],
    ])
}

fn owned<const N: usize>(arguments: [[&str; 2]; N]) -> Vec<String> {
    arguments.concat().into_iter().map(str::to_owned).collect()
}

/// A path in an argument to QEMU, where a comma is doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Waits until the guest has begun to write, for so long, and until that is enough.
fn listen(
    lines: &mpsc::Receiver<String>,
    time: Duration,
    is_enough: impl Fn(&Said) -> Result<bool>,
) -> Result<Said> {
    let mut said = Said::default();
    let started = Instant::now();
    let mut begun: Option<Instant> = None;
    loop {
        match lines.recv_timeout(INTERVAL) {
            Ok(line) if line.contains(BEGINS) => begun = Some(Instant::now()),
            Ok(line) => {
                if line.contains(WRONG) || line.contains("panic") {
                    said.wrong.push(line.trim().to_owned());
                }
                said.lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the guest ended:\n{}", said.lines.join("\n"))
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let is_late = started.elapsed() > TIME_MAX;
        if begun.is_none() && is_late {
            bail!("the guest did not begin:\n{}", said.lines.join("\n"));
        }
        let has_had_time = begun.is_some_and(|begun| begun.elapsed() >= time);
        if has_had_time && (is_late || !said.wrong.is_empty() || is_enough(&said)?) {
            return Ok(said);
        }
    }
}
