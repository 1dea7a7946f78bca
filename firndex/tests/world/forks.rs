//! A forked child that outlives the process that had the pool open.

use crate::roles;
use firndex::{Durability, Error, OpenError, Options, Table};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

/// A role: holds a pool, and has a child that lives until there is nothing more to be read.
pub(crate) fn fork(path: &Path) {
    let table = <Table>::open(path).unwrap();
    table.put(2, 2).unwrap();
    // SAFETY: the child takes no lock that another thread may hold but those of the C library.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // The parent's lock is untouched.
        let busy = matches!(<Table>::open(path), Err(Error::Open(OpenError::Busy { .. })));
        println!("{}", if busy { "forked" } else { "not busy" });
    }
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

#[test]
fn a_child_does_not_keep_a_killed_owners_pool() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    for durability in [Durability::Process, Durability::Periodic] {
        let path = directory.path().join(format!("{durability:?}"));
        let table = Options::new().durability(durability).create_table(&path).unwrap();
        table.put(1, 1).unwrap();
        table.close().unwrap();
        let mut parent = roles::process("fork", &path, 0);
        let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
        let told = lines.map(Result::unwrap).find(|line| line.ends_with("forked")).unwrap();
        assert!(!told.contains("not"), "{told}");
        // The child has its input open as long as this process has.
        let input = parent.stdin.take();
        parent.kill().unwrap();
        parent.wait().unwrap();
        let table = <Table>::open(&path).unwrap();
        assert_eq!((table.get(1).unwrap(), table.get(2).unwrap()), (Some(1), Some(2)));
        table.close().unwrap();
        drop(input);
    }
}
