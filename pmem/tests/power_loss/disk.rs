//! A simulated disk: what is volatile, what is durable, and what may be either.
//!
//! * A name is what it is said to be once [`Disk::sync_names`] has returned. Until then it is that, or what it was.
//! * A sector of a file holds what was last written to it once the file was synced. Until then it holds that, or what
//!   was written before, or what was there. A file's length likewise.
//! * A sync that fails makes nothing durable. A later one that succeeds makes durable only those sectors that were
//!   written since: kernels say once that they have dropped a page. Names and lengths it makes durable: a file system's
//!   journal has them, or takes no more of them.
//! * A write that fails may have reached any of its sectors.
//! * Files take space up to their lengths; names, and what has lost its name, take none.
//! * A process may be killed at any call. What it has done is there for the next one, durable or not.

use pmem::durability::disk::{Disk, DiskFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a value may be after a crash: what is durable, or anything it was given later.
#[derive(Clone, Debug)]
pub(crate) struct Versions<T> {
    pub(crate) durable: T,
    pub(crate) later: Vec<T>,
    /// The last of the later ones was lost by a sync that failed.
    was_dropped: bool,
}

impl<T: Clone> Versions<T> {
    fn new(durable: T) -> Versions<T> {
        Versions { durable, later: Vec::new(), was_dropped: false }
    }

    fn set(&mut self, value: T) {
        self.later.push(value);
        self.was_dropped = false;
    }

    fn now(&self) -> &T {
        self.later.last().unwrap_or(&self.durable)
    }

    fn synced(&mut self) {
        if !self.was_dropped
            && let Some(last) = self.later.pop()
        {
            self.durable = last;
            self.later.clear();
        }
    }

    fn dropped(&mut self) {
        self.was_dropped = !self.later.is_empty();
    }

    pub(crate) fn count(&self) -> usize {
        1 + self.later.len()
    }

    pub(crate) fn get(&self, index: usize) -> &T {
        if index == 0 { &self.durable } else { &self.later[index - 1] }
    }
}

impl Versions<Option<usize>> {
    /// Whether the name leads to a file by now.
    pub(crate) fn is_there(&self) -> bool {
        self.now().is_some()
    }
}

/// A file.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) sectors: Vec<Versions<Box<[u8]>>>,
    pub(crate) len: Versions<u64>,
}

/// A call that fails, and those that follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from: u64,
    pub(crate) calls: u64,
    pub(crate) is_full: bool,
}

/// Everything about the disk.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) sector_bytes: usize,
    pub(crate) names: BTreeMap<String, Versions<Option<usize>>>,
    pub(crate) inodes: Vec<Inode>,
    pub(crate) calls: u64,
    pub(crate) fault: Option<Fault>,
    /// All calls from this one on come from a process that is dead.
    pub(crate) killed_from: Option<u64>,
    /// Bytes of all files that there is room for.
    pub(crate) capacity: Option<u64>,
}

/// Whether a file is one of the pool's, as a real directory sees it.
pub(crate) fn is_own(content: &[u8]) -> bool {
    let is_blank = content.len() <= 4096 && content.iter().all(|&byte| byte == 0);
    let uuid = content.get(16..32).and_then(|uuid| uuid.try_into().ok());
    is_blank || content.starts_with(b"FIRN") && uuid.map(u128::from_le_bytes) == Some(UUID)
}

/// The pool's identity.
pub(crate) const UUID: u128 = 7;

/// Called with the disk after each call that changes it.
pub(crate) type Observer = Box<dyn FnMut(&State) + Send>;

pub(crate) struct SimulatedDisk {
    state: Mutex<State>,
    observer: Mutex<Option<Observer>>,
}

struct SimulatedFile {
    disk: Arc<SimulatedDisk>,
    inode: usize,
}

/// What the trait is implemented for: files know their disk.
pub(crate) struct Handle(pub(crate) Arc<SimulatedDisk>);

impl SimulatedDisk {
    /// A disk with these files, all durable.
    pub(crate) fn of(
        sector_bytes: usize,
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Arc<SimulatedDisk> {
        let mut names = BTreeMap::new();
        let mut inodes = Vec::new();
        for (name, bytes) in files {
            names.insert(name, Versions::new(Some(inodes.len())));
            let sector = |chunk: &[u8]| {
                let mut sector = vec![0; sector_bytes];
                sector[..chunk.len()].copy_from_slice(chunk);
                Versions::new(sector.into_boxed_slice())
            };
            let sectors = bytes.chunks(sector_bytes).map(sector).collect();
            inodes.push(Inode { sectors, len: Versions::new(bytes.len() as u64) });
        }
        let (fault, killed_from, capacity) = (None, None, None);
        let state = State { sector_bytes, names, inodes, calls: 0, fault, killed_from, capacity };
        Arc::new(SimulatedDisk { state: Mutex::new(state), observer: Mutex::new(None) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A bit of a file is another one, and nobody has written it.
    pub(crate) fn damage(&self, name: &str, at: usize) {
        let mut state = self.state();
        let (inode, bytes) = (state.inode_of(name).unwrap(), state.sector_bytes);
        let sector = &mut state.inodes[inode].sectors[at / bytes];
        let mut damaged = sector.now().clone();
        damaged[at % bytes] ^= 16;
        *sector = Versions::new(damaged);
    }

    pub(crate) fn observe(&self, observer: Option<Observer>) {
        *self.observer.lock().unwrap() = observer;
    }

    /// A disk like this one, durable or not.
    pub(crate) fn like(state: &State) -> Arc<SimulatedDisk> {
        let state = State { calls: 0, fault: None, killed_from: None, ..state.clone() };
        Arc::new(SimulatedDisk { state: Mutex::new(state), observer: Mutex::new(None) })
    }

    /// Shows the disk to the observer as it is now.
    pub(crate) fn show(&self) {
        if let Some(observer) = &mut *self.observer.lock().unwrap() {
            observer(&self.state());
        }
    }

    /// Makes a call: `done` says what it does if it succeeds, `failed` what if not.
    fn call<R>(
        &self,
        done: impl FnOnce(&mut State) -> io::Result<R>,
        failed: impl FnOnce(&mut State),
    ) -> io::Result<R> {
        let result = {
            let mut state = self.state();
            let call = state.calls;
            if state.is_killed() {
                return Err(io::ErrorKind::Other.into());
            }
            state.calls += 1;
            let fault =
                state.fault.filter(|f| (f.from..f.from.saturating_add(f.calls)).contains(&call));
            match fault {
                None => done(&mut state),
                Some(fault) => {
                    failed(&mut state);
                    let kind = io::ErrorKind::StorageFull;
                    Err(if fault.is_full { kind.into() } else { io::Error::from_raw_os_error(5) })
                }
            }
        };
        self.show();
        result
    }
}

impl State {
    fn inode_of(&self, name: &str) -> Option<usize> {
        self.names.get(name).and_then(|versions| *versions.now())
    }

    /// The length of each file that has a name.
    pub(crate) fn files(&self) -> BTreeMap<&str, u64> {
        let named = self.names.iter();
        let named = named.filter_map(|(name, inode)| Some((name.as_str(), (*inode.now())?)));
        named.map(|(name, inode)| (name, *self.inodes[inode].len.now())).collect()
    }

    /// Whether the process has made a call that it was killed before.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed_from.is_some_and(|from| self.calls >= from)
    }

    /// Bytes of all files.
    pub(crate) fn used_bytes(&self) -> u64 {
        let inodes: BTreeSet<usize> =
            self.names.values().filter_map(|inode| *inode.now()).collect();
        inodes.iter().map(|&inode| *self.inodes[inode].len.now()).sum()
    }

    /// What a file now holds.
    pub(crate) fn content(&self, name: &str) -> Option<Vec<u8>> {
        let inode = &self.inodes[self.inode_of(name)?];
        let mut bytes =
            inode.sectors.iter().flat_map(|sector| sector.now().to_vec()).collect::<Vec<_>>();
        bytes.resize(*inode.len.now() as usize, 0);
        Some(bytes)
    }

    /// An error if there is no room for a file of this length.
    fn demand_room(&self, inode: usize, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(*self.inodes[inode].len.now());
        let is_full = self.capacity.is_some_and(|capacity| self.used_bytes() + more > capacity);
        if more > 0 && is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn set_name(&mut self, name: &str, inode: Option<usize>) {
        self.names.entry(name.into()).or_insert_with(|| Versions::new(None)).set(inode);
    }
}

impl Inode {
    fn reach(&mut self, sectors: usize, sector_bytes: usize) {
        let zeros = || Versions::new(vec![0; sector_bytes].into_boxed_slice());
        if self.sectors.len() < sectors {
            self.sectors.resize_with(sectors, zeros);
        }
    }

    fn write(&mut self, bytes: &[u8], at: u64, sector_bytes: usize) {
        let first = at as usize / sector_bytes;
        self.reach(first + bytes.len() / sector_bytes, sector_bytes);
        for (sector, bytes) in self.sectors[first..].iter_mut().zip(bytes.chunks(sector_bytes)) {
            // What does not change is nothing that a crash could leave undone.
            if **sector.now() != *bytes || sector.was_dropped {
                sector.set(bytes.into());
            }
        }
        let end = at + bytes.len() as u64;
        if end > *self.len.now() {
            self.len.set(end);
        }
    }
}

impl Disk for Handle {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.0.call(
            |state| {
                if state.inode_of(name).is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                state.inodes.push(Inode { sectors: Vec::new(), len: Versions::new(0) });
                let inode = state.inodes.len() - 1;
                state.set_name(name, Some(inode));
                Ok(inode)
            },
            |_| (),
        )?;
        Ok(Box::new(SimulatedFile { disk: Arc::clone(&self.0), inode }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let found = |state: &mut State| state.inode_of(name).ok_or(io::ErrorKind::NotFound.into());
        let inode = self.0.call(found, |_| ())?;
        Ok(Box::new(SimulatedFile { disk: Arc::clone(&self.0), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.call(
            |state| {
                let inode = state.inode_of(from).ok_or(io::ErrorKind::NotFound)?;
                if state.inode_of(to).is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                state.set_name(to, Some(inode));
                state.set_name(from, None);
                Ok(())
            },
            |_| (),
        )
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.call(
            |state| {
                if state.content(name).is_some_and(|content| is_own(&content)) {
                    state.set_name(name, None);
                }
                Ok(())
            },
            |_| (),
        )
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let all = |state: &mut State| {
            let names = state.names.iter().filter(|(_, inode)| inode.now().is_some());
            Ok(names.map(|(name, _)| name.clone()).collect())
        };
        self.0.call(all, |_| ())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.call(
            |state| {
                state.names.values_mut().for_each(Versions::synced);
                Ok(())
            },
            |_| (),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/disk").join(name)
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        let write = |state: &mut State| {
            let sector_bytes = state.sector_bytes;
            state.inodes[self.inode].write(pages, at, sector_bytes);
        };
        let done = |state: &mut State| {
            state.demand_room(self.inode, at + pages.len() as u64)?;
            write(state);
            Ok(())
        };
        self.disk.call(done, write)
    }

    /// Only what is written is durable then, and the length: not what was written elsewhere in the file before.
    fn write_durably_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        self.write_at(pages, at)?;
        let written = |state: &State| {
            let first = at as usize / state.sector_bytes;
            first..first + pages.len() / state.sector_bytes
        };
        self.disk.call(
            |state| {
                let range = written(state);
                let Inode { sectors, len } = &mut state.inodes[self.inode];
                sectors[range].iter_mut().for_each(Versions::synced);
                len.synced();
                Ok(())
            },
            |state| {
                let range = written(state);
                state.inodes[self.inode].sectors[range].iter_mut().for_each(Versions::dropped);
            },
        )
    }

    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize> {
        let read = |state: &mut State| {
            let inode = &state.inodes[self.inode];
            let len = *inode.len.now();
            let bytes = (len.saturating_sub(at) as usize).min(pages.len());
            let first = at as usize / state.sector_bytes;
            let sectors = inode.sectors.get(first..).unwrap_or_default();
            pages.fill(0);
            for (to, sector) in pages[..bytes].chunks_mut(state.sector_bytes).zip(sectors) {
                to.copy_from_slice(&sector.now()[..to.len()]);
            }
            Ok(bytes)
        };
        self.disk.call(read, |_| ())
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.disk.call(
            |state| {
                state.demand_room(self.inode, range.end)?;
                let sector_bytes = state.sector_bytes;
                let inode = &mut state.inodes[self.inode];
                inode.reach(range.end as usize / sector_bytes, sector_bytes);
                if range.end > *inode.len.now() {
                    inode.len.set(range.end);
                }
                Ok(())
            },
            |_| (),
        )
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.disk.call(
            |state| {
                let sector_bytes = state.sector_bytes;
                let inode = &mut state.inodes[self.inode];
                assert!(bytes <= *inode.len.now(), "it becomes longer");
                let cut = inode.sectors.iter_mut().skip(bytes as usize / sector_bytes);
                // If it becomes longer again, that is what it holds.
                cut.for_each(|sector| sector.set(vec![0; sector_bytes].into_boxed_slice()));
                inode.len.set(bytes);
                Ok(())
            },
            |_| (),
        )
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(
            |state| {
                let Inode { sectors, len } = &mut state.inodes[self.inode];
                sectors.iter_mut().for_each(Versions::synced);
                len.synced();
                Ok(())
            },
            |state| {
                state.inodes[self.inode].sectors.iter_mut().for_each(Versions::dropped);
            },
        )
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.call(|state| Ok(*state.inodes[self.inode].len.now()), |_| ())
    }
}
