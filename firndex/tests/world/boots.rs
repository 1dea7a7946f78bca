//! Whether the machine has been restarted, where the kernel's boot id cannot be read. Each test needs the super-user,
//! and a namespace of its own in which it may mount.

use crate::roles;
use firndex::{Durability, Error, OpenError, Options, Table};
use std::path::Path;
use std::process::Command;

/// A role: is killed with a pool open.
pub(crate) fn leave_dirty(path: &Path) {
    let table = Options::new().durability(Durability::Process).open_table(path).unwrap();
    table.put(2, 2).unwrap();
    // SAFETY: ends this process.
    unsafe { libc::raise(libc::SIGKILL) };
}

/// A role: finds all of it.
pub(crate) fn find_what_was_left(path: &Path) {
    let table = <Table>::open(path).unwrap();
    assert_eq!((table.get(1).unwrap(), table.get(2).unwrap()), (Some(1), Some(2)));
    table.close().unwrap();
}

/// A role: cannot tell whether it may be trusted.
pub(crate) fn be_refused(path: &Path) {
    let refused = <Table>::open(path).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::Dirty { .. })), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("the machine may have been restarted since"), "{told}");
    assert!(told.contains("mount /proc"), "{told}");
}

/// No /proc, as in many a chroot.
const NO_PROC: &str = "umount -l /proc";
/// A boot id of its own, as some containers have.
const OWN_BOOT_ID: &str = "cat /proc/sys/kernel/random/uuid > \"$FIRNDEX_WORLD_PATH.boot\" && \
     mount --bind \"$FIRNDEX_WORLD_PATH.boot\" /proc/sys/kernel/random/boot_id";
/// The kernel's.
const PLAIN: &str = "true";

/// Plays a role where `prepared` has been run before.
fn play(prepared: &str, role: &str, path: &Path) -> std::process::Output {
    let plain = roles::process(role, path, 0);
    let mut command = Command::new("unshare");
    let script = format!("{prepared} && exec \"$0\" \"$@\"");
    command.args(["--mount", "sh", "-c", &script]).arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.output().unwrap()
}

fn assert_well(prepared: &str, role: &str, path: &Path) {
    let output = play(prepared, role, path);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role} where {prepared}: {said}");
}

fn may_mount() -> bool {
    let may = Command::new("unshare").args(["--mount", "sh", "-c", NO_PROC]).output();
    let may = may.is_ok_and(|tried| tried.status.success());
    if !may {
        eprintln!("skipped: this process may not mount");
    }
    may
}

fn pool(path: &Path) {
    let table = Options::new().durability(Durability::Process).create_table(path).unwrap();
    table.put(1, 1).unwrap();
    table.close().unwrap();
}

#[test]
fn a_killed_process_is_no_restart_without_the_kernels_boot_id() {
    if !may_mount() {
        return;
    }
    for place in ["/dev/shm", env!("CARGO_TARGET_TMPDIR")] {
        let directory = tempfile::tempdir_in(place).unwrap();
        for (number, [then, now]) in [
            [NO_PROC, NO_PROC],
            [OWN_BOOT_ID, OWN_BOOT_ID],
            [NO_PROC, PLAIN],
            [PLAIN, OWN_BOOT_ID],
            [PLAIN, PLAIN],
        ]
        .into_iter()
        .enumerate()
        {
            let path = directory.path().join(format!("pool{number}"));
            pool(&path);
            assert!(!play(then, "leave dirty", &path).status.success());
            assert_well(now, "find what was left", &path);
        }
    }
}

/// The file's pages are gone with its inode, as after a restart.
#[test]
fn a_file_that_has_left_memory_proves_nothing() {
    if !may_mount() {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for then in [NO_PROC, OWN_BOOT_ID] {
        let path = directory.path().join("pool");
        pool(&path);
        assert!(!play(then, "leave dirty", &path).status.success());
        // Another inode has no mark; it gets the number of the former one in the superblock.
        let copy = directory.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::rename(&copy, &path).unwrap();
        adopt(&path);
        assert_well(then, "be refused", &path);
        std::fs::remove_file(&path).unwrap();
    }
}

/// Has the superblock say that it was written in the file that it is in now.
fn adopt(path: &Path) {
    use pmem::superblock::{COPY_WORDS, Superblock};
    use std::os::unix::fs::MetadataExt;
    let mut bytes = std::fs::read(path).unwrap();
    let mut words = Box::new([0; COPY_WORDS]);
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().unwrap());
    }
    let (mut superblock, _) = Superblock::choose([Some(&words), None]).unwrap();
    superblock.place.inode = std::fs::metadata(path).unwrap().ino();
    let copy: Vec<u8> = superblock.encode().iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes[..copy.len()].copy_from_slice(&copy);
    bytes[copy.len()..2 * copy.len()].copy_from_slice(&copy);
    std::fs::write(path, bytes).unwrap();
}
