//! Commands beside a process that has the pool open.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::workspace::Workspace;
use firndex::{Options, Role, Store};
use rustix::process::{Pid, Signal, kill_process};

/// `firndex serve`, killed if it is not ended otherwise.
struct Server(Child);

impl Server {
    fn start(workspace: &Workspace) -> Server {
        let mut command = workspace.command(["serve", "pool"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "serving pool until a signal ends this\n");
        // Open, for what it says later.
        std::mem::forget(said);
        Server(child)
    }

    fn end(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        assert!(self.0.wait().unwrap().success(), "{signal:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_that_reads_or_changes_pairs_works_beside_a_server() {
    let workspace = Workspace::with_pool("store");
    let server = Server::start(&workspace);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
    std::fs::write(workspace.path("more.csv"), "key,value\npear,green\nplum,blue\n").unwrap();
    workspace.run(["load", "pool", "more.csv"]).demand(0);
    workspace.run(["del", "pool", "apple"]).demand(0);
    let text = workspace.run(["dump", "pool", "-"]).demand(0);
    let text = String::from_utf8_lossy(text.stdout()).into_owned();
    assert!(text.contains("pear,green") && text.contains("plum,blue") && !text.contains("apple"));
    workspace.run(["scan", "pool"]).demand(0);
    let stat = workspace.run(["stat", "pool", "--json"]).demand(0).json();
    assert_eq!((&stat["pairs"], &stat["role"]), (&2.into(), &"guest".into()), "{stat}");
    workspace.run(["backup", "pool", "copy"]).demand(0);
    workspace.run(["shrink", "pool"]).demand(0);
    workspace.run(["check", "pool"]).demand_error(&["in use by another process; close it there"]);
    workspace.run(["compact", "pool"]).demand_error(&["for the process that owns the pool"]);
    workspace.run(["serve", "pool"]).demand_error(&["serves pool already"]);
    server.end(Signal::TERM);
    for pool in ["pool", "copy"] {
        workspace.run(["check", pool]).demand(0);
        assert_eq!(workspace.run(["get", pool, "plum"]).demand(0).stdout(), b"blue");
    }
}

#[test]
fn a_cache_is_served_as_well() {
    let workspace = Workspace::new();
    workspace.run(["create", "--kind", "cache", "--capacity", "1M", "pool"]).demand(0);
    let server = Server::start(&workspace);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    workspace.run(["put", "pool", "pear", "green"]).demand(0);
    workspace.run(["del", "pool", "pear"]).demand(0);
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
    workspace.run(["get", "pool", "pear"]).demand(1);
    assert!(workspace.run(["dump", "pool", "-"]).demand(0).stdout().ends_with(b"apple,red\n"));
    let stat = workspace.run(["stat", "pool", "--json"]).demand(0).json();
    assert_eq!((&stat["pairs"], &stat["role"]), (&1.into(), &"guest".into()), "{stat}");
    assert_eq!((&stat["cache"]["hits"], &stat["cache"]["misses"]), (&1.into(), &1.into()));
    let text = workspace.run(["stat", "pool"]).demand(0);
    let text = String::from_utf8_lossy(text.stdout()).into_owned();
    assert!(text.contains("put up to") && text.contains("1 guest"), "{text}");
    server.end(Signal::TERM);
    workspace.run(["check", "pool"]).demand(0);
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
}

#[test]
fn a_signal_closes_the_pool_and_a_program_carries_on() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let workspace = Workspace::with_pool("store");
        let server = Server::start(&workspace);
        let store = Store::open(workspace.path("pool")).unwrap();
        assert_eq!(store.role(), Role::Guest);
        store.put("apple", "red").unwrap();
        server.end(signal);
        assert_eq!(store.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
        assert_eq!(store.role(), Role::Owner);
        store.close().unwrap();
        assert!(firndex::inspect(workspace.path("pool")).unwrap().clean);
    }
}

#[test]
fn a_command_beside_a_program_that_lets_nobody_in_says_how_to_be_let_in() {
    let workspace = Workspace::with_pool("store");
    let store = Options::new().open_store(workspace.path("pool")).unwrap();
    workspace.run(["get", "pool", "apple"]).demand_error(&[
        "in use by another process",
        "firndex serve",
        "--wait",
    ]);
    store.close().unwrap();
}
