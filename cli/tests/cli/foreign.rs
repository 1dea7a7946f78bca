//! Files that are not what a load expects: recognised, or refused with a way on. Never a wrong pair.

use std::io::Write;
use std::process::Stdio;

use crate::workspace::Workspace;

impl Workspace {
    /// The file is refused with these words, from a file and from a pipe, and nothing is stored.
    #[track_caller]
    fn demand_refusal(&self, name: &str, bytes: &[u8], options: &[&str], words: &[&str]) {
        self.write(name, bytes);
        let load =
            |file: &'static str| ["load", "pool", file].into_iter().chain(options.iter().copied());
        let mut arguments = vec!["load", "pool", name];
        arguments.extend(options);
        self.run(&arguments).demand_error(words);
        self.run_with_input(load("-"), bytes).demand_error(words);
        assert_eq!(self.run(["stat", "pool", "--json"]).demand(0).json()["pairs"], 0, "{name}");
    }
}

fn utf_16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let workspace = Workspace::with_pool("store");
    let says = ["line 1", "\"v\"", "columns 2 and 3"];
    workspace.demand_refusal("a.csv", b"k,v,v\na,1,2\n", &[], &says);
    workspace.demand_refusal("a.csv", b"k,v,v\na,1,2\n", &["--value", "v"], &says);
    workspace.demand_refusal(
        "a.csv",
        b"v,x,v\na,1,2\n",
        &["--key", "v", "--value", "x"],
        &["\"v\"", "columns 1 and 3"],
    );
    workspace.demand_refusal("b.csv", b"1,1\n2,2\n", &[], &["columns 1 and 2", "--no-header"]);
    // Others may be as they like.
    workspace.write("c.csv", "k,v,x,x\na,1,2,3\n");
    workspace.run(["load", "pool", "c.csv"]).demand(0);
    workspace.write("d.csv", "k,v\nb,1\n");
    workspace.run(["load", "pool", "d.csv", "--key", "k", "--value", "k"]).demand(0);
}

#[test]
fn line_ends_of_carriage_returns_alone_are_refused() {
    let workspace = Workspace::with_pool("store");
    let says = ["line 1", "carriage return", "tr '\\r' '\\n'"];
    for options in [&[][..], &["--no-header"]] {
        workspace.demand_refusal("a.csv", b"k,v\ra,1\rb,2\r", options, &says);
        workspace.demand_refusal("b.csv", b"\"k\",\"v\"\r\"a\",\"1\"\r", options, &says);
        workspace.demand_refusal("c.csv", b"a,1\r\r\nb,2\r\r\n", options, &says);
    }
    workspace.demand_refusal("a.tsv", b"k\tv\ra\t1\r", &["--format", "tsv"], &says);
    let lines = b"{\"key\":\"a\",\"value\":1}\r{\"key\":\"b\",\"value\":2}\r";
    workspace.demand_refusal("a.jsonl", lines, &["--format", "jsonl"], &says);
    // In quotes it is a byte like others, and at the end it ends the last line.
    workspace.write("d.csv", "k,v\r\n\"a\rb\",1\r\nc,2\r");
    workspace.run(["load", "pool", "d.csv"]).demand(0);
    assert_eq!(workspace.run(["get", "pool", "a\rb"]).demand(0).stdout(), b"1");
    assert_eq!(workspace.run(["get", "pool", "c"]).demand(0).stdout(), b"2");
}

#[test]
fn other_encodings_are_refused() {
    let workspace = Workspace::with_pool("store");
    let csv = "key,value\na,1\nb,2\n";
    let says = ["UTF-16", "iconv"];
    let with_mark = format!("\u{feff}{csv}");
    for text in [csv, &with_mark, "水,火\n木,金\n", "\"key\",\"value\"\n\"a\",\"1\"\n", "é,1\n"]
    {
        for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            for options in [&[][..], &["--no-header"]] {
                workspace.demand_refusal("a.csv", &utf_16(text, to_bytes), options, &says);
            }
        }
    }
    let utf_32: Vec<u8> = with_mark.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    workspace.demand_refusal("b.csv", &utf_32, &[], &["UTF-32", "iconv"]);
    let line = "{\"key\":\"a\",\"value\":1}\n";
    for text in [line, &format!("\u{feff}{line}")] {
        let bytes = utf_16(text, u16::to_le_bytes);
        workspace.demand_refusal("a.jsonl", &bytes, &["--format", "jsonl"], &says);
    }
}

#[test]
fn compressed_files_are_refused() {
    let workspace = Workspace::with_pool("store");
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\xd6)\xe3J\xd41\xe4J\xd21\xe2\x02\0\x07\xf6\xb7\x8f\x0c\0\0\0";
    for (bytes, says) in [
        (&gzip[..], ["gzip", "zcat"]),
        (b"\x28\xb5\x2f\xfd\x04\x58\x61\0\0k,v\na,1\nb,2\n", ["zstd", "zstdcat"]),
        (b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x02\0!\x01", ["xz", "xzcat"]),
        (b"BZh91AY&SY\x0c\x9d\xc8\x0f\0\0\x05\xd9", ["bzip2", "bzcat"]),
        (b"PK\x03\x04\x14\0\0\0\x08\0k,v\na,1\n", ["zip", "unzip -p"]),
    ] {
        for options in [&["--format", "csv"][..], &["--format", "csv", "--no-header"]] {
            workspace.demand_refusal("a.csv", bytes, options, &says);
        }
        workspace.demand_refusal("a.jsonl", bytes, &["--format", "jsonl"], &says);
    }
    // Nor does a name mislead.
    workspace.write("more.csv.gz", gzip);
    workspace.run(["load", "pool", "more.csv.gz"]).demand_error(&[
        "more.csv.gz is compressed",
        "zcat more.csv.gz | firndex load POOL - --format csv",
    ]);
    workspace.run(["dump", "pool", "all.jsonl.gz"]).demand_error(&[
        "writes no compressed files",
        "firndex dump POOL - --format jsonl | gzip > all.jsonl.gz",
    ]);
}

/// A pool, an image: whatever has no text in it.
#[test]
fn bytes_that_are_no_text_are_refused_outside_quotes() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["create", "other"]).demand(0);
    let pool = std::fs::read(workspace.path("other")).unwrap();
    let options = ["--format", "csv"];
    workspace.run(["load", "pool", "other", "--format", "csv"]).demand_error(&["line 1", "NUL"]);
    workspace.run_with_input(["load", "pool", "-"], &pool).demand_error(&["NUL"]);
    workspace.demand_refusal("a.csv", b"k,v\na,1\0\n", &options, &["line 2", "NUL", "quotes"]);
    workspace.write("b.csv", b"k,v\n\"\0\",\"1\0\"\n");
    workspace.run(["load", "pool", "b.csv"]).demand(0);
    assert_eq!(
        firndex::Store::open(workspace.path("pool")).unwrap().get([0]).unwrap().as_deref(),
        Some(&b"1\0"[..])
    );
}

#[test]
fn a_mark_at_the_start_is_skipped_however_it_arrives() {
    for (format, text) in [
        ("csv", "k,v\na,1\n"),
        ("tsv", "k\tv\na\t1\n"),
        ("jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n"),
    ] {
        for first in 1..=3 {
            let workspace = Workspace::with_pool("store");
            let mut options = vec!["load", "pool", "-", "--format", format];
            if format != "jsonl" {
                options.extend(["--key", "k", "--value", "v"]);
            }
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut command = workspace.command(&options);
            let child = command.stdin(reader.try_clone().unwrap()).stderr(Stdio::piped());
            let child = child.spawn().unwrap();
            let bytes = format!("\u{feff}{text}");
            let (start, rest) = bytes.as_bytes().split_at(first);
            writer.write_all(start).unwrap();
            // Only once it has been taken does the rest come.
            while rustix::io::ioctl_fionread(&reader).unwrap() > 0 {
                std::thread::yield_now();
            }
            writer.write_all(rest).unwrap();
            drop((writer, reader));
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{format}, {first}: {output:?}");
            assert_eq!(workspace.run(["get", "pool", "a"]).demand(0).stdout(), b"1");
        }
    }
}

#[test]
fn a_value_that_is_too_large_is_called_so() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = workspace.command(["put", "pool", "apple", "-"]);
    let child = command.stdin(reader).stderr(Stdio::piped()).spawn().unwrap();
    // It has the reader's end open, too.
    drop(command);
    let piece = vec![b'x'; 1 << 20];
    // It does not read to the end.
    while writer.write_all(&piece).is_ok() {}
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("has more than 268,435,456 bytes (256 MiB)"), "{stderr}");
    assert!(!stderr.contains("268435457"), "{stderr}");
    assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
}
