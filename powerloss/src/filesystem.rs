//! The file system on an image, made and read without mounting it.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

/// Where the guest keeps what it writes: this directory of the file system.
pub const DIRECTORY: &str = "data";

/// Makes an image of this size with an empty file system, which ends at `end`.
pub fn make(image: &Path, bytes: u64, end: u64) -> Result<()> {
    let file = File::create(image).with_context(|| format!("{} cannot be made", image.display()))?;
    file.set_len(bytes)?;
    let blocks = (end / 4096).to_string();
    // Nothing is left to the kernel to initialise later: the record would be mostly that.
    let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-J", "size=4", "-N", "1024", "-E", options])
        .arg(image)
        .arg(blocks)
        .output();
    let output = made.context("mkfs.ext4 does not start")?;
    ensure!(output.status.success(), "mkfs.ext4: {}", text(&output));
    Ok(())
}

/// Replays the journal of the file system on an image, as mounting it would, and copies its directory
/// [`DIRECTORY`] into `to`. `false` if it has none.
pub fn dump(image: &Path, to: &Path) -> Result<bool> {
    // The program refuses to replay a journal that needs no replay; nothing is to be done then.
    let requests = format!("rdump /{DIRECTORY} {}\n", to.display());
    let mut failures = debugfs(image, &format!("journal_run\n{requests}"))?;
    failures.retain(|line| !line.starts_with("journal_run: "));
    if failures.iter().any(|line| line.contains("File not found by ext2_lookup")) {
        return Ok(false);
    }
    if !failures.is_empty() {
        bail!("the file system cannot be read: {}", failures.join("; "));
    }
    Ok(to.join(DIRECTORY).is_dir())
}

/// Runs requests of debugfs; what it complained of.
fn debugfs(image: &Path, requests: &str) -> Result<Vec<String>> {
    let script = image.with_extension("requests");
    fs::write(&script, requests)?;
    let run = Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(image).output();
    let output = run.context("debugfs does not start")?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // The first line is its version.
    Ok(errors.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Checks the whole file system on an image whose journal was replayed.
pub fn check(image: &Path) -> Result<()> {
    let run = Command::new("e2fsck").args(["-f", "-n"]).arg(image).output();
    let output = run.context("e2fsck does not start")?;
    ensure!(output.status.success(), "e2fsck: {}", text(&output));
    Ok(())
}

fn text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).trim().replace('\n', "; ")
}
