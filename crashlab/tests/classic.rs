//! The classic tables: that their setups show what they are there for, and that each site is noticed.

use crashlab::execution::prepare;
use crashlab::history::Action;
use crashlab::machine::{alone, silence_panics};
use crashlab::setups::classic::{cells, classic};
use crashlab::subject::{BaselineSubject, Setup, Subject};
use crashlab::target::Target;
use crashlab::trial;

#[test]
fn setups_show_what_they_are_there_for() {
    let setups = classic();
    let of = |name: &str| -> &Setup {
        setups.iter().find(|setup| setup.name == name).unwrap_or_else(|| panic!("no {name}"))
    };
    let insert = Action::Insert(2);
    for (name, action, expected) in [
        ("keys that are marks", insert, 1),
        ("pairs to shift", Action::Remove, 2),
        ("more pairs to shift than the log has room for", Action::Remove, 2),
        ("a freed node", Action::Remove, 3),
        // Copied, and new; directory, units used, and the old array in its list.
        ("an array to be doubled", insert, 4 + 1 + 1 + 1 + 2),
        // Copied; directory; two arrays out of lists and in.
        ("an array to be halved", Action::Remove, 4 + 1 + 1 + 2),
        ("an array of one pair", Action::Remove, 1 + 2),
        ("pairs that hop", insert, 4),
        ("pairs to displace, two lines", insert, 2),
        ("pairs to displace, buckets of two lines", insert, 2),
        ("pairs to displace, three lines", insert, 2),
    ] {
        let written = cells(of(name), action);
        assert!(written.is_some_and(|cells| cells >= expected), "{name}: {written:?} cells");
    }
    let stash = of("a stash");
    let table = prepare::<BaselineSubject>(stash, 1).unwrap();
    alone(1, None, || {
        let before = table.stashed();
        let inserted = table.call(stash, 1, Action::Insert(2)).is_ok();
        assert!(before > 0 || inserted && table.stashed() > 0);
    });
}

#[test]
fn every_site_is_noticed() {
    silence_panics();
    let trial = trial::trial(&Target::Baselines.directed(), &[], 2).unwrap();
    let unnoticed: Vec<String> = trial.unnoticed.iter().map(trial::place).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    let own = trial.sites.iter().filter(|site| trial::path(site).starts_with("baselines/"));
    assert_eq!(own.count(), 13, "{:?}", trial.sites);
}
