//! How the kernel has mapped a file.

use anyhow::{Context, Result, ensure};
use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fails unless the kernel says that this process maps a file with MAP_SYNC, and in no other way.
pub(crate) fn ensure_map_sync(file: &Path) -> Result<()> {
    let maps = fs::read_to_string("/proc/self/smaps")?;
    let found = fs::metadata(file)?;
    let (device, inode) = (found.dev(), found.ino());
    ensure_flags(&maps, &format!("{:02x}:{:02x} {inode}", major(device), minor(device)))
        .with_context(|| format!("the mapping of {}", file.display()))
}

/// In `smaps` the first line of a mapping names device and inode of its file, and the last one has its flags. (The name
/// there would be none if the file had been made without one.)
fn ensure_flags(maps: &str, file: &str) -> Result<()> {
    let mut is_of_file = false;
    let mut mappings = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("VmFlags:") {
            let is_synchronous = words.any(|flag| flag == "sf");
            ensure!(!is_of_file || is_synchronous, "it is without MAP_SYNC: {line}");
            mappings += u32::from(is_of_file);
            is_of_file = false;
        } else if let (Some(device), Some(inode)) = (words.nth(2), words.next()) {
            is_of_file |= format!("{device} {inode}") == file;
        }
    }
    ensure!(mappings > 0, "there is none");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mapping_of_the_file_must_be_synchronous() {
        let mapping = |inode, flags| {
            let first = format!("7f00-7f10 rw-s 00000000 103:00 {inode}    /mnt/#12 (deleted)");
            format!("{first}\nRss:      4 kB\nVmFlags: rd {flags} \n")
        };
        let [good, bad, other] =
            [(12, "sh sf"), (12, "sh"), (121, "sh")].map(|(inode, flags)| mapping(inode, flags));
        let is_sound = |maps: &str| ensure_flags(maps, "103:00 12").is_ok();
        assert!(is_sound(&format!("{other}{good}{other}")));
        assert!(!is_sound(&format!("{good}{bad}")));
        assert!(!is_sound(&other));
    }
}
