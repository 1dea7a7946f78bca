//! What CI runs of the lab on one engine, up to the first violation: `campaign ENGINE`. Exit status
//! 3 says that one was found. The program that replants bugs (`crashlab/mutants/run`) asks it.

use crashlab::campaign::{Campaign, short};
use crashlab::target::Target;

/// As in CI, save that sites are not broken; where operations take many steps as in the tests.
fn campaigns(target: Target) -> Vec<Campaign> {
    let effort = target.effort();
    let histories = if effort.is_exhaustive { effort.histories } else { effort.histories_in_tests };
    let is_run = |campaign: &Campaign| campaign.directed_one_in == 1;
    let all = short(target, 2).into_iter().filter(is_run);
    all.map(|campaign| Campaign { histories, sites: false, ..campaign }).collect()
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
