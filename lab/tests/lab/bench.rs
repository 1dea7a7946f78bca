//! `firndex-lab bench`: the way to other authors' maps. What it measures is tested where it is done.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::workspace::Workspace;

#[test]
fn peers_need_a_checkout() {
    let arguments = ["bench", "micro", "--peers", "--pairs", "1k"];
    Workspace::new().run(arguments).demand_error(&["peers/run", "checkout"]);
}

/// A checkout whose `peers/run` is another program.
fn with_peers(program: &str) -> Workspace {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("peers")).unwrap();
    std::fs::create_dir_all(workspace.path("deep/inside")).unwrap();
    symlink(Path::new("/bin").join(program), workspace.path("peers/run")).unwrap();
    workspace
}

#[test]
fn peers_get_the_same_arguments_anywhere_in_a_checkout() {
    let workspace = with_peers("echo");
    let arguments = ["micro", "--peers", "--engines", "boost,dashmap", "--pairs", "1k"];
    for dir in [".", "deep/inside"] {
        let mut command = workspace.command(["bench"].iter().chain(&arguments));
        let output = command.current_dir(workspace.path(dir)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), arguments.join(" "));
    }
}

#[test]
fn the_status_of_peers_is_passed_on() {
    with_peers("false").run(["bench", "micro", "--peers"]).demand(1);
}
