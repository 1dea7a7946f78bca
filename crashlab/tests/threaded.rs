//! The tables for several threads: that each place that flushes, fences or orders is noticed.

use crashlab::machine::silence_panics;
use crashlab::target::Target;
use crashlab::trial;

#[test]
fn every_site_is_noticed() {
    silence_panics();
    let trial = trial::trial(&Target::Threaded.directed(), &[], 2).unwrap();
    let unnoticed: Vec<String> = trial.unnoticed.iter().map(trial::place).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    let own = trial.sites.iter().filter(|site| trial::path(site).starts_with("baselines/"));
    assert!(own.count() > 20, "{:?}", trial.sites);
}
