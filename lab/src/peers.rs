//! The program that measures other authors' maps, in a checkout.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use cli::failure::Failure;

/// What measures other authors' maps, below a checkout's top.
const PEERS: &str = "peers/run";

/// Puts the program that knows the peers into this one's place, with `first` and then the same arguments; so all
/// streams and the exit status are its own. Returns only if that fails.
pub(crate) fn take_over(first: &[&str]) -> anyhow::Error {
    let path = match find() {
        Ok(path) => path,
        Err(error) => return error,
    };
    // The first two are this program and the command.
    let error = Command::new(&path).args(first).args(env::args_os().skip(2)).exec();
    anyhow::Error::new(error).context(format!("running {}", path.display()))
}

/// `peers/run` in the current directory or the nearest above.
fn find() -> Result<PathBuf> {
    let dir = env::current_dir().context("finding the current directory")?;
    let mut paths = dir.ancestors().map(|dir| dir.join(PEERS));
    Ok(paths.find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(
            format!("there is no {PEERS} in {} or above it", dir.display()),
            "--peers builds other authors' maps: run it in a checkout of firndex",
        )
    })?)
}
