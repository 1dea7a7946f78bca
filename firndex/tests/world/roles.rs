//! Processes started from the tests' own executable, each of which plays a role and ends well only if its assertions
//! held.

use crate::{addresses, boots, copied, cores, forks};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROLE: &str = "FIRNDEX_WORLD_ROLE";
const PATH: &str = "FIRNDEX_WORLD_PATH";
const NUMBER: &str = "FIRNDEX_WORLD_NUMBER";

/// A process that will play `role` at `path`.
pub(crate) fn process(role: &str, path: &Path, number: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command.env(ROLE, role).env(PATH, path).env(NUMBER, number.to_string());
    command
}

/// Runs a role to its end, which must be a good one.
#[track_caller]
pub(crate) fn run(role: &str, path: &Path, number: u64) {
    let output = process(role, path, number).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role} {number}: {}\n{said}", output.status);
}

pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let number: u64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "have few addresses" => addresses::have_few(&path, number),
        "dump" => cores::dump(&path),
        "fork" => forks::fork(&path),
        "leave dirty" => boots::leave_dirty(&path),
        "find what was left" => boots::find_what_was_left(&path),
        "be refused" => boots::be_refused(&path),
        "fill up" => copied::fill_up(&path),
        "leave a closed pool" => copied::leave_a_closed_pool(&path),
        other => panic!("no role is called {other}"),
    }
}
