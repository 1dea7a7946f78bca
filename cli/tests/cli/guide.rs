//! The sessions that the guide shows print what it says.
//!
//! A block marked `console` is a session: a line after `$ ` is a command for the shell, the lines below it are what it
//! prints. The sessions of a page go on in one directory.

use crate::workspace::Workspace;
use std::path::Path;
use std::process::Command;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

/// A command and what it is to print.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    printed: String,
}

fn steps_of(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_session = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(kind) => is_session = kind == "console",
            None if !is_session => {}
            None => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.into(), printed: String::new() })
                }
                (None, Some(step)) => step.printed += &format!("{line}\n"),
                (None, None) => panic!("a session begins with a command, not with {line:?}"),
            },
        }
    }
    steps
}

/// What the shell prints, on either stream, with the end of line that a terminal would get.
fn printed(workspace: &Workspace, command: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_firndex")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(workspace.path(""))
        .env("PATH", path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

#[test]
fn sessions_of_the_guide_print_what_it_says() {
    let mut sessions = 0;
    for entry in std::fs::read_dir(format!("{DOCS}/guide")).unwrap() {
        let path = entry.unwrap().path();
        let workspace = Workspace::new();
        for step in steps_of(&std::fs::read_to_string(&path).unwrap()) {
            let found = printed(&workspace, &step.command);
            assert_eq!(found, step.printed, "{}: {}", path.display(), step.command);
            sessions += 1;
        }
    }
    assert!(sessions > 20, "only {sessions} commands were found");
}

#[test]
fn a_session_is_read_as_it_is_written() {
    let page = "text\n```console\n$ one\n$ two\nprinted\n```\n```sh\n$ not this\n```\n";
    let step =
        |command: &str, printed: &str| Step { command: command.into(), printed: printed.into() };
    assert_eq!(steps_of(page), [step("one", ""), step("two", "printed\n")]);
}
