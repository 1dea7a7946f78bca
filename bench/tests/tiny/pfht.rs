//! Classic tables beside the PFHT paper's own.

use crate::{by, has_rate, is_positive, options, repeat, run_with};
use baselines::Kind;
use bench::choices::Suite;
use bench::paper::Verdict;
use bench::{Medium, Row};

const LOADS: [&str; 2] = ["90", "95"];
/// Those that fill a small table to 0.95.
const FILLING: [&str; 5] = ["probing", "probing-shift", "pfht-paper", "cuckoo-3-4", "chained"];

fn writes(rows: &[Row], contender: &str, op: &str) -> f64 {
    by(rows, contender, op)[0].writes.unwrap()
}

#[test]
fn every_table_goes_through_both_workloads() {
    let rows = repeat("pfht --scale 0.00032 --figure 2").rows;
    for load in LOADS {
        for name in FILLING {
            for op in
                ["insert_wo", "get_hit_wo", "get_miss_wo", "insert_wh", "remove_wh", "get_miss_wh"]
            {
                let found = by(&rows, name, &format!("{op}_{load}"));
                assert!(found.len() == 1 && has_rate(found[0]), "{name}: {op}: {found:?}");
                assert_eq!(found[0].medium.as_deref(), Some("dram"));
                let share = load.parse::<f64>().unwrap() / 100.0;
                assert!((found[0].load_factor.unwrap() - share).abs() < 0.01, "{found:?}");
            }
        }
        for kind in Kind::ALL {
            let is_there = |row: &Row| {
                row.contender == kind.name()
                    && (row.op == format!("memory_{load}") || row.op == format!("full_wo_{load}"))
            };
            assert!(rows.iter().any(is_there), "{kind:?} at {load}");
        }
        for workload in ["wo", "wh"] {
            let op = format!("insert_{workload}_{load}");
            assert_eq!(writes(&rows, "probing", &op), 4.0);
            assert!(writes(&rows, "cuckoo-3-4", &op) > 4.0);
            assert_eq!(by(&rows, "probing", &op)[0].paper, Some(4.0));
        }
        assert_eq!(by(&rows, "probing", &format!("memory_{load}"))[0].bytes_per_pair, Some(16.0));
    }
    let hopscotch = writes(&rows, "hopscotch", "insert_wo_90");
    assert!((6.0..8.0).contains(&hopscotch), "{hopscotch}");
    let stashed = by(&rows, "hopscotch", "stash_wh_95")[0].stashed.unwrap();
    assert!((0.0..0.1).contains(&stashed), "{stashed}");
}

#[test]
fn slow_writes_are_paid_for_and_caches_keep_their_load() {
    let rows = repeat("pfht --scale 0.00032 --figure 3 --figure 5").rows;
    let medium = Medium::Delay { read_ns: 0, write_back_ns: 150 }.to_string();
    for name in ["probing", "cuckoo-3-4"] {
        for load in LOADS {
            for hits in ["95", "90"] {
                let row = by(&rows, name, &format!("cache_{hits}_{load}_durable"))[0];
                assert!(has_rate(row) && row.medium.as_ref() == Some(&medium), "{row:?}");
                let share = load.parse::<f64>().unwrap() / 100.0;
                assert!((row.load_factor.unwrap() - share).abs() < 0.01, "{row:?}");
            }
            let insert = by(&rows, name, &format!("insert_wo_{load}_durable"))[0];
            // Four flushes at least.
            assert!(insert.mean_ns.unwrap() > 0.98 * 600.0, "{insert:?}");
            assert!(is_positive(insert.writes));
        }
    }
}

/// By name, in suites that one thread can run.
#[test]
fn classic_tables_are_contenders() {
    let names: Vec<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
    let tables = bench::classic::tables();
    for suite in [Suite::Micro, Suite::Ycsb, Suite::Latency] {
        let named = options(&format!("--media dram,delay-0-150 --engines {}", names.join(",")));
        let rows = run_with(suite, &named, &tables).unwrap();
        for name in &names {
            let found: Vec<&Row> = rows.iter().filter(|row| row.contender == *name).collect();
            for medium in ["dram", "delay-0-150"] {
                let is_on = |row: &&Row| row.medium.as_deref() == Some(medium);
                assert!(found.iter().any(is_on), "{suite:?}: {name} on {medium}");
            }
            assert!(found.iter().all(|row| row.threads == Some(1) && is_positive(row.ops_per_s)));
        }
        let rows = run_with(suite, &options("--threads 1"), &tables).unwrap();
        assert!(!rows.iter().any(|row| names.contains(&&*row.contender)), "nobody asked");
    }
}

#[test]
fn what_the_paper_says_stands_beside_what_was_measured() {
    let report = repeat("pfht --scale 0.00032 --figure 2 --figure table_2");
    let claims = &report.papers[0].claims;
    assert!(
        claims.iter().all(|claim| ["figure 2", "table 2"].contains(&claim.place)),
        "{claims:?}"
    );
    let probing = claims.iter().find(|claim| claim.says.contains("linear probing")).unwrap();
    assert_eq!((probing.place, probing.verdict), ("table 2", Verdict::Yes));
    let same = "wo_90 4.00 (4.00), wo_95 4.00 (4.00), wh_90 4.00 (4.00), wh_95 4.00 (4.00)";
    assert_eq!((probing.measured().as_str(), probing.judged().as_str()), (same, "yes"));
}
