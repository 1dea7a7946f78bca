//! A simulated disk: what is volatile, what is durable, and what may be either.
//!
//! * A name is what it is said to be once [`Disk::sync_names`] has returned. Until then it is that, or what it was.
//! * A sector of a file holds what was last written to it once the file was synced. Until then it holds that, or what
//!   was written before, or what was there. A file's length likewise.
//! * A sync that fails makes nothing durable, and a later one that succeeds makes durable only what was written since:
//!   kernels say once that they have dropped a page.
//! * A write that fails may have reached any of its sectors.

use pmem::durability::disk::{Disk, DiskFile};
use std::collections::BTreeMap;
use std::io;
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
}

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
        let state = State { sector_bytes, names, inodes, calls: 0, fault: None };
        Arc::new(SimulatedDisk { state: Mutex::new(state), observer: Mutex::new(None) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn observe(&self, observer: Option<Observer>) {
        *self.observer.lock().unwrap() = observer;
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
                if state.inode_of(name).is_some() {
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
            |state| state.names.values_mut().for_each(Versions::dropped),
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
                let Inode { sectors, len } = &mut state.inodes[self.inode];
                sectors[range].iter_mut().for_each(Versions::dropped);
                len.dropped();
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

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.disk.call(
            |state| {
                let sector_bytes = state.sector_bytes;
                let inode = &mut state.inodes[self.inode];
                inode.reach(bytes as usize / sector_bytes, sector_bytes);
                if bytes > *inode.len.now() {
                    inode.len.set(bytes);
                }
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
                let Inode { sectors, len } = &mut state.inodes[self.inode];
                sectors.iter_mut().for_each(Versions::dropped);
                len.dropped();
            },
        )
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.call(|state| Ok(*state.inodes[self.inode].len.now()), |_| ())
    }
}
