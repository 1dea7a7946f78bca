//! torture: real kills, on every engine and of caches.

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

#[test]
fn a_small_pool_lives_well() {
    let workspace = Workspace::new();
    let json = workspace.run(["torture", "--lives", "1", "--seed", "2", "--json"]).demand(0).json();
    assert_eq!((&json["seed"], &json["lives"], &json["bad"]), (&2.into(), &1.into(), &0.into()));
    let engines = json["engines"].as_array().unwrap();
    assert_eq!(engines.len(), Engine::ALL.len());
    assert_eq!(engines.iter().filter(|tally| tally["lives"] == 1).count(), 1, "{json}");
    for (what, least) in [("openings", 10), ("calls", 500), ("refused", 10), ("kills", 1)] {
        assert!(json[what].as_u64() >= Some(least), "{what}: {json}");
    }
}

#[test]
fn lives_are_chosen_and_no_large_file_system_is_filled() {
    let workspace = Workspace::new();
    let none = workspace.run(["torture", "--lives", "--minutes", "0", "--seed=1"]).demand(0);
    let engine = Engine::ALL[0].name();
    let text = String::from_utf8_lossy(none.stdout()).into_owned();
    let expected = format!("{engine}: 0 lives, 0 openings, 0 calls, 0 refused, 0 kills, 0 bad\n");
    assert!(text.starts_with(&expected), "{text}");

    std::fs::create_dir(workspace.path("here")).unwrap();
    let one = ["torture", "--lives=1", "--engine", engine, "--threads", "3", "--seed", "10"];
    let here = one.iter().chain(&["--dir", "here", "--durability", "process"]);
    let text = String::from_utf8_lossy(workspace.run(here).demand(0).stdout()).into_owned();
    assert!(text.starts_with(&format!("{engine}: 1 life, ")), "{text}");
    assert!(text.ends_with(" 0 bad\n") && text.lines().count() == 1, "{text}");
    assert_eq!(list(&workspace.path("here")), [""; 0].map(std::path::PathBuf::from));

    let fill = ["torture", "--lives", "1", "--fill"];
    let here = fill.iter().chain(&["--dir", "."]);
    workspace.run(here).demand_error(&["--fill would fill it", "--dir", "1 GiB"]);
    workspace.run(["torture", "--fill"]).demand_wrong_use(&["--lives"]);
    let logged = fill.iter().chain(&["--durability", "commit"]);
    workspace.run(logged).demand_wrong_use(&["--fill", "--durability"]);
    workspace.run(["torture", "--lives", "--kills", "1"]).demand_wrong_use(&["--lives", "--kills"]);
    workspace.run(["torture", "--lives=many"]).demand_wrong_use(&["many"]);
}

#[test]
fn a_cache_whose_process_is_killed_returns_nothing_that_it_must_not() {
    let workspace = Workspace::new();
    let torture = ["torture", "--caches", "--kills", "4", "--seed", "3"];
    let json = workspace.run(torture.iter().chain(&["--json"])).demand(0).json();
    assert_eq!((&json["seed"], &json["kills"]), (&3.into(), &4.into()));
    for violation in ["wrong", "old", "expired", "refused", "too_large", "unsound"] {
        assert_eq!(json[violation], 0, "{json}");
    }
    assert_eq!(workspace.leftovers(), [""; 0].map(std::path::PathBuf::from));

    std::fs::create_dir(workspace.path("here")).unwrap();
    let chosen = ["--kills=1", "--dir=here", "--threads", "1", "--durability", "commit"];
    let torture = workspace.run(["torture", "--caches"].iter().chain(&chosen)).demand(0);
    let text = String::from_utf8_lossy(torture.stdout()).into_owned();
    assert!(text.starts_with("caches: 1 kill, "), "{text}");
    assert!(text.ends_with(", 0 wrong, 0 old, 0 expired, 0 refused, 0 too large\n"), "{text}");
    assert_eq!(list(&workspace.path("here")), [""; 0].map(std::path::PathBuf::from));

    workspace.run(["torture", "--caches", "--lives"]).demand_wrong_use(&["--caches", "--lives"]);
    let engine = ["torture", "--caches", "--engine", Engine::ALL[0].name()];
    workspace.run(engine).demand_wrong_use(&["--caches", "--engine"]);
}

#[test]
fn operations_on_a_cache_are_counted_and_judged() {
    let workspace = Workspace::new();
    let soak = ["torture", "--caches", "--soak", "20001", "--dir", "."];
    let text = workspace.run(soak).demand(0);
    let text = String::from_utf8_lossy(text.stdout()).into_owned();
    assert!(text.starts_with("operations 20,001, found "), "{text}");
    let sound = ", expired returned 0, wrong 0, old 0, refused 0, bound exceeded 0, ";
    assert!(text.contains(sound), "{text}");
    let json = workspace.run(soak.iter().chain(&["--json", "--seed=8", "--threads=3"])).demand(0);
    let json = json.json();
    assert_eq!((&json["seed"], &json["operations"]), (&8.into(), &20_001.into()));
    assert!(json["found"].as_u64() > Some(1000), "{json}");

    workspace.run(["torture", "--soak", "5"]).demand_wrong_use(&["--caches"]);
    let both = ["torture", "--caches", "--soak=5", "--kills=5"];
    workspace.run(both).demand_wrong_use(&["--soak", "--kills"]);
}
