//! A file that gets its name when it is whole.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::Mode;
use rustix::process::umask;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Begins the name under which a file is written. It is short, so that every name that a file may have can be taken.
const PREFIX: &str = ".firndex-dump-";
/// With this begins every file of a pool that does not begin with zeros.
const POOL_MARK: &[u8] = b"FIRN";
const READ_AND_WRITE: u32 = 0o666;
const GROUP: u32 = 0o070;

/// A file in the making. If it is dropped before [`WholeFile::publish`], nothing is left.
pub(crate) struct WholeFile {
    file: NamedTempFile,
    path: PathBuf,
    replaces: bool,
}

/// The mode of files that this process makes, as far as the user's mask goes. Threads that make files meanwhile would
/// see no mask: there must be none yet.
pub(crate) fn mode_of_new_files() -> u32 {
    let mask = umask(Mode::empty());
    umask(mask);
    READ_AND_WRITE & !mask.as_raw_mode()
}

impl WholeFile {
    /// Begins a file with what is in the file `source`: nobody may read it who may not read that. What it replaces
    /// keeps its mode and its owner. `mode` is that of new files.
    pub(crate) fn begin(path: &Path, replace: bool, source: &Path, mode: u32) -> Result<Self> {
        let former = former(path, replace)?;
        let like = match &former {
            Some(former) => Some(former.clone()),
            None => std::fs::metadata(source).ok(),
        };
        let make = || -> io::Result<NamedTempFile> {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            // Only for its owner until its mode is known.
            let builder = &mut tempfile::Builder::new();
            let file = builder.prefix(PREFIX).tempfile_in(dir.unwrap_or(Path::new(".")))?;
            if let Some(like) = &like {
                let mode = if former.is_some() { 0o777 } else { mode };
                dress(file.as_file(), like, mode, former.is_some())?;
            }
            Ok(file)
        };
        let file = make().map_err(|error| {
            let hint = "FILE is made by the dump; - stands for stdout";
            Failure::new(format!("making {}", path.display()), hint).caused_by(error)
        })?;
        Ok(WholeFile { file, path: path.to_owned(), replaces: former.is_some() })
    }

    /// Gives the file its name, once it is on the device. `check` is asked last.
    pub(crate) fn publish(self, check: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let WholeFile { file, path, replaces } = self;
        file.as_file().sync_all()?;
        check()?;
        let named = if replaces { file.persist(&path) } else { file.persist_noclobber(&path) };
        named.map_err(|error| error.error)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        // Some file systems sync no directories; the file is whole all the same.
        let _ = File::open(dir.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Gives a file mode and, where this is allowed, owner of another one, but no bits beyond `most`. A group that `like`
/// does not have gets no more than everybody.
fn dress(file: &File, like: &Metadata, most: u32, with_owner: bool) -> io::Result<()> {
    if with_owner {
        let _ = fchown(file, Some(like.uid()), Some(like.gid()));
    }
    let mut mode = like.mode() & most;
    if file.metadata()?.gid() != like.gid() {
        mode &= !GROUP | (mode & 0o007) << 3;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// What the file replaces.
fn former(path: &Path, replace: bool) -> Result<Option<Metadata>> {
    let shown = path.display();
    if path.file_name().is_none() || path.as_os_str().as_bytes().ends_with(b"/") {
        let hint = "FILE is a name with its directory; - stands for stdout";
        return Err(Failure::new(format!("{shown:?} is no name of a file"), hint).into());
    }
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("looking at {shown}")),
    };
    if !replace {
        let hint = "name another file, or replace this one: --replace";
        return Err(Failure::new(format!("{shown} exists already"), hint).into());
    }
    match what_stays(path, &found).with_context(|| format!("looking at {shown}"))? {
        None => Ok(Some(found)),
        Some(what) => {
            let hint = "--replace replaces files with text only: name another file";
            Err(Failure::new(format!("{shown} is {what}"), hint).into())
        }
    }
}

/// What a file is, if no dump may replace it.
fn what_stays(path: &Path, found: &Metadata) -> io::Result<Option<&'static str>> {
    let kind = found.file_type();
    if kind.is_symlink() {
        return Ok(Some("a link"));
    }
    if kind.is_dir() {
        return Ok(Some("a directory"));
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
        return Ok(Some("no regular file"));
    }
    let mut start = Vec::new();
    File::open(path)?.take(POOL_MARK.len() as u64).read_to_end(&mut start)?;
    let is_of_a_pool = start == POOL_MARK || start.contains(&0);
    Ok(is_of_a_pool.then_some("a pool, or belongs to one"))
}
