//! Tables of types that programs choose: shown, read and written by the types that they record, and in hexadecimal
//! digits without a record.

use firndex::{Engine, Fixed, Options, Table};

use crate::workspace::Workspace;

#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Visit {
    page: u32,
    seconds: f32,
    first: bool,
}

/// Of eight bytes, as a number is, and no number.
type Grade = (char, i32);

const VISIT: &str = "{ page: u32, seconds: f32, first: bool }";

fn made<K: Fixed, V: Fixed>(engine: Option<Engine>, pairs: &[(K, V)]) -> Workspace {
    let workspace = Workspace::new();
    let mut options = Options::new();
    if let Some(engine) = engine {
        options = options.engine(engine);
    }
    let table: Table<K, V> = options.create_table_of(workspace.path("pool")).unwrap();
    table.put_many(pairs).unwrap();
    table.close().unwrap();
    workspace
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn structs_are_shown_changed_and_copied_by_the_types_that_the_table_records() {
    let visit = Visit { page: 7, seconds: 1.5, first: true };
    let workspace = made(None, &[(-1_i16, visit)]);
    let stat = text(workspace.run(["stat", "pool"]).demand(0).stdout());
    assert!(stat.contains("i16, 2 bytes each") && stat.contains(VISIT), "{stat}");
    let json = workspace.run(["stat", "pool", "--json"]).demand(0).json();
    assert_eq!((&json["key_type"], &json["value_type"]), (&"i16".into(), &VISIT.into()));

    let shown = r#"{"page":7,"seconds":1.5,"first":true}"#;
    let got = workspace.run(["get", "pool", "--", "-1"]).demand(0);
    assert_eq!(text(got.stdout()), shown);
    let other = r#"{"first":false, "page":9, "seconds":-0.0}"#;
    workspace.run(["put", "pool", "5", other]).demand(0);
    workspace.run(["get", "pool", "6"]).demand(1);
    for wrong in [["put", "pool", "70000", other], ["put", "pool", "5", "{}"]] {
        let refused = workspace.run(wrong).demand(2);
        assert!(refused.stderr().contains("expected "), "{}", refused.stderr());
    }
    workspace.run(["scan", "pool"]).demand(0);

    for format in ["csv", "tsv", "jsonl"] {
        let file = format!("all.{format}");
        workspace.run(["dump", "pool", &file]).demand(0);
        let copy = format!("copy-{format}");
        let table: Table<i16, Visit> = Table::create(workspace.path(&copy)).unwrap();
        table.close().unwrap();
        workspace.run(["load", &copy, &file]).demand(0);
        let table: Table<i16, Visit> = Table::open(workspace.path(&copy)).unwrap();
        assert_eq!((table.len(), table.get(-1).unwrap()), (2, Some(visit)), "{format}");
        let found = table.get(5).unwrap().unwrap();
        assert!(found.page == 9 && found.seconds.is_sign_negative() && !found.first);
        table.close().unwrap();
    }
    workspace.run(["del", "pool", "5"]).demand(0);
    workspace.run(["del", "pool", "5"]).demand(1);
    workspace.run(["convert", "pool", "converted"]).demand(0);
    workspace.run(["backup", "pool", "saved"]).demand(0);
    workspace.run(["compact", "pool"]).demand(0);
    workspace.run(["salvage", "pool", "salvaged"]).demand(0);
    for copy in ["converted", "saved", "pool", "salvaged"] {
        let table: Table<i16, Visit> = Table::open(workspace.path(copy)).unwrap();
        assert_eq!((table.len(), table.get(-1).unwrap()), (1, Some(visit)), "{copy}");
        table.close().unwrap();
        let json = workspace.run(["stat", copy, "--json"]).demand(0).json();
        assert_eq!(json["value_type"], VISIT, "{copy}");
    }
}

#[test]
fn words_that_are_no_numbers_are_told_as_what_they_are() {
    for &engine in Engine::ALL {
        let workspace = made(Some(engine), &[(1.5_f64, ('ß', -3)), (-0.0, ('"', 9))]);
        let got = workspace.run(["get", "pool", "1.5"]).demand(0);
        assert_eq!(text(got.stdout()), r#"["ß",-3]"#, "{engine}");
        workspace.run(["get", "pool", "0.0"]).demand(1);
        workspace.run(["put", "pool", "NaN", r#"["x",0]"#]).demand(0);
        workspace.run(["check", "pool"]).demand(0);
        workspace.run(["shrink", "pool"]).demand(0);
        workspace.run(["convert", "pool", "other"]).demand(0);
        let table: Table<f64, Grade> = Table::open(workspace.path("other")).unwrap();
        assert_eq!(table.len(), 3);
        assert_eq!(table.get(f64::NAN).unwrap(), Some(('x', 0)));
        assert_eq!(table.get(-0.0).unwrap(), Some(('"', 9)));
    }
}

/// Three bytes of which the library knows nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Own([u8; 3]);

impl Fixed for Own {
    const BYTES: usize = 3;

    fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Own(Fixed::of_words(word))
    }
}

#[test]
fn without_a_record_there_are_hexadecimal_digits() {
    let workspace = made(None, &[(Own([1, 2, 0xff]), Own([0, 0, 1]))]);
    let got = workspace.run(["get", "pool", "0x0102ff"]).demand(0);
    assert_eq!(text(got.stdout()), "0x000001");
    workspace.run(["put", "pool", "0x000000", "0xABCDEF"]).demand(0);
    let refused = workspace.run(["put", "pool", "0x000000", "0xABCDE"]).demand(2);
    assert!(refused.stderr().contains("0x and 6 digits"), "{}", refused.stderr());
    let dumped = workspace.run(["dump", "pool"]).demand(0);
    let mut lines: Vec<String> = text(dumped.stdout()).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0x000000,0xabcdef", "0x0102ff,0x000001", "key,value"]);
    let table: Table<Own, Own> = Table::open(workspace.path("pool")).unwrap();
    assert_eq!(table.get(Own([0; 3])).unwrap(), Some(Own([0xab, 0xcd, 0xef])));
}
