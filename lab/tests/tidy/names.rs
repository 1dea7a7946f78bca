//! Commands, options and types that pages name are there.

use crate::pages::{files, none_of, pages, text, top};
use std::process::Command;

/// A program whose commands pages and messages name.
struct Program {
    name: &'static str,
    /// Each command with its help.
    commands: Vec<(String, String)>,
}

impl Program {
    fn all() -> [Program; 2] {
        let product = cli::command()
            .get_subcommands_mut()
            .filter(|command| !command.is_hide_set())
            .map(|command| (command.get_name().to_owned(), command.render_long_help().to_string()))
            .collect();
        let lab = listed(&help_of_lab(&["help"]))
            .map(|command| (command.to_owned(), help_of_lab(&["help", command])))
            .collect();
        let all = [("firndex", product), ("firndex-lab", lab)];
        all.map(|(name, commands): (_, Vec<_>)| {
            assert!(commands.len() > 2, "{commands:?}");
            Program { name, commands }
        })
    }

    /// What follows the program's name in a line.
    fn calls<'a>(&self, line: &'a str) -> impl Iterator<Item = &'a str> {
        line.split(&format!("{} ", self.name)).skip(1).collect::<Vec<_>>().into_iter()
    }

    /// The help of a command, if there is such a command.
    fn help(&self, command: &str) -> Option<&str> {
        let named = self.commands.iter().find(|(name, _)| name == command);
        named.map(|(_, help)| help.as_str())
    }
}

fn help_of_lab(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_firndex-lab")).args(arguments).output();
    String::from_utf8(output.expect("it runs").stdout).expect("help is text")
}

/// The commands that a help lists.
fn listed(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    let named = listed.filter_map(|line| line.split_whitespace().next());
    named.filter(|command| *command != "help")
}

#[test]
fn commands_and_their_options_exist() {
    let programs = Program::all();
    let mut wrong = Vec::new();
    for page in pages() {
        for (number, line) in page.lines() {
            for (program, call) in programs
                .iter()
                .flat_map(|program| program.calls(line).map(move |call| (program, call)))
            {
                let call = call.split(['`', '#', ';']).next().unwrap_or_default();
                let mut words = call.split_whitespace();
                let command = words.next().unwrap_or_default();
                let Some(help) = program.help(command) else {
                    let name = program.name;
                    if programs.iter().any(|other| other.help(command).is_some()) {
                        wrong.push(format!("{}: {name} {command}", page.at(number)));
                    }
                    continue;
                };
                for word in words {
                    let option =
                        word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    if option.starts_with("--") && !help.contains(option) {
                        let name = program.name;
                        wrong.push(format!("{}: {name} {command} {option}", page.at(number)));
                    }
                }
            }
        }
    }
    none_of("commands that another program has, and options that no command has", &wrong);
}

/// What follows a program's name in a message without being a command.
const NO_COMMANDS: [&str; 6] = ["cannot", "engine", "help", "needs", "pool", "version"];

#[test]
fn commands_that_messages_name_exist() {
    let programs = Program::all();
    let mut wrong = Vec::new();
    for path in files("rs").iter().filter(|path| path.iter().any(|part| part == "src")) {
        let source = text(&top().join(path));
        let code =
            (1..).zip(source.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            for program in &programs {
                for said in program.calls(line) {
                    let word =
                        said.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
                    let is_there = program.help(word).is_some() || NO_COMMANDS.contains(&word);
                    if !word.is_empty() && !is_there {
                        let name = program.name;
                        wrong.push(format!("{}:{number}: {name} {word}", path.display()));
                    }
                }
            }
        }
    }
    none_of("commands that messages name and that are not there", &wrong);
}

#[test]
fn the_readme_shows_every_command() {
    let readme = text(&top().join("README.md"));
    let mut missing = Vec::new();
    for program in Program::all() {
        for (command, _) in &program.commands {
            let call = format!("{} {command}", program.name);
            if !readme.contains(&call) {
                missing.push(call);
            }
        }
    }
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
