//! Streams that are closed, full, or have no reader: output that is lost is never success.

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use crate::workspace::Workspace;

const SIGPIPE: i32 = 13;

/// Commands whose purpose is what they print.
const PRINTING: [&[&str]; 12] = [
    &["get", "pool", "apple"],
    &["stat", "pool"],
    &["stat", "pool", "--json"],
    &["check", "pool"],
    &["dump", "pool"],
    &["dump", "pool", "-", "--format", "jsonl"],
    &["scan", "pool"],
    &["shrink", "pool"],
    &["man"],
    &["completions", "bash"],
    &["help", "load"],
    &["--version"],
];

impl Workspace {
    fn with_an_apple() -> Self {
        let workspace = Workspace::with_pool("store");
        workspace.run(["put", "pool", "apple", "red"]).demand(0);
        workspace
    }

    /// Runs the command as a shell does that was told to redirect its streams so.
    fn redirected(&self, arguments: &[&str], redirection: &str) -> Output {
        let mut command = self.command_of("/bin/sh");
        let script = format!("exec \"$0\" \"$@\" {redirection}");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_firndex")]).args(arguments);
        command.output().unwrap()
    }
}

#[track_caller]
fn demand_complaint(arguments: &[&str], output: &Output, says: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("firndex: ") && stderr.contains(says), "{arguments:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_reader_that_went_away_ends_a_command_silently_and_not_well() {
    let workspace = Workspace::with_an_apple();
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = workspace.command(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.signal(), Some(SIGPIPE), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert!(firndex::inspect(workspace.path("pool")).unwrap().clean, "{arguments:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let workspace = Workspace::with_an_apple();
    for arguments in PRINTING {
        let full: File = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = workspace.command(arguments).stdout(full).output().unwrap();
        demand_complaint(arguments, &output, "is the disk");
    }
}

#[test]
fn a_stdout_that_cannot_be_written_is_an_error() {
    let workspace = Workspace::with_an_apple();
    for arguments in PRINTING {
        demand_complaint(arguments, &workspace.redirected(arguments, "1</dev/null"), "stdout");
    }
}

#[test]
fn a_closed_stdout_is_an_error() {
    let workspace = Workspace::with_an_apple();
    for arguments in PRINTING {
        demand_complaint(arguments, &workspace.redirected(arguments, ">&-"), "stdout");
    }
    // What prints nothing needs none.
    for arguments in
        [&["put", "pool", "a", "b"][..], &["del", "pool", "a"], &["backup", "pool", "out"]]
    {
        let output = workspace.redirected(arguments, ">&-");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

/// It is no empty one: an empty value would replace what is there.
#[test]
fn a_closed_stdin_is_an_error() {
    let workspace = Workspace::with_an_apple();
    for arguments in [&["put", "pool", "apple", "-"][..], &["load", "pool", "-"]] {
        for redirection in ["<&-", "0>/dev/null", "< ."] {
            let output = workspace.redirected(arguments, redirection);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {redirection}: {stderr}");
            assert!(stderr.contains("stdin"), "{stderr}");
        }
        assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
    }
    let output = workspace.redirected(&["get", "pool", "apple"], "<&- 2>&-");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"red"[..]));
}

#[test]
fn stdout_that_is_thrown_away_on_purpose_is_none() {
    let workspace = Workspace::with_an_apple();
    for arguments in PRINTING {
        let thrown_away = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let output = workspace.command(arguments).stdout(thrown_away).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}
