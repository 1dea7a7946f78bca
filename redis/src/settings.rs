//! The arguments of the module, as `loadmodule` and `MODULE LOAD` give them: pairs of a name and a value.

use firndex::{Durability, Options};
use std::path::PathBuf;
use std::time::Duration;

/// How long the opening waits for a server that is still ending.
const WAIT: Duration = Duration::from_secs(10);

/// What the operator asked for.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) durability: Option<Durability>,
    pub(crate) bytes_max: Option<u64>,
    /// Whether every snapshot has the whole pool, and not only those for replicas.
    pub(crate) has_full_snapshots: bool,
    /// Whether the pool may be new although a snapshot knows one with keys.
    pub(crate) may_be_new: bool,
}

impl Settings {
    /// Reads the arguments, or says what is wrong with them.
    pub(crate) fn read<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Result<Settings, String> {
        let mut settings = Settings {
            path: PathBuf::from("pool.firn"),
            durability: None,
            bytes_max: None,
            has_full_snapshots: false,
            may_be_new: false,
        };
        let mut arguments = arguments.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        while let Some(name) = arguments.next() {
            let Some(value) = arguments.next() else {
                return Err(format!("the argument {name:?} has no value; give one behind it"));
            };
            let expected = |what: &str| Err(format!("{name} is {value:?}, expected {what}"));
            match (name.to_ascii_lowercase().as_str(), value.to_ascii_lowercase().as_str()) {
                ("path", _) => settings.path = value.into(),
                ("durability", durability) => match durability.parse() {
                    Ok(durability) => settings.durability = Some(durability),
                    Err(_) => return expected("process, periodic or commit"),
                },
                ("max-bytes", bytes) => match size(bytes) {
                    Some(bytes) => settings.bytes_max = Some(bytes),
                    None => return expected("a number of bytes such as 512mb or 20gb"),
                },
                ("snapshots", "full") => settings.has_full_snapshots = true,
                ("snapshots", "marker") => settings.has_full_snapshots = false,
                ("snapshots", _) => return expected("full or marker"),
                ("new-pool", "yes") => settings.may_be_new = true,
                ("new-pool", "no") => settings.may_be_new = false,
                ("new-pool", _) => return expected("yes or no"),
                _ => {
                    return Err(format!(
                        "there is no argument {name:?}; there are path, durability, max-bytes, snapshots, new-pool"
                    ));
                }
            }
        }
        // The server may change its directory later.
        settings.path = std::path::absolute(&settings.path)
            .map_err(|error| format!("the path {:?} cannot be used: {error}", settings.path))?;
        Ok(settings)
    }

    /// How the pool is opened.
    pub(crate) fn options(&self) -> Options {
        // A child that writes a snapshot is a guest.
        let mut options = Options::new().guests(true).wait(WAIT);
        if let Some(durability) = self.durability {
            options = options.durability(durability);
        }
        if let Some(bytes) = self.bytes_max {
            options = options.max_bytes(bytes);
        }
        options
    }
}

/// A size as Redis' own configuration has it.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Settings, String> {
        Settings::read(arguments.iter().map(|argument| argument.as_bytes()))
    }

    #[test]
    fn arguments_are_read() {
        let settings = read(&["PATH", "/a/b", "max-bytes", "2gb", "durability", "commit"]);
        let settings = settings.expect("they are good");
        assert_eq!(settings.path, PathBuf::from("/a/b"));
        assert_eq!(settings.bytes_max, Some(2 << 30));
        assert_eq!(settings.durability, Some(Durability::Commit));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (arguments, said) in [
            (&["path"][..], "has no value"),
            (&["max-bytes", "1tb"], "expected a number of bytes"),
            (&["max-bytes", "0"], "expected a number of bytes"),
            (&["durability", "always"], "expected process, periodic or commit"),
            (&["snapshots", "no"], "expected full or marker"),
            (&["speed", "high"], "there is no argument"),
        ] {
            let error = read(arguments).expect_err("it is wrong");
            assert!(error.contains(said), "{error}");
        }
    }
}
