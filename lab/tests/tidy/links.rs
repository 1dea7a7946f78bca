//! Links and paths lead somewhere.

use crate::pages::{files, files_that, none_of, pages, text, top};
use std::path::{Path, PathBuf};

/// The anchor that a heading gets.
fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn has_anchor(page: &Path, anchor: &str) -> bool {
    let text = text(page);
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|heading| anchor_of(heading.trim_start_matches('#')) == anchor)
}

#[test]
fn links_of_pages_lead_to_files_and_headings() {
    let mut dead = Vec::new();
    for page in pages() {
        let directory = page.path.parent().unwrap_or(Path::new(""));
        for (number, line) in page.lines() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if target.contains("://") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => top().join(&page.path),
                    file => top().join(directory).join(file),
                };
                if !path.exists() || !anchor.is_empty() && !has_anchor(&path, anchor) {
                    dead.push(format!("{}: {target}", page.at(number)));
                }
            }
        }
    }
    none_of("links that lead nowhere", &dead);
}

/// Names that look like a path of the repository: several parts, or a source file.
fn is_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let is_source = [".rs", ".md", ".toml"].iter().any(|end| span.ends_with(end));
    span.chars().all(is_plain) && !span.starts_with('/') && (is_source || span.contains('/'))
}

/// Whether some file or folder of the repository has this path, or one that ends so.
fn exists(files: &[PathBuf], span: &str) -> bool {
    let end = span.trim_end_matches('/');
    files.iter().any(|path| path.ancestors().any(|part| part.ends_with(end)))
}

#[test]
fn paths_that_pages_and_comments_name_exist() {
    let all = files_that(&|_| true);
    let mut missing = Vec::new();
    for page in pages() {
        for (number, span) in page.code_spans() {
            // The log of changes also names what was.
            if is_path(span)
                && !page.path.ends_with("CHANGELOG.md")
                && !is_elsewhere(span)
                && !exists(&all, span)
            {
                missing.push(format!("{}: {span}", page.at(number)));
            }
        }
    }
    for path in files("rs") {
        for (number, line) in (1..).zip(text(&top().join(&path)).lines()) {
            let Some((_, comment)) = line.split_once("//") else { continue };
            for span in comment.split('`').skip(1).step_by(2) {
                if is_path(span) && !is_elsewhere(span) && !exists(&all, span) {
                    missing.push(format!("{}:{number}: {span}", path.display()));
                }
            }
        }
    }
    none_of("paths that are not there", &missing);
}

/// Paths of a machine or of a user, and those of an engine that is still to come: `NAME` stands for it.
fn is_elsewhere(span: &str) -> bool {
    ["dev/", "proc/", "sys/", "target/", "POOL.safe/"].iter().any(|start| span.starts_with(start))
        || span.contains("/NAME")
}
