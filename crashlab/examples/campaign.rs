//! What CI runs of the lab on one engine, up to the first violation: `campaign ENGINE`. Exit status
//! 3 says that one was found. The program that replants bugs (`crashlab/mutants/run`) asks it.

use crashlab::campaign::Campaign;
use crashlab::engine::Engine;

/// As in `.ci/run`: directed histories and random ones, then all short ones of one thread; of Clevel
/// hashing as in the tests.
fn campaigns(engine: Engine) -> Vec<Campaign> {
    let random = Campaign {
        engine,
        threads: 3,
        ops: 3,
        histories: 5000,
        time: None,
        seed: 1,
        directed: true,
        directed_one_in: 1,
        sites: false,
        workers: 2,
    };
    let exhaustive = Campaign { threads: 1, directed: false, ..random.clone() };
    match engine {
        Engine::Clevel => vec![Campaign { histories: 100, ..random }],
        _ => vec![random, exhaustive],
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(engine) = Engine::by_name(&name) else {
        eprintln!("usage: campaign ENGINE, one of {:?}", Engine::ALL.map(Engine::name));
        std::process::exit(2);
    };
    for campaign in campaigns(engine) {
        let report = campaign.run(&|_| {});
        if let Some(violation) = report.violations.first() {
            print!("{violation}");
            std::process::exit(3);
        }
        let (seconds, counters) = (report.time.as_secs_f64(), report.counters);
        println!("{name}, {} threads: {seconds:.1} s, {counters:?}", campaign.threads);
    }
}
