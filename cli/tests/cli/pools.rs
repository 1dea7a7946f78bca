//! Workspaces with pools and files in them.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::Stdio;

use crate::workspace::{Finished, Workspace};
use firndex::Engine;

impl Workspace {
    /// With an empty pool of that kind, named `pool`.
    pub(crate) fn with_pool(kind: &str) -> Self {
        let workspace = Workspace::new();
        workspace.run(["create", "pool", "--kind", kind]).demand(0);
        workspace
    }

    /// As [`Workspace::with_pool`], on this engine.
    pub(crate) fn with_pool_on(engine: Engine, kind: &str) -> Self {
        let workspace = Workspace::new();
        let create = ["create", "pool", "--kind", kind, "--engine", engine.name()];
        let created = workspace.run(create).demand(0);
        assert!(created.stderr().contains(&format!("engine {engine}")), "{}", created.stderr());
        workspace
    }

    /// Copies the directory of a pool's log and checkpoint, which may be in use, for another pool.
    pub(crate) fn copy_companions(&self, pool: &str, copy: &str) {
        let [from, to] = [pool, copy].map(|name| self.path(&format!("{name}.safe")));
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            match std::fs::copy(entry.path(), to.join(entry.file_name())) {
                // A segment that a checkpoint has made needless.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => assert!(copied.is_ok(), "{copied:?}"),
            }
        }
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Finished {
        let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().into()).collect();
        let mut command = self.command(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Finished { arguments, output: child.wait_with_output().unwrap() }
    }
}
