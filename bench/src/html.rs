//! Rows as one page that needs nothing else.
//!
//! The page is the template `page.html` with the rows in it as JSON. A script in the template draws their charts and
//! tables. Without scripts, a reader sees the figures as text.

use crate::machine::Machine;
use crate::report;
use crate::row::Row;
use anyhow::{Context, Result};
use firndex::Engine;
use serde_json::json;
use std::fs;
use std::path::Path;

/// The contender whose rows are what the machine allows.
const MACHINE: &str = "machine";
const TEMPLATE: &str = include_str!("page.html");

/// The page. `command` is what was run, in a form that its reader could type.
/// `claims` is markup that stands before the charts: text in it is escaped. There may be none.
pub fn page(machine: &Machine, command: &str, claims: &str, rows: &[Row]) -> Result<String> {
    let mut text = Vec::new();
    report::text(&mut text, machine, rows)?;
    let data = json!({
        "command": command,
        "machine": machine.lines(),
        "rows": rows,
        "has_others": rows.iter().any(|row| is_other(&row.contender)),
    });
    // In JSON this character occurs only in strings, so no text can end the script.
    let data = data.to_string().replace('<', "\\u003c");
    let page = TEMPLATE.replacen("{claims}", claims, 1);
    let page = page.replacen("{text}", &escape(&String::from_utf8_lossy(&text)), 1);
    Ok(page.replacen("{data}", &data, 1))
}

/// Whether a contender is somebody else's: neither the machine nor one of firndex's engines, in any variant.
fn is_other(contender: &str) -> bool {
    let is_ours = |engine: &Engine| contender.starts_with(engine.name());
    contender != MACHINE && !Engine::ALL.iter().any(is_ours)
}

/// Escapes text so that it may stand between tags and is no placeholder.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('{', "&#123;")
}

/// Writes the page to a file.
pub fn write(
    path: &Path,
    machine: &Machine,
    command: &str,
    claims: &str,
    rows: &[Row],
) -> Result<()> {
    fs::write(path, page(machine, command, claims, rows)?)
        .with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Suite;
    use clap::ValueEnum;
    use serde_json::Value;

    const CONTENDERS: [&str; 3] = ["one", "another", "machine"];

    fn rows() -> Vec<Row> {
        let row = |suite, op: &str, contender: &str| Row {
            medium: Some("dram".into()),
            threads: Some(2),
            pairs: Some(14_000_000),
            spread: Some(0.1),
            p99_ns: Some(440.0),
            load_factor: Some(0.85),
            level_pairs: Some(vec![9, 4]),
            ..Row::new(suite, op, contender).with_rate(9e6, Some(3.6e7))
        };
        let of = |contender| {
            let timeline = Row { at_s: Some(0.05), ..row("resize", "timeline", contender) };
            [
                row("micro", "get_hit", contender),
                row("shiny", "polish_durable", contender),
                timeline,
            ]
        };
        CONTENDERS.into_iter().flat_map(of).collect()
    }

    fn machine(processor: &str) -> Machine {
        Machine { processor: processor.into(), ..Machine::look(Path::new("/")) }
    }

    /// What a page holds between two marks, each the first of its kind.
    fn between<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
        page.split_once(begin).unwrap().1.split_once(end).unwrap().0
    }

    /// What the script of a page reads. Fails if the page is made of anything but the template.
    fn data(page: &str) -> Value {
        let template = TEMPLATE.replacen("{claims}", "", 1);
        let (before, after) = template.split_once("{text}").unwrap();
        let (middle, after) = after.split_once("{data}").unwrap();
        let text = page.strip_prefix(before).unwrap().strip_suffix(after).unwrap();
        let (text, data) = text.split_once(middle).unwrap();
        assert!(!text.contains('<') && !data.contains('<'), "{page}");
        serde_json::from_str(data).unwrap()
    }

    #[test]
    fn a_page_has_every_row_as_data_and_as_text() {
        let rows = rows();
        let page = page(&machine("Example 9000"), "firndex-lab bench all", "", &rows).unwrap();
        let data = data(&page);
        assert_eq!(data["command"], "firndex-lab bench all");
        assert_eq!(data["rows"], serde_json::to_value(&rows).unwrap());
        assert!(data["machine"][1][1].as_str().unwrap().starts_with("Example 9000"));
        let text = between(&page, "<pre>", "</pre>");
        assert!(text.contains("Example 9000") && text.contains("\nmicro\n"), "{text}");
        for contender in CONTENDERS {
            let lines = text.lines().filter(|line| line.contains(contender)).count();
            assert!(lines >= 2, "a line for each row that is not of a timeline: {text}");
        }
    }

    #[test]
    fn nobody_is_beside_where_nobody_is() {
        let engine = Engine::ALL[0].name();
        let alone = [engine, &format!("{engine}-variant"), "machine"];
        for (contenders, has_others) in [(&alone[..], false), (&CONTENDERS, true), (&[], false)] {
            let rows: Vec<Row> =
                contenders.iter().map(|name| Row::new("micro", "insert", *name)).collect();
            let page = page(&machine("Example 9000"), "", "", &rows).unwrap();
            assert_eq!(data(&page)["has_others"], has_others, "{contenders:?}");
        }
        // The script says it only then.
        let body = between(TEMPLATE, "<body>", "<script");
        assert!(!body.contains("beside"), "{body}");
        assert!(TEMPLATE.contains("if (has_others) byId(\"title\")"));
    }

    #[test]
    fn a_page_needs_nothing_else() {
        let page = page(&machine("Example 9000"), "firndex-lab bench all", "", &rows()).unwrap();
        // The namespace of SVG is no link.
        let page = page.replacen("\"http://www.w3.org/2000/svg\"", "", 1);
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link", "fetch("] {
            assert!(!page.contains(outside), "{outside} is in the page");
        }
        // Text must be set as text.
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!page.contains(markup), "{markup} is in the page");
        }
    }

    #[test]
    fn the_script_knows_every_suite_and_the_fields_that_it_draws() {
        let script = between(TEMPLATE, "\"use strict\";", "</script>");
        let suites = between(script, "const SUITES = {", "\n};");
        for suite in Suite::value_variants().iter().filter(|suite| **suite != Suite::All) {
            let name = suite.to_possible_value().unwrap();
            assert!(suites.contains(&format!("\n  \"{}\": [", name.get_name())), "{suite:?}");
        }
        let fields = serde_json::to_value(Row::new("micro", "get", "one")).unwrap();
        let fields = fields.as_object().unwrap();
        let word = |text: &str| -> String {
            text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
        };
        let drawn = script.split("row.").skip(1).map(word).filter(|name| name != "pairs_here");
        for name in drawn {
            assert!(fields.contains_key(&name), "row.{name} is no field of a row");
        }
        let costs = between(script, "const COSTS = [", "]").split(", ");
        for cost in costs {
            assert!(fields.contains_key(cost.trim_matches('"')), "{cost} is no field of a row");
        }
    }

    #[test]
    fn text_from_outside_stays_text() {
        let hostile = "</script></pre><script>alert(1)</script><!--&\"'\u{0}{data}{text}";
        let mut rows = rows();
        for row in &mut rows {
            row.op = format!("{hostile}{}", row.op);
            row.contender = format!("{}{hostile}", row.contender);
            row.medium = Some(hostile.into());
        }
        let page = page(&machine(hostile), hostile, "", &rows).unwrap();
        let data = data(&page);
        assert_eq!(data["command"], hostile);
        assert_eq!(data["rows"], serde_json::to_value(&rows).unwrap());
        assert_eq!(page.matches("</script>").count(), TEMPLATE.matches("</script>").count());
        assert_eq!(page.matches("</pre>").count(), 1);
    }

    #[test]
    fn what_is_no_number_is_not_in_the_page() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut rows = rows();
            for row in &mut rows {
                let fields = [
                    &mut row.ops_per_s,
                    &mut row.spread,
                    &mut row.ratio,
                    &mut row.p99_ns,
                    &mut row.load_factor,
                    &mut row.at_s,
                ];
                fields.into_iter().for_each(|field| *field = Some(odd));
            }
            let page = page(&machine("Example 9000"), "", "", &rows).unwrap();
            assert_eq!(data(&page)["rows"][0]["ops_per_s"], Value::Null);
            let text = between(&page, "<pre>", "</pre>").to_lowercase();
            let words: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).collect();
            assert!(!words.contains(&"nan") && !words.contains(&"inf"), "{text}");
        }
    }

    #[test]
    fn a_page_of_no_rows_is_whole() {
        let page = page(&machine("Example 9000"), "firndex-lab bench micro", "", &[]).unwrap();
        assert_eq!(data(&page)["rows"], Value::Array(Vec::new()));
    }

    #[test]
    fn a_page_is_written_to_a_file_or_the_path_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        let machine = machine("Example 9000");
        write(&path, &machine, "", "", &rows()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), page(&machine, "", "", &rows()).unwrap());
        let missing = directory.path().join("missing").join("report.html");
        let error = write(&missing, &machine, "", "", &rows()).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
    }
}
