//! Every store on a disk keeps what it is given, in every mode.

use bench::options::Suite;
use clap::Parser;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: bench::Options,
}

#[test]
fn every_store_is_measured_and_answers_rightly() {
    let contenders = peers::disk::contenders();
    let words = "bench --parts puts --pairs 3000 --ops 200 --runs 1";
    let options = CommandLine::parse_from(words.split(' ')).options;
    let rows = bench::run(Suite::Durable, &options, &contenders, &mut Vec::new(), &|_| ()).unwrap();
    for contender in &contenders {
        for op in ["put", "put_many"] {
            let is_it = |row: &&bench::Row| row.op == op && row.contender == contender.name();
            let row = rows.iter().find(is_it).expect(contender.name());
            assert!(row.ops_per_s.unwrap() > 0.0 && row.promise.is_some(), "{row:?}");
        }
    }
}
