//! Every cache is measured in suite `cache`, which checks each value that it returns.

use bench::choices::Suite;
use bench::{Options, Row};
use clap::Parser;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

#[test]
fn every_cache_is_measured_and_answers_rightly() {
    let words = "bench --runs 1 --pairs 20k --ops 5k --threads 1,2";
    let options = CommandLine::parse_from(words.split(' ')).options;
    let contenders = peers::caches::contenders();
    let rows = bench::run(Suite::Cache, &options, &contenders, &mut Vec::new(), &|_| ()).unwrap();
    for contender in contenders {
        let ratio = |op: &str, percent: Option<u32>| {
            let is_it = |row: &&Row| {
                (row.contender.as_str(), row.op.as_str(), row.cache_percent)
                    == (contender.name(), op, percent)
            };
            rows.iter().find(is_it).and_then(|row| row.hit_ratio).unwrap()
        };
        let ratios = [1, 5, 20].map(|percent| ratio("zipf-1.0", Some(percent)));
        assert!(ratios.is_sorted() && ratios[0] > 0.2, "{}: {ratios:?}", contender.name());
        // With twice the room, nothing that is asked for has been dropped.
        assert!(ratio("get_hit", None) > 0.99, "{}", contender.name());
    }
}
