//! Commands, options and types that pages name are there.

use crate::pages::{files, none_of, pages, text, top};
use std::process::Command;

fn help_of(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_firndex")).args(arguments).output();
    String::from_utf8(output.expect("it runs").stdout).expect("help is text")
}

/// The commands that the program's help lists.
fn commands() -> Vec<String> {
    let help = help_of(&["help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    let commands: Vec<String> =
        listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(commands.len() > 5, "{help}");
    commands
}

#[test]
fn commands_and_their_options_exist() {
    let commands = commands();
    let mut wrong = Vec::new();
    for page in pages() {
        for (number, line) in page.lines() {
            for call in line.split("firndex ").skip(1) {
                let call = call.split(['`', '#', ';']).next().unwrap_or_default();
                let mut words = call.split_whitespace();
                let Some(command) =
                    words.next().filter(|word| commands.iter().any(|known| known == word))
                else {
                    continue;
                };
                let help = help_of(&["help", command]);
                for word in words {
                    let option =
                        word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    if option.starts_with("--") && !help.contains(option) {
                        wrong.push(format!("{}: firndex {command} {option}", page.at(number)));
                    }
                }
            }
        }
    }
    none_of("options that no command has", &wrong);
}

/// What follows the program's name in a message without being a command.
const NO_COMMANDS: [&str; 5] = ["cannot", "engine", "needs", "pool", "version"];

#[test]
fn commands_that_messages_name_exist() {
    let commands = commands();
    let mut wrong = Vec::new();
    for path in files("rs").iter().filter(|path| path.iter().any(|part| part == "src")) {
        let source = text(&top().join(path));
        let code =
            (1..).zip(source.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            for said in line.split("firndex ").skip(1) {
                let word = said.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
                let is_there = commands.iter().any(|command| command == word);
                if !word.is_empty() && !is_there && !NO_COMMANDS.contains(&word) {
                    wrong.push(format!("{}:{number}: firndex {word}", path.display()));
                }
            }
        }
    }
    none_of("commands that messages name and that are not there", &wrong);
}

#[test]
fn the_readme_shows_every_command() {
    let readme = text(&top().join("README.md"));
    let missing: Vec<String> = commands()
        .into_iter()
        .filter(|command| command != "help" && !readme.contains(&format!("firndex {command}")))
        .collect();
    none_of("commands that the README does not show", &missing);
}

/// `Type::name`, `Type::name()` and the like: the name must be declared somewhere in the sources.
#[test]
fn types_and_methods_that_pages_name_exist() {
    let sources: Vec<String> = files("rs").iter().map(|path| text(&top().join(path))).collect();
    let declares = |name: &str| {
        let declarations =
            ["fn ", "struct ", "enum ", "trait ", "mod ", "const ", "type ", "static "];
        sources.iter().any(|source| {
            declarations.iter().any(|kind| {
                source.match_indices(&format!("{kind}{name}")).any(|(at, found)| {
                    !source[at + found.len()..]
                        .starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            }) || source.lines().any(|line| is_member(line.trim(), name))
        })
    };
    let mut missing = Vec::new();
    for page in pages() {
        if page.path.ends_with("CHANGELOG.md") {
            continue;
        }
        for (number, span) in page.code_spans() {
            let path = span.split(['(', '<', ' ']).next().unwrap_or_default();
            let Some((_, name)) = path.rsplit_once("::") else { continue };
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            let is_ours = !path.starts_with("std::");
            if is_name && is_ours && !declares(name) {
                missing.push(format!("{}: {span}", page.at(number)));
            }
        }
    }
    none_of("names that are not declared", &missing);
}

/// Whether a line declares a field or a variant.
fn is_member(line: &str, name: &str) -> bool {
    let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    line.strip_prefix(name)
        .is_some_and(|rest| rest.starts_with([':', ',', '(']) || rest.starts_with(" {"))
}
