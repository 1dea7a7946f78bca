//! Caches on the command line.

use crate::workspace::Workspace;

#[test]
fn a_cache_is_made_with_a_capacity_and_used_like_a_store() {
    let workspace = Workspace::new();
    let create = ["create", "--kind", "cache", "pool"];
    workspace.run(create).demand_wrong_use(&["--capacity"]);
    workspace.run([&create[..], &["--capacity", "1X"]].concat()).demand_wrong_use(&["64M"]);
    let with_capacity = [&create[..], &["--capacity", "1M"]].concat();
    let created = workspace.run(&with_capacity).demand(0);
    assert!(created.stderr().contains("capacity 1.00 MiB"), "{}", created.stderr());
    workspace.run(["put", "pool", "a", "1"]).demand(0);
    let again = workspace.run(["put", "pool", "a", "2"]).demand(0);
    assert!(again.stderr().contains("replaced"), "{}", again.stderr());
    assert_eq!(workspace.run(["get", "pool", "a"]).demand(0).stdout(), b"2");
    workspace.run(["get", "pool", "b"]).demand(1);
    let stat = workspace.run(["stat", "--json", "pool"]).demand(0).json();
    assert_eq!((&stat["kind"], &stat["pairs"]), (&"cache".into(), &1.into()));
    assert_eq!(stat["cache"]["capacity_bytes"], 1 << 20);
    let stat = workspace.run(["stat", "pool"]).demand(0);
    assert!(String::from_utf8_lossy(stat.stdout()).contains("of 1.00 MiB"), "{:?}", stat.stdout());
    let dumped = workspace.run(["dump", "pool"]).demand(0);
    assert!(dumped.stdout().ends_with(b"a,2\n"));
    workspace.run(["check", "pool"]).demand(0);
    workspace.run(["del", "pool", "a"]).demand(0);
    workspace.run(["get", "pool", "a"]).demand(1);
}

#[test]
fn what_is_not_for_caches_says_so() {
    let workspace = Workspace::new();
    workspace.run(["create", "--kind", "cache", "--capacity", "1M", "pool"]).demand(0);
    for command in ["backup", "convert"] {
        workspace.run([command, "pool", "copy"]).demand_error(&["cache", "dump"]);
    }
    workspace.run(["compact", "pool"]).demand_error(&["cache", "dump"]);
    workspace.run(["scan", "pool"]).demand_error(&["cache", "dump"]);
    workspace.run(["check", "pool"]).demand(0);
    assert!(!workspace.path("copy").exists());
}
