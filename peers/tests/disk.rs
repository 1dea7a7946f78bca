//! Every embedded store keeps what it is given, in every mode: the suites check each answer.

use bench::choices::Suite;
use bench::{ByteStore, Contender, Reopens, Row};
use clap::Parser;
use std::ffi::OsString;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: bench::Options,
}

fn rows(suite: Suite, arguments: &str) -> Vec<Row> {
    let words = format!("bench --runs 1 {arguments}");
    let mut options = CommandLine::parse_from(words.split(' ')).options;
    options.again = Some(["--exact", "filler", "--nocapture"].map(OsString::from).to_vec());
    let contenders = peers::disk::contenders();
    bench::run(suite, &options, &contenders, &mut Vec::new(), &|_| ()).unwrap()
}

fn by<'a>(rows: &'a [Row], contender: &dyn Contender, op: &str) -> &'a Row {
    let is_it = |row: &&Row| row.op == op && row.contender == contender.name();
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {op} of {}", contender.name()))
}

/// Not a test of anything: what suites `open` and `values` start.
#[test]
fn filler() {
    if std::env::var_os("FIRNDEX_BENCH_ORDER").is_some() {
        rows(Suite::Values, "--pairs 1");
    }
}

#[test]
fn every_store_is_measured_and_answers_rightly() {
    let rows = rows(Suite::Durable, "--parts puts --pairs 3000 --ops 200");
    let mut measured = 0;
    for contender in peers::disk::contenders() {
        // Modes after which power loss leaves nothing certain have no rows.
        if !rows.iter().any(|row| row.contender == contender.name()) {
            let is_elsewhere =
                contender.after_kill().is_some() || contender.reopens() != Reopens::Never;
            assert!(is_elsewhere, "{}", contender.name());
            continue;
        }
        measured += 1;
        for op in ["put", "put_many"] {
            let row = by(&rows, &*contender, op);
            assert!(row.ops_per_s.unwrap() > 0.0 && row.promise.is_some(), "{row:?}");
        }
    }
    assert!(measured >= 6, "{measured}");
}

#[test]
fn every_store_keeps_after_a_kill_what_it_promises() {
    let rows = rows(Suite::Values, "--pairs 3000 --ops 2500 --value-bytes 100");
    let mut measured = 0;
    for contender in peers::disk::contenders() {
        let Some(after_kill) = contender.after_kill() else { continue };
        measured += 1;
        for op in ["load", "get", "miss", "overwrite", "remove"] {
            assert!(by(&rows, &*contender, op).ops_per_s.unwrap() > 0.0, "{op}");
        }
        let opened = by(&rows, &*contender, "open_after_kill");
        assert_eq!(opened.after_kill, Some(after_kill.text));
        assert!(opened.took_s.unwrap() > 0.0);
        if after_kill.is_all {
            assert_eq!(opened.kept, Some(1.0), "{opened:?}");
        }
        if contender.name() == "redb-none" {
            assert_eq!(opened.kept, Some(0.0), "nothing was synced");
        }
    }
    assert!(measured >= 5, "{measured}");
}

#[test]
fn every_store_opens_again_as_it_was_left() {
    let rows = rows(Suite::Open, "--pairs 3000 --restarts 2");
    let mut measured = 0;
    for contender in peers::disk::contenders() {
        if contender.reopens() == Reopens::Never {
            continue;
        }
        measured += 1;
        for op in ["clean_first_get", "clean_first_put", "restarts_closed", "at_rest"] {
            by(&rows, &*contender, op);
        }
        let found = rows.iter().any(|row| {
            row.op == "killed_first_get"
                && row.contender == contender.name()
                && row.took_s > Some(0.0)
        });
        assert_eq!(found, contender.reopens() == Reopens::Killed, "{}", contender.name());
    }
    assert!(measured >= 6, "{measured}");
}

/// Values of all sizes, absent keys, keys removed twice and lists of one.
fn agrees_with_a_model(store: &dyn ByteStore) {
    let key = |number: usize| format!("key {number}").into_bytes();
    let value = |number: usize| vec![number as u8; 1 + number * 37 % 20_000];
    let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
    let values: Vec<Vec<u8>> = (0..300).map(value).collect();
    let pair = |number: usize| (&keys[number][..], &values[number][..]);
    store.put(&(0..200).map(pair).collect::<Vec<_>>()).unwrap();
    store.put(&[pair(200)]).unwrap();
    // The last of several puts of a key counts.
    store.put(&[(&keys[7], b"first"), (&keys[7], b"second")]).unwrap();
    store.remove(&[&keys[3], &keys[4], &keys[3]]).unwrap();
    store.sync().unwrap();
    let all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let expected = |number: usize| match number {
        3 | 4 | 201.. => None,
        7 => Some(&b"second"[..]),
        _ => Some(&values[number][..]),
    };
    let mut seen = vec![0; 300];
    store
        .get(&all, &mut |number, found| {
            seen[number] += 1;
            assert!(found == expected(number), "key {number}");
        })
        .unwrap();
    for (list, keys) in all.chunks(7).enumerate() {
        store
            .get_many(keys, &mut |place, found| {
                seen[list * 7 + place] += 1;
                assert!(found == expected(list * 7 + place), "key {}", list * 7 + place);
            })
            .unwrap();
    }
    assert_eq!(seen, [2; 300]);
}

/// FeOxDB alone refuses values of no bytes; all others keep them.
fn keeps_an_empty_value(store: &dyn ByteStore, name: &str) {
    let put = store.put(&[(b"empty", b"")]);
    assert_eq!(put.is_err(), name.starts_with("feox"), "{name}: {put:?}");
    store
        .get(&[b"empty"], &mut |_, found| {
            assert_eq!(found, put.is_ok().then_some(&b""[..]), "{name}");
        })
        .unwrap();
}

#[test]
fn every_store_does_what_the_trait_says_and_opens_again() {
    for contender in peers::disk::contenders() {
        let directory = tempfile::tempdir().unwrap();
        println!("{}", contender.name());
        let store = contender.open_store(directory.path(), 1).unwrap();
        agrees_with_a_model(&*store);
        keeps_an_empty_value(&*store, contender.name());
        drop(store);
        let store = contender.open_store(directory.path(), 1).unwrap();
        let mut found = None;
        store.get(&[b"key 7"], &mut |_, value| found = value.map(<[u8]>::to_vec)).unwrap();
        assert_eq!(found.as_deref(), Some(&b"second"[..]), "{}", contender.name());
    }
}
