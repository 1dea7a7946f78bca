//! Tables that programs make with keys and values of other sizes: the command has no type for them, and must tell of
//! them what the library tells.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use firndex::{CheckReport, Durability, Engine, Options, PairSizes, Table};
use pmem::superblock::{COPY_BYTES, COPY_WORDS, Superblock};
use serde_json::json;
use workload::Random;

use crate::workspace::Workspace;

/// Runs a test for keys and values of these sizes on every engine that keeps them. The sizes are few, since each is
/// engines to compile: parts of words, whole words, both, and so large that few fit a bucket.
macro_rules! on_every_engine {
    ($test:ident) => {
        on_every_engine!($test: 4 4, 16 8, 20 12, 1 100)
    };
    ($test:ident: $($key_bytes:literal $value_bytes:literal),+) => {{
        let mut tested = 0;
        for &engine in Engine::ALL {
            $(if keeps::<$key_bytes, $value_bytes>(engine) {
                $test::<$key_bytes, $value_bytes>(engine);
                tested += 1;
            })+
        }
        assert!(tested >= 16, "{tested}");
    }};
}

fn keeps<const K: usize, const V: usize>(engine: Engine) -> bool {
    engine.may_hold(PairSizes { key_bytes: K as u32, value_bytes: V as u32 })
}

type Of<const K: usize, const V: usize> = Table<[u8; K], [u8; V]>;

/// As many as a table doubles for a few times; of keys of one byte there are no more than these.
const fn pairs<const K: usize>() -> u64 {
    if K == 1 { 250 } else { 3000 }
}

/// Numbers below 256 have other first bytes.
fn nth<const N: usize>(number: u64) -> [u8; N] {
    let bytes = number.to_le_bytes();
    std::array::from_fn(|at| if at < 8 { bytes[at] } else { !bytes[at % 8] ^ at as u8 })
}

fn value_of<const N: usize>(number: u64) -> [u8; N] {
    nth(31 * number + 7)
}

fn fill<const K: usize, const V: usize>(table: &Of<K, V>) {
    for number in 0..pairs::<K>() {
        assert_eq!(table.put(nth(number), value_of(number)).unwrap(), None);
    }
}

/// A workspace with a closed pool that a program has filled.
fn filled<const K: usize, const V: usize>(engine: Engine) -> Workspace {
    let workspace = Workspace::new();
    let options = Options::new().engine(engine);
    let table: Of<K, V> = options.create_table_of(workspace.path("pool")).unwrap();
    fill(&table);
    table.close().unwrap();
    workspace
}

/// Demands of a pool that it has the first `count` pairs and no other ones, by what the library finds.
#[track_caller]
fn demand_pairs<const K: usize, const V: usize>(path: &Path, count: u64) {
    let table: Of<K, V> = Options::new().open_table_of(path).unwrap();
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((table.len(), report.pairs), (count, count));
    for number in 0..pairs::<K>() {
        let expected = (number < count).then(|| value_of(number));
        assert_eq!(table.get(nth(number)).unwrap(), expected, "pair {number}");
    }
    table.close().unwrap();
}

#[test]
fn what_a_program_made_is_counted_and_told() {
    fn test<const K: usize, const V: usize>(engine: Engine) {
        let workspace = filled::<K, V>(engine);
        let before = std::fs::read(workspace.path("pool")).unwrap();
        let json = workspace.run(["check", "pool", "--json"]).demand(0).json();
        let told = (&json["ok"], &json["pairs"], &json["faults"]);
        assert_eq!(told, (&true.into(), &pairs::<K>().into(), &0.into()), "{engine}: {json}");
        assert!(json["looked_at"].as_u64() >= Some(pairs::<K>()), "{engine}: {json}");

        let json = workspace.run(["stat", "pool", "--json"]).demand(0).json();
        let table: Of<K, V> = Options::new().open_table_of(workspace.path("pool")).unwrap();
        let stats = table.stats().unwrap();
        for (name, value) in [
            ("kind", json!("table")),
            ("engine", json!(engine.name())),
            ("key_bytes", json!(K)),
            ("value_bytes", json!(V)),
            ("pairs", json!(pairs::<K>())),
            ("capacity", json!(stats.capacity)),
            ("heap_used_bytes", json!(stats.heap_used_bytes)),
        ] {
            assert_eq!(json[name], value, "{engine}: {name}");
        }
        drop(table);
        std::fs::write(workspace.path("pool"), &before).unwrap();
        let text = workspace.run(["stat", "pool"]).demand(0);
        let text = String::from_utf8_lossy(text.stdout()).into_owned();
        for (name, value) in [("keys", K), ("values", V)] {
            let told = |line: &str| {
                line.starts_with(name) && line.ends_with(&format!(" {value} bytes each"))
            };
            assert!(text.lines().any(told), "{name} {value}: {text}");
        }
        assert!(
            std::fs::read(workspace.path("pool")).unwrap() == before,
            "looking changed the pool"
        );
    }
    on_every_engine!(test);
}

/// Pages lost, and bits flipped in them: the command finds what the library finds.
#[test]
fn damage_is_noticed_as_the_library_notices_it() {
    const PAGE: usize = 4096;
    fn test<const K: usize, const V: usize>(engine: Engine) {
        let workspace = filled::<K, V>(engine);
        let path = workspace.path("pool");
        let sound = std::fs::read(&path).unwrap();
        let pages = (2..sound.len() / PAGE).map(|page| page * PAGE..(page + 1) * PAGE);
        let used: Vec<_> = pages.filter(|page| sound[page.clone()] != [0; PAGE]).collect();
        let mut random = Random::new(1);
        let mut noticed = 0;
        // Some pages hold what the table has moved elsewhere: nobody misses them.
        for turn in 0.. {
            if noticed > 0 && turn >= 6 {
                break;
            }
            let page = used.get(turn / 2);
            let page = page.unwrap_or_else(|| panic!("{engine}, {K} and {V} bytes: unnoticed"));
            let mut bytes = sound.clone();
            let page = &mut bytes[page.clone()];
            match turn % 2 {
                0 => page.fill(0),
                _ => page[random.below(PAGE as u64) as usize] ^= 1 << random.below(8),
            }
            std::fs::write(&path, &bytes).unwrap();
            noticed += u32::from(is_noticed::<K, V>(&workspace, engine));
        }
    }
    on_every_engine!(test);
}

/// Whether anything is wrong with the pool, in which the library and the command must agree.
fn is_noticed<const K: usize, const V: usize>(workspace: &Workspace, engine: Engine) -> bool {
    let options = Options::new().read_only(true).may_lack_pairs(true);
    let opened = options.open_table_of(workspace.path("pool"));
    let found = opened.and_then(|table: Of<K, V>| table.check());
    let Ok(CheckReport { pairs, looked_at, faults, findings, .. }) = found else {
        workspace.run(["check", "pool"]).demand_error(&["pool"]);
        return true;
    };
    let status = if faults == 0 { 0 } else { 2 };
    let mut json = workspace.run(["check", "pool", "--json"]).demand(status).json();
    json.as_object_mut().unwrap().remove("sums");
    let expected = json!({
        "ok": faults == 0,
        "pairs": pairs,
        "looked_at": looked_at,
        "faults": faults,
        "findings": findings,
    });
    assert_eq!(json, expected, "{engine}, {K} and {V} bytes");
    faults > 0
}

#[test]
fn what_is_left_of_a_program_s_table_gets_a_smaller_index() {
    const LEFT: u64 = 40;
    fn test<const K: usize, const V: usize>(engine: Engine) {
        let workspace = filled::<K, V>(engine);
        let path = workspace.path("pool");
        let table: Of<K, V> = Options::new().open_table_of(&path).unwrap();
        let removed = |number| table.remove(nth(number)).unwrap().is_some();
        assert!((LEFT..pairs::<K>()).all(removed));
        table.close().unwrap();
        let json = workspace.run(["shrink", "pool", "--json"]).demand(0).json();
        let [before, after] =
            ["capacity_before", "capacity"].map(|name| json[name].as_u64().unwrap());
        assert!(2 * after <= before, "{engine}, {K} and {V} bytes: {json}");
        demand_pairs::<K, V>(&path, LEFT);
        let stat = workspace.run(["stat", "pool", "--json"]).demand(0).json();
        assert_eq!(stat["capacity"], after, "{engine}, {K} and {V} bytes");
    }
    on_every_engine!(test);
}

#[test]
fn copies_have_every_pair_of_a_program_s_table() {
    fn test<const K: usize, const V: usize>(engine: Engine) {
        let workspace = filled::<K, V>(engine);
        let count = pairs::<K>();
        workspace.run(["backup", "pool", "backup"]).demand(0);
        demand_pairs::<K, V>(&workspace.path("backup"), count);
        let other =
            Engine::ALL.iter().rev().find(|&&other| other != engine && keeps::<K, V>(other));
        let other = other.unwrap().name();
        workspace.run(["convert", "pool", "other", "--engine", other]).demand(0);
        demand_pairs::<K, V>(&workspace.path("other"), count);
        workspace.run(["salvage", "pool", "saved"]).demand(0);
        demand_pairs::<K, V>(&workspace.path("saved"), count);
        let json = workspace.run(["compact", "pool", "--json"]).demand(0).json();
        assert_eq!(json["pairs"], count);
        demand_pairs::<K, V>(&workspace.path("pool"), count);
    }
    on_every_engine!(test);
}

const WRITER: &str = "FIRNDEX_TEST_WRITER";

/// What the writer does in a process that is to be killed.
fn write_until_killed<const K: usize, const V: usize>(engine: Engine) {
    if std::env::var(WRITER).unwrap() != format!("{engine} {K} {V}") {
        return;
    }
    let options = Options::new().engine(engine).durability(Durability::Process);
    let table: Of<K, V> = options.create_table_of("pool").unwrap();
    fill(&table);
    eprintln!("filled");
    loop {
        std::thread::park();
    }
}

/// Not a test by itself: the process of [`a_killed_program_s_table_is_recovered`].
#[test]
fn writer() {
    if std::env::var_os(WRITER).is_some() {
        on_every_engine!(write_until_killed);
    }
}

#[test]
fn a_killed_program_s_table_is_recovered() {
    fn test<const K: usize, const V: usize>(engine: Engine) {
        for command in ["check", "shrink"] {
            let workspace = Workspace::new();
            let mut writer = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "sizes::writer", "--nocapture", "--test-threads=1"])
                .env(WRITER, format!("{engine} {K} {V}"))
                .current_dir(workspace.path(""))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let said = BufReader::new(writer.stderr.take().unwrap()).lines();
            let is_filled = said.map(Result::unwrap).any(|line| line == "filled");
            writer.kill().unwrap();
            writer.wait().unwrap();
            assert!(is_filled, "{engine}, {K} and {V} bytes: the writer ended");
            let path = workspace.path("pool");
            assert!(!firndex::inspect(&path).unwrap().clean);
            workspace.run(["check", "pool", "--read-only"]).demand_error(&["not closed"]);
            workspace.run([command, "pool"]).demand(0);
            assert!(firndex::inspect(&path).unwrap().clean);
            demand_pairs::<K, V>(&path, pairs::<K>());
        }
    }
    on_every_engine!(test);
}

/// The heap takes keys and values of any length. The command reads none of them to check, or to shrink.
#[test]
fn long_pairs_are_checked_but_not_copied() {
    let engine = Engine::ALL.iter().copied().find(|&engine| keeps::<300, 1000>(engine)).unwrap();
    let workspace = filled::<300, 1000>(engine);
    let path = workspace.path("pool");
    let json = workspace.run(["check", "pool", "--json"]).demand(0).json();
    assert_eq!((&json["ok"], &json["pairs"]), (&true.into(), &3000.into()), "{json}");
    for command in [
        &["backup", "pool", "out"][..],
        &["convert", "pool", "out"],
        &["compact", "pool"],
        &["salvage", "pool", "out"],
    ] {
        let before = std::fs::read(&path).unwrap();
        let says = ["keys of 300 and values of 1000 bytes", "at most 256 bytes", "in a program"];
        workspace.run(command).demand_error(&says);
        assert!(!workspace.path("out").exists());
        assert!(
            std::fs::read(&path).unwrap() == before,
            "{command:?} was refused, and changed the pool"
        );
    }
    let table: Of<300, 1000> = Options::new().open_table_of(&path).unwrap();
    (100..3000).for_each(|number| assert!(table.remove(nth(number)).unwrap().is_some()));
    table.close().unwrap();
    let json = workspace.run(["shrink", "pool", "--json"]).demand(0).json();
    assert!(json["capacity"].as_u64() < json["capacity_before"].as_u64(), "{json}");
    demand_pairs::<300, 1000>(&path, 100);

    let mut bytes = std::fs::read(&path).unwrap();
    let value = value_of::<1000>(7);
    let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[at + 500] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let json = workspace.run(["check", "pool", "--json"]).demand(2).json();
    assert_eq!((&json["ok"], &json["faults"]), (&false.into(), &1.into()), "{json}");
}

/// Says in both copies of the superblock, with the checksums that they then need, that pairs have these sizes.
fn claim_sizes(bytes: &mut [u8], key_bytes: u32, value_bytes: u32) {
    let copy = |index: usize| {
        let mut words = Box::new([0; COPY_WORDS]);
        let copy = &bytes[index * COPY_BYTES as usize..];
        for (word, bytes) in words.iter_mut().zip(copy.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        words
    };
    let (mut superblock, _) = Superblock::choose([Some(&copy(0)), Some(&copy(1))]).unwrap();
    (superblock.key_bytes, superblock.value_bytes) = (key_bytes, value_bytes);
    let words = superblock.encode();
    for copy in bytes[..2 * COPY_BYTES as usize].chunks_exact_mut(COPY_BYTES as usize) {
        for (bytes, word) in copy.chunks_exact_mut(8).zip(&*words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// The command ends with one of these codes, which a panic is not.
fn demand_one_of<const N: usize>(workspace: &Workspace, arguments: [&str; N], codes: &[i32]) {
    let output = workspace.command(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(code.is_some_and(|code| codes.contains(&code)), "{arguments:?}: {code:?}, {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// No engine makes such tables, or not with such buckets.
#[test]
fn sizes_that_cannot_be_are_refused() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "table");
        workspace.run(["put", "pool", "1", "2"]).demand(0);
        let path = workspace.path("pool");
        let sound = std::fs::read(&path).unwrap();
        let all = [
            (0, 0),
            (0, 8),
            (8, u32::MAX),
            (u32::MAX, u32::MAX),
            (u32::MAX, 0),
            (120, 120),
            (8, 100),
        ];
        for (key_bytes, value_bytes) in all {
            let mut bytes = sound.clone();
            claim_sizes(&mut bytes, key_bytes, value_bytes);
            std::fs::write(&path, &bytes).unwrap();
            let never = key_bytes == 0 || key_bytes.max(value_bytes) == u32::MAX;
            for command in ["check", "shrink", "stat", "compact"] {
                if never {
                    let is = format!("{key_bytes} and {value_bytes} bytes");
                    let says =
                        [&is, engine.description().pair_sizes, "the firndex version that made it"];
                    workspace.run([command, "pool"]).demand_error(&says);
                    assert!(std::fs::read(&path).unwrap() == bytes, "{command} changed the pool");
                } else if !engine.may_hold(PairSizes { key_bytes, value_bytes }) {
                    workspace.run([command, "pool"]).demand_error(&["key and value size"]);
                }
            }
            // Read as these sizes, bytes may lie where their hash puts them: its seed is random.
            let salvaged: &[i32] = if never { &[2] } else { &[0, 2] };
            demand_one_of(&workspace, ["salvage", "pool", "out"], salvaged);
            let _ = std::fs::remove_file(workspace.path("out"));
        }
        // What fits no bucket of as many slots as the pool has, or is not where it belongs.
        let mut bytes = sound.clone();
        claim_sizes(&mut bytes, 60, 50);
        std::fs::write(&path, &bytes).unwrap();
        demand_one_of(&workspace, ["check", "pool"], &[0, 2]);
    }
}
