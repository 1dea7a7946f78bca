//! The files of the repository, and the text of its pages.

use std::fs;
use std::path::{Path, PathBuf};

/// The top of the repository.
pub(crate) fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Text of a file.
pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files with this extension, by their paths below the top.
pub(crate) fn files(extension: &str) -> Vec<PathBuf> {
    files_that(&|path| path.extension().is_some_and(|found| found == extension))
}

/// All files of this kind, by their paths below the top.
pub(crate) fn files_that(is_meant: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    fn collect(directory: &Path, is_meant: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            // A file that several packages have is one, and is met where it lies.
            if path.is_symlink() {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // `target`, and others that a build or a user has left.
                let is_ours =
                    !name.starts_with("target") && (!name.starts_with('.') || name == ".ci");
                if is_ours {
                    collect(&path, is_meant, found);
                }
            } else if is_meant(&path) {
                found.push(path.strip_prefix(top()).expect("below the top").to_owned());
            }
        }
    }
    let mut found = Vec::new();
    collect(top(), is_meant, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no such files below {}", top().display());
    found
}

/// A page with its number of each line.
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Page {
    /// Its lines with their numbers from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// What stands between single backticks, outside of fenced blocks, with its line.
    pub(crate) fn code_spans(&self) -> Vec<(usize, &str)> {
        let mut is_fenced = false;
        let mut spans = Vec::new();
        for (number, line) in self.lines() {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if !is_fenced {
                spans.extend(line.split('`').skip(1).step_by(2).map(|span| (number, span)));
            }
        }
        spans
    }

    /// Where a line is, for a message.
    pub(crate) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// All pages.
pub(crate) fn pages() -> Vec<Page> {
    let read = |path: PathBuf| Page { text: text(&top().join(&path)), path };
    files("md").into_iter().map(read).collect()
}

/// Fails with all that was found, if anything was.
pub(crate) fn none_of(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

const COLUMNS_MAX: usize = 120;

/// Tables and drawings cannot be wrapped.
#[test]
fn lines_of_pages_fit() {
    let mut long = Vec::new();
    for page in pages() {
        let mut is_fenced = false;
        for (number, line) in page.lines() {
            is_fenced ^= line.trim_start().starts_with("```");
            let is_prose = !is_fenced && !line.starts_with('|') && !line.starts_with("    ");
            if is_prose && line.chars().count() > COLUMNS_MAX {
                long.push(page.at(number));
            }
        }
    }
    none_of("lines of more than 120 columns", &long);
}

/// What a merge leaves where two changes met.
#[test]
fn pages_are_whole() {
    let marks = ["<<<<<<<", "=======", ">>>>>>>"];
    let is_mark = |line: &str| marks.iter().any(|mark| line.starts_with(mark));
    let all = pages();
    let marked = all.iter().flat_map(|page| {
        let lines = page.lines().filter(|(_, line)| is_mark(line));
        lines.map(|(number, _)| page.at(number))
    });
    none_of("marks of a merge", &marked.collect::<Vec<_>>());
}

/// Tables and drawings cannot be wrapped, nor can what the formatter leaves as it is: code and strings.
#[test]
fn comments_fit() {
    let mut long = Vec::new();
    for path in files("rs") {
        for (number, line) in (1..).zip(text(&top().join(&path)).lines()) {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            let comment = comment.trim_start_matches(['/', '!']);
            let is_prose = !comment.starts_with(" |") && !comment.starts_with("     ");
            if is_prose && line.chars().count() > COLUMNS_MAX {
                long.push(format!("{}:{number}", path.display()));
            }
        }
    }
    none_of("comments of more than 120 columns", &long);
}

#[test]
fn the_index_leads_to_every_page_of_docs() {
    let index = text(&top().join("docs/README.md"));
    let missing: Vec<String> = pages()
        .into_iter()
        .filter_map(|page| Some(page.path.strip_prefix("docs").ok()?.display().to_string()))
        .filter(|page| page != "README.md" && !index.contains(&format!("]({page})")))
        .collect();
    none_of("pages that docs/README.md does not name", &missing);
}

#[test]
fn examples_of_the_readme_and_the_guide_are_run() {
    let run = text(&top().join("firndex/src/pages.rs"));
    let missing: Vec<String> = pages()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| path.starts_with("docs/guide") || path == Path::new("README.md"))
        .filter(|path| {
            !run.contains(&format!(
                "\"../{}\"",
                path.strip_prefix("docs").unwrap_or(path).display()
            ))
        })
        .map(|path| path.display().to_string())
        .collect();
    none_of("pages whose examples firndex/src/pages.rs does not run", &missing);
}
