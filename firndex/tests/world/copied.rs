//! File systems that copy on write. Each test needs the super-user, a loop device, and the program that makes such a
//! file system.

use crate::roles;
use firndex::{Durability, Error, Options, Store};
use std::io::Write;
use std::path::Path;
use std::process::Command;

const KEYS: u64 = 300;
const ROUNDS: u8 = 3;

/// A role: replaces values, again and again, in a file system that is full. `path` is that of a pool, if there is one.
pub(crate) fn fill_up(path: &Path) {
    let options = Options::new().durability(Durability::Process).helpers(0);
    let store: Store = options.open_or_create_store(path).unwrap();
    let replace = |round: u8| {
        (0..KEYS).try_for_each(|key| store.put(key.to_le_bytes(), [round; 4000]).map(drop))
    };
    // Twice: after that, replacing needs no growth, which a full file system is slow to refuse.
    (0..2).for_each(|round| replace(round).unwrap());
    store.sync().unwrap();
    let mut ballast = std::fs::File::create(path.with_file_name("ballast")).unwrap();
    for bytes in [1 << 20, 1 << 16] {
        while ballast.write_all(&vec![1; bytes]).is_ok() {}
        let _ = ballast.sync_data();
    }
    for round in 2..2 + ROUNDS {
        if let Err(error) = replace(round) {
            assert!(matches!(error, Error::PoolFull(_)), "{error:?}");
        }
        // What was written is where it stays: written again, it would have to be copied.
        let _ = store.sync();
    }
    let value = store.get(0u64.to_le_bytes()).unwrap().unwrap();
    assert!(value.windows(2).all(|bytes| bytes[0] == bytes[1]));
}

/// A role.
pub(crate) fn leave_a_closed_pool(path: &Path) {
    let options = Options::new().durability(Durability::Process);
    let store: Store = options.create_store(path).unwrap();
    (0..KEYS).for_each(|key| drop(store.put(key.to_le_bytes(), [0; 4000]).unwrap()));
    store.close().unwrap();
}

/// Plays the role in a new file system that `make` makes in a file, after `prepared` there.
fn play(make: &str, prepared: &str) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [image, mounted] = ["image", "mounted"].map(|name| directory.path().join(name));
    std::fs::File::create(&image).unwrap().set_len(320 << 20).unwrap();
    std::fs::create_dir(&mounted).unwrap();
    let plain = roles::process("fill up", &mounted.join("pool"), 0);
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script]).arg(plain.get_program());
        command.args(plain.get_args()).env("IMAGE", &image).env("MOUNTED", &mounted);
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap()
    };
    let mount = format!("{make} -q \"$IMAGE\"; mount -o loop \"$IMAGE\" \"$MOUNTED\"");
    if !run(&mount).status.success() {
        eprintln!("skipped: no {make} here, or no right to mount it");
        return;
    }
    let output = run(&format!("{mount}; {prepared}; exec \"$0\" \"$@\""));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{make}: {}\n{said}", output.status);
}

#[test]
fn a_full_btrfs_ends_no_process() {
    play("mkfs.btrfs -f", "true");
}

#[test]
fn a_copy_that_shares_its_blocks_ends_no_process() {
    let made = "FIRNDEX_WORLD_ROLE='leave a closed pool' \"$0\" \"$@\"; \
         cp --reflink=always \"$MOUNTED/pool\" \"$MOUNTED/copy\"; sync";
    play("mkfs.xfs -f -m reflink=1", made);
}
