//! What each suite's rows say, of every engine.

use crate::{by, engines, has_percentiles, has_rate, has_ratio, is_positive, of, options, run};
use bench::choices::Suite;
use clap::ValueEnum;
use std::collections::HashMap;
use workload::effort;

#[test]
fn micro_has_every_operation_with_its_ceiling() {
    let rows = run(Suite::Micro, "--flushes none");
    for op in ["insert", "get_hit", "get_miss", "update", "upsert", "remove"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            assert!(found.iter().all(|row| has_ratio(row) && row.batch.is_none()), "{found:?}");
            assert_eq!(found.iter().map(|row| row.threads).collect::<Vec<_>>(), [Some(1), Some(2)]);
        }
    }
    for op in ["insert_many", "get_many_hit", "get_many_miss", "update_many", "remove_many"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            assert!(found.iter().all(|row| has_ratio(row) && row.batch == Some(32)), "{found:?}");
        }
    }
    assert!(of(&rows, "read_line_16").iter().all(|row| row.contender == "machine"));
}

#[test]
fn stores_have_every_single_operation() {
    let rows = run(Suite::Store, "--threads 1 --media dram,mapped,delay-300-500");
    for op in ["insert", "get_hit", "get_miss", "update", "upsert", "remove", "update_durable"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            let found: Vec<_> = found.into_iter().filter(|row| row.suite == "store").collect();
            assert!(found.iter().all(|row| has_ratio(row)), "{found:?}");
            let media: Vec<_> = found.iter().map(|row| row.medium.clone().unwrap()).collect();
            assert_eq!(media, ["dram", "mapped"], "{op} of {engine}");
        }
    }
}

#[test]
fn only_the_engines_asked_for_are_measured() {
    for engine in effort::each(engines(), 3) {
        let rows = run(Suite::Micro, &format!("--flushes none --threads 1 --engines {engine}"));
        assert_eq!(by(&rows, engine, "insert").len(), 1);
        let others = rows.iter().find(|row| ![engine, "machine"].contains(&&*row.contender));
        assert_eq!(others, None);
    }
}

#[test]
fn flushes_have_rows_of_their_own_on_every_medium() {
    let rows = run(Suite::Micro, "--flushes real --threads 1 --media dram,mapped,delay-300-500");
    for op in ["insert_durable", "update_many_durable"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            let media: Vec<_> = found.iter().map(|row| row.medium.clone().unwrap()).collect();
            assert_eq!(media, ["dram", "mapped", "delay-300-500"]);
        }
    }
    assert!(rows.iter().all(|row| row.suite == "ceilings" || row.op.ends_with("_durable")));
}

#[test]
fn added_latencies_are_paid() {
    let rows = run(Suite::Micro, "--threads 1 --media delay-3000-9000");
    for engine in engines() {
        let rate = |op| by(&rows, engine, op)[0].ops_per_s.unwrap();
        // A removal flushes a line at least; without flushes it may not wait for one.
        assert!(rate("remove_durable") < 1e9 / 9000.0, "{engine}: {}", rate("remove_durable"));
        assert!(rate("get_hit") < 2.0 * 1e9 / 3000.0, "{engine}: {}", rate("get_hit"));
    }
}

#[test]
fn ycsb_has_all_workloads() {
    let rows = run(Suite::Ycsb, "--skew 0.7");
    for op in ["load", "a", "b", "c", "d", "e", "f", "load_durable", "a_durable", "e_durable"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            assert_eq!(found.len(), 2, "{op}: one for each number of threads");
            assert!(found.iter().all(|row| row.suite == "ycsb" && has_ratio(row)), "{found:?}");
        }
    }
    assert!(rows.iter().all(|row| row.op != "c_durable"), "what only reads is the same again");
    for engine in engines() {
        let pairs = |op| by(&rows, engine, op)[0].pairs.unwrap();
        assert_eq!((pairs("load"), pairs("f")), (4000, 4000));
        assert!((4050..4150).contains(&pairs("d")), "a twentieth of 2000 inserted: {}", pairs("d"));
    }
}

#[test]
fn latencies_go_up_to_the_slowest() {
    let rows = run(Suite::Latency, "");
    for op in ["clock", "insert", "get_hit", "get_miss", "update", "remove", "remove_durable"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            assert!(found.iter().all(|row| has_rate(row) && has_percentiles(row)), "{found:?}");
        }
    }
    for engine in engines() {
        assert_eq!(by(&rows, engine, "insert")[0].pairs, Some(4000));
        assert_eq!(by(&rows, engine, "remove")[0].pairs, Some(2000));
    }
}

#[test]
fn load_factor_goes_up_step_by_step() {
    let rows = run(Suite::LoadFactor, "--load-factor 0.85 --threads 1");
    for op in ["insert", "get_hit", "get_miss", "insert_durable"] {
        for engine in engines() {
            let found = by(&rows, engine, op);
            let steps: Vec<_> = found.iter().map(|row| row.step.unwrap()).collect();
            assert_eq!(steps, (0..17).collect::<Vec<u32>>(), "{op} of {engine}");
            assert!(found.iter().all(|row| has_ratio(row) && row.p50_ns <= row.p99_ns));
            assert!(found.iter().all(|row| row.p9999_ns.is_none()), "too few samples for that");
            assert!(found.is_sorted_by(|one, next| one.load_factor < next.load_factor));
            let last = found[16];
            assert!((last.load_factor.unwrap() - 0.85).abs() < 0.01, "{last:?}");
            let levels = last.level_pairs.as_ref().unwrap();
            assert_eq!(levels.iter().sum::<u64>(), last.pairs.unwrap());
        }
    }
    assert!(rows.iter().all(|row| !row.op.starts_with("full")), "no table was full");
}

#[test]
fn resize_holds_growth_against_a_table_sized_in_advance() {
    let rows = run(Suite::Resize, "--flushes none");
    for engine in engines() {
        let [presized, growing, timed, timeline] =
            ["insert_presized", "insert_growing", "insert_growing_latency", "timeline"]
                .map(|op| by(&rows, engine, op));
        assert_eq!((presized.len(), growing.len()), (2, 2));
        for (presized, growing) in presized.iter().zip(&growing) {
            assert!(has_rate(presized) && has_ratio(growing), "{growing:?}");
            let per_thread = presized.ops_per_s.unwrap() / presized.threads.unwrap() as f64;
            assert_eq!(growing.ceiling, Some(per_thread));
        }
        assert!(timed.iter().all(|row| has_rate(row) && has_percentiles(row)), "{timed:?}");
        for threads in [1, 2] {
            let timeline: Vec<_> =
                timeline.iter().filter(|row| row.threads == Some(threads)).collect();
            assert_eq!((timeline[0].step, timeline[0].at_s), (Some(0), Some(0.0)));
            assert_eq!(timeline.last().unwrap().pairs, Some(4000));
            let slowest = timeline.iter().map(|row| row.max_ns.unwrap()).fold(0.0, f64::max);
            let whole = timed.iter().find(|row| row.threads == Some(threads)).unwrap();
            assert!(slowest / whole.max_ns.unwrap() > 0.99, "{slowest} of {whole:?}");
        }
    }
    assert!(of(&rows, "stall").iter().all(|row| row.contender == "machine"));
}

#[test]
fn space_counts_bytes() {
    let rows = run(Suite::Space, "--media dram,mapped");
    for engine in engines() {
        for op in ["grown", "presized"] {
            for medium in ["dram", "mapped"] {
                let found = by(&rows, engine, op);
                let found: Vec<_> =
                    found.iter().filter(|row| row.medium.as_deref() == Some(medium)).collect();
                let pairs: Vec<_> = found.iter().map(|row| row.pairs.unwrap()).collect();
                assert_eq!(pairs, [1000, 2000, 3000, 4000]);
                assert!(found.iter().all(|row| row.bytes_per_pair.unwrap() >= 16.0), "{found:?}");
            }
        }
        let presized = by(&rows, engine, "presized");
        // The same bytes for twice the pairs, or more: a helper may have prepared growth by then, or not.
        let ratio = presized[0].bytes_per_pair.unwrap() / presized[1].bytes_per_pair.unwrap();
        assert!(ratio < 2.05, "bytes vanish while pairs come: {ratio}");
    }
}

#[test]
fn writes_counts_what_an_operation_costs() {
    let rows = run(Suite::Writes, "");
    for engine in engines() {
        let row = |op| by(&rows, engine, op)[0];
        for op in ["insert", "update", "upsert", "remove"] {
            let row = row(op);
            assert_eq!((row.medium.as_deref(), row.threads), (Some("count"), Some(1)));
            let figures = [row.lines_written, row.flushes, row.fences, row.blocks_written];
            assert!(figures.iter().all(|figure| figure.unwrap() > 0.5), "{row:?}");
            assert!((1.0..=4.0).contains(&row.write_amplification.unwrap()), "{row:?}");
        }
        for op in ["get_hit", "get_miss", "get_many_hit"] {
            assert_eq!((row(op).lines_written, row(op).write_amplification), (Some(0.0), None));
        }
        assert_eq!(row("insert_many").batch, Some(32));
        // One line with the slot and what shows it: so each engine promises. A new value is in
        // place but where each pair is an item: that is written before the slot.
        let table =
            firndex::Options::new().engine(engine.parse().unwrap()).in_memory_table().unwrap();
        table.put(1, 1).unwrap();
        let keeps_items = table.stats().unwrap().heap_bytes > 0;
        let changes = if keeps_items { 2.0 } else { 1.0 };
        let costs =
            |op| [row(op).lines_written, row(op).flushes, row(op).fences].map(Option::unwrap);
        assert_eq!(costs("remove"), [1.0, 1.0, 1.0], "{engine}");
        for op in ["update", "upsert"] {
            let [_, flushes, fences] = costs(op);
            // Now and then an item takes a new segment of the heap.
            let is_near = |found: f64| (changes..changes + 0.01).contains(&found);
            assert!(is_near(flushes) && is_near(fences), "{engine}: {op}: {flushes}, {fences}");
        }
    }
}

#[test]
fn all_writes_every_field_of_every_suite() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut options = options("--threads 1");
    (options.json, options.html) = (Some(path("rows.json")), Some(path("page.html")));
    let mut text = Vec::new();
    let mut contenders = bench::table::engines();
    contenders.extend(bench::contenders::caches());
    let rows = bench::run(Suite::All, &options, &contenders, &mut text, &|_| ()).unwrap();

    let json = std::fs::read_to_string(path("rows.json")).unwrap();
    let json: Vec<HashMap<String, serde_json::Value>> = serde_json::from_str(&json).unwrap();
    assert_eq!(json.len(), rows.len() + 1, "the machine's facts, and all rows");
    let fields = "suite op contender medium threads batch pairs load_factor ops_per_s spread \
                  ceiling ratio p50_ns p99_ns p9999_ns max_ns lines_read lines_written \
                  blocks_written flushes fences mean_ns took_s log_free expansions";
    for row in &json {
        assert!(fields.split_whitespace().all(|field| row.contains_key(field)), "{row:?}");
    }
    assert!(json[0]["machine"]["processor"].is_string());
    let text = String::from_utf8(text).unwrap();
    let page = std::fs::read_to_string(path("page.html")).unwrap();
    let are_all = Suite::value_variants().iter().filter(|suite| **suite != Suite::All);
    let names = are_all.map(|suite| suite.to_possible_value().unwrap().get_name().to_owned());
    let suites: Vec<String> = names.collect();
    for suite in suites {
        assert!(json.iter().any(|row| row["suite"] == suite.as_str()), "{suite}");
        assert!(text.contains(&format!("\n{suite}\n")) && page.contains(&suite), "{suite}");
    }
}

#[test]
fn rounds_are_merged() {
    let rows = run(Suite::Latency, "--runs 3 --threads 1 --flushes none");
    for engine in engines() {
        let found = by(&rows, engine, "insert");
        assert_eq!(found.len(), 1);
        assert!(is_positive(found[0].spread));
    }
}
