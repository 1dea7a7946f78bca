//! CI runs what it is said to run, on every engine.

use crate::pages::{files, text, top};

#[test]
fn every_engine_is_in_the_crash_lab_of_ci() {
    let ci = text(&top().join(".ci/run"));
    assert!(ci.lines().any(|line| line.ends_with("-p firndex-lab -- crash --short")));
    let targets: Vec<&str> =
        crashlab::target::Target::all().into_iter().map(|target| target.name()).collect();
    for engine in firndex::Engine::ALL {
        assert!(targets.contains(&engine.name()), "{engine} is none of {targets:?}");
    }
}

#[test]
fn processes_are_killed_and_small_pools_live_at_their_limits() {
    let ci = text(&top().join(".ci/run"));
    for step in [
        "lab -- torture --kills 12",
        "lab -- torture --caches --kills 30",
        "lab -- torture --caches --soak 20000000",
        "lab -- torture --lives --minutes 0.5",
        "tests/lives/run",
    ] {
        assert!(ci.lines().any(|line| line.ends_with(step)), "{step}");
    }
    assert!(ci.lines().any(|line| line.starts_with("tests/world/run ")));
}

#[test]
fn the_commands_of_the_readme_are_run() {
    let (ci, readme) = (text(&top().join(".ci/run")), text(&top().join("README.md")));
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command) && ci.contains(command), "{command}");
    }
}

/// All but the one that measures for its own sake.
#[test]
fn the_examples_are_run() {
    let ci = text(&top().join(".ci/run"));
    let list = ci.split_once("examples=(").and_then(|(_, rest)| rest.split_once(')'));
    let run: Vec<&str> = list.expect("a list of examples").0.split_whitespace().collect();
    for path in files("rs").iter().filter(|path| path.starts_with("firndex/examples")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        assert!(name == "backup" || run.contains(&&*name), "{name} is none of {run:?}");
    }
}
