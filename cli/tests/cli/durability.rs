//! What survives power loss, as a user asks for it. The pool file is taken away: what counts then is its checkpoint and
//! log.

use crate::workspace::Workspace;
use serde_json::Value;

fn stat(workspace: &Workspace, options: &[&str]) -> Value {
    let arguments = ["stat", "pool", "--json"].iter().chain(options);
    let stat = workspace.run(arguments).demand(0);
    serde_json::from_slice(stat.stdout()).unwrap()
}

#[test]
fn a_pool_without_its_file_is_restored_and_that_is_told() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "commit"]).demand(0);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    for command in [&["get", "pool", "apple"][..], &["stat", "pool"], &["check", "pool"]] {
        std::fs::remove_file(workspace.path("pool")).unwrap();
        let done = workspace.run(command).demand(0);
        assert!(
            done.stderr().contains("pool was missing: restored from its checkpoint and log"),
            "{}",
            done.stderr()
        );
        let again = workspace.run(command).demand(0);
        assert!(!again.stderr().contains("restored"), "{}", again.stderr());
    }
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
}

#[test]
fn why_a_pool_is_restored_is_told_as_far_as_it_is_known() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "commit"]).demand(0);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    let whole = std::fs::read(workspace.path("pool")).unwrap();
    let restored = |why: &str| {
        let done = workspace.run(["get", "pool", "apple"]).demand(0);
        let says = format!("pool {why}: restored from its checkpoint and log");
        assert!(done.stderr().contains(&says), "{}", done.stderr());
        assert_eq!(done.stdout(), b"red");
    };
    for damaged in [&whole[..whole.len() / 2], b""] {
        workspace.write("pool", damaged);
        restored("was damaged");
    }
    let open = firndex::Store::open(workspace.path("pool")).unwrap();
    open.put("pear", "green").unwrap();
    let copy = workspace.path("copy");
    std::fs::copy(workspace.path("pool"), &copy).unwrap();
    open.close().unwrap();
    std::fs::rename(&copy, workspace.path("pool")).unwrap();
    restored("was not closed");
}

#[test]
fn stat_tells_the_durability_of_the_next_opening() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "commit"]).demand(0);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    for copy in [&["backup", "pool", "out"][..], &["convert", "pool", "out"]] {
        workspace.run(copy).demand(0);
        let shown = workspace.run(["stat", "out", "--json"]).demand(0).json()["durability"].clone();
        assert_eq!(shown, "commit", "{copy:?}");
        workspace.run(["put", "out", "pear", "green"]).demand(0);
        let later = workspace.run(["stat", "out", "--json"]).demand(0).json()["durability"].clone();
        assert_eq!(shown, later, "{copy:?}");
        workspace.run(["remove", "out"]).demand(0);
    }
}

#[test]
fn stat_tells_the_durability_and_what_it_takes() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "process"]).demand(0);
    let found = stat(&workspace, &[]);
    assert_eq!((&found["durability"], &found["log_file_bytes"]), (&"process".into(), &0.into()));
    workspace
        .run(["put", "pool", "a", "b", "--durability", "periodic", "--durable-every", "50"])
        .demand(0);
    let found = stat(&workspace, &[]);
    assert_eq!(found["durability"], "periodic");
    assert!(
        found["log_file_bytes"].as_u64() > Some(0)
            && found["checkpoint_file_bytes"].as_u64() > Some(0)
    );
    // What it was opened with last stays.
    workspace.run(["put", "pool", "c", "d"]).demand(0);
    assert_eq!(stat(&workspace, &[])["durability"], "periodic");
    let wrong = workspace.run(["put", "pool", "a", "b", "--durability", "always"]);
    assert!(wrong.stderr().contains("periodic"), "{}", wrong.stderr());
}

#[test]
fn a_log_in_another_directory_has_to_be_named() {
    let workspace = Workspace::new();
    let logs = workspace.path("logs");
    std::fs::create_dir(&logs).unwrap();
    let place = ["--log-dir", logs.to_str().unwrap()];
    let with_place = |arguments: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().chain(&place).copied().collect();
        workspace.run(arguments)
    };
    with_place(&["create", "pool", "--durability", "periodic"]).demand(0);
    with_place(&["put", "pool", "apple", "red"]).demand(0);
    assert!(!workspace.path("pool.safe").exists() && logs.join("pool.safe").exists());
    workspace.run(["put", "pool", "apple", "green"]).demand_error(&["--log-dir"]);
    std::fs::remove_file(workspace.path("pool")).unwrap();
    workspace.run(["get", "pool", "apple"]).demand_error(&["no pool at pool"]);
    assert_eq!(with_place(&["get", "pool", "apple"]).demand(0).stdout(), b"red");
}

#[test]
fn a_pool_that_is_lost_is_restored_or_removed_and_the_command_says_which() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "commit"]).demand(0);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    std::fs::remove_file(workspace.path("pool")).unwrap();
    workspace.run(["create", "pool"]).demand_error(&["restores the pool", "remove"]);
    let opened = workspace.run(["create", "pool", "--or-open"]).demand(0);
    assert!(opened.stderr().contains("pool was missing: restored"), "{}", opened.stderr());
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
    std::fs::remove_file(workspace.path("pool")).unwrap();
    workspace.run(["remove", "pool"]).demand(0);
    assert!(!workspace.path("pool.safe").exists());
    workspace.run(["create", "pool"]).demand(0);
    workspace.run(["remove", "pool"]).demand(0);
    workspace.run(["remove", "pool"]).demand_error(&["no pool at pool"]);
    let nowhere = ["create", "pool", "--log-dir", "nowhere"];
    workspace.run(nowhere).demand_error(&["there is no directory nowhere"]);
}

#[test]
fn what_cannot_be_restored_is_refused_with_advice() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "periodic"]).demand(0);
    let places = ["pool.safe/checkpoint.0", "pool.safe/checkpoint.1"];
    let holds_one =
        |path: &std::path::PathBuf| std::fs::read(path).unwrap().starts_with(b"FIRNSAFE");
    let safe = places.map(|name| workspace.path(name)).into_iter().find(holds_one).unwrap();
    let mut bytes = std::fs::read(&safe).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&safe, &bytes).unwrap();
    std::fs::remove_file(workspace.path("pool")).unwrap();
    let words = [
        "pool is missing, and cannot be restored",
        "is damaged",
        "restore a backup",
        "firndex salvage pool.safe OUT`",
    ];
    let refused = workspace.run(["get", "pool", "apple"]).demand_error(&words);
    assert!(!refused.stderr().contains("salvage pool OUT"), "{}", refused.stderr());
    assert!(!workspace.path("pool").exists());
    assert_eq!(std::fs::read(&safe).unwrap(), bytes);
}

#[test]
fn an_interval_that_means_nothing_is_refused() {
    let workspace = Workspace::with_pool("store");
    for durability in ["process", "commit"] {
        for command in [
            &["create", "new"][..],
            &["put", "pool", "a", "b"],
            &["del", "pool", "a"],
            &["load", "pool", "-"],
            &["shrink", "pool"],
            &["compact", "pool"],
        ] {
            let before = std::fs::read(workspace.path("pool")).unwrap();
            let asked = ["--durability", durability, "--durable-every", "5"];
            let says = ["--durable-every", "--durability", durability, "periodic"];
            workspace.run(command.iter().chain(&asked)).demand_error(&says);
            assert!(!workspace.path("new").exists());
            assert!(std::fs::read(workspace.path("pool")).unwrap() == before, "{command:?}");
        }
        // Nor is it for a pool that is so already.
        let name = format!("is-{durability}");
        workspace.run(["create", &name, "--durability", durability]).demand(0);
        let put = ["put", name.as_str(), "a", "b", "--durable-every", "5"];
        workspace.run(put).demand_error(&["--durable-every", durability, "--durability periodic"]);
        workspace.run(["get", &name, "a"]).demand(1);
        workspace.run(put.iter().chain(&["--durability", "periodic"])).demand(0);
    }
}
