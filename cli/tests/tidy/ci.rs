//! CI runs what it is said to run, on every engine.

use crate::pages::{text, top};

#[test]
fn every_engine_is_in_the_crash_lab_of_ci() {
    let ci = text(&top().join(".ci/run"));
    let labs: Vec<&str> = ci
        .lines()
        .filter(|line| line.contains("crash --engine") || line.contains("for engine in"))
        .collect();
    for engine in firndex::Engine::ALL {
        let is_run = |line: &&str| {
            line.split(|c: char| !c.is_alphanumeric()).any(|word| word == engine.name())
        };
        assert!(labs.iter().any(is_run), "{engine} is in none of {labs:#?}");
    }
}

#[test]
fn the_commands_of_the_readme_are_run() {
    let (ci, readme) = (text(&top().join(".ci/run")), text(&top().join("README.md")));
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command) && ci.contains(command), "{command}");
    }
}
