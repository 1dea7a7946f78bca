//! Ctrl-C and `kill`: what a command that they end leaves behind, and what it says.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::workspace::{Workspace, list};
use firndex::Store;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A load of what comes through a pipe.
struct Load {
    child: Child,
    /// The pipe's end that is read, to see what is still in it.
    unread: OwnedFd,
    pipe: std::io::PipeWriter,
}

impl Load {
    fn start(mut command: Command) -> Load {
        let (reader, pipe) = std::io::pipe().unwrap();
        let unread = OwnedFd::from(reader.try_clone().unwrap());
        let child = command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped());
        Load { child: child.spawn().unwrap(), unread, pipe }
    }

    /// Returns once the load has taken all of it, and waits for more.
    fn feed(&mut self, text: &str) {
        self.pipe.write_all(text.as_bytes()).unwrap();
        while ioctl_fionread(&self.unread).unwrap() > 0 {
            std::thread::yield_now();
        }
    }

    fn output(self) -> Output {
        let output = self.child.wait_with_output().unwrap();
        drop(self.pipe);
        output
    }
}

fn rows(count: u64) -> String {
    (0..count).map(|number| format!("key {number},{number}\n")).collect()
}

#[test]
fn an_interrupted_load_says_how_much_is_stored_and_closes_the_pool() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let workspace = Workspace::with_pool("store");
        let mut load = Load::start(workspace.command(["load", "pool", "-"]));
        load.feed(&format!("key,value\n{}key 2500,25", rows(2500)));
        send(&load.child, signal);
        let output = load.output();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{stderr}");
        assert!(stderr.contains("loaded 2,500 records into pool: 2,500 new keys"), "{stderr}");
        assert!(
            stderr.contains("interrupted: all records before line 2502 are stored"),
            "{stderr}"
        );

        assert!(firndex::inspect(workspace.path("pool")).unwrap().clean);
        let store = Store::open(workspace.path("pool")).unwrap();
        assert_eq!(store.len(), 2500);
        assert_eq!(store.get("key 2499").unwrap().as_deref(), Some(&b"2499"[..]));
    }
}

#[test]
fn a_load_is_interrupted_before_its_first_record_too() {
    for format in ["csv", "jsonl"] {
        let workspace = Workspace::with_pool("store");
        let mut load = Load::start(workspace.command(["load", "pool", "-", "--format", format]));
        load.feed(if format == "csv" { "key,val" } else { "{\"key\":" });
        send(&load.child, Signal::INT);
        let output = load.output();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()), "{stderr}");
        assert!(stderr.contains("interrupted: nothing is stored"), "{stderr}");
        assert!(firndex::inspect(workspace.path("pool")).unwrap().clean);
    }
}

/// As `nohup` and shells without job control start what is to go on.
#[test]
fn a_load_that_is_to_ignore_a_signal_ignores_it() {
    let workspace = Workspace::with_pool("store");
    let mut command = workspace.command_of("/bin/sh");
    let script = "trap '' HUP INT; exec \"$0\" load pool -";
    command.args(["-c", script, env!("CARGO_BIN_EXE_firndex")]);
    let mut load = Load::start(command);
    load.feed(&format!("key,value\n{}", rows(10)));
    send(&load.child, Signal::HUP);
    send(&load.child, Signal::INT);
    load.feed("more,1\n");
    let Load { child, pipe, .. } = load;
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(stderr.contains("loaded 11 records"), "{stderr}");
}

const VALUES: u32 = 400;
const VALUE_BYTES: usize = 1 << 16;

/// A pool whose dump takes a while, in a directory of which nothing else is known.
fn with_much() -> Workspace {
    let workspace = Workspace::with_pool("store");
    let store = Store::open(workspace.path("pool")).unwrap();
    for key in 0..VALUES {
        // Each quote takes two bytes in the dump.
        store.put(key.to_le_bytes(), vec![b'"'; VALUE_BYTES]).unwrap();
    }
    store.close().unwrap();
    std::fs::create_dir(workspace.path("out")).unwrap();
    workspace
}

/// Whether there is a temporary file, and it has no more than a quarter of what it will have.
fn is_under_way(workspace: &Workspace) -> bool {
    const BYTES_MAX: u64 = VALUES as u64 * VALUE_BYTES as u64 / 2;
    let is_temporary =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".firndex-dump-");
    let list = list(&workspace.path("out"));
    let mut temporary = list.iter().filter(|path| is_temporary(path));
    temporary.any(|path| path.metadata().is_ok_and(|found| found.len() < BYTES_MAX))
}

/// A dump that has begun to write, and is stopped: in the directory `out`, in which no other was killed.
fn stopped_in_a_dump(workspace: &Workspace, arguments: &[&str]) -> Child {
    let file = workspace.path("out/all.csv");
    let before = std::fs::read(&file).ok();
    loop {
        let dump = ["dump", "pool", "out/all.csv"];
        let mut command = workspace.command(dump.iter().chain(arguments));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        while !is_under_way(workspace) && child.try_wait().unwrap().is_none() {}
        send(&child, Signal::STOP);
        let (_, status) =
            waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED).unwrap().unwrap();
        if status.stopped() && is_under_way(workspace) {
            return child;
        }
        // It was done before it was stopped.
        let _ = child.kill();
        let _ = child.wait();
        match &before {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
    }
}

#[test]
fn an_interrupted_dump_leaves_nothing() {
    let workspace = with_much();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let child = stopped_in_a_dump(&workspace, &[]);
        assert!(!workspace.path("out/all.csv").exists(), "it has its name before it is whole");
        send(&child, signal);
        send(&child, Signal::CONT);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{stderr}");
        assert!(stderr.contains("interrupted: there is no out/all.csv"), "{stderr}");
        assert_eq!(list(&workspace.path("out")), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn an_interrupted_dump_leaves_what_it_was_to_replace() {
    let workspace = with_much();
    workspace.write("out/all.csv", "old");
    let before = list(&workspace.path("out"));
    let child = stopped_in_a_dump(&workspace, &["--replace"]);
    send(&child, Signal::INT);
    send(&child, Signal::CONT);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()), "{stderr}");
    assert!(stderr.contains("interrupted: out/all.csv is as it was"), "{stderr}");
    assert_eq!(list(&workspace.path("out")), before);
    assert_eq!(std::fs::read(workspace.path("out/all.csv")).unwrap(), b"old");
}

/// Not even SIGKILL leaves anything under the name of the file.
#[test]
fn a_killed_dump_leaves_nothing_under_the_name() {
    let workspace = with_much();
    let mut child = stopped_in_a_dump(&workspace, &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!workspace.path("out/all.csv").exists());
    for left in list(&workspace.path("out")) {
        let name = left.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(".firndex-dump-"), "{name}");
        std::fs::remove_file(left).unwrap();
    }
    workspace.run(["dump", "pool", "out/all.csv"]).demand(0);
}

/// `ulimit -f`: the write fails, and its file is removed.
#[test]
fn a_limit_of_the_size_of_files_is_an_error_of_a_dump() {
    let workspace = with_much();
    let mut command = workspace.command_of("/bin/sh");
    let script = "ulimit -f 2000; exec \"$0\" dump pool out/all.csv";
    let output = command.args(["-c", script, env!("CARGO_BIN_EXE_firndex")]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr.contains("too large"), "{stderr}");
    assert_eq!(list(&workspace.path("out")), [""; 0].map(PathBuf::from));
}
