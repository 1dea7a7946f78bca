//! torture: real kills, on every engine.

use crate::workspace::{Workspace, list};
use firndex::Engine;

#[test]
fn nothing_acknowledged_is_lost_on_any_engine() {
    let workspace = Workspace::new();
    let torture = workspace.run(["torture", "--kills", "3", "--seed", "5", "--json"]).demand(0);
    let json = torture.json();
    assert_eq!((&json["seed"], &json["kills"]), (&5.into(), &(3 * Engine::ALL.len()).into()));
    let engines = json["engines"].as_array().unwrap();
    for (engine, tally) in Engine::ALL.iter().zip(engines) {
        assert_eq!((&tally["engine"], &tally["kills"]), (&engine.name().into(), &3.into()));
        for violation in ["lost", "invented", "unsound"] {
            assert_eq!(tally[violation], 0, "{tally}");
        }
    }
    assert!(json["acknowledged"].as_u64() > Some(1000), "{json}");
    assert_eq!(workspace.leftovers(), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_person_gets_a_line_and_chooses_where_and_how() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("here")).unwrap();
    let engine = Engine::ALL[1].name();
    let chosen = ["--engine", engine, "--threads", "1", "--durability", "commit"];
    let torture = ["torture", "--kills=2", "--dir", "here"];
    let torture = workspace.run(torture.iter().chain(&chosen)).demand(0);
    let text = String::from_utf8_lossy(torture.stdout()).into_owned();
    assert!(text.starts_with(&format!("{engine}: 2 kills, ")), "{text}");
    assert!(text.ends_with(" calls acknowledged, 0 lost, 0 invented\n"), "{text}");
    assert_eq!(list(&workspace.path("here")), [""; 0].map(std::path::PathBuf::from));

    workspace.run(["torture", "--minutes=0"]).demand(0);
    workspace.run(["torture", "--dir", "nowhere"]).demand_error(&["nowhere", "--dir"]);
    workspace.run(["torture", "--minutes=soon"]).demand_wrong_use(&["number of minutes"]);
    workspace.run(["torture", "--engine=none"]).demand_wrong_use(&["none", engine]);
}
