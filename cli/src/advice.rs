//! Advice of the library in words of the command line.
//!
//! The library's messages name its calls, since programs get them. Who typed a command is told what to type.

use std::borrow::Cow;

/// What the library says, and what the command says instead.
const WORDS: &[(&str, &str)] = &[
    ("create it first, or open it with `open_or_create`", "make it with `firndex create`"),
    ("drop this handle, and open the pool again, which", "run the command again, which"),
    (
        "drop this handle, mend that, and open the pool again",
        "mend that, and run the command again",
    ),
    ("keep them in a `Store`", "keep them in a store: `firndex create --kind store`"),
    (": raise `Options::max_bytes`", ", which is the most that the command gives one"),
    ("have that process let others in (`Options::guests`)", "serve it there with `firndex serve`"),
    (", or wait longer (`Options::patience`)", ""),
    ("use the type that it was written with, or its bytes", "use its bytes"),
    ("; share that handle between the threads", "; name another file"),
    ("`Options::log_directory`", "--log-dir"),
];

/// Salvaging as a call; in between is the pool.
const SALVAGE: (&str, &str) = ("`Salvage::open(", ")`");
/// An option as the library calls it; behind it comes its name.
const OPTION: (&str, &str) = ("`Options::", "`");

/// The message for somebody who typed a command.
pub(crate) fn for_typing(message: &str) -> Cow<'_, str> {
    let mut said = Cow::Borrowed(message);
    for (library, command) in WORDS {
        if said.contains(library) {
            said = said.replace(library, command).into();
        }
    }
    let said = between(said, SALVAGE, |pool| format!("`firndex salvage {pool} OUT`"));
    between(said, OPTION, |name| format!("--{}", name.replace('_', "-")))
}

/// Replaces what stands between two marks, and the marks.
fn between<'a>(
    text: Cow<'a, str>,
    (before, after): (&str, &str),
    replacement: impl Fn(&str) -> String,
) -> Cow<'a, str> {
    let mut parts = text.split(before);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(after) {
            Some((inner, rest)) => said.extend([&replacement(inner), rest]),
            None => said.extend([before, part]),
        }
    }
    if said == text { text } else { said.into() }
}

#[cfg(test)]
mod tests {
    use super::for_typing;
    use firndex::{Error, OpenError, SpaceError};

    /// As the library says it.
    const LET_IN: &str =
        "close it there first, or have that process let others in (`Options::guests`)";

    use std::path::PathBuf;

    fn path() -> PathBuf {
        "fruit.firn".into()
    }

    #[test]
    fn calls_become_commands_and_options() {
        let full = |reason: &str| {
            Error::PoolFull(SpaceError::Full { needed_bytes: 17, reason: reason.into() })
        };
        let advice = ", or try `Salvage::open(fruit.firn)` and `Salvage::open(fruit.firn.safe)`, and keep the larger";
        let not_restored = OpenError::NotRestored {
            path: path(),
            state: "is damaged",
            found: "something".into(),
            advice: advice.into(),
        };
        let option =
            |option| Error::OutOfRange { option, found: "17".into(), expected: "less".into() };
        for (error, says) in [
            (OpenError::Missing { path: path() }.into(), "make it with `firndex create`"),
            (OpenError::Damaged { found: "x".into() }.into(), "`firndex salvage POOL OUT`"),
            (
                not_restored.into(),
                "try `firndex salvage fruit.firn OUT` and `firndex salvage fruit.firn.safe OUT`, and",
            ),
            (OpenError::LogElsewhere { path: path() }.into(), "name it with --log-dir"),
            (option("durable_every"), "--durable-every was given 17"),
            (
                full("its limit is 9 bytes: raise `Options::max_bytes`"),
                "9 bytes, which is the most",
            ),
            (OpenError::Busy { path: path(), advice: LET_IN }.into(), "with `firndex serve`"),
            (
                Error::Silent { process: 7, waited: std::time::Duration::from_secs(3) },
                "process 7, which owns the pool, has not answered for 3.0 s",
            ),
            (
                Error::Vanished { file_bytes: 1, pool_bytes: 2 },
                "run the command again, which restores it",
            ),
            (
                Error::Vanished { file_bytes: 2, pool_bytes: 2 },
                "mend that, and run the command again",
            ),
        ] {
            let error: Error = error;
            let message = error.to_string();
            let said = for_typing(&message);
            assert!(said.contains(says), "{said}");
            for call in ["::", "handle", "open_or_create"] {
                assert!(!said.contains(call), "{said}");
            }
        }
    }

    #[test]
    fn other_words_stay() {
        for same in ["", "no room", "`Salvage::open(", "a `Options::"] {
            assert_eq!(for_typing(same), same);
        }
    }
}
