//! The figures of the Rewo-Hash paper.

use crate::{by, engines, has_percentiles, has_rate, is_positive, of, repeat};
use bench::Row;
use std::sync::LazyLock;
use workload::effort;

/// So many pairs that counts are steady. Measured once: it takes longer than all that is asserted of it.
static MANY: LazyLock<Vec<Row>> =
    LazyLock::new(|| repeat("rewo --scale 0.0015 --figure section_5.1").rows);

/// Rewo-Hash as in the paper and without a cached table, and all other engines.
fn lineup() -> Vec<&'static str> {
    let others = engines().filter(|name| *name != "rewo");
    let beside = ["level-paper", "cceh"];
    ["rewo-c8", "rewo-c0"].into_iter().chain(others).chain(beside).collect()
}

/// An operation's rows on one medium with so many threads, in the order of their steps.
fn series<'a>(
    rows: &'a [Row],
    contender: &str,
    op: &str,
    medium: &str,
    threads: usize,
) -> Vec<&'a Row> {
    let found = by(rows, contender, op);
    let is_of = |row: &&Row| row.medium.as_deref() == Some(medium) && row.threads == Some(threads);
    found.into_iter().filter(is_of).collect()
}

fn load_factors(rows: &[&Row]) -> Vec<f64> {
    rows.iter().map(|row| row.load_factor.unwrap()).collect()
}

fn are_near(found: &[f64], expected: &[f64]) -> bool {
    let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() < 0.01;
    found.len() == expected.len() && found.iter().zip(expected).all(is_near)
}

#[test]
fn searches_are_measured_as_tables_fill() {
    let rows = repeat("rewo --scale 0.0001 --figure 10").rows;
    let alone = ["pfht-paper-unlogged", "path-unlogged"];
    for op in ["get_hit_zipf", "get_hit_uniform", "get_miss"] {
        for contender in lineup().into_iter().chain(alone) {
            for medium in ["dram", "optane"] {
                let found = series(&rows, contender, op, medium, 1);
                assert!(are_near(&load_factors(&found), &[0.2, 0.4, 0.6, 0.8]), "{found:?}");
                assert!(found.iter().all(|row| has_percentiles(row) && has_rate(row)));
                let of_rate =
                    |row: &Row| row.threads.unwrap() as f64 * 1e9 / row.ops_per_s.unwrap();
                let is_mean = |row: &&Row| (row.mean_ns.unwrap() / of_rate(row) - 1.0).abs() < 1e-6;
                assert!(found.iter().all(is_mean), "{found:?}");
            }
        }
        let whole: Vec<&Row> = of(&rows, op)
            .into_iter()
            .filter(|row| ["rewo-full", "rewo-c1"].contains(&&*row.contender))
            .collect();
        assert_eq!(whole.len(), 2 * 4, "one of the two at each load factor");
    }
    // A fifth of the pairs has room in a cached table that is as large.
    assert_eq!(series(&rows, "rewo-full", "get_miss", "optane", 1)[0].step, Some(0));
}

/// What the medium adds is waited for however busy the machine is: of times a test may ask for a lower
/// bound, and for nothing else. That a full cached table hides the medium, the engine's own tests show by counting.
#[test]
fn optane_is_waited_for_where_nothing_is_cached() {
    let scale = if effort::is_whole() { "0.0015" } else { "0.0005" };
    let rows = repeat(&format!("rewo --scale {scale} --figure 11")).rows;
    let found = series(&rows, "rewo-c0", "get_hit_uniform", "optane", 1);
    assert_eq!(found.len(), 4);
    for row in found {
        assert!(row.p50_ns.unwrap() >= 170.0, "{row:?}");
    }
}

#[test]
fn changes_are_measured_in_emptier_and_fuller_tables() {
    let figures = "--figure 12 --figure 13 --figure 14 --figure 15 --figure 16";
    let rows = repeat(&format!("rewo --scale 0.0005 {figures}")).rows;
    let mut timed = rows.iter().filter(|row| row.mean_ns.is_some() && row.op != "full");
    assert!(timed.all(|row| row.op.ends_with("_durable")), "changes are flushed");
    for op in ["insert_durable", "update_durable", "remove_durable"] {
        for contender in lineup() {
            for medium in ["dram", "optane"] {
                let found = series(&rows, contender, op, medium, 1);
                assert!(are_near(&load_factors(&found), &[0.2, 0.8]), "{found:?}");
                assert!(found.iter().all(|row| has_percentiles(row) && is_positive(row.mean_ns)));
            }
        }
    }
    for letter in ["a", "b", "c"] {
        for contender in lineup() {
            let found = by(&rows, contender, &format!("ycsb_{letter}_durable"));
            assert!(are_near(&load_factors(&found), &[0.6; 4]), "two media and numbers of threads");
            assert!(found.iter().all(|row| has_rate(row)), "{found:?}");
        }
        for law in ["zipf", "uniform"] {
            for contender in ["rewo-c0", "rewo-c8", "rewo-c4", "rewo-c2", "rewo-c1", "cceh"] {
                let found = by(&rows, contender, &format!("cached_{letter}_{law}_durable"));
                assert_eq!((found.len(), found[0].medium.as_deref()), (1, Some("optane")));
                assert!(has_rate(found[0]) && is_positive(found[0].mean_ns));
            }
        }
    }
    let doubled = of(&rows, "double_durable");
    let mut doubled: Vec<&str> = doubled.iter().map(|row| &*row.contender).collect();
    doubled.dedup();
    assert!(doubled.len() > 2 && doubled.contains(&"rewo-c8") && doubled.contains(&"rewo-c0"));
    for contender in doubled {
        let found = by(&rows, contender, "double_durable");
        assert_eq!(found.iter().map(|row| row.threads).collect::<Vec<_>>(), [Some(1)]);
        for row in found {
            let rate = row.pairs.unwrap() as f64 / row.took_s.unwrap();
            assert!((rate / row.ops_per_s.unwrap() - 1.0).abs() < 1e-6, "{row:?}");
            assert!((row.load_factor.unwrap() - 0.8).abs() < 0.01, "{row:?}");
        }
        for op in ["during_reads_durable", "during_updates_durable"] {
            let found = by(&rows, contender, op);
            let is_held = |row: &&Row| is_positive(row.ratio) && is_positive(row.took_s);
            assert!(found.len() == 1 && found.iter().all(is_held), "{found:?}");
        }
    }
}

#[test]
fn recovery_is_measured_with_and_without_a_refill() {
    let rows = repeat("rewo --scale 0.0001 --figure section_3.7").rows;
    for medium in ["dram", "optane"] {
        for contender in ["rewo-c0", "rewo-c1"] {
            let found = series(&rows, contender, "open", medium, 1);
            assert_eq!(found.len(), 1);
            assert!(has_rate(found[0]) && is_positive(found[0].took_s));
        }
        let refills = series(&rows, "rewo-c1", "refill", medium, 1);
        assert!(refills.len() == 1 && has_rate(refills[0]), "by one thread, once");
    }
    assert!(of(&rows, "refill").iter().all(|row| row.contender == "rewo-c1"));
}

/// What an operation promises to write, and no more but for evictions.
#[test]
fn lines_blocks_flushes_and_fences_are_counted() {
    let one = |contender: &str, op: &str| {
        let found = by(&MANY, contender, op);
        assert_eq!((found.len(), found[0].medium.as_deref()), (1, Some("count")), "{op}");
        found[0]
    };
    for contender in ["rewo-15-slots", "rewo-15-slots-copied", "rewo-8-slots"] {
        for op in ["insert", "update", "remove"] {
            let [low, high] = ["60", "80"].map(|band| one(contender, &format!("{op}_to_{band}")));
            assert_eq!([low.load_factor, high.load_factor], [Some(0.6), Some(0.8)]);
            assert!(low.blocks_written.unwrap() <= 1.05, "{low:?}");
            for row in [low, high] {
                // As the buffer of blocks sees it, two changes may meet in one.
                assert!((0.9..1.6).contains(&row.blocks_written.unwrap()), "{row:?}");
                let costs = [row.flushes, row.fences].map(Option::unwrap);
                assert!(costs.iter().all(|cost| (1.0..2.5).contains(cost)), "{row:?}");
            }
            let fences = [low.fences, high.fences].map(Option::unwrap);
            assert!(fences[0] <= fences[1], "{op}: a fuller table costs no less: {fences:?}");
        }
        let removal = one(contender, "remove_to_80");
        assert_eq!([removal.lines_written, removal.flushes, removal.fences], [Some(1.0); 3]);
        let lines_read = |op: &str| one(contender, op).lines_read.unwrap();
        let hit = lines_read("get_hit_to_80");
        assert!((1.0..1.5).contains(&hit), "{contender}: {hit}");
        assert!(lines_read("get_miss_to_80") < 0.2);
        let double = one(contender, "double");
        assert!(is_positive(double.blocks_written) && double.blocks_written.unwrap() < 1.0);
    }
    let fences = |contender| one(contender, "update_to_80").fences.unwrap();
    assert_eq!(fences("rewo-15-slots"), 1.0, "a word is overwritten");
    assert!(fences("rewo-15-slots-copied") > 1.3 && fences("rewo-8-slots") > 1.3);
}

#[test]
fn load_factors_rise_with_the_items_that_may_be_moved() {
    for (slots, least) in [(15, 0.88), (8, 0.8)] {
        let full = [0, 1, 2].map(|moves| {
            let found = by(&MANY, &format!("rewo-{slots}-slots-{moves}-moves"), "full");
            assert_eq!(found.len(), 1);
            found[0].load_factor.unwrap()
        });
        assert!(full.is_sorted_by(|less, more| less < more), "{slots} slots: {full:?}");
        assert!((least..1.0).contains(&full[2]), "{slots} slots: {full:?}");
    }
}
