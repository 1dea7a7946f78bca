//! What teaches the program: help, completions, manual pages.

use crate::workspace::Workspace;

/// Commands that the help lists.
fn commands(workspace: &Workspace) -> Vec<String> {
    let help = workspace.run(["help"]).demand(0);
    let text = String::from_utf8_lossy(help.stdout()).into_owned();
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    // A summary may take more than one line.
    let named = listed.filter(|line| !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_help_of_each_command_ends_with_its_exit_status() {
    let workspace = Workspace::new();
    for command in commands(&workspace).iter().filter(|command| *command != "help") {
        let help = workspace.run(["help", command.as_str()]).demand(0);
        let text = String::from_utf8_lossy(help.stdout()).into_owned();
        assert!(text.contains("Exit status: 0"), "{command}: {text}");
    }
}

#[test]
fn each_shell_gets_completions_for_every_command() {
    let workspace = Workspace::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = workspace.run(["completions", shell]).demand(0);
        let text = String::from_utf8_lossy(script.stdout()).into_owned();
        for command in commands(&workspace) {
            assert!(text.contains(&command), "{shell}: {command}");
        }
        assert!(text.contains("no-header"), "{shell}");
    }
    workspace.run(["completions", "sh"]).demand_wrong_use(&["sh", "bash"]);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let workspace = Workspace::new();
    let page = workspace.run(["man"]).demand(0);
    assert!(page.stdout().starts_with(b".ie"), "roff");
    assert!(String::from_utf8_lossy(page.stdout()).contains("firndex"));
    std::fs::create_dir(workspace.path("man1")).unwrap();
    workspace.run(["man", "man1"]).demand(0);
    for command in commands(&workspace).iter().filter(|command| *command != "help") {
        let page = workspace.path(&format!("man1/firndex-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("Exit status"), "{command}");
    }
    workspace.run(["man", "nowhere"]).demand_error(&["nowhere", "hint:"]);
}

#[test]
fn the_demo_says_what_its_exit_status_means() {
    let workspace = Workspace::new();
    let help = workspace.run(["demo", "--help"]).demand(0);
    let text = String::from_utf8_lossy(help.stdout()).into_owned();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("exit status is 1"), "{text}");
    assert!(words.contains("1 a promise was broken, 2 an error."), "{text}");
    assert!(!words.contains("exit status is 2"), "{text}");
}
