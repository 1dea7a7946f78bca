//! Running a binary in a directory of its own: `PROGRAM` of the test.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tempfile::TempDir;

/// A directory for one test, removed at its end; commands run in it.
pub(crate) struct Workspace {
    dir: TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let_commands_be_interrupted();
        Workspace { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command, with temporary files inside the workspace so that leftovers show.
    pub(crate) fn command<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = self.command_of(crate::PROGRAM);
        command.args(arguments);
        command
    }

    /// Another command, likewise.
    pub(crate) fn command_of(&self, program: &str) -> Command {
        let temporary = self.path("tmp");
        std::fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("TMPDIR", temporary).stdin(Stdio::null());
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Finished {
        let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().into()).collect();
        let output = self.command(&arguments).output().unwrap();
        Finished { arguments, output }
    }

    /// What is left of temporary files.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        list(&self.path("tmp"))
    }
}

/// Commands inherit which signals are ignored, and tests that `nohup` or a shell's `&` has started ignore some. What is
/// handled here is not ignored there.
fn let_commands_be_interrupted() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(mask.trim(), 16).unwrap();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            if ignored >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::default()).unwrap();
            }
        }
    });
}

pub(crate) fn list(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default()
}

/// A command that has ended.
pub(crate) struct Finished {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) output: Output,
}

impl Finished {
    /// Demands an exit status.
    #[track_caller]
    pub(crate) fn demand(self, status: i32) -> Self {
        assert_eq!(
            self.output.status.code(),
            Some(status),
            "{:?}\nstdout: {}\nstderr: {}",
            self.arguments,
            String::from_utf8_lossy(self.stdout()),
            self.stderr(),
        );
        self
    }

    pub(crate) fn stdout(&self) -> &[u8] {
        &self.output.stdout
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Demands an error: status 2, nothing on stdout, a line that starts with the program's name,
    /// and these words in what is said.
    #[track_caller]
    pub(crate) fn demand_error(self, words: &[&str]) -> Self {
        let finished = self.demand(2);
        let stderr = finished.stderr();
        assert_eq!(finished.stdout(), b"", "{stderr}");
        let program = Path::new(crate::PROGRAM).file_name().unwrap_or_default();
        let said = format!("{}: ", program.display());
        assert!(
            stderr.lines().any(|line| line.starts_with(&said)),
            "{:?}: {stderr}",
            finished.arguments
        );
        assert!(!stderr.contains("panicked"), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
        }
        finished
    }

    /// Demands that the arguments were refused, with these words.
    #[track_caller]
    pub(crate) fn demand_wrong_use(self, words: &[&str]) {
        let finished = self.demand(2);
        let stderr = finished.stderr();
        assert_eq!(finished.stdout(), b"", "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(self.stdout()).unwrap()
    }
}
