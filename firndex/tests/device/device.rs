//! What a device has of the files of a process, by the calls that the process has made: nothing that was not synced,
//! or everything, or what lies between.

use crate::tracer::{Call, Process, Watcher};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file's number.
type Inode = u64;
/// By path.
type Names = BTreeMap<PathBuf, Inode>;

/// A pool's superblock, which the kernel may write back before the rest of its file.
const SUPERBLOCK_BYTES: usize = 8192;

/// A file that was seen.
struct Seen {
    /// Open as long as it is known, so that its number is not given to another one.
    file: File,
    durable: Content,
    /// What was written when it was looked at last.
    written: Content,
    /// What has been at its beginning since that was synced.
    beginnings: Vec<Vec<u8>>,
}

/// What is in a file.
#[derive(Clone, Default)]
struct Content {
    bytes: Arc<Vec<u8>>,
    hash: u64,
}

impl Content {
    fn of(bytes: Vec<u8>) -> Content {
        Content { hash: rapidhash::v3::rapidhash_v3(&bytes), bytes: Arc::new(bytes) }
    }
}

type Contents = HashMap<Inode, Content>;

/// What will be durable when a call has returned.
enum Pending {
    /// Those in this directory.
    Names(PathBuf, Names),
    Whole(Inode, Vec<u8>),
    Range(Inode, u64, Vec<u8>),
}

/// When power is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    /// Steps of the process that have returned.
    pub(crate) returned: u64,
    /// Whether the last one has just done so, and the next one not begun.
    pub(crate) is_between: bool,
}

/// A directory and those in it, and a process that writes to them.
pub(crate) struct Device<J> {
    directory: PathBuf,
    /// It and those in it that were seen.
    directories: HashSet<Inode>,
    files: HashMap<Inode, Seen>,
    /// The names that are durable.
    names: Names,
    pending: Option<Pending>,
    now: Moment,
    /// Is given what a power loss may leave then.
    judge: J,
    scratch: tempfile::TempDir,
    judged: HashSet<u64>,
    /// How often each kind of call was made, by names of [`KINDS`].
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// Calls that change files or make changes durable.
const KINDS: &[(&str, i64)] = &[
    ("openat", libc::SYS_openat),
    ("write", libc::SYS_write),
    ("pwrite64", libc::SYS_pwrite64),
    ("pwritev2", libc::SYS_pwritev2),
    ("ftruncate", libc::SYS_ftruncate),
    ("fallocate", libc::SYS_fallocate),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
    ("msync", libc::SYS_msync),
    #[cfg(target_arch = "x86_64")]
    ("rename", libc::SYS_rename),
    ("renameat", libc::SYS_renameat),
    ("renameat2", libc::SYS_renameat2),
    #[cfg(target_arch = "x86_64")]
    ("link", libc::SYS_link),
    ("linkat", libc::SYS_linkat),
    #[cfg(target_arch = "x86_64")]
    ("unlink", libc::SYS_unlink),
    ("unlinkat", libc::SYS_unlinkat),
    #[cfg(target_arch = "x86_64")]
    ("mkdir", libc::SYS_mkdir),
    ("mkdirat", libc::SYS_mkdirat),
    #[cfg(target_arch = "x86_64")]
    ("rmdir", libc::SYS_rmdir),
];

/// Standard output, where the process says that a step has returned.
const OUTPUT: u64 = 1;
/// What it writes then.
pub(crate) const RETURNED: &[u8] = b"\xefreturned";

fn kind_of(call: &Call) -> Option<&'static str> {
    KINDS.iter().find(|(_, number)| *number == call.number).map(|(name, _)| *name)
}

fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().map_or(0, |found| found.len()) as usize];
    let mut read = 0;
    while let Ok(some @ 1..) = file.read_at(&mut bytes[read..], read as u64) {
        read += some;
    }
    bytes.truncate(read);
    bytes
}

fn range(file: &File, at: u64, bytes: u64) -> Vec<u8> {
    let end = file.metadata().map_or(0, |found| found.len());
    let mut some = vec![0; end.min(at + bytes).saturating_sub(at) as usize];
    file.read_exact_at(&mut some, at).unwrap();
    some
}

impl<J: FnMut(&Path, Moment)> Device<J> {
    /// The files of a directory, all of them durable.
    pub(crate) fn of(directory: &Path, scratch: tempfile::TempDir, judge: J) -> Device<J> {
        let mut device = Device {
            directory: directory.to_owned(),
            directories: HashSet::new(),
            files: HashMap::new(),
            names: Names::new(),
            pending: None,
            now: Moment { returned: 0, is_between: false },
            judge,
            scratch,
            judged: HashSet::new(),
            counts: BTreeMap::new(),
        };
        device.names = device.names_now();
        device.files.values_mut().for_each(|seen| seen.durable = Content::of(contents(&seen.file)));
        device
    }

    /// How many images were judged.
    pub(crate) fn images(&self) -> usize {
        self.judged.len()
    }

    fn see(&mut self, path: &Path) -> Option<Inode> {
        let found = path.metadata().ok()?;
        if found.is_dir() {
            self.directories.insert(found.ino());
            return Some(found.ino());
        }
        if !found.is_file() || found.dev() != self.directory.metadata().unwrap().dev() {
            return None;
        }
        let open = || Seen {
            file: File::open(path).unwrap(),
            durable: Content::default(),
            written: Content::default(),
            beginnings: Vec::new(),
        };
        self.files.entry(found.ino()).or_insert_with(open);
        Some(found.ino())
    }

    fn names_now(&mut self) -> Names {
        let mut all = Names::new();
        let mut rest = vec![self.directory.clone()];
        while let Some(directory) = rest.pop() {
            let names = self.names_in(&directory);
            rest.extend(names.keys().filter(|path| path.is_dir()).cloned());
            all.extend(names);
        }
        all
    }

    fn names_in(&mut self, directory: &Path) -> Names {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter_map(|path| self.see(&path).map(|inode| (path, inode))).collect()
    }

    /// A file that is open in the process.
    fn opened(&mut self, process: &Process, descriptor: u64) -> Option<Inode> {
        let path = PathBuf::from(format!("/proc/{}/fd/{descriptor}", process.id));
        let leads_to = path.read_link().ok()?;
        let is_here = leads_to.parent()?.starts_with(&self.directory);
        if is_here { self.see(&path) } else { None }
    }

    fn opened_directory(&self, process: &Process, descriptor: u64) -> Option<PathBuf> {
        let path = format!("/proc/{}/fd/{descriptor}", process.id);
        Path::new(&path)
            .read_link()
            .ok()
            .filter(|found| found.is_dir() && found.starts_with(&self.directory))
    }

    /// Whether every write by this descriptor waits for the device.
    fn waits(process: &Process, descriptor: u64) -> bool {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/{descriptor}", process.id));
        let info = info.unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_DSYNC != 0)
    }

    /// The file that is mapped at an address of the process, and its offset there.
    fn mapped(&mut self, process: &Process, address: u64) -> Option<(Inode, u64)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.id)).ok()?;
        maps.lines().find_map(|line| {
            let mut parts = line.split_ascii_whitespace();
            let (addresses, _, offset, _, inode) =
                (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let (start, end) = addresses.split_once('-')?;
            let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
            let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
            let inode: Inode = inode.parse().ok()?;
            let at = hexadecimal(offset)? + address.wrapping_sub(start);
            let is_it = (start..end).contains(&address) && self.files.contains_key(&inode);
            is_it.then_some((inode, at))
        })
    }

    fn set_durable(&mut self, pending: Pending) {
        match pending {
            Pending::Names(directory, names) => {
                self.names.retain(|path, _| path.parent() != Some(&directory));
                self.names.extend(names);
            }
            Pending::Whole(inode, bytes) => {
                let seen = self.files.get_mut(&inode).unwrap();
                seen.durable = Content::of(bytes);
                seen.beginnings.clear();
            }
            Pending::Range(inode, at, some) => {
                let seen = self.files.get_mut(&inode).unwrap();
                let mut bytes = seen.durable.bytes.to_vec();
                let (at, end) = (at as usize, at as usize + some.len());
                if at == 0 {
                    seen.beginnings.clear();
                }
                // The length is durable with it.
                let len = seen.file.metadata().map_or(0, |found| found.len() as usize);
                bytes.resize(len.max(end), 0);
                bytes[at..end].copy_from_slice(&some);
                seen.durable = Content::of(bytes);
            }
        }
    }

    /// Keeps what is at the beginning of each pool: the kernel may write that back and nothing else.
    fn look_at_beginnings(&mut self) {
        for seen in self.files.values_mut() {
            let beginning = range(&seen.file, 0, SUPERBLOCK_BYTES as u64);
            let is_known = seen.durable.bytes.starts_with(&beginning);
            let is_new = !is_known && !seen.beginnings.contains(&beginning);
            if is_new && beginning.starts_with(b"FIRNDEX") {
                seen.beginnings.push(beginning);
            }
        }
    }

    /// Of each file that has an unsynced beginning, what was synced, with that.
    fn begun(&self) -> Vec<(Inode, Content)> {
        let with = |(&inode, seen): (&Inode, &Seen)| {
            let len = seen.file.metadata().map_or(0, |found| found.len() as usize);
            let durable = Arc::clone(&seen.durable.bytes);
            let begun = seen.beginnings.iter().map(move |beginning| {
                let mut bytes = durable.to_vec();
                bytes.resize(len.max(bytes.len()).max(beginning.len()), 0);
                bytes[..beginning.len()].copy_from_slice(beginning);
                (inode, Content::of(bytes))
            });
            begun.collect::<Vec<_>>()
        };
        self.files.iter().flat_map(with).collect()
    }

    /// Has everything judged that a power loss may leave now: of each name what it was or what it is, of the files what
    /// was synced or what is written, and of a pool perhaps its superblock alone.
    fn lose_power(&mut self) {
        let (then, now) = (self.names.clone(), self.names_now());
        let all: HashSet<&PathBuf> = then.keys().chain(now.keys()).collect();
        let changed: Vec<&PathBuf> =
            all.into_iter().filter(|&name| then.get(name) != now.get(name)).collect();
        let mut names = vec![then.clone(), now.clone()];
        for &name in &changed {
            for (mut some, other) in [(then.clone(), &now), (now.clone(), &then)] {
                match other.get(name) {
                    Some(&inode) => drop(some.insert(name.clone(), inode)),
                    None => drop(some.remove(name)),
                }
                names.push(some);
            }
        }
        for seen in self.files.values_mut() {
            let bytes = contents(&seen.file);
            if bytes != *seen.written.bytes {
                seen.written = Content::of(bytes);
            }
        }
        let of_each = |content: fn(&Seen) -> Content| -> Contents {
            self.files.iter().map(|(&inode, seen)| (inode, content(seen))).collect()
        };
        let written = of_each(|seen| seen.written.clone());
        let synced = of_each(|seen| seen.durable.clone());
        for names in names {
            self.judge_image(&names, &synced);
            self.judge_image(&names, &written);
        }
        for (inode, content) in self.begun() {
            let mut some = synced.clone();
            some.insert(inode, content);
            self.judge_image(&now, &some);
        }
    }

    fn judge_image(&mut self, names: &Names, contents: &Contents) {
        let mut hasher = DefaultHasher::new();
        self.now.hash(&mut hasher);
        let hash_of = |inode| contents.get(inode).map(|content| content.hash);
        names.iter().for_each(|(name, inode)| (name, hash_of(inode)).hash(&mut hasher));
        if !self.judged.insert(hasher.finish()) {
            return;
        }
        let image = self.scratch.path().join("image");
        let place = |path: &Path| image.join(path.strip_prefix(&self.directory).unwrap());
        std::fs::create_dir(&image).unwrap();
        // A directory comes before what is in it. Without its name, that is lost, too.
        for (path, inode) in names {
            let place = place(path);
            if !place.parent().is_some_and(Path::is_dir) {
                continue;
            }
            match contents.get(inode) {
                Some(content) => std::fs::write(place, &*content.bytes).unwrap(),
                None => std::fs::create_dir(place).unwrap(),
            }
        }
        (self.judge)(&image, self.now);
        std::fs::remove_dir_all(&image).unwrap();
    }
}

impl<J: FnMut(&Path, Moment)> Watcher for Device<J> {
    fn is_told(&self, call: &Call) -> bool {
        kind_of(call).is_some()
    }

    fn begins(&mut self, process: &Process, call: &Call) {
        self.look_at_beginnings();
        let [first, second, flags, ..] = call.arguments;
        self.pending = match call.number {
            libc::SYS_fsync | libc::SYS_fdatasync => match self.opened_directory(process, first) {
                Some(directory) => {
                    let names = self.names_in(&directory);
                    Some(Pending::Names(directory, names))
                }
                None => self
                    .opened(process, first)
                    .map(|inode| Pending::Whole(inode, contents(&self.files[&inode].file))),
            },
            libc::SYS_msync if flags as i32 & libc::MS_SYNC != 0 => {
                self.mapped(process, first).map(|(inode, at)| {
                    Pending::Range(inode, at, range(&self.files[&inode].file, at, second))
                })
            }
            _ => None,
        };
    }

    fn ends(&mut self, process: &Process, call: &Call, result: i64) {
        let pending = self.pending.take();
        let [descriptor, at_memory, bytes, position, _, flags] = call.arguments;
        if result < 0 {
            return;
        }
        if call.number == libc::SYS_write && descriptor == OUTPUT {
            let mut said = vec![0; RETURNED.len().min(bytes as usize)];
            if process.read(at_memory, &mut said).is_ok() && said == RETURNED {
                self.now = Moment { returned: self.now.returned + 1, is_between: true };
                self.lose_power();
                self.now.is_between = false;
            }
            return;
        }
        let kind = kind_of(call).unwrap();
        let is_write = matches!(kind, "write" | "pwrite64" | "pwritev2");
        let written = if is_write { self.opened(process, descriptor) } else { None };
        let is_here = match kind {
            "openat" => self.opened(process, result.cast_unsigned()).is_some(),
            "ftruncate" | "fallocate" => self.opened(process, descriptor).is_some(),
            "fsync" | "fdatasync" | "msync" => pending.is_some(),
            _ => written.is_some() || !is_write,
        };
        if !is_here {
            return;
        }
        *self.counts.entry(kind).or_default() += 1;
        if let Some(inode) = written {
            let asks = kind == "pwritev2" && flags as i32 & libc::RWF_DSYNC != 0;
            if asks || Self::waits(process, descriptor) {
                assert_ne!(kind, "write", "no such write has a place");
                let some = range(&self.files[&inode].file, position, result.cast_unsigned());
                self.set_durable(Pending::Range(inode, position, some));
            }
        }
        if let Some(pending) = pending {
            self.set_durable(pending);
        }
        if kind != "openat" {
            self.lose_power();
        }
    }
}

/// Copies what is in a directory into another one.
pub(crate) fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            std::fs::create_dir(&to)?;
            copy_files(&from, &to)?;
        } else {
            std::fs::copy(from, to)?;
        }
    }
    Ok(())
}
