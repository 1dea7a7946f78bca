//! Every cache is measured in suite `cache`, which checks each value that it returns.

use bench::choices::Suite;
use bench::{Options, Room, Row};
use clap::Parser;
use std::ffi::OsString;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

fn rows(arguments: &str) -> Vec<Row> {
    let words = format!("bench --runs 1 --ops 4k {arguments}");
    let mut options = CommandLine::parse_from(words.split(' ')).options;
    options.again = Some(["--exact", "filler", "--nocapture"].map(OsString::from).to_vec());
    let contenders = peers::caches::contenders();
    bench::run(Suite::Cache, &options, &contenders, &mut Vec::new(), &|_| ()).unwrap()
}

/// Not a test of anything: what the suite starts.
#[test]
fn filler() {
    if std::env::var_os("FIRNDEX_BENCH_ORDER").is_some() {
        rows("--threads 1 --pairs 4k");
    }
}

fn by<'a>(rows: &'a [Row], contender: &str, op: &str) -> Option<&'a Row> {
    rows.iter().find(|row| (&*row.contender, &*row.op) == (contender, op))
}

fn hits(rows: &[Row], contender: &str, op: &str) -> f64 {
    let row = by(rows, contender, op).unwrap_or_else(|| panic!("no row {op} of {contender}"));
    row.hit_ratio.unwrap()
}

#[test]
fn every_cache_is_measured_and_answers_rightly() {
    let rows = rows("--pairs 20k --threads 1,2 --engines moka,quick-cache,foyer-s3fifo");
    for contender in ["moka", "quick-cache", "foyer-s3fifo"] {
        let ratio = |percent: u32| {
            let is_it = |row: &&Row| {
                (&*row.contender, &*row.op, row.cache_percent)
                    == (contender, "zipf-1.0", Some(percent))
            };
            rows.iter().find(is_it).and_then(|row| row.hit_ratio).unwrap()
        };
        let ratios = [1, 5, 20].map(ratio);
        assert!(ratios.is_sorted() && ratios[0] > 0.2, "{contender}: {ratios:?}");
        // With twice the room, nothing that is asked for has been dropped.
        assert!(hits(&rows, contender, "get_hit") > 0.99, "{contender}");
    }
}

/// The names of those among these that are installed.
fn installed(names: &[&'static str]) -> Vec<&'static str> {
    let contenders = peers::caches::contenders();
    let is_there = |name: &&&str| contenders.iter().any(|contender| contender.name() == **name);
    names.iter().filter(is_there).copied().collect()
}

#[test]
fn servers_and_the_hybrid_cache_are_measured_where_they_are_bounded() {
    let names = installed(&["memcached", "redis-lru", "redis-lfu"]);
    if names.is_empty() {
        return;
    }
    let rows = rows(&format!("--pairs 20k --threads 2 --engines {}", names.join(",")));
    for name in names {
        assert!(hits(&rows, name, "get_hit") > 0.99, "{name}");
        assert!(by(&rows, name, "put_evict").is_some(), "{name}");
        assert!(hits(&rows, name, "get_or_put") > 0.5, "{name}");
    }
}

#[test]
fn what_a_restart_leaves_is_what_each_promises() {
    let names = ["memcached", "memcached-warm", "redis-lru-aof", "foyer-hybrid"];
    let names = installed(&names);
    // So few that no cache has hit ratios on traces, which take long where a look-up is no call.
    let rows = rows(&format!("--pairs 4k --threads 1 --engines {}", names.join(",")));
    for name in names {
        let restart = by(&rows, name, "restart").unwrap_or_else(|| panic!("{name}"));
        let [before, after] = ["before_kill", "after_kill"].map(|op| hits(&rows, name, op));
        assert!(before > 0.5, "{name}: {before}");
        match name {
            "memcached" | "memcached-warm" => {
                assert_eq!(restart.pairs, Some(0), "{name}");
                assert!(after < before, "{name}: {before}, {after}");
            }
            // Its queue may lose some.
            "foyer-hybrid" => assert!(after > 0.0),
            _ => assert!(restart.kept > Some(0.9) && after > before - 0.1, "{restart:?}"),
        }
    }
    if let Some(closed) = by(&rows, "memcached-warm", "restart_closed") {
        assert_eq!(closed.kept, Some(1.0));
    }
}

#[test]
fn servers_stay_within_what_they_are_given() {
    let room = Room { bytes: 16 << 20, pairs: 100_000 };
    for contender in peers::caches::contenders() {
        if !["memcached", "redis-lru-aof"].contains(&contender.name()) {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let cache = contender.open_cache(directory.path(), room).unwrap();
        for number in 0..150_000u64 {
            bench::Cache::put(&cache, &number.to_be_bytes(), &[7; 400]).unwrap();
        }
        let pairs = bench::Cache::pairs(&cache).unwrap().unwrap();
        // The bound is on all that they take, so it is reached before the pairs are there.
        assert!((20_000..50_000).contains(&pairs), "{}: {pairs}", contender.name());
        let last = 149_999u64.to_be_bytes();
        let found = bench::Cache::get(&cache, &last, |found| *found == [7; 400]).unwrap();
        assert_eq!(found, Some(true));
    }
}
