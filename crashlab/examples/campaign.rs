//! The lab on one engine, up to the first violation: `campaign ENGINE`. Exit status 3 says that one was found. The
//! program that plants bugs (`crashlab/mutants/run`) asks it.

use crashlab::campaign::{Campaign, full};
use crashlab::target::Target;

/// More than in CI: all directed histories, random ones, and those of one thread of up to three operations.
fn campaigns(target: Target) -> [Campaign; 2] {
    let random = full(target, 2);
    [random.clone(), Campaign { threads: 1, directed: false, ..random }]
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(target) = Target::by_name(&name) else {
        let names: Vec<&str> = Target::all().into_iter().map(Target::name).collect();
        eprintln!("usage: campaign ENGINE, one of {names:?}");
        std::process::exit(2);
    };
    for campaign in campaigns(target) {
        let report = campaign.run(&|_| {});
        if let Some(violation) = report.violations.first() {
            print!("{violation}");
            std::process::exit(3);
        }
        let (seconds, counters) = (report.time.as_secs_f64(), report.counters);
        println!("{name}, {} threads: {seconds:.1} s, {counters:?}", campaign.threads);
    }
}
