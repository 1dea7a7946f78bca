//! Runs that are refused before anything is measured.

use crate::options;
use bench::Options;
use bench::choices::Suite;
use clap::Parser;
use firndex::Engine;
use std::path::Path;

/// The message with which a run fails before it measures anything.
fn refusal(suite: Suite, options: &Options) -> String {
    let measuring = |what: &str| panic!("began with {what}");
    let engines = bench::table::engines();
    let error = bench::run(suite, options, &engines, &mut Vec::new(), &measuring).unwrap_err();
    format!("{error:#}")
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_measured() {
    let first = Engine::ALL[0];
    let unknown = refusal(Suite::Micro, &options(&format!("--engines {first},cuckoo")));
    let there_are = format!("there are {first}");
    assert!(unknown.contains("cuckoo") && unknown.contains(&there_are), "{unknown}");
    for suite in [Suite::Resize, Suite::All] {
        let message = refusal(suite, &options("--grow-from 4000"));
        assert!(message.contains("--grow-from 4000"), "{message}");
    }
    let missing = Path::new("/nowhere/at/all");
    let files = [
        Options { json: Some(missing.into()), ..options("") },
        Options { html: Some(missing.into()), ..options("") },
        Options { directory: Some(missing.into()), ..options("--media mapped") },
    ];
    for options in files {
        let message = refusal(Suite::Micro, &options);
        assert!(message.contains("/nowhere/at/all"), "{message}");
    }
    let message = refusal(Suite::Micro, &options("--pairs 99999999G"));
    assert!(message.contains("memory"), "{message}");
    let message = refusal(Suite::Micro, &options("--pairs 1k,2k"));
    assert!(message.contains("several numbers of pairs"), "{message}");
}

#[test]
fn openings_need_their_directories_room_and_command() {
    let missing = Some(std::path::PathBuf::from("/nowhere/at/all"));
    let wrong = [
        Options { directory: missing.clone(), ..options("") },
        Options { pools: missing.clone(), ..options("") },
        Options { command: missing, ..options("") },
    ];
    for options in wrong {
        let message = refusal(Suite::Open, &options);
        assert!(message.contains("/nowhere/at/all"), "{message}");
    }
    let message = refusal(Suite::Open, &options("--pairs 1k,99999999G"));
    assert!(message.contains("need at least"), "{message}");
    let nowhere = Options { engines: vec!["nobody".into()], ..options("") };
    assert!(refusal(Suite::Open, &nowhere).contains("nobody"));
}

#[test]
fn unknown_kinds_states_and_sizes_are_no_options() {
    let wrong = [
        "--kinds tables",
        "--states dirty",
        "--durability always",
        "--pairs 0",
        "--pairs 1k,0",
        "--restarts many",
        "--restarts 10001",
    ];
    for arguments in wrong {
        let words = ["bench"].into_iter().chain(arguments.split(' '));
        let error = crate::CommandLine::try_parse_from(words).err().expect(arguments);
        assert!(error.to_string().contains(arguments.split(' ').next().unwrap()), "{error}");
    }
}

#[test]
fn a_file_that_is_there_is_kept_until_there_are_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.json");
    std::fs::write(&path, "of an earlier run").unwrap();
    let options = Options { json: Some(path.clone()), ..options("--engines cuckoo") };
    refusal(Suite::Micro, &options);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "of an earlier run");
}
