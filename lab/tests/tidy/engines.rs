//! What is known of an engine is in its own files, so that the next one changes few others.

use crate::pages::{files, none_of, text, top};
use firndex::Engine;
use std::path::Path;

/// Sources that name engines and are no engine's own: the list, and what a test can only say by name. A folder ends
/// with a slash.
const ALLOWED: &[&str] = &[
    // A level of the processor's caches.
    "bench/src/machine.rs",
    // Papers compare their table with those of other papers.
    "baselines/src/kind.rs",
    "baselines/src/lib.rs",
    "bench/src/contenders.rs",
    "bench/src/paper/",
    "engines/src/lib.rs",
    "conformance/suite/engines/mod.rs",
    "firndex/tests/facade/engines/mod.rs",
    "kernels/tests/main.rs",
    // This list, which names files by their folders.
    "lab/tests/tidy/engines.rs",
    // Code of a paper's own authors, beside which ours is measured.
    "peers/build.rs",
    "peers/src/maps/foreign.rs",
    // Workloads as papers have them.
    "workload/src/operations/papers.rs",
];

/// Whether a file is an engine's own: it or a folder that it is in has the engine's name.
fn is_own(path: &Path, engine: Engine) -> bool {
    path.with_extension("").components().any(|part| part.as_os_str() == engine.name())
}

/// Whether `word` stands in `line` by itself.
fn has_word(line: &str, word: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_inside) && !after.starts_with(is_inside)
    })
}

/// Whether a line of source speaks of an engine: by its variant, its module, its name on the command line, or
/// the name that its paper has for it.
fn names(line: &str, engine: Engine) -> bool {
    let (name, title) = (engine.name(), engine.description().title);
    let is_declared =
        [format!("mod {name};"), format!("pub mod {name};")].contains(&line.trim().into());
    let squeezed = title.replace(" hashing", "Hashing");
    !is_declared
        && (has_word(line, &format!("Engine::{engine:?}"))
            || line.contains(&format!("{name}::")) && has_word(line, name)
            || line.contains(&format!("\"{name}\""))
            || line.contains(&format!("/{name}/"))
            || line.contains(title)
            || line.contains(&squeezed))
}

#[test]
fn an_engine_is_named_in_its_own_files_alone() {
    let mut found = Vec::new();
    for path in files("rs") {
        let shown = path.to_string_lossy().into_owned();
        let is_allowed = |&allowed: &&str| {
            shown == allowed || allowed.ends_with('/') && shown.starts_with(allowed)
        };
        if ALLOWED.iter().any(is_allowed) {
            continue;
        }
        let source = text(&top().join(&path));
        for (number, line) in (1..).zip(source.lines()) {
            let others = Engine::ALL.iter().filter(|engine| !is_own(&path, **engine));
            // The title of one may be the end of another's.
            let is_of_own =
                Engine::ALL.iter().any(|engine| is_own(&path, *engine) && names(line, *engine));
            if !is_of_own && others.into_iter().any(|&engine| names(line, engine)) {
                found.push(format!("{shown}:{number}: {}", line.trim()));
            }
        }
    }
    none_of("engines named outside of their own files", &found);
}

#[test]
fn what_names_an_engine_is_told_from_what_does_not() {
    for &engine in Engine::ALL {
        let description = engine.description();
        for line in [
            format!("    Engine::{engine:?} => 1,"),
            format!("use engines::{}::Shape;", description.name),
            format!("run([\"--engine\", \"{}\"])", description.name),
            format!("// As {} does.", description.title),
        ] {
            assert!(names(&line, engine), "{line}");
        }
        for line in ["the top level of a table", "for &engine in Engine::ALL {", "levels: 3"] {
            assert!(!names(line, engine), "{line}");
        }
        assert!(!names(&format!("    pub mod {};", description.name), engine));
    }
    let own = Engine::ALL[0].name();
    for path in [format!("a/{own}/b.rs"), format!("a/{own}.rs")] {
        assert!(is_own(Path::new(&path), Engine::ALL[0]));
    }
    assert!(!is_own(Path::new("a/list.rs"), Engine::ALL[0]));
}

/// Its page, its line in the README and its folder.
#[test]
fn every_engine_has_its_page_and_its_folder() {
    let readme = text(&top().join("README.md"));
    for &engine in Engine::ALL {
        let (name, title) = (engine.name(), engine.description().title);
        let page = format!("docs/engines/{name}.md");
        assert!(text(&top().join(&page)).starts_with(&format!("# {title}")), "{page}");
        assert!(readme.contains(&format!("[`{name}`]({page})")), "{page} in README.md");
        let folder = format!("engines/src/{name}");
        assert!(top().join(&folder).is_dir(), "{folder}");
    }
}
