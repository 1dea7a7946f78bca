//! What a reader of the page relies on, tried on made-up rows of every suite.

use super::sample::{CONTENDERS, row, sample};
use crate::html::{page, write};
use crate::row::Row;
use roxmltree::{Document, Node, ParsingOptions};

/// The page as XML: fails if any tag is left open or any text is not escaped.
fn checked(html: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(html, options) {
        Ok(document) => document,
        Err(error) => panic!("the page is not well-formed: {error}"),
    };
    for node in document.descendants() {
        for attribute in node.attributes().filter(|attribute| is_place(attribute.name())) {
            for number in attribute.value().split([' ', ',']).filter(|number| !number.is_empty()) {
                let number: f64 = number.parse().unwrap_or(f64::NAN);
                assert!(
                    (-20.0..1e5).contains(&number),
                    "{}=\"{}\" lies off the picture",
                    attribute.name(),
                    attribute.value()
                );
            }
        }
    }
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    for unwanted in ["NaN", "inf", "http:", "https:", "//", "<script", "src="] {
        assert!(!without_namespace.contains(unwanted), "{unwanted:?} is in the page");
    }
    document
}

fn is_place(attribute: &str) -> bool {
    let places =
        ["x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "width", "height", "points", "viewBox"];
    places.contains(&attribute)
}

/// Text of the charts, what is told when pointed at included.
fn chart_text(document: &Document<'_>) -> String {
    let pictures = document.descendants().filter(|node| {
        node.has_tag_name("svg") || { node.has_tag_name(("http://www.w3.org/2000/svg", "svg")) }
    });
    let texts = pictures.flat_map(|picture| picture.descendants()).filter_map(|node| node.text());
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_operation_and_contender_is_in_a_chart() {
    let (machine, rows) = sample();
    let html = page(&machine, "firndex bench all --threads 1,2", &rows);
    let document = checked(&html);
    let text = chart_text(&document);
    let in_charts = rows.iter().filter(|row| !["ceilings", "writes"].contains(&row.suite));
    for row in in_charts.filter(|row| row.op != "timeline") {
        let op = row.op.trim_end_matches("_durable");
        assert!(text.contains(&format!("{}: {op}", row.contender)), "{} of {}", op, row.contender);
    }
    for said in ["firndex bench all --threads 1,2", "Example Processor 9000", "persisted"] {
        assert!(html.contains(said), "{said}");
    }
    let cells = document.descendants().filter(|node| node.has_tag_name("tr")).count();
    assert!(cells > rows.len(), "the table of all rows is incomplete");
}

/// How many shapes in the section of this title have a class that begins so.
fn shapes(document: &Document<'_>, title: &str, class: &str) -> usize {
    let is_of_title = |node: &Node<'_, '_>| {
        node.children().any(|child| child.has_tag_name("h2") && child.text() == Some(title))
    };
    let section = document.descendants().filter(is_of_title);
    let classes =
        section.flat_map(|node| node.descendants().filter_map(|of| of.attribute("class")));
    classes.filter(|name| name.starts_with(class)).count()
}

#[test]
fn every_suite_has_its_charts() {
    let (machine, rows) = sample();
    let html = page(&machine, "", &rows);
    let document = checked(&html);
    let of = |suite: &str| rows.iter().filter(|row| row.suite == suite).count();
    let shapes = |title: &str, class: &str| shapes(&document, title, class);
    let contenders = CONTENDERS.len();

    // A bar and its ceiling for each row, and another of each in the legend.
    let micro = "One operation at a time";
    assert_eq!(shapes(micro, "bar c"), of("micro") + contenders);
    assert_eq!(shapes(micro, "mark"), of("micro") + 1);
    assert_eq!(shapes(micro, "line c"), of("micro") / 2, "curves over two numbers of threads");
    assert_eq!(shapes("YCSB", "bar c"), of("ycsb") + contenders);
    assert_eq!(shapes("YCSB", "line c"), of("ycsb") / 2);

    assert_eq!(shapes("Latency", "line thin c"), of("latency") - 2, "all but two of the clock");
    assert_eq!(shapes("Latency", "line thin machine"), 2);
    assert_eq!(shapes("Latency", "point c"), 4 * (of("latency") - 2));

    let filling = "As the table fills";
    assert_eq!(shapes(filling, "line c"), 2 * 3 * 2, "rate and p99, 3 operations, 2 contenders");
    assert_eq!(shapes(filling, "band"), 2 * 3 + 3, "3 levels of 2 contenders, and the legend");
    assert_eq!(shapes(filling, "bar c"), 2 + 1 + 1, "a table that was full, and two legends");

    let growing = "While the table grows";
    let intervals = rows.iter().filter(|row| row.op == "timeline").count();
    assert_eq!(shapes(growing, "bar c"), 2 * 2 * 2 + 2 * 2, "two legends");
    assert_eq!(shapes(growing, "wash c"), 4, "2 contenders, 1 thread and 2");
    assert_eq!(shapes(growing, "point c"), intervals + 4 * 4);
    assert_eq!(shapes(growing, "mark dashed"), 2 * 4, "the pre-sized rate and the stall");

    assert_eq!(shapes("Opening again", "bar c"), of("recovery") + 2);
    assert_eq!(shapes("Space", "bar c"), 2 * contenders + contenders);
    assert_eq!(shapes("Space", "line c"), 2 * contenders);
    assert_eq!(shapes("Space", "mark dashed"), 2);
    assert_eq!(shapes("Space", "mark"), 2 + 2 * contenders, "16 bytes, at each bar too");
    assert!(shapes("Lines, flushes and fences per operation", "gauge") > of("writes"));

    let papers = "Level hashing: the paper's own figures";
    assert_eq!(shapes(papers, "line c"), 3 + 3 + 2 + 3 + 2, "a curve for each variant");
    let points = of("level") - 3;
    assert_eq!(shapes(papers, "point c"), points, "and a point for each row");
    // Bars of what has no series, and in the legends of seven figures.
    assert_eq!(shapes(papers, "bar c"), 3 + (2 + 2 + 1 + 2 + 1 + 3 + 2));
}

#[test]
fn suites_have_their_order_whatever_was_measured_first() {
    let (machine, mut rows) = sample();
    rows.push(Row::new("shiny", "polish", "iceberg"));
    rows.reverse();
    let html = page(&machine, "", &rows);
    let document = checked(&html);
    let titles = document.descendants().filter(|node| node.has_tag_name("h2"));
    let titles: Vec<&str> = titles.filter_map(|node| node.text()).collect();
    assert_eq!(titles[..3], ["What this machine allows", "One operation at a time", "YCSB"]);
    assert_eq!(titles.last(), Some(&"shiny"), "what is not known comes last");
}

#[test]
fn a_contender_has_one_colour() {
    let (machine, rows) = sample();
    let html = page(&machine, "", &rows);
    let document = checked(&html);
    for (index, who) in CONTENDERS.iter().enumerate() {
        let mut names = document.descendants().filter(|node| {
            let is_name = node.attribute("class").is_some_and(|class| class.starts_with("name "));
            is_name && node.text() == Some(who)
        });
        let class = format!("name c{index}");
        assert!(names.clone().count() > 10);
        assert!(names.all(|node| node.attribute("class") == Some(&class)), "{who}");
    }
}

#[test]
fn names_from_outside_stay_text() {
    let hostile = "</svg><script>alert(1)</script>&\"'>\u{1}\u{0}]]>";
    let (mut machine, mut rows) = sample();
    machine.processor = hostile.into();
    for row in &mut rows {
        row.op = format!("{hostile}{}", row.op);
        row.contender = format!("{}{hostile}", row.contender);
        row.medium = Some(hostile.into());
    }
    let html = page(&machine, hostile, &rows);
    let document = checked(&html);
    assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
    let shown = "</svg><script>alert(1)</script>&\"'>\u{fffd}\u{fffd}]]>";
    assert!(chart_text(&document).contains(shown));
}

#[test]
fn odd_figures_leave_the_page_whole() {
    let odd =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -3.0, 5e-324, 1e-300, f64::MAX];
    for (index, value) in odd.into_iter().enumerate() {
        let (machine, mut rows) = sample();
        for row in &mut rows {
            let fields = [
                &mut row.ops_per_s,
                &mut row.spread,
                &mut row.ceiling,
                &mut row.ratio,
                &mut row.p50_ns,
                &mut row.p99_ns,
                &mut row.p9999_ns,
                &mut row.max_ns,
                &mut row.load_factor,
                &mut row.at_s,
                &mut row.bytes_per_pair,
                &mut row.mean_ns,
                &mut row.took_s,
                &mut row.log_free,
                &mut row.cpu_share,
                &mut row.lines_read,
                &mut row.fences,
                &mut row.write_amplification,
            ];
            for field in fields {
                *field = field.map(|_| value);
            }
            row.level_pairs = row.level_pairs.as_ref().map(|levels| vec![u64::MAX; levels.len()]);
            row.threads = [Some(0), Some(usize::MAX), None][index % 3];
        }
        checked(&page(&machine, "", &rows));
    }
}

#[test]
fn what_was_not_measured_is_left_out() {
    let (machine, rows) = sample();
    let empty = page(&machine, "firndex bench micro", &[]);
    checked(&empty);
    assert!(empty.contains("Nothing was measured"));
    let one = |row: Row| page(&machine, "", &[row]);
    for suite in
        ["ceilings", "micro", "latency", "load-factor", "resize", "space", "writes", "level", "new"]
    {
        checked(&one(Row::new(suite, "an_op", "someone")));
    }
    let micro: Vec<Row> = rows.into_iter().filter(|row| row.suite == "micro").collect();
    let html = page(&machine, "", &micro);
    checked(&html);
    assert!(!html.contains("YCSB") && !html.contains("Latency"));
}

#[test]
fn a_suite_that_nothing_is_known_about_has_charts_too() {
    let (machine, _) = sample();
    let new = row("shiny", "polish", "iceberg", "dram", 1).with_rate(1e6, Some(2e6));
    let html = page(&machine, "", &[new]);
    assert!(chart_text(&checked(&html)).contains("iceberg: polish"));
}

#[test]
fn the_page_is_written_to_a_file_or_the_path_is_named() -> anyhow::Result<()> {
    let (machine, rows) = sample();
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("report.html");
    write(&path, &machine, "", &rows)?;
    assert_eq!(std::fs::read_to_string(&path)?, page(&machine, "", &rows));
    let missing = directory.path().join("missing").join("report.html");
    let error = write(&missing, &machine, "", &rows).expect_err("no such directory").to_string();
    assert!(error.contains("missing"), "{error}");
    Ok(())
}
