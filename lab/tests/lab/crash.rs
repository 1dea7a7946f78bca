//! `firndex-lab crash`. What it finds is tested where it is done.

use crate::workspace::Workspace;

#[test]
fn a_crash_run_of_no_minutes_makes_no_history() {
    let workspace = Workspace::new();
    let crash = workspace.run(["crash", "--minutes", "0", "--json"]).demand(0).json();
    assert_eq!((&crash["histories"], &crash["images"]), (&0.into(), &0.into()), "{crash}");
    for wrong in ["-1", "NaN", "soon"] {
        let argument = format!("--minutes={wrong}");
        workspace.run(["crash", &argument]).demand_wrong_use(&["number of minutes"]);
    }
}
