//! create, put, get, del: what goes in comes out, byte for byte.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::workspace::Workspace;
use firndex::Engine;

#[test]
fn a_store_gives_back_what_was_put() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        workspace.run(["get", "pool", "apple"]).demand(1);
        let put = workspace.run(["put", "pool", "apple", "red"]).demand(0);
        assert_eq!(put.stdout(), b"");
        let get = workspace.run(["get", "pool", "apple"]).demand(0);
        assert_eq!(get.stdout(), b"red");
        assert_eq!(get.stderr(), "");

        let replaced = workspace.run(["put", "pool", "apple", "green"]).demand(0);
        assert!(replaced.stderr().contains("replaced"));
        assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"green");

        workspace.run(["del", "pool", "apple"]).demand(0);
        let absent = workspace.run(["del", "pool", "apple"]).demand(1);
        assert_eq!(absent.stdout(), b"");
        let absent = workspace.run(["get", "pool", "apple"]).demand(1);
        assert_eq!(absent.stdout(), b"");
        assert_eq!(absent.stderr(), "not found\n");
    }
}

#[test]
fn keys_and_values_are_raw_bytes() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        let key = OsStr::from_bytes(b"\xff\xfe key\n");
        let value = OsStr::from_bytes(b"\x80\x01\n\n");
        workspace.run([OsStr::new("put"), OsStr::new("pool"), key, value]).demand(0);
        let get = workspace.run([OsStr::new("get"), OsStr::new("pool"), key]).demand(0);
        assert_eq!(get.stdout(), value.as_bytes());

        workspace.run(["put", "pool", "--", "-k", "--json"]).demand(0);
        assert_eq!(workspace.run(["get", "pool", "--", "-k"]).demand(0).stdout(), b"--json");
        workspace.run(["put", "pool", "", ""]).demand(0);
        assert_eq!(workspace.run(["get", "pool", ""]).demand(0).stdout(), b"");
        workspace.run(["del", "pool", ""]).demand(0);
        workspace.run(["get", "pool", ""]).demand(1);
    }
}

#[test]
fn a_table_keeps_numbers() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "table");
        let largest = u64::MAX.to_string();
        for (key, value) in [("7", "49"), ("0", "0"), (&largest, &largest)] {
            workspace.run(["put", "pool", key, value]).demand(0);
        }
        for (key, value) in [("7", "49"), ("007", "49"), ("0", "0"), (&largest, &largest)] {
            let get = workspace.run(["get", "pool", key]).demand(0);
            assert_eq!(get.stdout(), value.as_bytes());
        }
        workspace.run(["get", "pool", "8"]).demand(1);
        workspace.run(["del", "pool", "0"]).demand(0);
        workspace.run(["get", "pool", "0"]).demand(1);

        for wrong in ["seven", "-1", "1.5", "", "18446744073709551616"] {
            let words = ["decimal number", "--kind store"];
            workspace.run(["put", "pool", "--", wrong, "1"]).demand_error(&words);
            workspace.run(["put", "pool", "--", "7", wrong]).demand_error(&words);
            workspace.run(["get", "pool", "--", wrong]).demand_error(&words);
            workspace.run(["del", "pool", "--", wrong]).demand_error(&words);
        }
        assert_eq!(workspace.run(["get", "pool", "7"]).demand(0).stdout(), b"49");
    }
}

#[test]
fn create_refuses_what_exists() {
    let workspace = Workspace::with_pool("store");
    workspace.run(["put", "pool", "apple", "red"]).demand(0);
    let before = std::fs::read(workspace.path("pool")).unwrap();
    workspace.run(["create", "pool"]).demand_error(&["pool", "exist"]);
    assert_eq!(std::fs::read(workspace.path("pool")).unwrap(), before);

    workspace.write("notes", "mine");
    workspace.run(["create", "notes"]).demand_error(&["notes"]);
    assert_eq!(std::fs::read(workspace.path("notes")).unwrap(), b"mine");

    workspace.run(["create", "no/such/pool"]).demand_error(&["no/such/pool"]);
    workspace.run(["create", "new", "--engine", "abacus"]).demand(2);
    workspace.run(["create", "new", "--medium", "dram"]).demand(2);
    for engine in Engine::ALL {
        for parameter in engine.description().parameters {
            let bounds = (parameter.bounds)(firndex::PairSizes::WORDS).unwrap();
            let (name, beyond) = (format!("--{}", parameter.name), (bounds.end() + 1).to_string());
            let limits = format!("{} to {}", bounds.start(), bounds.end());
            let says = [parameter.name, &format!("on {engine}: it must be {limits}")];
            for arguments in [&["create", "new"][..], &["create", "new", "--kind", "table"]] {
                let arguments = [arguments, &["--engine", engine.name(), &name, &beyond]].concat();
                workspace.run(&arguments).demand_error(&says);
            }
            for other in Engine::ALL {
                if !other.description().parameters.iter().any(|of| of.name == parameter.name) {
                    let least = bounds.start().to_string();
                    let arguments = ["create", "new", "--engine", other.name(), &name, &least];
                    let lacks = format!("{other} has no parameter `{}`: ", parameter.name);
                    let says = [&lacks, "leave it out, or use ", engine.name()];
                    workspace.run(arguments).demand_error(&says);
                }
            }
        }
    }
    assert!(!workspace.path("new").exists());
}

#[test]
fn what_is_too_long_is_refused_and_nothing_lost() {
    for &engine in Engine::ALL {
        let workspace = Workspace::with_pool_on(engine, "store");
        workspace.run(["put", "pool", "apple", "red"]).demand(0);
        let long = OsString::from_vec(vec![b'k'; (64 << 10) + 1]);
        let (put, get, pool) = (OsStr::new("put"), OsStr::new("get"), OsStr::new("pool"));
        workspace.run([put, pool, &long, OsStr::new("v")]).demand_error(&["65536"]);
        workspace.run([get, pool, &long]).demand(1);

        let longest = OsStr::from_bytes(&long.as_bytes()[1..]);
        workspace.run([put, pool, longest, OsStr::new("v")]).demand(0);
        assert_eq!(workspace.run([get, pool, longest]).demand(0).stdout(), b"v");
        assert_eq!(workspace.run(["get", "pool", "apple"]).demand(0).stdout(), b"red");
    }
}

#[test]
fn a_value_comes_from_stdin_with_every_byte() {
    let value: Vec<u8> = (0..=255).chain(*b"\n\n").cycle().take(100_000).collect();
    let workspace = Workspace::with_pool("store");
    workspace.run_with_input(["put", "pool", "key", "-"], &value).demand(0);
    assert!(workspace.run(["get", "pool", "key"]).demand(0).stdout() == value);
    workspace.run_with_input(["put", "pool", "dash", "-"], b"-").demand(0);
    assert_eq!(workspace.run(["get", "pool", "dash"]).demand(0).stdout(), b"-");
    workspace.run_with_input(["put", "pool", "empty", "-"], b"").demand(0);
    assert_eq!(workspace.run(["get", "pool", "empty"]).demand(0).stdout(), b"");
    let table = Workspace::with_pool("table");
    table.run_with_input(["put", "pool", "7", "-"], b"49").demand(0);
    assert_eq!(table.run(["get", "pool", "7"]).demand(0).stdout(), b"49");
    table.run_with_input(["put", "pool", "7", "-"], b"49\n").demand_error(&["the value \"49\\n\""]);
}

#[test]
fn create_opens_what_is_there_only_if_it_is_asked_to() {
    for kind in ["store", "table"] {
        let workspace = Workspace::with_pool(kind);
        workspace.run(["put", "pool", "1", "10"]).demand(0);
        let exists = ["pool exists already", "hint: ", "--or-open"];
        workspace.run(["create", "pool", "--kind", kind]).demand_error(&exists);
        let create = ["create", "pool", "--kind", kind, "--or-open"];
        let opened = workspace.run(create).demand(0);
        assert!(opened.stderr().contains("opened pool"), "{}", opened.stderr());
        assert_eq!(workspace.run(["get", "pool", "1"]).demand(0).stdout(), b"10");
        let other = if kind == "store" { "table" } else { "store" };
        let create = ["create", "pool", "--kind", other, "--or-open"];
        let words = [&*format!("pool is a {kind}, not a {other}"), &*format!("use --kind {kind}")];
        workspace.run(create).demand_error(&words);
        let (own, other) = (Engine::ALL[0].name(), Engine::ALL[1].name());
        let on_another = ["create", "pool", "--kind", kind, "--or-open", "--engine", other];
        let words = [&*format!("not on {other}"), &*format!("use --engine {own}")];
        workspace.run(on_another).demand_error(&words);
        let new = workspace.run(["create", "new", "--kind", kind, "--or-open"]).demand(0);
        assert!(new.stderr().contains("created new"), "{}", new.stderr());
    }
}
