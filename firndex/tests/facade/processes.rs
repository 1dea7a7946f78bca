//! Processes started from the tests' own executable. Each plays one role, named in its
//! environment, and ends well only if its assertions held.

use crate::{
    creation, durability, forks, full, full_log, given_back, open_locks, read_only, shrink,
    vanished, world,
};
use firndex::{Durability, Engine, Options};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROLE: &str = "FIRNDEX_TEST_ROLE";
const PATH: &str = "FIRNDEX_TEST_PATH";
const SEED: &str = "FIRNDEX_TEST_SEED";
const ENGINE: &str = "FIRNDEX_TEST_ENGINE";

/// The executable's arguments that lead to [`play_role`].
pub(crate) const ARGUMENTS: [&str; 4] = ["--exact", "role", "--nocapture", "--test-threads=1"];

/// The environment of a process that plays `role` at `path`, on `engine` if it makes a pool.
pub(crate) fn environment(
    command: &mut Command,
    role: &str,
    engine: Engine,
    path: &Path,
    seed: u64,
) {
    command.env(ROLE, role).env(ENGINE, engine.name());
    command.env(PATH, path).env(SEED, seed.to_string());
}

/// A process that will play `role` at `path`.
pub(crate) fn process(role: &str, engine: Engine, path: &Path, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(ARGUMENTS).stdin(Stdio::null());
    environment(&mut command, role, engine, path, seed);
    command
}

/// Runs a role to its end, which must be a good one.
pub(crate) fn run(role: &str, engine: Engine, path: &Path) {
    run_with_seed(role, engine, path, 0);
}

/// The same, with another number.
pub(crate) fn run_with_seed(role: &str, engine: Engine, path: &Path, seed: u64) {
    let output = process(role, engine, path, seed).output().unwrap();
    assert!(
        output.status.success(),
        "{role}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Standard output without the buffer that a killed process would lose.
pub(crate) fn unbuffered_output() -> File {
    File::options().write(true).open("/proc/self/fd/1").unwrap()
}

pub(crate) fn play_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let engine = std::env::var(ENGINE).unwrap().parse().unwrap();
    let options = Options::new().engine(engine);
    match role.as_str() {
        "create pools" => creation::create_pools(&path),
        "write store" => durability::write_store(&options, &path, seed),
        "write table" => durability::write_table(&options, &path, seed),
        "commit store" => {
            durability::write_store(&options.durability(Durability::Commit), &path, seed);
        }
        "commit table" => {
            durability::write_table(&options.durability(Durability::Commit), &path, seed);
        }
        "hold" => open_locks::hold(&path),
        "be refused" => open_locks::be_refused(&path),
        "open what may not be written" => read_only::open_what_may_not_be_written(&path),
        "open what may not be recovered" => read_only::open_what_may_not_be_recovered(&path),
        "fork and use" => forks::fork_and_use(&options, &path),
        "fork and drop" => forks::fork_and_drop(&options, &path),
        "fork and close" => forks::fork_and_close(&options, &path),
        "fork and hand over" => forks::fork_and_hand_over(&options, &path),
        "fork and keep" => forks::fork_and_keep(&options, &path),
        "fork and start threads" => forks::fork_and_start_threads(&options, &path),
        "fork amid growth" => forks::fork_amid_growth(&options, &path),
        "grow and shrink" => shrink::grow_and_shrink(&path),
        "fill a file system" => full::fill_a_file_system(&options, &path),
        "fill a file" => full::fill_a_file(&options, &path),
        "find holes that cannot be filled" => {
            given_back::find_holes_that_cannot_be_filled(&options, &path);
        }
        "refuse in steps" => full::refuse_in_steps(&options, &path),
        "run out of log" => full_log::run_out_of_log(&options, &path, seed),
        "lack checkpoints" => full_log::lack_checkpoints(&options, &path),
        "find no room" => full_log::find_no_room(&options, &path),
        "find no room for a new one" => full_log::find_no_room_for_a_new_one(&options, &path),
        "find no room to restore" => full_log::find_no_room_to_restore(&options, &path),
        "close without log" => full_log::close_without_log(&options, &path, seed),
        "lose pages" => vanished::lose_pages(&options, &path, seed),
        "lose pages with a log" => vanished::lose_pages_with_a_log(&options, &path, seed),
        "lose pages unwatched" => vanished::lose_pages_unwatched(&options, &path),
        "look up what vanished" => vanished::look_up_what_vanished(&options, &path),
        "be sent a bus error" => vanished::be_sent_a_bus_error(&options, &path),
        "go elsewhere" => world::go_elsewhere(&options, &path),
        "live on a small disk" => world::live_on_a_small_disk(&options, &path),
        "begin and be killed" => world::begin_and_be_killed(&options, &path, seed),
        "keep a handler" => vanished::keep_a_handler(&options, &path),
        other => panic!("no role is called {other}"),
    }
}
