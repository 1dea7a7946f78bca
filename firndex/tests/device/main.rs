//! What power loss leaves of real files. A process lives with a pool, and every system call of it is seen. After each
//! one that changes files or makes changes durable, everything is judged that the device may have then: of a name what
//! it was when the directory was last synced, or what it is; of a file what was synced, or what is written. So a sync
//! that is missing shows without a virtual machine whose power fails.

mod device;
mod lives;
mod tracer;

use device::{Device, Moment};
use lives::{LIVES, Life};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const LIFE: &str = "FIRNDEX_TEST_LIFE";
const PATH: &str = "FIRNDEX_TEST_PATH";

/// Entered by the processes that the tests start from their own executable.
#[test]
fn live() {
    let Ok(name) = std::env::var(LIFE) else { return };
    let life = LIVES.iter().find(|life| life.name == name).unwrap();
    (life.live)(std::env::var_os(PATH).unwrap().as_ref());
}

fn on_a_disk() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Where images are judged: they need no device.
fn in_ram() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| on_a_disk())
}

/// Has a process live, and loses power after each of its calls. How often each call was made; `None` where the system
/// lets nobody look at the calls of a process, so that nothing was judged.
fn survives(name: &str) -> Option<BTreeMap<&'static str, u64>> {
    let Life { begin, judge, steps, .. } = LIVES.iter().find(|life| life.name == name).unwrap();
    let directory = on_a_disk();
    let path = directory.path().canonicalize().unwrap();
    begin(&path);
    let mut last = 0;
    let mut device = Device::of(&path, in_ram(), |image: &std::path::Path, moment: Moment| {
        last = moment.returned;
        judge(image, moment);
    });
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "live", "--nocapture", "--test-threads=1"]);
    process.env(LIFE, name).env(PATH, &path).stdin(Stdio::null()).stdout(Stdio::null());
    match tracer::run(process, &mut device) {
        Ok(has_ended_well) => assert!(has_ended_well, "{name}: it did not end well"),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("{name}: not judged: this system lets nobody trace a process: {error}");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    }
    let (images, counts) = (device.images(), device.counts.clone());
    drop(device);
    println!("{name}: {images} images; {counts:?}");
    assert_eq!(last, *steps, "{name}: steps");
    Some(counts)
}

#[test]
fn a_pool_that_commits() {
    let Some(counts) = survives("commits") else { return };
    assert!(counts["pwritev2"] > 80 && counts["mkdirat"] == 1, "{counts:?}");
}

#[test]
fn a_pool_that_is_synced_with_a_log() {
    survives("is synced with a log");
}

#[test]
fn a_pool_without_a_log() {
    let Some(counts) = survives("has no log") else { return };
    assert!(counts["msync"] > 4, "{counts:?}");
}

#[test]
fn a_pool_that_is_restored_where_its_file_is_lost() {
    survives("has lost its file");
}

#[test]
fn a_pool_that_is_restored_in_place_of_its_file() {
    survives("has an outdated file");
}

#[test]
fn a_pool_that_is_backed_up() {
    survives("is backed up");
}

#[test]
fn a_pool_without_a_log_that_is_backed_up() {
    survives("is copied");
}

#[test]
fn a_pool_that_is_rewritten() {
    survives("is rewritten");
}

#[test]
fn a_pool_without_a_log_that_is_rewritten() {
    survives("is rewritten without a log");
}

#[test]
fn a_pool_whose_log_is_in_another_directory() {
    survives("has its log elsewhere");
}

#[test]
fn a_pool_that_keeps_sums() {
    survives("keeps sums");
}

#[test]
fn a_pool_whose_log_is_ended() {
    survives("ends its log");
}
