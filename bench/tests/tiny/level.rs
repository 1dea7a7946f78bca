//! The figures that the Level hashing paper has of itself.

use crate::{by, is_positive, of, repeat, run};
use bench::Row;
use bench::choices::Suite;

fn load_factors(rows: &[&Row]) -> Vec<f64> {
    rows.iter().map(|row| row.load_factor.unwrap()).collect()
}

#[test]
fn searches_are_measured_between_six_expansions() {
    let rows = repeat("level --scale 0.0006 --figure 5").rows;
    for op in ["get_hit", "get_miss"] {
        {
            let contenders = ["level-static", "level-dynamic", "level-fingerprints"];
            let [one, other, third] = contenders.map(|contender| {
                let found = by(&rows, contender, op);
                let is_timed = |row: &&Row| row.lines_read.is_none();
                found.into_iter().filter(is_timed).collect::<Vec<_>>()
            });
            let points = |rows: &[&Row]| -> Vec<_> {
                rows.iter().map(|row| (row.step, row.pairs, row.expansions)).collect()
            };
            assert_eq!(points(&one), points(&other), "all at the same points");
            assert_eq!(points(&one), points(&third), "all at the same points");
            assert!(one.iter().chain(&other).chain(&third).all(|row| {
                let mean_ns = row.threads.unwrap() as f64 * 1e9 / row.ops_per_s.unwrap();
                is_positive(row.mean_ns) && (row.mean_ns.unwrap() / mean_ns - 1.0).abs() < 1e-6
            }));
            let steps: Vec<_> = one.iter().map(|row| row.step.unwrap()).collect();
            assert_eq!(steps, (0..steps.len() as u32).collect::<Vec<_>>());
            // A table that refused a pair before the load factor expanded earlier.
            assert!((33..=9 + 6 * 5).contains(&steps.len()), "{}", steps.len());
            for expansions in 0..=6 {
                let found: Vec<_> =
                    one.iter().filter(|row| row.expansions == Some(expansions)).copied().collect();
                let load_factors = load_factors(&found);
                assert!(load_factors.is_sorted() && load_factors.len() >= 4, "{load_factors:?}");
                assert!(expansions == 0 || load_factors[0] > 0.37, "{load_factors:?}");
            }
            let last = one.last().unwrap().pairs.unwrap();
            assert!((30_000..=60_000).contains(&last), "grown to about all pairs: {last}");
        }
    }
}

#[test]
fn lines_that_searches_read_are_counted() {
    let rows = repeat("level --scale 0.0006 --figure 5").rows;
    let lines_read = |variant, op, expansions, load: f64| {
        let found = by(&rows, variant, op).into_iter().find(|row| {
            row.medium.as_deref() == Some("count")
                && row.expansions == Some(expansions)
                && (row.load_factor.unwrap() - load).abs() < 0.01
        });
        found.unwrap().lines_read.unwrap()
    };
    for expansions in 2..=6 {
        let lines_read = |variant, op| lines_read(variant, op, expansions, 0.45);
        let [fixed, dynamic] = ["level-static", "level-dynamic"].map(|v| lines_read(v, "get_hit"));
        assert!(dynamic < fixed - 0.1, "most pairs are in the bottom level: {dynamic}, {fixed}");
        let [fixed, dynamic] = ["level-static", "level-dynamic"].map(|v| lines_read(v, "get_miss"));
        assert!((dynamic - fixed).abs() < 0.01, "a miss reads all: {dynamic}, {fixed}");
        let [hit, miss] = ["get_hit", "get_miss"].map(|op| lines_read("level-fingerprints", op));
        assert!(hit < 1.3 && miss < 0.1, "a hit reads one bucket: {hit}, {miss}");
    }
}

#[test]
fn load_factors_rise_with_each_design_decision() {
    let rows = repeat("level --scale 0.0006 --figure 2 --figure 4").rows;
    let variants = ["level-d1", "level-d1-d2", "level-d1-d2-d3", "level-d1-d2-d3-d4"];
    let full = variants.map(|variant| {
        let found = by(&rows, variant, "full");
        assert_eq!((found.len(), found[0].threads), (1, Some(1)));
        found[0].load_factor.unwrap()
    });
    // The paper's figure 2 has about 0.1, 0.5, 0.8 and 0.9.
    let plausible = [0.03..0.3, 0.4..0.7, 0.75..0.9, 0.88..0.96];
    for ((load_factor, range), variant) in full.iter().zip(plausible).zip(variants) {
        assert!(range.contains(load_factor), "{variant}: {load_factor}");
    }
    let [without, with] = ["level-without-b2t", "level-with-b2t"].map(|variant| {
        let found = by(&rows, variant, "expansion");
        let expansions: Vec<_> = found.iter().map(|row| row.expansions.unwrap()).collect();
        assert_eq!(expansions, [1, 2, 3, 4, 5, 6], "{variant}");
        load_factors(&found)
    });
    let both = format!("without {without:?}, with {with:?}");
    assert!(without.iter().chain(&with).all(|load| (0.7..1.0).contains(load)), "{both}");
    // Figure 4: the second, fourth and sixth come earlier, unless items move to the top level.
    assert!([1, 3, 5].into_iter().all(|second| with[second] > without[second]), "{both}");
}

#[test]
fn expansion_in_place_stands_beside_a_full_rehash() {
    let rows = repeat("level --scale 0.0006 --figure 15").rows;
    let ops = ["expand", "shrink"].into_iter().flat_map(|op| [(op, ""), (op, "_durable")]);
    for (op, suffix) in ops {
        let one = |how: &str| {
            let found = by(&rows, "level", &format!("{op}_{how}{suffix}"));
            assert_eq!((found.len(), found[0].threads), (1, Some(1)), "by one thread, once");
            found[0]
        };
        let (rehash, in_place) = (one("full_rehash"), one("in_place"));
        for row in [rehash, in_place] {
            let rate = row.pairs.unwrap() as f64 / row.took_s.unwrap();
            assert!((rate / row.ops_per_s.unwrap() - 1.0).abs() < 1e-6, "{row:?}");
            let load_factor = if op == "expand" { 0.85 } else { 0.3 };
            assert_eq!(row.load_factor, Some(load_factor), "{row:?}");
        }
        assert_eq!((in_place.ceiling, rehash.ceiling), (rehash.ops_per_s, None));
        let ratio = rehash.took_s.unwrap() / in_place.took_s.unwrap();
        assert!((in_place.ratio.unwrap() / ratio - 1.0).abs() < 1e-6, "{in_place:?}");
    }
}

#[test]
fn updates_are_measured_at_growing_load_factors() {
    let rows = repeat("level --scale 0.0006 --figure 12").rows;
    for variant in ["level-log-free", "level-logged", "level-in-place"] {
        {
            let found = by(&rows, variant, "update_durable");
            assert!(found.iter().all(|row| is_positive(row.mean_ns)));
            let load_factors = load_factors(&found);
            assert!((8..=9).contains(&load_factors.len()), "{load_factors:?}");
            for (tenths, load_factor) in (1..).zip(load_factors) {
                assert!((load_factor - f64::from(tenths) / 10.0).abs() < 0.01, "{load_factor}");
            }
        }
    }
}

#[test]
fn updates_that_need_no_record_are_counted() {
    let rows = repeat("level --scale 0.0006 --figure 8").rows;
    assert!(of(&rows, "update_log_free").iter().all(|row| row.medium.as_deref() == Some("count")));
    let by_slots = ["level-2-slots", "level-4-slots", "level-8-slots"].map(|variant| {
        let found = by(&rows, variant, "update_log_free");
        let at = |load: f64| {
            let near = found.iter().find(|row| (row.load_factor.unwrap() - load).abs() < 0.01);
            near.unwrap().log_free.unwrap()
        };
        // Figure 8b: nearly all in an emptier table, ever fewer until the top level is full.
        assert!(at(0.05) > 0.95 && at(0.05) >= at(0.35) && at(0.35) > at(0.65), "{variant}");
        at(0.5)
    });
    assert!(by_slots.is_sorted(), "the more slots, the likelier one is empty: {by_slots:?}");
}

/// Fingerprints tell which of four buckets to read, each of one line. Only a movement or a false
/// fingerprint costs more.
#[test]
fn lines_and_fences() {
    let rows = run(Suite::Writes, "");
    let figure = |op, figure: fn(&Row) -> Option<f64>| figure(by(&rows, "level", op)[0]).unwrap();
    let lines_read = |op| figure(op, |row| row.lines_read);
    assert!((0.9..1.2).contains(&lines_read("get_hit")));
    assert!(lines_read("get_miss") < 0.2);
    let insert = |figure_of: fn(&Row) -> Option<f64>| figure("insert", figure_of);
    let costs =
        [insert(|row| row.lines_written), insert(|row| row.flushes), insert(|row| row.fences)];
    assert!(costs.iter().all(|cost| (1.0..1.5).contains(cost)), "{costs:?}");
    let fences = |op| figure(op, |row| row.fences);
    let (single, batch) = (fences("insert"), fences("insert_many"));
    assert!(batch < single / 4.0, "batches share fences: {batch} beside {single}");
}
