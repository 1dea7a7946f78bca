//! shrink: a smaller index with the same pairs, and what stands against it.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::workspace::Workspace;
use firndex::{Engine, Options};

/// Keys and values of `from..to`, numbers and so for either kind.
fn csv(from: u64, to: u64) -> String {
    let mut csv = String::from("k,v\n");
    for key in from..to {
        writeln!(csv, "{key},{}", key * 3).unwrap();
    }
    csv
}

impl Workspace {
    fn with_many(engine: Engine, kind: &str) -> Self {
        let workspace = Workspace::with_pool_on(engine, kind);
        workspace.write("many.csv", csv(0, 5000));
        workspace.run(["load", "pool", "many.csv"]).demand(0);
        workspace
    }

    /// Removes all but the pairs of `0..kept`, as a program does.
    fn thin_out(&self, kind: &str, kept: u64) {
        let path = self.path("pool");
        if kind == "table" {
            let table = Options::new().open_table(path).unwrap();
            (kept..5000).for_each(|key| assert!(table.remove(key).unwrap().is_some()));
            table.close().unwrap();
        } else {
            let store = Options::new().open_store(path).unwrap();
            let removed = |key: u64| store.remove(key.to_string()).unwrap().is_some();
            assert!((kept..5000).all(removed));
            store.close().unwrap();
        }
    }

    fn capacity(&self) -> u64 {
        let stat = self.run(["stat", "pool", "--json"]).demand(0);
        stat.json()["capacity"].as_u64().unwrap()
    }
}

/// All engines with either kind of pool.
fn on_both_kinds() -> impl Iterator<Item = (Engine, &'static str)> {
    Engine::ALL.iter().flat_map(|&engine| ["table", "store"].map(|kind| (engine, kind)))
}

#[test]
fn what_is_left_gets_a_smaller_index() {
    for (engine, kind) in on_both_kinds() {
        let workspace = Workspace::with_many(engine, kind);
        let largest = workspace.capacity();
        let json = workspace.run(["shrink", "pool", "--json"]).demand(0).json();
        assert_eq!(json, serde_json::json!({"capacity": largest, "capacity_before": largest}));

        workspace.thin_out(kind, 100);
        let json = workspace.run(["shrink", "pool", "--json"]).demand(0).json();
        let smaller = json["capacity"].as_u64().unwrap();
        assert_eq!(json["capacity_before"], largest);
        assert!(smaller * 4 <= largest, "{json}");
        assert_eq!(workspace.capacity(), smaller);
        assert!(workspace.run(["check", "pool"]).demand(0).stdout().starts_with(b"sound: 100 p"));
        assert_eq!(workspace.run(["get", "pool", "99"]).demand(0).stdout(), b"297");
        workspace.run(["get", "pool", "100"]).demand(1);

        let told = workspace.run(["shrink", "pool"]).demand(0);
        let slots = told.stdout().strip_suffix(b" before\n").unwrap();
        let slots = String::from_utf8(slots.to_vec()).unwrap().replace(',', "");
        assert_eq!(slots, format!("{smaller} slots {smaller}"));
        assert_eq!(told.stderr(), "");

        workspace.run(["load", "pool", "many.csv"]).demand(0);
        // Where it grows depends on which keys meet, and on when a helper comes by.
        let grown = workspace.capacity();
        assert!([largest / 2, largest, 2 * largest].contains(&grown), "{largest}, then {grown}");
        assert_eq!(workspace.run(["get", "pool", "4999"]).demand(0).stdout(), b"14997");
    }
}

#[test]
fn a_pool_in_use_is_refused() {
    let workspace = Workspace::with_pool_on(Engine::ALL[0], "table");
    let mut load = workspace
        .command(["load", "pool", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // More than a pipe holds: once it is written, the pool has been opened.
    load.stdin.as_mut().unwrap().write_all(csv(0, 300_000).as_bytes()).unwrap();
    workspace.run(["shrink", "pool"]).demand_error(&["pool", "in use by another process"]);
    drop(load.stdin.take());
    assert!(load.wait().unwrap().success());
    assert!(workspace.run(["check", "pool"]).demand(0).stdout().starts_with(b"sound: 300,000 p"));
}

/// The super-user may write any file: it goes as nobody.
#[test]
fn a_file_that_may_not_be_written_is_refused() {
    const NOBODY: u32 = 65534;
    let workspace = Workspace::with_many(Engine::ALL[0], "table");
    workspace.thin_out("table", 100);
    let path = workspace.path("pool");
    std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(workspace.path(""), Permissions::from_mode(0o755)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut command = workspace.command(["shrink", "pool"]);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return eprintln!("skipped: as root, and nobody may not run the program: {error}");
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("firndex: ") && stderr.contains("cannot be written"), "{stderr}");
    assert!(std::fs::read(&path).unwrap() == before, "refused, and changed all the same");
}
