//! dump and scan: what is written is loaded back, in each format; refusals; cursors.

use crate::workspace::Workspace;
use firndex::{Engine, Options, Store, Table};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use workload::Random;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

const FORMATS: [&str; 3] = ["csv", "tsv", "jsonl"];

/// Keys and values of all kinds, mostly of bytes that mean something in one of the formats.
fn odd_contents() -> Contents {
    let special = b"\"\",\t\r\n\\{}=\0 a\xef\xbb\xbf\xff\xc3\xbc";
    let mut random = Random::new(7);
    let mut bytes = |most: u64| -> Vec<u8> {
        let mut byte = || match random.below(8) {
            0 => random.below(256) as u8,
            _ => special[random.below(special.len() as u64) as usize],
        };
        let first = byte();
        (0..u64::from(first) % most).map(|_| byte()).collect()
    };
    let mut contents: Contents = (0..2000).map(|_| (bytes(9), bytes(40))).collect();
    contents.insert(b"large".to_vec(), vec![b'"'; 3 << 20]);
    contents.insert(b"".to_vec(), b"".to_vec());
    contents
}

fn contents_of(store: &Store) -> Contents {
    store.iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn stores_come_back_from_every_format() {
    let odd = odd_contents();
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        let store = Store::open(workspace.path("pool")).unwrap();
        odd.iter().for_each(|(key, value)| drop(store.put(key, value).unwrap()));
        store.close().unwrap();
        for format in FORMATS {
            let (file, copy) = (format!("all.{format}"), format!("copy-{format}"));
            let dump = workspace.run(["dump", "pool", &file]).demand(0);
            assert_eq!(dump.stdout(), b"");
            let said = format!("dumped {} records of pool", thousands(odd.len()));
            assert!(dump.stderr().contains(&said), "{}", dump.stderr());
            let to_stdout = workspace.run(["dump", "pool", "--format", format]).demand(0);
            assert_eq!(to_stdout.stdout(), std::fs::read(workspace.path(&file)).unwrap());

            workspace.run(["create", &copy, "--kind", "store"]).demand(0);
            workspace.run(["load", &copy, &file]).demand(0);
            let copied = contents_of(&Store::open(workspace.path(&copy)).unwrap());
            assert!(copied == odd, "{engine}, {format}");
        }
    }
}

fn thousands(number: usize) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

#[test]
fn tables_come_back_from_every_format() {
    let workspace = Workspace::with_pool("table");
    let table = <Table>::open(workspace.path("pool")).unwrap();
    let pairs = [(0, u64::MAX), (u64::MAX, 0), (1 << 53 | 1, 7)];
    pairs.iter().for_each(|&(key, value)| assert_eq!(table.put(key, value).unwrap(), None));
    table.close().unwrap();
    for format in FORMATS {
        let dump = workspace.run(["dump", "pool", "-", "--format", format]).demand(0);
        let copy = format!("copy-{format}");
        workspace.run(["create", &copy, "--kind", "table"]).demand(0);
        let load = ["load", copy.as_str(), "-", "--format", format];
        workspace.run_with_input(load, dump.stdout()).demand(0);
        let copied: BTreeMap<u64, u64> =
            <Table>::open(workspace.path(&copy)).unwrap().iter().collect::<Result<_, _>>().unwrap();
        assert!(copied.into_iter().eq([pairs[0], pairs[2], pairs[1]]), "{format}");
    }
}

#[test]
fn an_empty_pool_is_dumped_and_loaded() {
    let workspace = Workspace::with_pool("store");
    for format in FORMATS {
        let file = format!("none.{format}");
        workspace.run(["dump", "pool", &file]).demand(0);
        let load = workspace.run(["load", "pool", &file]).demand(0);
        assert!(load.stderr().contains("loaded 0 records"), "{}", load.stderr());
    }
}

#[test]
fn nothing_is_written_over() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["put", "pool", "key", "value"]).demand(0);
    let before = std::fs::read(workspace.path("pool")).unwrap();
    workspace
        .run(["dump", "pool", "pool", "--format", "csv"])
        .demand_error(&["pool exists", "name another file"]);
    assert!(std::fs::read(workspace.path("pool")).unwrap() == before);
    workspace.run(["dump", "pool", "all.txt"]).demand_error(&["all.txt", "--format"]);
    workspace.run(["dump", "nowhere", "all.csv"]).demand_error(&["there is no pool at nowhere"]);
    workspace.run(["dump", "pool", "no/such/all.csv"]).demand_error(&["no/such/all.csv"]);
    for no_file in ["..", "new/"] {
        let dump = ["dump", "pool", no_file, "--format", "csv"];
        workspace.run(dump).demand_error(&["no name of a file"]);
    }
    assert!(!workspace.path("all.csv").exists());
}

#[test]
fn malformed_base64_names_its_line() {
    let workspace = Workspace::with_pool("store");
    let lines = "{\"key\":\"a\",\"value\":\"b\"}\n{\"key_base64\":\"Zh==\",\"value\":\"c\"}\n";
    workspace.write("bad.jsonl", lines);
    workspace.run(["load", "pool", "bad.jsonl"]).demand_error(&["line 2", "base64"]);
    assert_eq!(workspace.run(["get", "pool", "a"]).demand(0).stdout(), b"b");
}

#[test]
fn a_scan_goes_on_where_it_was() {
    for kind in ["store", "table"] {
        let workspace = Workspace::with_pool(kind);
        let csv: String = (0..500).map(|key| format!("{key},{}\n", 2 * key)).collect();
        workspace.run_with_input(["load", "pool", "-"], format!("k,v\n{csv}").as_bytes()).demand(0);
        let (mut lines, mut cursor, mut parts) = (String::new(), "0".to_owned(), 0);
        loop {
            let scan = ["scan", "pool", "--count", "120", "--cursor", &cursor];
            let part = workspace.run(scan).demand(0);
            lines += std::str::from_utf8(part.stdout()).unwrap();
            parts += 1;
            let json = workspace.run([&scan[..], &["--json"]].concat()).demand(0).json();
            let next = json["cursor"].as_str().unwrap().to_owned();
            assert_eq!(
                json["pairs"].as_array().unwrap().len(),
                std::str::from_utf8(part.stdout()).unwrap().lines().count()
            );
            let said = part.stderr();
            if next == "0" {
                assert!(said.contains("that was all"), "{said}");
                break;
            }
            assert!(said.contains(&format!("more with --cursor {next}")), "{said}");
            cursor = next;
            // Grows between the parts.
            let first = 1000 * parts;
            let more: String = (first..first + 300).map(|key| format!("{key},0\n")).collect();
            let input = format!("k,v\n{more}");
            workspace.run_with_input(["load", "pool", "-"], input.as_bytes()).demand(0);
        }
        workspace.run(["create", "copy", "--kind", kind]).demand(0);
        let load = ["load", "copy", "-", "--format", "jsonl"];
        let loaded = workspace.run_with_input(load, lines.as_bytes()).demand(0);
        assert!(loaded.stderr().contains(" 0 duplicates"), "{}", loaded.stderr());
        for key in (0..500).step_by(41) {
            let value = workspace.run(["get", "copy", &key.to_string()]).demand(0);
            assert_eq!(value.stdout(), (2 * key).to_string().as_bytes());
        }
        assert!(parts > 4, "{parts}");
    }
}

#[test]
fn a_number_that_is_no_cursor_is_refused() {
    let workspace = Workspace::with_pool("store");
    for wrong in ["12345", "1048576", "-1", "next"] {
        let scan = ["scan", "pool", &*format!("--cursor={wrong}")];
        workspace.run(scan).demand_wrong_use(&["what an earlier scan printed"]);
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_dump_silently() {
    let workspace = Workspace::with_pool("store");
    let options = Options::new();
    let store = options.open_store(workspace.path("pool")).unwrap();
    (0..64u32).for_each(|key| drop(store.put(key.to_le_bytes(), vec![b'x'; 1 << 16]).unwrap()));
    store.close().unwrap();
    let mut command = workspace.command(["dump", "pool"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), &output.stderr[..]), (Some(13), &b""[..]));
    assert!(firndex::inspect(workspace.path("pool")).unwrap().clean);
}

fn mode_of(workspace: &Workspace, name: &str) -> u32 {
    std::fs::metadata(workspace.path(name)).unwrap().permissions().mode() & 0o7777
}

fn set_mode(workspace: &Workspace, name: &str, mode: u32) {
    std::fs::set_permissions(workspace.path(name), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_dump_is_as_private_as_its_pool() {
    let workspace = Workspace::with_pool("store");
    for (pool, umask, expected) in [
        (0o600, "022", 0o600),
        (0o640, "022", 0o640),
        (0o644, "022", 0o644),
        (0o666, "022", 0o644),
        (0o644, "077", 0o600),
        (0o755, "022", 0o644),
    ] {
        set_mode(&workspace, "pool", pool);
        let mut command = workspace.command_of("/bin/sh");
        let script = format!("umask {umask}; exec \"$0\" dump pool all.csv");
        let output = command.args(["-c", &script, env!("CARGO_BIN_EXE_firndex")]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(mode_of(&workspace, "all.csv"), expected, "{pool:o}, {umask}");
        std::fs::remove_file(workspace.path("all.csv")).unwrap();
    }
}

#[test]
fn a_file_is_replaced_only_if_asked_and_keeps_its_mode() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["put", "pool", "key", "value"]).demand(0);
    workspace.write("all.csv", "old");
    for mode in [0o600, 0o664, 0o444] {
        set_mode(&workspace, "all.csv", mode);
        workspace.run(["dump", "pool", "all.csv"]).demand_error(&["all.csv exists", "--replace"]);
        assert_eq!(std::fs::read(workspace.path("all.csv")).unwrap(), b"old");
        workspace.run(["dump", "pool", "all.csv", "--replace"]).demand(0);
        assert_eq!(std::fs::read(workspace.path("all.csv")).unwrap(), b"key,value\nkey,value\n");
        assert_eq!(mode_of(&workspace, "all.csv"), mode);
        std::fs::remove_file(workspace.path("all.csv")).unwrap();
        workspace.write("all.csv", "old");
    }
    workspace.run(["dump", "pool", "new.csv", "--replace"]).demand(0);
}

/// Files that are not empty, in a directory of the workspace and those below it.
fn files_below(workspace: &Workspace, dir: &str) -> Vec<String> {
    let mut files = Vec::new();
    for path in crate::workspace::list(&workspace.path(dir)) {
        let name = format!("{dir}{}", path.file_name().unwrap().to_str().unwrap());
        match std::fs::metadata(&path).unwrap() {
            found if found.is_dir() => files.extend(files_below(workspace, &format!("{name}/"))),
            found if found.len() > 0 => files.push(name),
            _ => {}
        }
    }
    files
}

#[test]
fn no_pool_no_link_and_no_device_is_replaced() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["put", "pool", "key", "value"]).demand(0);
    workspace.run(["create", "other"]).demand(0);
    workspace.write("target.csv", "kept");
    std::os::unix::fs::symlink("target.csv", workspace.path("link.csv")).unwrap();
    std::os::unix::fs::symlink("pool", workspace.path("link")).unwrap();
    std::fs::hard_link(workspace.path("pool"), workspace.path("hard")).unwrap();
    std::fs::create_dir(workspace.path("dir.csv")).unwrap();
    let before = std::fs::read(workspace.path("pool")).unwrap();
    let mut companions = files_below(&workspace, "");
    companions.retain(|name| name.starts_with("pool.") || name.starts_with("other."));
    assert!(companions.len() >= 2, "{companions:?}");
    companions.extend(
        ["pool", "other", "hard", "link", "link.csv", "dir.csv", "/dev/null"].map(String::from),
    );
    for file in &companions {
        let replace = ["dump", "pool", file.as_str(), "--format", "csv", "--replace"];
        workspace.run(replace).demand_error(&[file, "name another file"]);
    }
    assert!(std::fs::read(workspace.path("pool")).unwrap() == before);
    assert_eq!(std::fs::read(workspace.path("target.csv")).unwrap(), b"kept");
    workspace.run(["check", "pool"]).demand(0);
    workspace.run(["dump", "pool", "-", "--replace"]).demand_error(&["--replace", "stdout"]);
}
