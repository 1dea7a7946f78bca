//! The file system on an image, made and read without mounting it.

use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the guest keeps what it writes: this directory of the file system.
pub const DIRECTORY: &str = "data";

/// Makes an image of a disk of this size with an empty file system, which ends at `end`. The disk begins at `from` in
/// the image.
pub fn make(image: &Path, from: u64, bytes: u64, end: u64) -> Result<()> {
    let file =
        File::create(image).with_context(|| format!("{} cannot be made", image.display()))?;
    file.set_len(from + bytes)?;
    let blocks = (end / 4096).to_string();
    // Nothing is left to the kernel to initialise later: the record would be mostly that.
    let options = format!("lazy_itable_init=0,lazy_journal_init=0,nodiscard,offset={from}");
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-J", "size=4", "-N", "1024", "-E", &options])
        .arg(image)
        .arg(blocks)
        .output();
    let output = made.context("mkfs.ext4 does not start")?;
    ensure!(output.status.success(), "mkfs.ext4: {}", text(&output));
    Ok(())
}

/// Replays the journal of the file system on an image, as mounting it does.
pub fn replay_journal(image: &Path) -> Result<()> {
    let run = Command::new("e2fsck").args(["-y", "-E", "journal_only"]).arg(image).output();
    let output = run.context("e2fsck does not start")?;
    // 1: it changed something.
    let is_done = matches!(output.status.code(), Some(0 | 1));
    ensure!(is_done, "the journal cannot be replayed: {}", text(&output));
    Ok(())
}

/// Copies the directory [`DIRECTORY`] of an image whose journal was replayed into `to`. `false` if it has none.
pub fn dump(image: &Path, to: &Path) -> Result<bool> {
    let request = format!("rdump /{DIRECTORY} {}", to.display());
    // Without the bitmaps, which are not needed and may not be right yet: mounting corrects counts later.
    let run = Command::new("debugfs").args(["-c", "-R", &request]).arg(image).output();
    let output = run.context("debugfs does not start")?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_known =
        |line: &str| line.starts_with("debugfs 1.") || line.contains("catastrophic mode");
    let complaints: Vec<_> =
        errors.lines().filter(|line| !line.is_empty() && !is_known(line)).collect();
    if complaints.iter().any(|line| line.contains("File not found by ext2_lookup")) {
        return Ok(false);
    }
    ensure!(complaints.is_empty(), "the files cannot be read: {}", complaints.join("; "));
    Ok(to.join(DIRECTORY).is_dir())
}

/// Checks the whole file system on an image whose journal was replayed.
pub fn check(image: &Path) -> Result<()> {
    let run = Command::new("e2fsck").args(["-f", "-n"]).arg(image).output();
    let output = run.context("e2fsck does not start")?;
    ensure!(output.status.success(), "e2fsck: {}", text(&output));
    Ok(())
}

/// Copies an image for whoever looks into it later. Where to.
pub fn keep(image: &Path, directory: &Path) -> Result<PathBuf> {
    let kept = directory.join(image.file_name().context("it has a name")?);
    fs::create_dir_all(directory)?;
    // Most of it is holes.
    let copied = Command::new("cp").arg("--sparse=always").args([image, &kept]).status();
    ensure!(copied.context("cp does not start")?.success(), "the image cannot be kept");
    Ok(kept)
}

fn text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).trim().replace('\n', "; ")
}
