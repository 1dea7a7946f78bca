//! Waiting for a pool that is held, and looking at one without changing it.

use std::process::Stdio;

use crate::workspace::Workspace;
use firndex::Store;

/// The bytes of the pool, and what lies beside it.
fn state(workspace: &Workspace) -> (Vec<u8>, Vec<std::path::PathBuf>) {
    let mut files = crate::workspace::list(workspace.path("pool").parent().unwrap());
    files.sort();
    (std::fs::read(workspace.path("pool")).unwrap(), files)
}

#[test]
fn a_command_waits_for_a_pool_that_is_held_if_it_is_told_to() {
    let workspace = Workspace::with_pool("store");
    let held = Store::open(workspace.path("pool")).unwrap();
    for arguments in [&["put", "pool", "a", "1"][..], &["get", "pool", "a"], &["stat", "pool"]] {
        workspace.run(arguments).demand_error(&["in use by another process", "hint:", "--wait"]);
        let waited = workspace.run(arguments.iter().chain(&["--wait", "0.05"]));
        waited.demand_error(&["in use by another process"]);
    }
    let mut waiting = workspace
        .command(["put", "pool", "apple", "red", "--wait", "600"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    held.put("pear", "green").unwrap();
    assert!(waiting.try_wait().unwrap().is_none(), "it waits as long as the pool is held");
    held.close().unwrap();
    assert!(waiting.wait().unwrap().success());
    assert_eq!(workspace.run(["get", "pool", "apple", "--wait", "1"]).demand(0).stdout(), b"red");
    assert_eq!(workspace.run(["get", "pool", "pear"]).demand(0).stdout(), b"green");
    workspace.run(["get", "pool", "a", "--wait", "soon"]).demand_wrong_use(&["number of seconds"]);
}

impl Workspace {
    /// Leaves the pool as a killed writer does.
    fn kill_a_writer(&self) {
        let mut load = self
            .command(["load", "pool", "-", "--durability", "process"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It has begun once it has marked the pool as being written.
        while firndex::inspect(self.path("pool")).is_ok_and(|info| info.clean) {}
        load.kill().unwrap();
        load.wait().unwrap();
    }
}

#[test]
fn read_only_changes_nothing_whatever_state_the_pool_is_in() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    let closed = state(&workspace);
    let all: [&[&str]; 5] = [
        &["get", "pool", "apple", "--read-only"],
        &["dump", "pool", "--read-only"],
        &["scan", "pool", "--read-only"],
        &["stat", "pool", "--read-only"],
        &["check", "pool", "--read-only"],
    ];
    for arguments in all {
        workspace.run(arguments).demand(0);
        assert!(state(&workspace) == closed, "{arguments:?}");
    }
    workspace.kill_a_writer();
    let cut_off = state(&workspace);
    for arguments in all {
        workspace.run(arguments).demand_error(&["not closed", "hint: without --read-only"]);
        assert!(state(&workspace) == cut_off, "{arguments:?}");
    }
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
    workspace.run(["get", "pool", "apple", "--read-only"]).demand(0);
}
