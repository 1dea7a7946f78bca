//! Tables record what their keys and values consist of.

use crate::places;
use crate::superblocks::assert_refused;
use firndex::{Engine, Error, Existing, Fixed, OpenError, Options, Salvage, Table, inspect};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Place {
    file: u32,
    offset: u32,
}

/// Of the same size, in another order.
#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Turned {
    offset: u32,
    file: u32,
}

/// The same fields under another name.
#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Renamed {
    file: u32,
    offset: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Id(u64);

/// Of the same size as [`Place`], with no shape.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Raw(u64);

impl Fixed for Raw {
    const BYTES: usize = 8;

    fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Raw(Fixed::of_words(word))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Everything {
    place: Place,
    r#type: char,
    floats: (f32, f64),
    flags: [bool; 3],
    nothing: (),
}

const SHAPE: &str = "{ file: u32, offset: u32 }";

fn is_mismatch(error: &Error, of: &str) -> bool {
    matches!(error, Error::Open(OpenError::Mismatch { field, .. }) if *field == of)
}

fn recorded(path: &Path) -> [Option<String>; 2] {
    let info = inspect(path).unwrap();
    [info.key_shape, info.value_shape].map(|shape| shape.map(|shape| shape.to_string()))
}

#[test]
fn a_struct_of_other_fields_is_refused_with_both_shapes_and_nothing_changes() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let options = Options::new().engine(engine);
        let table = options.create_table_of::<Id, Place>(&path).unwrap();
        table.put(Id(1), Place { file: 2, offset: 3 }).unwrap();
        table.close().unwrap();
        assert_eq!(recorded(&path), [Some("u64".into()), Some(SHAPE.into())]);

        let says = ["value type", SHAPE, "{ offset: u32, file: u32 }", "open it with types"];
        let error = assert_refused(&path, |path| Table::<Id, Turned>::open(path), &says);
        assert!(is_mismatch(&error, "value type"), "{error:?}");
        let error = assert_refused(&path, |path| Table::<u64, u64>::open_or_create(path), &[SHAPE]);
        assert!(is_mismatch(&error, "value type"), "{error:?}");
        let says = ["`u64`", "`i64`"];
        let error = assert_refused(&path, |path| Table::<i64, Place>::open(path), &says);
        assert!(is_mismatch(&error, "key type"), "{error:?}");
        let read_only =
            |path: &Path| Options::new().read_only(true).open_table_of::<u64, (u32, u32)>(path);
        assert_refused(&path, read_only, &["(u32, u32)"]);

        // The names of structs are theirs, and types without a shape promise to know.
        let table = Table::<u64, Renamed>::open(&path).unwrap();
        assert_eq!(table.get(1).unwrap(), Some(Renamed { file: 2, offset: 3 }));
        table.close().unwrap();
        let table = Table::<Raw, Raw>::open(&path).unwrap();
        assert_eq!(table.get(Raw(1)).unwrap(), Some(Raw(3 << 32 | 2)));
        table.close().unwrap();
        assert_eq!(recorded(&path), [Some("u64".into()), Some(SHAPE.into())]);
    }
}

#[test]
fn shapes_that_are_known_at_run_time_are_recorded_and_demanded_like_those_of_types() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let asked = |key: &str, value: &str| {
            let (key, value) = (key.parse().unwrap(), value.parse().unwrap());
            Options::new().shapes(key, value)
        };
        let options = asked("i64", SHAPE).engine(engine);
        let table = options.create_table_of::<u64, u64>(&path).unwrap();
        table.put(u64::MAX, 3 << 32 | 2).unwrap();
        table.backup(path.with_extension("copy"), Existing::Keep).unwrap();
        table.close().unwrap();
        assert_eq!(recorded(&path), [Some("i64".into()), Some(SHAPE.into())]);
        assert_eq!(recorded(&path.with_extension("copy")), recorded(&path));

        let error = assert_refused(&path, |path| Table::<u64, u64>::open(path), &["`i64`"]);
        assert!(is_mismatch(&error, "key type"), "{error:?}");
        let other = |path: &Path| asked("i64", "(u32, u32)").open_table_of::<u64, u64>(path);
        let error = assert_refused(&path, other, &[SHAPE, "(u32, u32)"]);
        assert!(is_mismatch(&error, "value type"), "{error:?}");
        let larger = |path: &Path| asked("i64", "[u8; 9]").open_table_of::<u64, u64>(path);
        let error = assert_refused(&path, larger, &["`Options::shapes`", "[u8; 9]", "8 bytes"]);
        assert!(matches!(error, Error::OutOfRange { option: "shapes", .. }), "{error:?}");

        let table = Table::<i64, Place>::open(&path).unwrap();
        assert_eq!(table.get(-1).unwrap(), Some(Place { file: 2, offset: 3 }));
        table.close().unwrap();
        let table = options.open_table_of::<u64, u64>(&path).unwrap();
        assert_eq!(table.get(u64::MAX).unwrap(), Some(3 << 32 | 2));
    }
    let wrong = Options::new().shapes("u8".parse().unwrap(), "u64".parse().unwrap());
    assert!(matches!(wrong.in_memory_table(), Err(Error::OutOfRange { option: "shapes", .. })));
    // A store has none.
    wrong.in_memory_store().unwrap();
}

#[test]
fn a_table_without_a_record_opens_as_before_and_stays_so() {
    let directory = places::in_ram();
    let path = directory.path().join("old");
    let table = Table::<Raw, Raw>::create(&path).unwrap();
    table.put(Raw(1), Raw(2)).unwrap();
    table.close().unwrap();
    for _ in 0..2 {
        assert_eq!(recorded(&path), [None, None]);
        // Whoever comes first may be wrong: only who makes a table knows.
        drop(Table::<Id, Turned>::open(&path).unwrap());
        let table = Table::<u64, Place>::open(&path).unwrap();
        assert_eq!(table.get(1).unwrap(), Some(Place { file: 2, offset: 0 }));
    }
    // A type with a shape beside one without.
    let path = directory.path().join("half");
    Table::<Raw, Place>::create(&path).unwrap().close().unwrap();
    assert_eq!(recorded(&path), [None, Some(SHAPE.into())]);
    drop(Table::<i64, Place>::open(&path).unwrap());
}

#[test]
fn copies_of_all_kinds_keep_the_record_and_make_none() {
    let directory = places::on_disk();
    let at = |name: &str| directory.path().join(name);
    let table = Table::<u32, Everything>::create(at("table")).unwrap();
    let value = Everything {
        place: Place { file: 1, offset: 2 },
        r#type: 'ß',
        floats: (f32::NAN, -0.0),
        flags: [true, false, true],
        nothing: (),
    };
    table.put(7, value).unwrap();
    let shape = "{ place: { file: u32, offset: u32 }, type: char, floats: (f32, f64), flags: [bool; 3], nothing: () }";
    let expected = [Some("u32".to_owned()), Some(shape.to_owned())];
    table.backup(at("backup"), Existing::Keep).unwrap();
    table.convert(at("converted"), Existing::Keep, &Options::new()).unwrap();
    table.rewrite().unwrap();
    let salvage = Salvage::open(at("table")).unwrap();
    let options = Options::new();
    salvage.table_of::<u32, Everything>(at("saved"), Existing::Keep, &options).unwrap();
    // Restored from its checkpoint and log.
    std::fs::remove_file(at("table")).unwrap();
    drop(Table::<u32, Everything>::open(at("table")).unwrap());
    for name in ["backup", "converted", "saved", "table"] {
        assert_eq!(recorded(&at(name)), expected, "{name}");
        let found = Table::<u32, Everything>::open(at(name)).unwrap().get(7).unwrap().unwrap();
        assert_eq!((found.place, found.flags, found.r#type), (value.place, value.flags, 'ß'));
        assert!(found.floats.0.is_nan() && found.floats.1.is_sign_negative());
    }
    let untyped = Table::<Raw, Raw>::in_memory().unwrap();
    untyped.convert(at("untyped"), Existing::Keep, &Options::new()).unwrap();
    let untyped = Table::<u64, u64>::open(at("untyped")).unwrap();
    untyped.convert(at("again"), Existing::Keep, &Options::new()).unwrap();
    assert_eq!(recorded(&at("again")), [None, None], "who opens it may be wrong");
}

/// A word that is no value of the type that reads it: exchanging what is found would never end.
#[test]
fn a_value_that_is_none_of_its_type_is_an_error_and_no_endless_loop() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let raw = Options::new().engine(engine).create_table_of::<u64, Raw>(&path).unwrap();
        raw.put(1, Raw(0xd800)).unwrap();
        raw.put(2, Raw(u64::from('x'))).unwrap();
        raw.close().unwrap();
        let table = Table::<u64, (char, u32)>::open(&path).unwrap();
        assert_eq!(table.get(1).unwrap(), Some(('\u{fffd}', 0)));
        let add = |found: Option<(char, u32)>| found.map(|(sign, count)| (sign, count + 1));
        assert!(matches!(table.modify(1, add), Err(Error::Corrupt(_))));
        assert_eq!(table.modify(2, add).unwrap(), Some(('x', 0)));
        assert_eq!(table.put(1, ('y', 1)).unwrap(), Some(('\u{fffd}', 0)));
        assert_eq!(table.modify(1, add).unwrap(), Some(('y', 1)));
    }
}

/// Every bit of the record: another bit makes it no record, and never another one or a panic.
#[test]
fn a_damaged_record_counts_for_nothing() {
    let directory = places::in_ram();
    let path = directory.path().join("table");
    Table::<u64, Place>::create(&path).unwrap().close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(SHAPE.len()).position(|part| part == SHAPE.as_bytes()).unwrap();
    let begin = at / 64 * 64;
    for bit in 0..8 * 64 {
        let mut damaged = bytes.clone();
        damaged[begin + bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, damaged).unwrap();
        let found = recorded(&path);
        let is_beyond = begin + bit / 8 > at + SHAPE.len();
        assert!(found == [None, None] || is_beyond, "bit {bit}: {found:?}");
    }
    let mut damaged = bytes;
    damaged[at] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    drop(Table::<u64, Turned>::open(&path).unwrap());
}
