//! backup, convert, salvage: what they write, what they say, and what they refuse.

use crate::workspace::Workspace;
use firndex::{Durability, Engine, Options, PairSizes, Store};

fn filled(kind: &str) -> Workspace {
    let workspace = Workspace::with_pool(kind);
    let csv: String = (0..400).map(|key| format!("{key},{}\n", 2 * key)).collect();
    workspace.run_with_input(["load", "pool", "-"], format!("k,v\n{csv}").as_bytes()).demand(0);
    workspace
}

#[test]
fn a_backup_and_a_conversion_have_every_pair() {
    for kind in ["store", "table"] {
        let workspace = filled(kind);
        let said = workspace.run(["backup", "pool", "monday"]).demand(0);
        assert_eq!(said.stdout(), b"");
        assert!(said.stderr().contains("wrote 400 pairs to monday"), "{}", said.stderr());
        for &engine in Engine::ALL {
            let convert = ["convert", "pool", "other", "--replace", "--engine", engine.name()];
            let json = [&convert[..], &["--durability", "commit", "--json"]].concat();
            let json = workspace.run(json).demand(0).json();
            assert_eq!(json["pairs"], 400, "{json}");
            let stat = workspace.run(["stat", "other", "--json"]).demand(0).json();
            assert_eq!(stat["engine"], engine.name(), "{stat}");
            let info = firndex::inspect(workspace.path("other")).unwrap();
            assert!(info.clean);
        }
        let table_with_slots = ["convert", "pool", "slots", "--slots", "2"];
        workspace.run(table_with_slots).demand(0);
        for copy in ["monday", "other", "slots"] {
            workspace.run(["check", copy]).demand(0);
            for key in (0..400).step_by(57) {
                let value = workspace.run(["get", copy, &key.to_string()]).demand(0);
                assert_eq!(value.stdout(), (2 * key).to_string().as_bytes());
            }
        }
        let again = Options::new().durability(Durability::Periodic);
        match kind {
            "table" => assert_eq!(again.open_table(workspace.path("other")).unwrap().len(), 400),
            _ => assert_eq!(again.open_store(workspace.path("other")).unwrap().len(), 400),
        }
    }
}

#[test]
fn nothing_is_written_over_unless_that_is_asked_for() {
    let workspace = filled("store");
    let before = std::fs::read(workspace.path("pool")).unwrap();
    for command in ["backup", "convert", "salvage"] {
        workspace.run([command, "nowhere", "out"]).demand_error(&["there is no pool at nowhere"]);
        workspace.run([command, "pool", "no/such/out"]).demand_error(&["no/such"]);
        let exists = ["pool exists already", "hint: ", "--replace"];
        workspace.run([command, "pool", "pool"]).demand_error(&exists);
        workspace
            .run([command, "pool", "pool", "--replace"])
            .demand_error(&["POOL and OUT are the same file, pool"]);
        assert!(std::fs::read(workspace.path("pool")).unwrap() == before);
        workspace.write("letter", "a letter");
        workspace
            .run([command, "pool", "letter", "--replace"])
            .demand_error(&["letter is not a firndex pool", "--replace replaces pools only"]);
        assert_eq!(std::fs::read(workspace.path("letter")).unwrap(), b"a letter");
        workspace.run([command, "pool", "out"]).demand(0);
        workspace.run([command, "pool", "out"]).demand_error(&["out exists already"]);
        workspace.run([command, "pool", "out", "--replace"]).demand(0);
        std::fs::remove_file(workspace.path("out")).unwrap();

        let held = Store::open(workspace.path("pool")).unwrap();
        workspace.run([command, "pool", "out"]).demand_error(&["in use by another process"]);
        held.close().unwrap();
        assert!(!workspace.path("out").exists());
        std::fs::write(workspace.path("pool"), &before).unwrap();
    }
    workspace.run(["convert", "pool", "out", "--slots", "99"]).demand_error(&["slots"]);
    assert!(!workspace.path("out").exists());
}

#[test]
fn a_salvage_tells_what_is_missing() {
    let workspace = Workspace::with_pool("store");
    for key in ["one", "two", "three"] {
        let value = format!("the value of {key}, which is easily found");
        workspace.run(["put", "pool", key, &value]).demand(0);
    }
    let whole = workspace.run(["salvage", "pool", "whole"]).demand(0);
    assert!(whole.stderr().contains("wrote 3 pairs to whole"), "{}", whole.stderr());
    assert_eq!(whole.stdout(), b"");

    let mut bytes = std::fs::read(workspace.path("pool")).unwrap();
    let text = b"the value of two";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] = b'T';
    workspace.write("pool", &bytes);
    workspace.run(["check", "pool"]).demand(2);
    let saved = workspace.run(["salvage", "pool", "saved"]).demand(2);
    let told = String::from_utf8(saved.stdout().to_vec()).unwrap();
    assert!(
        told.contains("1 pair left out: what the index") && told.contains("3 pairs in the pool"),
        "{told}"
    );
    assert!(saved.stderr().contains("not all of pool could be saved"), "{}", saved.stderr());
    let json = workspace.run(["salvage", "pool", "json", "--json"]).demand(2).json();
    assert_eq!(
        (&json["pairs"], &json["unreadable"], &json["complete"]),
        (&2.into(), &1.into(), &false.into()),
        "{json}"
    );
    workspace.run(["get", "saved", "two"]).demand(1);
    workspace.run(["get", "saved", "one"]).demand(0);
    workspace.run(["check", "saved"]).demand(0);

    // Both superblocks lost: the items are all that there is.
    bytes[..8192].fill(0);
    workspace.write("pool", &bytes);
    workspace.write("lone", &bytes);
    let refused = workspace.run(["get", "lone", "one"]);
    refused.demand_error(&["not a firndex pool", "if this was one, try `firndex salvage"]);
    workspace.run(["salvage", "pool", "lost"]).demand(2);
    workspace.run(["get", "lost", "three"]).demand(0);
    workspace.write("letter", "a letter".repeat(2000));
    let letter = workspace.run(["salvage", "letter", "none"]).demand_error(&["not a firndex pool"]);
    assert!(!letter.stderr().contains("salvage POOL"), "it was just tried: {}", letter.stderr());
}

/// Their bits are others, so they hash elsewhere.
#[test]
fn a_salvage_says_what_is_the_matter_with_keys_that_are_not_where_they_belong() {
    let workspace = Workspace::new();
    let path = workspace.path("pool");
    let table = Options::new().create_table(&path).unwrap();
    let key = |number: u64| 0x1122_3344_5566_0000 | number;
    (0..1000).for_each(|number| assert_eq!(table.put(key(number), number).unwrap(), None));
    table.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    for number in 0..100 {
        let found = bytes.windows(8).position(|word| word == key(number).to_le_bytes());
        bytes[found.unwrap() + 7] ^= 1;
    }
    std::fs::write(&path, &bytes).unwrap();
    let json = workspace.run(["salvage", "pool", "json", "--json"]).demand(2).json();
    let misplaced = json["misplaced"].as_u64().unwrap();
    assert!(misplaced > 1, "{json}");
    let saved = workspace.run(["salvage", "pool", "saved"]).demand(2);
    let told = String::from_utf8(saved.stdout().to_vec()).unwrap();
    let says = format!(
        "{misplaced} pairs left out: no look-up finds such a key there, so the key or its place"
    );
    assert!(told.contains(&says) && !told.contains("cannot be"), "{told}");
}

#[test]
fn a_salvage_of_what_was_not_closed_is_never_called_complete() {
    let workspace = Workspace::new();
    workspace.run(["create", "pool", "--durability", "periodic"]).demand(0);
    let saved = workspace.run(["salvage", "pool.safe", "of-nothing"]).demand(2);
    assert!(saved.stderr().contains("nothing of pool.safe could be saved"), "{}", saved.stderr());
    let store = Store::open(workspace.path("pool")).unwrap();
    store.put("apple", "red").unwrap();
    store.sync().unwrap();
    std::fs::copy(workspace.path("pool"), workspace.path("copy")).unwrap();
    workspace.copy_companions("pool", "copy");
    store.close().unwrap();
    let saved = workspace.run(["salvage", "copy", "saved"]).demand(2);
    let says = saved.stderr();
    assert!(says.contains("wrote 1 pair to saved") && says.contains("may have had more"), "{says}");
    assert!(says.contains("firndex salvage copy.safe OUT"), "{says}");
    assert!(saved.stdout().starts_with(b"this is not a closed pool"));
    assert_eq!(workspace.run(["get", "saved", "apple"]).demand(0).stdout(), b"red");
    let json = workspace.run(["salvage", "copy", "json", "--json"]).demand(2).json();
    assert_eq!((&json["closed"], &json["complete"]), (&false.into(), &false.into()), "{json}");
    let json = workspace.run(["salvage", "pool", "closed", "--json"]).demand(0).json();
    assert_eq!((&json["closed"], &json["complete"]), (&true.into(), &true.into()), "{json}");
}

#[test]
fn a_salvage_says_how_orphans_are_copied() {
    let workspace = Workspace::with_pool("store");
    for (key, value) in [("one", "a value"), ("two", "another"), ("three", "the third")] {
        workspace.run(["put", "pool", key, value]).demand(0);
    }
    workspace.run(["del", "pool", "two"]).demand(0);
    let mut bytes = std::fs::read(workspace.path("pool")).unwrap();
    let at = bytes.windows(7).position(|window| window == b"a value").unwrap();
    bytes[at] = b'A';
    workspace.write("pool", &bytes);
    let saved = workspace.run(["salvage", "pool", "saved"]).demand(2);
    let told = String::from_utf8_lossy(saved.stdout()).into_owned();
    assert!(told.contains("1 pair that the index does not lead to"), "{told}");
    assert!(saved.stderr().contains("--orphans copies them"), "{}", saved.stderr());
    let saved = workspace.run(["salvage", "pool", "more", "--orphans"]).demand(2);
    assert!(!saved.stderr().contains("--orphans"), "{}", saved.stderr());
    assert_eq!(workspace.run(["get", "more", "two"]).demand(0).stdout(), b"another");
}

#[test]
fn a_conversion_keeps_what_it_is_not_told_to_change() {
    // Not the engine that a new pool would have.
    let with_parameter = |engine: &&Engine| !engine.description().parameters.is_empty();
    let engine = *Engine::ALL[1..].iter().find(with_parameter).unwrap();
    let parameter = &engine.description().parameters[0];
    let (least, most) = (parameter.bounds)(PairSizes::WORDS).unwrap().into_inner();
    let (name, most) = (format!("--{}", parameter.name), most.to_string());

    let workspace = Workspace::new();
    let create = ["create", "pool", "--engine", engine.name(), &name, &most, "--sums"];
    workspace.run(create.iter().chain(&["--durability", "commit"])).demand(0);
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    let what = |pool: &str| {
        let stat = workspace.run(["stat", pool, "--json"]).demand(0).json();
        let of = |field: &str| stat[field].to_string();
        [of("engine"), of("durability"), of("keeps_sums"), of("capacity")]
    };
    let quoted = |name: &str| format!("{name:?}");
    let before = what("pool");
    assert_eq!(before[..3], [quoted(engine.name()), quoted("commit"), "true".into()]);
    for command in ["backup", "convert"] {
        workspace.run([command, "pool", command]).demand(0);
        assert_eq!(what(command), before, "after {command}");
    }
    workspace.run(["convert", "pool", "least", &name, &least.to_string()]).demand(0);
    let changed = what("least");
    assert_eq!(changed[..3], before[..3]);
    assert!(changed[3] != before[3], "{changed:?}");
    let other = ["convert", "pool", "other", "--engine", Engine::ALL[0].name()];
    workspace.run(other.iter().chain(&["--durability", "process"])).demand(0);
    let other = [quoted(Engine::ALL[0].name()), quoted("process"), "true".into()];
    assert_eq!(what("other")[..3], other);
    assert_eq!(workspace.run(["get", "other", "apple"]).demand(0).stdout(), b"red");
}

#[test]
fn a_compacted_pool_gives_its_space_back() {
    for kind in ["store", "table"] {
        let workspace = Workspace::with_pool(kind);
        let csv: String = (0..50_000).map(|key| format!("{key},{}\n", 2 * key)).collect();
        let load = ["load", "pool", "-", "--no-header"];
        workspace.run_with_input(load, csv.as_bytes()).demand(0);
        let path = workspace.path("pool");
        let removed = match kind {
            "table" => {
                let table = Options::new().open_table(&path).unwrap();
                let removed = table.retain(|key, _| key < 400).unwrap();
                table.close().unwrap();
                removed
            }
            _ => {
                let store = Options::new().open_store(&path).unwrap();
                let removed = store.retain(|key, _| key.len() < 3).unwrap();
                store.close().unwrap();
                removed
            }
        };
        let before = std::fs::metadata(&path).unwrap().len();
        let json = workspace.run(["compact", "pool", "--json"]).demand(0).json();
        assert_eq!(json["pairs"], 50_000 - removed, "{json}");
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!((&json["bytes"], &json["bytes_before"]), (&bytes.into(), &before.into()));
        assert!(json["bytes"].as_u64().unwrap() * 3 < json["bytes_before"].as_u64().unwrap());
        workspace.run(["check", "pool"]).demand(0);
        assert_eq!(workspace.run(["get", "pool", "77"]).demand(0).stdout(), b"154");
        let said = workspace.run(["compact", "pool"]).demand(0);
        assert!(said.stderr().contains("before"), "{}", said.stderr());
        let json = workspace.run(["compact", "pool", "--json"]).demand(0).json();
        assert!(json["bytes"].as_u64() <= json["bytes_before"].as_u64(), "{json}");
    }
}

/// A key that was lost is not reported as absent, and a backup does not replace a better one.
#[test]
fn a_pool_that_lacks_pairs_is_refused_by_everything_but_check_and_salvage() {
    for kind in ["store", "table"] {
        let workspace = filled(kind);
        workspace.run(["backup", "pool", "monday"]).demand(0);
        let monday = std::fs::read(workspace.path("monday")).unwrap();
        let whole = std::fs::read(workspace.path("pool")).unwrap();
        // What is lost may be nothing, or what opening needs: then the next page is lost instead.
        let is_miscounted = |at: &usize| {
            let mut bytes = whole.clone();
            bytes[*at..(at + 4096).min(whole.len())].fill(0);
            workspace.write("pool", &bytes);
            let said = workspace.run(["get", "pool", "1"]);
            said.stderr().contains("pairs were found in it, and it had 400 when it was closed")
        };
        let lost = (8192..whole.len()).step_by(4096).find(is_miscounted);
        assert!(lost.is_some(), "{kind}");
        for command in [
            &["get", "pool", "1"][..],
            &["scan", "pool"],
            &["dump", "pool", "-"],
            &["stat", "pool"],
            &["backup", "pool", "monday", "--replace"],
            &["convert", "pool", "monday", "--replace"],
            &["put", "pool", "1", "2"],
            &["compact", "pool"],
        ] {
            let said = workspace.run(command);
            said.demand_error(&["it had 400 when it was closed", "firndex salvage"]);
        }
        assert!(std::fs::read(workspace.path("monday")).unwrap() == monday);
        let check = workspace.run(["check", "pool", "--json"]).demand(2).json();
        assert_eq!(check["ok"], false, "{check}");
    }
}
