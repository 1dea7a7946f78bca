//! load: each format, duplicates, what is malformed, and being killed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use crate::workspace::Workspace;
use firndex::Engine;

impl Workspace {
    #[track_caller]
    fn demand_value(&self, key: &str, value: &str) {
        let get = self.run(["get", "pool", "--", key]).demand(0);
        assert_eq!(String::from_utf8_lossy(get.stdout()), value);
    }

    #[track_caller]
    fn demand_pairs(&self, pairs: u64) {
        assert_eq!(self.run(["stat", "pool", "--json"]).demand(0).json()["pairs"], pairs);
    }
}

#[test]
fn csv_takes_the_first_columns_or_the_named_ones() {
    let workspace = Workspace::with_pool("store");
    let csv =
        "name,colour,\"the price, in €\"\r\napple,red,1\r\n\"a \"\"b\"\"\",\"x\ny\",\"2,5\"\r\n";
    workspace.write("fruit.csv", csv);
    let load = workspace.run(["load", "pool", "fruit.csv"]).demand(0);
    assert_eq!(load.stdout(), b"");
    assert!(load.stderr().contains("loaded 2 records"), "{}", load.stderr());
    workspace.demand_value("apple", "red");
    workspace.demand_value("a \"b\"", "x\ny");

    let price = "the price, in €";
    workspace.run(["load", "pool", "fruit.csv", "--key", price, "--value", "name"]).demand(0);
    workspace.demand_value("2,5", "a \"b\"");
    workspace.run(["load", "pool", "fruit.csv", "--key", "weight"]).demand_error(&[
        "line 1",
        "\"weight\"",
        "\"colour\"",
    ]);
}

#[test]
fn tsv_and_jsonl_and_stdin() {
    let workspace = Workspace::with_pool("store");
    workspace.write("a.tsv", "k\tv\na,b\t1 2\n");
    workspace.run(["load", "pool", "a.tsv"]).demand(0);
    workspace.demand_value("a,b", "1 2");

    workspace.write(
        "b.jsonl",
        "{\"key\":\"gr\\u00fcn\",\"value\":\"a\\nb\"}\n\n{\"value\":{\"x\": 1.50},\"key\":7}\n",
    );
    workspace.run(["load", "pool", "b.jsonl"]).demand(0);
    workspace.demand_value("grün", "a\nb");
    workspace.demand_value("7", "{\"x\": 1.50}");

    workspace.run_with_input(["load", "pool", "-"], b"k,v\nfrom,stdin\n").demand(0);
    workspace.demand_value("from", "stdin");
    let arguments = ["load", "pool", "-", "--format", "jsonl", "--key", "id", "--value", "id"];
    workspace.run_with_input(arguments, b"{\"id\":\"x\"}").demand(0);
    workspace.demand_value("x", "x");

    workspace.write("c.txt", "k,v\n1,2\n");
    workspace.run(["load", "pool", "c.txt"]).demand_error(&["c.txt", "--format"]);
    workspace.run(["load", "pool", "c.txt", "--format", "csv"]).demand(0);
    workspace.demand_value("1", "2");
}

#[test]
fn without_a_header_no_row_is_lost() {
    let workspace = Workspace::with_pool("store");
    workspace.write("plain.csv", "a,1\nb,2\n");
    let load = workspace.run(["load", "pool", "plain.csv", "--no-header"]).demand(0);
    assert!(load.stderr().contains("loaded 2 records"), "{}", load.stderr());
    workspace.demand_value("a", "1");
    workspace.demand_value("b", "2");
    for more in ["--key", "--value"] {
        let load = ["load", "pool", "plain.csv", "--no-header", more, "a"];
        workspace.run(load).demand_wrong_use(&["--no-header", more]);
    }
    workspace.write("one.jsonl", "{\"key\":1,\"value\":2}\n");
    workspace.run(["load", "pool", "one.jsonl", "--no-header"]).demand_error(&["hint:", "fields"]);
}

#[test]
fn a_load_of_nothing_says_so_and_why_that_may_be() {
    let workspace = Workspace::with_pool("store");
    workspace.write("one.csv", "apple,red\n");
    let load = workspace.run(["load", "pool", "one.csv"]).demand(0);
    assert!(load.stderr().contains("loaded 0 records"), "{}", load.stderr());
    assert!(load.stderr().contains("use --no-header"), "{}", load.stderr());
    workspace.write("none.jsonl", "\n");
    let load = workspace.run(["load", "pool", "none.jsonl"]).demand(0);
    assert!(load.stderr().contains("note: there was nothing to load"), "{}", load.stderr());
    let load = workspace.run(["load", "pool", "one.csv", "--no-header"]).demand(0);
    assert!(!load.stderr().contains("note:"), "{}", load.stderr());
    workspace.demand_value("apple", "red");
}

#[test]
fn the_last_of_duplicates_wins_and_they_are_counted() {
    for &engine in Engine::ALL {
        // The same key within one batch, in different batches, and from before the load.
        for (kind, first_value) in [("store", 10_000), ("table", 10_000)] {
            let workspace = Workspace::with_pool_on(engine, kind);
            workspace.run(["put", "pool", "5", "1"]).demand(0);
            let mut csv = String::from("k,v\n");
            for (index, key) in [7, 8, 7, 7].into_iter().chain(1000..4000).chain([7, 5]).enumerate()
            {
                writeln!(csv, "{key},{}", first_value + index).unwrap();
            }
            workspace.write("more.csv", csv);
            let load = workspace.run(["load", "pool", "more.csv"]).demand(0);
            let stderr = load.stderr();
            assert!(stderr.contains("loaded 3,006 records"), "{stderr}");
            assert!(stderr.contains("3,002 new keys, 4 duplicates"), "{stderr}");
            workspace.demand_value("7", "13004");
            workspace.demand_value("8", "10001");
            workspace.demand_value("5", "13005");
            workspace.demand_pairs(3003);
        }
    }
}

#[test]
fn what_is_malformed_is_named_and_what_came_before_it_stays() {
    let cases = [
        ("csv", "k,v\na,1\nb,2\nc\n", "line 4"),
        ("csv", "k,v\na,1\nb,2\nc,\"3\n", "line 4"),
        ("tsv", "k\tv\na\t1\nb\t2\n\"c\"d\t3\n", "line 4"),
        (
            "jsonl",
            "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":2}\n\n{\"key\":\"c\",\n",
            "line 4",
        ),
        (
            "jsonl",
            "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":2}\n{\"key\":\"c\"}\n",
            "line 3",
        ),
        (
            "jsonl",
            "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":2}\n{\"key\":\"c\",\"key\":1,\"value\":1}\n",
            "line 3: found the field \"key\" again, its value at column 18",
        ),
    ];
    for (format, text, line) in cases {
        let workspace = Workspace::with_pool("store");
        let file = format!("more.{format}");
        workspace.write(&file, text);
        let refused = workspace.run(["load", "pool", &file]).demand_error(&[line, &file]);
        assert!(refused.stderr().contains("loaded 2 records"), "{}", refused.stderr());
        workspace.demand_value("a", "1");
        workspace.demand_value("b", "2");
        workspace.demand_pairs(2);
        workspace.run(["check", "pool"]).demand(0);
    }
}

#[test]
fn a_table_loads_numbers_and_names_what_is_none() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "table");
        workspace
            .write("good.jsonl", "{\"key\":1,\"value\":\"10\"}\n{\"key\":\"2\",\"value\":20}\n");
        workspace.run(["load", "pool", "good.jsonl"]).demand(0);
        workspace.demand_value("1", "10");
        workspace.demand_value("2", "20");
        workspace.write("bad.csv", "k,v\n3,30\n4,4e1\n5,50\n");
        workspace.run(["load", "pool", "bad.csv"]).demand_error(&[
            "line 3",
            "the value \"4e1\"",
            "hint:",
        ]);
        workspace.demand_value("3", "30");
        workspace.demand_pairs(3);
    }
}

#[test]
fn a_key_that_is_too_long_is_named_and_what_came_before_it_stays() {
    let workspace = Workspace::with_pool("store");
    let long = "k".repeat((64 << 10) + 1);
    workspace.write("more.csv", format!("k,v\na,1\n{long},2\nb,3\n"));
    workspace.run(["load", "pool", "more.csv"]).demand_error(&["line 3", "65536"]);
    workspace.demand_value("a", "1");
    workspace.demand_pairs(1);
    workspace.run(["check", "pool"]).demand(0);
}

/// The number that follows `behind`, with its commas.
fn number_behind(text: &str, behind: &str) -> u64 {
    let (_, number) = text.split_once(behind).unwrap_or_else(|| panic!("no {behind:?} in {text}"));
    let digits = number.chars().take_while(|c| c.is_ascii_digit() || *c == ',');
    digits.filter(|c| *c != ',').collect::<String>().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn a_pool_that_fills_says_which_records_it_has() {
    // The length of values: for a table numbers, for a store such that every seventh needs a space of its own.
    for (kind, long, blocks) in [("table", 5, 2048), ("store", 9000, 12_288)] {
        for &engine in Engine::ALL {
            let workspace = Workspace::new();
            let create = ["create", "pool", "--kind", kind, "--engine", engine.name()];
            // A log has larger files than are allowed here.
            workspace.run(create.into_iter().chain(["--durability", "process"])).demand(0);
            let mut csv = String::from("k,v\n");
            for number in 0..50_000 {
                let len = if number % 7 == 0 { long } else { 5 };
                writeln!(csv, "{number},{number:0len$}").unwrap();
            }
            workspace.write("much.csv", csv);
            // The signal that comes with the error would end the process.
            let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let load = workspace.command(["load", "pool", "much.csv"]);
            let mut shell = workspace.command_of("sh");
            shell.args(["-c", &limited]).arg(load.get_program()).args(load.get_args());
            let output = shell.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{engine}: {stderr}");
            assert!(stderr.contains("much.csv") && stderr.contains("the pool is full"), "{stderr}");

            let loaded = number_behind(&stderr, "loaded ");
            assert_eq!(number_behind(&stderr, ": "), loaded, "all keys are new: {stderr}");
            let line = number_behind(&stderr, "storing line ");
            let all_before = "all records before it are stored, and ";
            let behind = match stderr.contains(&format!("{all_before}none behind it: the pool")) {
                true => 0,
                false => number_behind(&stderr, all_before),
            };
            // Line 1 has the names.
            assert_eq!(loaded, line - 2 + behind, "{engine}: {stderr}");
            workspace.demand_pairs(loaded);
            workspace.run(["get", "pool", &(line - 3).to_string()]).demand(0);
            workspace.run(["get", "pool", &(line - 2).to_string()]).demand(1);
            workspace.run(["check", "pool"]).demand(0);
        }
    }
}

#[test]
fn files_that_cannot_be_loaded_are_errors() {
    let workspace = Workspace::with_pool("store");
    workspace.write("empty.csv", "");
    workspace.write("empty.jsonl", "");
    std::fs::create_dir(workspace.path("dir.csv")).unwrap();
    workspace.run(["load", "pool", "missing.csv"]).demand_error(&["missing.csv"]);
    workspace.run(["load", "pool", "dir.csv"]).demand_error(&["dir.csv"]);
    workspace.run(["load", "pool", "empty.csv"]).demand_error(&["line 1", "header"]);
    workspace.run(["load", "pool", "empty.jsonl"]).demand(0);
    workspace.demand_pairs(0);
}

#[test]
fn what_a_killed_load_had_stored_is_there() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        let mut load = workspace
            .command(["load", "pool", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut csv = String::from("k,v\n");
        for number in 0..300_000 {
            writeln!(csv, "key{number},value{number}").unwrap();
        }
        // Once this much went into the pipe, all but its buffer, the reader's and the last batch, well
        // below two megabytes together, has been stored.
        load.stdin.as_mut().unwrap().write_all(csv.as_bytes()).unwrap();
        assert!(csv.len() > 5 << 20);
        workspace.run(["get", "pool", "key0"]).demand_error(&["in use by another process"]);
        load.kill().unwrap();
        load.wait().unwrap();

        workspace.demand_value("key0", "value0");
        workspace.demand_value("key150000", "value150000");
        workspace.run(["check", "pool"]).demand(0);
    }
}
