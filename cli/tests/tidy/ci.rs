//! CI runs what it is said to run, on every engine.

use crate::pages::{text, top};

#[test]
fn every_engine_is_in_the_crash_lab_of_ci() {
    let ci = text(&top().join(".ci/run"));
    assert!(ci.lines().any(|line| line.ends_with("-- crash --short")));
    let targets: Vec<&str> =
        crashlab::target::Target::all().into_iter().map(|target| target.name()).collect();
    for engine in firndex::Engine::ALL {
        assert!(targets.contains(&engine.name()), "{engine} is none of {targets:?}");
    }
}

#[test]
fn the_commands_of_the_readme_are_run() {
    let (ci, readme) = (text(&top().join(".ci/run")), text(&top().join("README.md")));
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command) && ci.contains(command), "{command}");
    }
}
