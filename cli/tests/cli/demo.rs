//! demo: the whole run with real kills, and what ends it early.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::workspace::{Workspace, list};
use firndex::Engine;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

/// Bytes without repetition.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Two files with the same content, one that shares a part with them, and small ones.
fn fill(workspace: &Workspace) {
    let common = noise(1, 1 << 20);
    workspace.write("dir/a/first", &common);
    workspace.write("dir/b/second", &common);
    workspace.write("dir/c", [noise(2, 100_000), common].concat());
    workspace.write("dir/empty", "");
    workspace.write("dir/small", "small");
    workspace.write("dir/target/left out", "left out");
    workspace.write("dir/.git/left out", "left out");
}

#[track_caller]
fn demand_nothing_lost(json: &Value, kills: u64) {
    assert_eq!(json["lost"], 0, "{json}");
    assert_eq!(json["kills"], kills, "{json}");
    assert_eq!(json["acknowledged"], json["chunks"], "{json}");
    let reopen_ms = json["reopen_ms"].as_array().unwrap();
    assert_eq!(reopen_ms.len() as u64, kills, "{json}");
    assert!(reopen_ms.iter().all(|ms| ms.as_f64() > Some(0.0)), "{json}");
}

#[test]
fn nothing_acknowledged_is_lost_and_duplicates_are_found() {
    for &engine in Engine::ALL {
        nothing_is_lost_on(engine);
    }
}

fn nothing_is_lost_on(engine: Engine) {
    let workspace = Workspace::new();
    fill(&workspace);
    let pool = ["--engine", engine.name(), "--pool", "kept"];
    let demo = ["demo", "dir", "--kills", "5", "--seed", "7", "--json"];
    let demo = workspace.run(demo.iter().chain(&pool)).demand(0);
    let json = demo.json();
    demand_nothing_lost(&json, 5);
    let names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names.len(), 12, "{names:?}");
    assert_eq!(json["files"], 5, "{json}");
    assert_eq!(json["bytes"], 3 * (1 << 20) + 100_000 + 5, "{json}");
    let (chunks, unique) = (json["chunks"].as_u64().unwrap(), json["unique"].as_u64().unwrap());
    assert!(unique * 5 < chunks * 2, "of {chunks} chunks {unique} are taken for unique");
    for rate in ["puts_per_s", "gets_per_s", "load_factor", "bytes_per_key"] {
        assert!(json[rate].as_f64() > Some(0.0), "{rate}: {json}");
    }
    let kept = workspace.run(["stat", "kept", "--json"]).demand(0).json();
    assert_eq!(
        (&kept["engine"], &kept["pairs"]),
        (&engine.name().into(), &json["unique"]),
        "{kept}"
    );
    workspace.run(["check", "kept"]).demand(0);
    assert_eq!(workspace.leftovers(), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_person_gets_a_table_and_the_pool_can_be_kept() {
    let workspace = Workspace::new();
    fill(&workspace);
    let demo = workspace.run(["demo", "dir", "--pool=dir/kept.firn", "--threads", "3"]).demand(0);
    let text = String::from_utf8(demo.stdout().to_vec()).unwrap();
    for (name, value) in [("files", "5"), ("lost", "0"), ("unique chunks", "")] {
        let told = |line: &str| line.starts_with(name) && line.ends_with(value);
        assert!(text.lines().any(told), "{name} {value}: {text}");
    }
    assert_eq!(demo.stderr().matches("kill ").count(), 3, "{}", demo.stderr());

    let kept = workspace.run(["stat", "dir/kept.firn", "--json"]).demand(0).json();
    assert!(kept["pairs"].as_u64() > Some(100), "{kept}");
    workspace.run(["check", "dir/kept.firn"]).demand(0);

    // Never the pool itself, nor its log: the other run finds five files, and the kept pool with its companions.
    let files = 5 + 1 + fs::read_dir(workspace.path("dir/kept.firn.safe")).unwrap().count();
    let again = workspace.run(["demo", "dir", "--pool", "dir/other.firn", "--json"]).demand(0);
    assert_eq!(again.json()["files"], files);

    let before = fs::read(workspace.path("dir/kept.firn")).unwrap();
    workspace.run(["demo", "dir", "--pool", "dir/kept.firn"]).demand_error(&["dir/kept.firn"]);
    assert!(fs::read(workspace.path("dir/kept.firn")).unwrap() == before);
}

#[test]
fn few_chunks_clamp_the_kills_and_none_is_fine() {
    let workspace = Workspace::new();
    workspace.write("one/file", "a single chunk");
    fs::create_dir(workspace.path("none")).unwrap();
    let one = workspace.run(["demo", "one", "--json"]).demand(0);
    demand_nothing_lost(&one.json(), 1);
    assert!(one.stderr().contains("only 1 chunks: 1 kills instead of 3"), "{}", one.stderr());
    let none = workspace.run(["demo", "none", "--json"]).demand(0);
    demand_nothing_lost(&none.json(), 0);
    assert_eq!(none.json()["chunks"], 0);
    let calm = workspace.run(["demo", "one", "--json", "--kills", "0"]).demand(0);
    demand_nothing_lost(&calm.json(), 0);
    assert_eq!(calm.json()["chunks"], 1);
}

#[test]
fn without_a_directory_cargo_s_sources_are_taken_or_the_current_directory() {
    let workspace = Workspace::new();
    workspace.write("cargo/registry/src/index/crate/lib.rs", "fn main() {}");
    workspace.write("dir/a", "a");
    workspace.write("dir/b", "b");
    let files_with = |cargo_home: &str| {
        let mut command = workspace.command(["demo", "--json"]);
        command.env("CARGO_HOME", workspace.path(cargo_home));
        let output = command.current_dir(workspace.path("dir")).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["files"].as_u64()
    };
    assert_eq!(files_with("cargo"), Some(1));
    assert_eq!(files_with("no cargo"), Some(2));
}

#[test]
fn what_is_no_directory_is_an_error_and_leaves_nothing() {
    let workspace = Workspace::new();
    workspace.write("file", "file");
    workspace.run(["demo", "missing"]).demand_error(&["missing"]);
    workspace.run(["demo", "file"]).demand_error(&["file", "not a directory"]);
    workspace.run(["demo", "missing", "--pool", "new"]).demand_error(&["missing"]);
    assert!(!workspace.path("new").exists());
    workspace.run(["demo", ".", "--pool", "no/such/pool"]).demand_error(&["no/such/pool"]);
    workspace.run(["demo", ".", "--threads", "0"]).demand(2);
    assert!(workspace.leftovers().is_empty());

    let output = workspace.command(["demo", "."]).env("TMPDIR", "/no/such/place").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("TMPDIR"));
}

#[test]
fn the_writer_refuses_to_work_for_nobody() {
    let workspace = Workspace::with_pool("store");
    let arguments = ["demo-writer", "--pool", "pool", "--threads", "1", "--parent", "1"];
    workspace.run(arguments).demand_error(&["process 1 is gone"]);
}

/// A run that is under way, and for long.
fn start_long_demo(workspace: &Workspace) -> Child {
    workspace.write("dir/file", noise(3, 32 << 20));
    let mut demo = workspace
        .command(["demo", "dir", "--kills", "100000"])
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(demo.stderr.as_mut().unwrap()).lines();
    assert!(told.any(|line| line.unwrap().starts_with("kill 1 of ")));
    demo
}

#[track_caller]
fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < Duration::from_secs(600), "waited in vain");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let workspace = Workspace::new();
    let mut demo = start_long_demo(&workspace);
    assert_eq!(list(&workspace.path("tmp")).len(), 1);
    // As a terminal sends Ctrl-C: to all of the group.
    kill_process_group(Pid::from_child(&demo), Signal::INT).unwrap();
    let status = demo.wait().unwrap();
    // Ended by the signal, as whoever sent it expects.
    assert_eq!(status.signal(), Some(2), "{status}");
    assert!(workspace.leftovers().is_empty());
    wait_for(|| no_process_uses(&workspace.path("")));
}

#[test]
fn the_writer_dies_with_its_parent() {
    let workspace = Workspace::new();
    let mut demo = start_long_demo(&workspace);
    demo.kill().unwrap();
    demo.wait().unwrap();
    wait_for(|| no_process_uses(&workspace.path("")));
}

/// Whether no process has this directory for its current one, as all of a test's have.
fn no_process_uses(directory: &Path) -> Option<()> {
    let directory = directory.canonicalize().unwrap();
    let used = list(Path::new("/proc"))
        .iter()
        .any(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == directory));
    (!used).then_some(())
}
