//! What teaches the program: help, completions, manual pages.

use crate::workspace::Workspace;

const COMMANDS: [&str; 5] = ["crash", "torture", "bench", "completions", "man"];

#[test]
fn each_command_has_help_completions_and_a_manual_page() {
    let workspace = Workspace::new();
    let completions = workspace.run(["completions", "bash"]).demand(0);
    let completions = String::from_utf8_lossy(completions.stdout()).into_owned();
    std::fs::create_dir(workspace.path("man1")).unwrap();
    workspace.run(["man", "man1"]).demand(0);
    for command in COMMANDS {
        let help = workspace.run(["help", command]).demand(0);
        assert!(String::from_utf8_lossy(help.stdout()).contains("Exit status: 0"), "{command}");
        assert!(completions.contains(command), "{command}");
        let page = workspace.path(&format!("man1/firndex-lab-{command}.1"));
        assert!(std::fs::read_to_string(page).unwrap().contains("Exit status"), "{command}");
    }
    workspace.run(["man", "nowhere"]).demand_error(&["nowhere", "hint:"]);
}

#[test]
fn what_judges_promises_has_the_same_exit_statuses() {
    let workspace = Workspace::new();
    for command in ["crash", "torture"] {
        let help = workspace.run([command, "--help"]).demand(0);
        let text = String::from_utf8_lossy(help.stdout()).into_owned();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("exit status is 1"), "{command}: {text}");
        assert!(words.contains("1 a promise was broken, 2 an error."), "{command}: {text}");
        assert!(!words.contains("exit status is 2"), "{command}: {text}");
    }
}
