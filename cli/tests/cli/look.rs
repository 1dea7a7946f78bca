//! stat and check, the state a pool is left in, and what becomes of stdout.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::workspace::Workspace;
use firndex::Engine;

#[test]
fn stat_and_check_tell_a_person_and_a_program() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        for key in ["apple", "pear", "plum"] {
            workspace.run(["put", "pool", key, "fruit"]).demand(0);
        }
        let stat = workspace.run(["stat", "pool"]).demand(0);
        let text = String::from_utf8(stat.stdout().to_vec()).unwrap();
        assert!(
            text.lines().any(|line| line.starts_with("pairs") && line.ends_with(" 3")),
            "{text}"
        );
        assert_eq!(stat.stderr(), "");

        let json = workspace.run(["stat", "pool", "--json"]).demand(0).json();
        assert_eq!(json["kind"], "store");
        assert_eq!(json["engine"], engine.name());
        assert_eq!(json["pairs"], 3);
        assert!(json["capacity"].as_u64() >= Some(3), "{json}");
        assert!(json["levels"][0]["slots"].is_u64(), "{json}");
        for number in ["load_factor", "bytes_per_pair", "recovery_ms"] {
            assert!(json[number].is_f64(), "{number}: {json}");
        }
        assert_eq!(json["uuid"].as_str().map(str::len), Some(36), "{json}");

        let check = workspace.run(["check", "pool"]).demand(0);
        assert!(check.stdout().starts_with(b"sound: 3 pairs"));
        let json = workspace.run(["check", "pool", "--json"]).demand(0).json();
        assert_eq!(json["ok"], true);
        assert_eq!(json["pairs"], 3);
        assert!(json["looked_at"].is_u64());
        assert_eq!(json["faults"], 0);
        assert_eq!(json["findings"], serde_json::json!([]));
    }
}

#[test]
fn stat_says_that_overflow_is_beyond_the_capacity() {
    let workspace = Workspace::new();
    let options = firndex::Options::new().resize_at(f64::INFINITY).max_bytes(1 << 20);
    let mut beyond = 0;
    for &engine in Engine::ALL {
        let name = engine.name();
        let table = options.clone().engine(engine).create_table(workspace.path(name)).unwrap();
        (0..60_000).take_while(|&key| table.put(key, key).is_ok()).for_each(drop);
        let stats = table.stats().unwrap();
        table.close().unwrap();
        let stat = workspace.run(["stat", name]).demand(0);
        let text = String::from_utf8(stat.stdout().to_vec()).unwrap();
        let capacity = text.lines().find(|line| line.starts_with("capacity")).unwrap();
        assert_eq!(capacity.contains("overflow"), stats.pairs > stats.capacity, "{capacity}");
        beyond += u32::from(stats.pairs > stats.capacity);
        assert!(text.lines().any(|line| line.ends_with(" 0 since opening")), "{text}");
    }
    assert!(beyond > 0, "none takes more pairs than its capacity");
}

#[test]
fn check_compares_a_closed_file_with_its_sums() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--kind", "table", "--sums"]).demand(0);
    workspace.run(["put", "pool", "1", "72623859790382856"]).demand(0);
    let check = workspace.run(["check", "pool"]).demand(0);
    let text = String::from_utf8(check.stdout().to_vec()).unwrap();
    assert!(
        text.starts_with("sound: 1 pair,") && text.contains("compared with their sums"),
        "{text}"
    );
    let json = workspace.run(["check", "pool", "--json"]).demand(0).json();
    assert_eq!(json["sums"]["state"], "sound");

    // A bit of the value, which nothing else would find.
    let path = workspace.path("pool");
    let mut bytes = std::fs::read(&path).unwrap();
    let value = 72_623_859_790_382_856_u64.to_le_bytes();
    let at = bytes.windows(8).position(|window| window == value).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    workspace.run(["get", "pool", "1"]).demand(0);
    let check = workspace.run(["check", "pool"]).demand(2);
    let text = String::from_utf8(check.stdout().to_vec()).unwrap();
    assert!(
        text.contains("are not what was closed") && text.contains("not sound: 1 pair,"),
        "{text}"
    );
    let says = check.stderr();
    assert!(says.contains("pool is not sound: 1 fault\n"), "{says}");
    assert!(says.contains("hint: restore a backup") && says.contains("firndex salvage"), "{says}");
    let json = workspace.run(["check", "pool", "--json"]).demand(2).json();
    assert_eq!((&json["ok"], &json["sums"]["state"]), (&false.into(), &"damaged".into()));

    // What follows has sums of its own.
    workspace.run(["put", "pool", "1", "2"]).demand(0);
    workspace.run(["check", "pool"]).demand(0);
    workspace.write("pool.safe/sums", "no sums");
    let json = workspace.run(["check", "pool", "--json"]).demand(0).json();
    assert_eq!(json["sums"]["state"], "unknown");

    let wide = firndex::Options::new().keep_sums(true);
    let wide = wide.create_table_of::<[u8; 16], [u8; 15]>(workspace.path("wide")).unwrap();
    wide.close().unwrap();
    workspace.run(["check", "wide"]).demand(0);
}

#[test]
fn looking_changes_nothing_and_needs_no_permission_to_write() {
    for &engine in Engine::ALL {
        for (kind, key, value) in [("store", "apple", "red"), ("table", "1", "2")] {
            let workspace = Workspace::with_pool_on(engine, kind);
            workspace.run(["put", "pool", key, value]).demand(0);
            let path = workspace.path("pool");
            std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
            let before = std::fs::read(&path).unwrap();
            workspace.run(["get", "pool", key]).demand(0);
            workspace.run(["get", "pool", "99"]).demand(1);
            workspace.run(["stat", "pool"]).demand(0);
            workspace.run(["check", "pool"]).demand(0);
            assert!(std::fs::read(&path).unwrap() == before, "looking changed the pool");
        }
    }
}

#[test]
fn what_is_no_pool_is_refused_and_left_alone() {
    let workspace = Workspace::new();
    workspace.write("empty", "");
    workspace.write("text", "this is a text and no pool\n".repeat(1000));
    std::fs::create_dir(workspace.path("dir")).unwrap();
    workspace.write("more.csv", "k,v\na,1\n");
    for file in ["empty", "text", "dir", "missing", "missing/pool"] {
        for command in [
            &["get", file, "k"][..],
            &["put", file, "k", "v"],
            &["del", file, "k"],
            &["load", file, "more.csv"],
            &["stat", file],
            &["stat", file, "--json"],
            &["check", file],
            &["check", file, "--json"],
            &["shrink", file],
            &["shrink", file, "--json"],
        ] {
            let refused = workspace.run(command).demand_error(&[file]);
            if file.starts_with("missing") {
                let stderr = refused.stderr();
                assert!(stderr.contains(&format!("firndex create {file}")), "{stderr}");
            }
        }
    }
    assert_eq!(std::fs::read(workspace.path("empty")).unwrap(), b"");
    assert_eq!(std::fs::metadata(workspace.path("text")).unwrap().len(), 27_000);
    assert!(!workspace.path("missing").exists());
}

/// A pool of that name in the workspace: a table of other sizes than numbers have.
fn make_wide_table(workspace: &Workspace) {
    let path = workspace.path("wide");
    let table = firndex::Options::new().create_table_of::<[u8; 16], [u8; 15]>(path).unwrap();
    table.put([1; 16], [2; 15]).unwrap();
    table.close().unwrap();
}

#[test]
fn a_table_of_other_sizes_is_told_and_left_alone() {
    let workspace = Workspace::new();
    make_wide_table(&workspace);
    let before = std::fs::read(workspace.path("wide")).unwrap();
    workspace.run(["get", "wide", "1"]).demand_error(&["key \"1\"", "expected [u8; 16]"]);
    let digits = "02".repeat(15);
    for command in [&["scan", "wide"][..], &["dump", "wide"]] {
        let told = String::from_utf8(workspace.run(command).demand(0).stdout().to_vec()).unwrap();
        assert!(told.contains(&digits), "{told}");
    }
    let engine = firndex::inspect(workspace.path("wide")).unwrap().engine.to_string();
    let stat = workspace.run(["stat", "wide"]).demand(0);
    let text = String::from_utf8(stat.stdout().to_vec()).unwrap();
    for (name, value) in [
        ("kind", "table"),
        ("engine", engine.as_str()),
        ("keys", "16 bytes each"),
        ("values", "15 bytes each"),
        ("pairs", " 1"),
    ] {
        let told = |line: &str| line.starts_with(name) && line.ends_with(value);
        assert!(text.lines().any(told), "{name} {value}: {text}");
    }
    let json = workspace.run(["stat", "wide", "--json"]).demand(0).json();
    for (name, value) in [("key_bytes", 16), ("value_bytes", 15), ("incarnation", 1)] {
        assert_eq!(json[name], value, "{json}");
    }
    assert_eq!(json["engine"], engine, "{json}");
    assert!(std::fs::read(workspace.path("wide")).unwrap() == before, "looking changed the pool");
}

#[test]
fn damage_is_found_and_told() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        workspace.run(["put", "pool", "a key to be damaged", "1"]).demand(0);
        workspace.run(["put", "pool", "another key", "2"]).demand(0);
        let path = workspace.path("pool");
        let mut bytes = std::fs::read(&path).unwrap();
        let key = b"a key to be damaged";
        let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
        bytes[at] ^= 0x20;
        std::fs::write(&path, &bytes).unwrap();

        let check = workspace.run(["check", "pool"]).demand(2);
        let text = String::from_utf8(check.stdout().to_vec()).unwrap();
        assert!(text.lines().count() >= 2 && text.contains("not sound: 2 pairs"), "{text}");
        // As it reads now: its first letter is another.
        assert!(text.contains("\"A key to be damaged\""), "{text}");
        assert!(check.stderr().starts_with("firndex: pool is not sound"), "{}", check.stderr());
        let json = workspace.run(["check", "pool", "--json"]).demand(2).json();
        assert_eq!(json["ok"], false);
        assert!(json["faults"].as_u64() > Some(0), "{json}");
        assert!(json["findings"][0].is_string(), "{json}");
        assert_eq!(workspace.run(["get", "pool", "another key"]).demand(0).stdout(), b"2");

        // With them it would be restored.
        std::fs::remove_dir_all(workspace.path("pool.safe")).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        for command in ["check", "stat"] {
            workspace.run([command, "pool"]).demand_error(&["truncated"]);
        }
    }
}

#[test]
fn the_key_of_a_damaged_value_is_named() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        let path = workspace.path("pool");
        let store = firndex::Store::open(&path).unwrap();
        let long = [&b"\"\xff\n"[..], &[b'x'; 300]].concat();
        store.put("user 17", "a value to be damaged").unwrap();
        store.put(&long, "another to be damaged").unwrap();
        (0..100u32).for_each(|key| drop(store.put(key.to_le_bytes(), "sound").unwrap()));
        store.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let value = b"to be damaged";
        let at: Vec<usize> =
            (0..bytes.len() - value.len()).filter(|&at| bytes[at..].starts_with(value)).collect();
        assert_eq!(at.len(), 2);
        at.iter().for_each(|&at| bytes[at] ^= 1);
        std::fs::write(&path, &bytes).unwrap();
        let json = workspace.run(["check", "pool", "--json"]).demand(2).json();
        let findings = json["findings"].as_array().unwrap();
        assert_eq!((json["faults"].as_u64(), findings.len()), (Some(2), 2), "{engine}: {json}");
        let named =
            |key: &str| findings.iter().any(|finding| finding.as_str().unwrap().contains(key));
        assert!(named("key \"user 17\""), "{engine}: {json}");
        assert!(named("key \"\\\"\\xff\\nxxx") && named("bytes more"), "{engine}: {json}");
    }
}

#[test]
fn pairs_that_a_closed_pool_lost_are_told() {
    const PAGE: usize = 4096;
    for &engine in Engine::ALL {
        let workspace = Workspace::new();
        let path = workspace.path("pool");
        let table = firndex::Options::new().engine(engine).create_table(&path).unwrap();
        (0..400).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        let keeps_items = table.stats().unwrap().heap_bytes > 0;
        table.close().unwrap();
        let sound = workspace.run(["check", "pool"]).demand(0);
        assert!(sound.stdout().starts_with(b"sound: 400 pairs"));

        let mut bytes = std::fs::read(&path).unwrap();
        // The fullest one behind the superblock.
        let full = |page: &&mut [u8]| page.iter().filter(|&&byte| byte != 0).count();
        let page = bytes[2 * PAGE..].chunks_mut(PAGE).max_by_key(full).unwrap();
        page.fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let check = workspace.run(["check", "pool"]).demand(2);
        let text = String::from_utf8(check.stdout().to_vec()).unwrap();
        // The page may be one of items, which stay counted.
        let is_told = text.contains("and the pool had 400 when it was closed");
        assert!(is_told || keeps_items, "{engine}: {text}");
        assert!(text.contains("not sound: "), "{engine}: {text}");
        if is_told {
            let says = ["it had 400 when it was closed", "backup", "firndex salvage"];
            workspace.run(["put", "pool", "1", "1"]).demand_error(&says);
            workspace.run(["check", "pool"]).demand(2);
        }
    }
}

#[test]
fn help_teaches_and_wrong_arguments_are_errors() {
    let workspace = Workspace::new();
    let help = workspace.run(["--help"]).demand(0);
    let text = String::from_utf8(help.stdout().to_vec()).unwrap();
    for command in ["demo", "create", "put", "get", "del", "load", "stat", "check", "shrink"] {
        assert!(text.contains(&format!("firndex {command} ")), "{command}: {text}");
        let help = workspace.run([command, "--help"]).demand(0);
        let text = String::from_utf8(help.stdout().to_vec()).unwrap();
        assert!(text.contains("Examples:"), "{text}");
    }
    assert!(!text.contains("demo-writer"), "{text}");
    workspace.run(["--version"]).demand(0);
    for wrong in [&[][..], &["frobnicate"], &["get", "pool"], &["stat", "pool", "--yaml"]] {
        let refused = workspace.run(wrong).demand(2);
        assert_eq!(refused.stdout(), b"");
        assert!(!refused.stderr().is_empty());
    }
}
