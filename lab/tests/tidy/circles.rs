//! Files of a crate do not import each other in a circle.
//!
//! A file imports another one if it uses a path into its module: `crate::a::B`, `super::B`, or `a::B` of a module that
//! it declares itself. A name that a module only passes on is that of the file that has it. Unit tests do not count,
//! nor does what a file takes from those that it is a part of, its parents.

use crate::pages::{files, none_of, text, top};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The names of a module, from the crate's root on.
type Module = Vec<String>;

/// What a module's file says.
#[derive(Default)]
struct Source {
    /// Paths that it uses, as they are written, but without braces.
    paths: Vec<Vec<String>>,
    /// Names that it passes on, and what they are.
    passes_on: Vec<(String, Vec<String>)>,
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut crates: BTreeMap<String, BTreeMap<Module, Source>> = BTreeMap::new();
    for path in files("rs") {
        let shown = path.to_string_lossy().into_owned();
        let Some((name, file)) = shown.split_once("/src/") else { continue };
        if file.starts_with("bin/") {
            continue;
        }
        let source = Source::of(&text(&top().join(&path)));
        crates.entry(name.to_owned()).or_default().insert(module_of(file), source);
    }
    assert!(crates.len() > 10, "{:?}", crates.keys());
    let mut found = Vec::new();
    for (name, modules) in &crates {
        let circles = circles(&imports(modules));
        found.extend(circles.iter().map(|circle| format!("{name}: {}", circle.join(", "))));
    }
    none_of("circles of files", &found);
}

/// The module that a file below `src` has.
fn module_of(file: &str) -> Module {
    let parts = Path::new(file).with_extension("");
    let mut module: Module = parts.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_of_parent =
        module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    if is_of_parent {
        module.pop();
    }
    module
}

impl Source {
    fn of(text: &str) -> Source {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code: Vec<&str> = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .filter(|line| !line.trim_start().starts_with('"'))
            .collect();
        let code = code.join("\n");
        let mut source = Source::default();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            match use_tree(statement) {
                Some((before, is_passed_on, tree)) => {
                    rest.push_str(before);
                    for path in expanded(tree) {
                        if is_passed_on && let Some(name) = path.last() {
                            source.passes_on.push((name.clone(), path.clone()));
                        }
                        source.paths.push(path);
                    }
                }
                None => rest.push_str(statement),
            }
        }
        source.paths.extend(inline_paths(&rest));
        source
    }
}

/// What stands before a `use` at the end of a statement, whether it passes names on, and its tree.
fn use_tree(statement: &str) -> Option<(&str, bool, &str)> {
    let mut at = 0;
    for line in statement.split_inclusive('\n') {
        let trimmed = line.trim_start();
        for start in ["use ", "pub use ", "pub(crate) use ", "pub(super) use "] {
            if let Some(tree) = trimmed.strip_prefix(start) {
                let tree_at = at + line.len() - tree.len();
                let tree = statement[tree_at..].trim_end_matches(';');
                return Some((&statement[..at], start.starts_with("pub"), tree));
            }
        }
        at += line.len();
    }
    None
}

/// All paths of a tree of braces. A name that gets another one counts as itself.
fn expanded(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let parts = path.split("::").map(|part| part.trim().to_owned());
        return vec![parts.filter(|part| !part.is_empty() && part != "self").collect()];
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let mut depth = 0;
    let branches = inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let all = branches.filter(|branch| !branch.trim().is_empty()).flat_map(expanded);
    let prefix = expanded(before.trim().trim_end_matches("::")).concat();
    all.map(|path| [prefix.clone(), path].concat()).collect()
}

/// Paths in code: names with `::` between them.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_of_path(c)).filter(|word| word.contains("::"));
    words.flat_map(expanded).collect()
}

/// Which module imports which.
fn imports(modules: &BTreeMap<Module, Source>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let mut all = BTreeMap::new();
    for (module, source) in modules {
        let targets = source.paths.iter().filter_map(|path| target(modules, module, path, 0));
        // A module begins with its parents' names, and with its own.
        all.insert(module, targets.filter(|target| !module.starts_with(target)).collect());
    }
    all
}

/// The module that has what a path in `module` names, if it is one of the crate.
fn target<'a>(
    modules: &'a BTreeMap<Module, Source>,
    module: &Module,
    path: &[String],
    depth: usize,
) -> Option<&'a Module> {
    let mut base = module.clone();
    let mut path = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            path = &path[1..];
        }
        "super" => {
            while path.first().is_some_and(|part| part == "super") {
                base.pop();
                path = &path[1..];
            }
        }
        // A module that this one declares, or else another crate, or a type.
        first => {
            base.push(first.to_owned());
            modules.get(&base)?;
            path = &path[1..];
        }
    }
    while let Some(part) = path.first() {
        base.push(part.clone());
        if !modules.contains_key(&base) {
            base.pop();
            break;
        }
        path = &path[1..];
    }
    let (found, source) = modules.get_key_value(&base)?;
    let passed_on = path.first().and_then(|name| {
        let known = source.passes_on.iter().find(|(known, _)| known == name);
        // Names that are passed on in a circle would never end.
        known.filter(|_| depth < 8)
    });
    let owner = passed_on.and_then(|(_, path)| target(modules, found, path, depth + 1));
    // A path that ends with the module names no item of it: whoever uses one says which.
    Some(owner.unwrap_or(found))
}

/// Groups of modules each of which reaches the others.
fn circles(imports: &BTreeMap<&Module, BTreeSet<&Module>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|from| {
            let mut reached = BTreeSet::new();
            let mut open: Vec<&Module> = imports[from].iter().copied().collect();
            while let Some(module) = open.pop() {
                if reached.insert(module) {
                    open.extend(imports.get(module).into_iter().flatten());
                }
            }
            (*from, reached)
        })
        .collect();
    let mut groups = BTreeSet::new();
    for (module, far) in reached.iter().filter(|(module, far)| far.contains(*module)) {
        let others = far.iter().filter(|other| reached[*other].contains(module));
        groups.insert(others.map(|other| other.join("::")).collect::<Vec<_>>());
    }
    groups.into_iter().collect()
}

#[test]
fn a_circle_is_found_and_a_name_passed_on_makes_none() {
    let modules = |files: &[(&str, &str)]| -> BTreeMap<Module, Source> {
        files.iter().map(|(file, text)| (module_of(file), Source::of(text))).collect()
    };
    let sound = [
        ("lib.rs", "mod a;\nmod b;\npub use a::{Name, other::Other};\n"),
        ("a/mod.rs", "mod other;\npub use other::Other;\npub struct Name;\n"),
        ("a/other.rs", "pub struct Other;\n// crate::b::f\n"),
        ("b.rs", "use crate::Other;\n#[cfg(test)]\nmod tests { use crate::c::x; }\n"),
        ("c.rs", "fn f() { crate::b::g(std::mem::take) }\n"),
    ];
    assert_eq!(circles(&imports(&modules(&sound))), [[""; 0]; 0]);
    for (file, text, circle) in [
        ("a/other.rs", "use super::Name;\nuse crate::c::x;\n", &["a::other", "b", "c"][..]),
        ("a/other.rs", "fn f() {\n    crate::b::g();\n}\n", &["a::other", "b"]),
        ("a/other.rs", "use {\n    crate::b::{self, g},\n};\n", &["a::other", "b"]),
    ] {
        let mut files = sound.to_vec();
        files.retain(|(known, _)| *known != file);
        files.push((file, text));
        assert_eq!(circles(&imports(&modules(&files))), [circle], "{file}: {text}");
    }
}
