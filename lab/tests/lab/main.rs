//! The binary as a user runs it: what it prints where, its exit status, and what is left behind.

mod bench;
mod crash;
mod help;
mod torture;
#[path = "../../../cli/tests/cli/workspace.rs"]
mod workspace;

/// What the tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_firndex-lab");
