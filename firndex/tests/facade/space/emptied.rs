//! A table that was filled and nearly emptied gives its space back.

use crate::{effort, places};
use firndex::{Options, Table};

/// Pairs of a full table, unless `FIRNDEX_EMPTIED` says how many.
const PAIRS: u64 = 200_000;
/// One in so many pairs stays.
const ONE_IN: u64 = 20;
/// Most of its largest size that the file may have in the end.
const PART_MAX: f64 = 0.15;

fn pairs() -> u64 {
    std::env::var("FIRNDEX_EMPTIED").map_or(PAIRS, |number| number.parse().expect("a number"))
}

#[test]
fn a_table_emptied_and_compacted_has_a_small_file() {
    let pairs = pairs();
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let bytes = || std::fs::metadata(&path).unwrap().len();
        let options = Options::new().engine(engine);
        let table: Table = options.create_table(&path).unwrap();
        for first in (0..pairs).step_by(1024) {
            let part: Vec<_> = (first..pairs.min(first + 1024)).map(|key| (key, !key)).collect();
            table.put_many(&part).unwrap();
        }
        let peak = bytes();
        table.retain(|key, _| key % ONE_IN == 0).unwrap();
        let mut halvings = 0;
        while table.shrink().unwrap() {
            halvings += 1;
        }
        let copied = table.rewrite().unwrap().expect("a table in a file is written anew");
        let rest = pairs.div_ceil(ONE_IN);
        assert_eq!(copied.pairs, rest, "{engine}");
        let part = bytes() as f64 / peak as f64;
        println!(
            "{engine}: {pairs} pairs in {peak} bytes, {rest} in {}: {part:.3}, halved {halvings} times",
            bytes()
        );
        assert!(part <= PART_MAX, "{engine}: {part}");
        let table: Table = options.open_table(&path).unwrap();
        let report = table.check().unwrap();
        assert!(report.is_sound() && report.pairs == rest, "{engine}: {report:?}");
        for key in 0..pairs {
            let expected = (key % ONE_IN == 0).then_some(!key);
            assert_eq!(table.get(key).unwrap(), expected, "{engine}, key {key}");
        }
    }
}
