//! What a crash leaves of a simulated disk.

use crate::disk::{Inode, State};
use pmem::durability::disk::{Disk, DiskFile};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// The random numbers of these tests (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// One thing that may be in several states after a crash.
#[derive(Clone, Debug)]
enum Open {
    Name(String),
    Sector(usize, usize),
    Len(usize),
}

/// What a place for a checkpoint begins with that is room for one.
const ROOM: &[u8] = b"FIRNROOM";
/// An opening reads no more of it.
const ROOM_BYTES: usize = 4096;

/// The sectors that an opening may read.
fn read_sectors(inode: &Inode, sector_bytes: usize) -> usize {
    match inode.sectors.first() {
        Some(first) if first.count() == 1 && first.durable.starts_with(ROOM) => {
            ROOM_BYTES / sector_bytes
        }
        _ => inode.sectors.len(),
    }
}

/// The disk at a moment, with everything that a crash decides.
pub(crate) struct Crash<'a> {
    state: &'a State,
    open: Vec<(Open, usize)>,
    /// What is durable of each file that an opening may look at.
    durable: Vec<Option<Arc<Vec<u8>>>>,
}

/// Which of them is in which state.
pub(crate) type Choice = Vec<usize>;

impl<'a> Crash<'a> {
    pub(crate) fn of(state: &'a State) -> Crash<'a> {
        let mut open = Vec::new();
        let mut read = vec![false; state.inodes.len()];
        for (name, versions) in &state.names {
            if versions.count() > 1 {
                open.push((Open::Name(name.clone()), versions.count()));
            }
            let inodes = (0..versions.count()).filter_map(|index| *versions.get(index));
            inodes.for_each(|inode| read[inode] = true);
        }
        for (index, inode) in state.inodes.iter().enumerate().filter(|(index, _)| read[*index]) {
            if inode.len.count() > 1 {
                open.push((Open::Len(index), inode.len.count()));
            }
            let sectors = inode.sectors.iter().enumerate();
            let sectors = sectors.take(read_sectors(inode, state.sector_bytes));
            open.extend(
                sectors
                    .filter(|(_, sector)| sector.count() > 1)
                    .map(|(at, sector)| (Open::Sector(index, at), sector.count())),
            );
        }
        let durable = state.inodes.iter().zip(read).map(|(inode, read)| {
            let mut bytes = Vec::with_capacity(inode.sectors.len() * state.sector_bytes);
            inode.sectors.iter().for_each(|sector| bytes.extend_from_slice(&sector.durable));
            if inode.len.count() == 1 {
                bytes.resize(inode.len.durable as usize, 0);
            }
            read.then(|| Arc::new(bytes))
        });
        Crash { state, open, durable: durable.collect() }
    }

    /// What is there for the next process if this one is killed, and power stays.
    pub(crate) fn of_killed(state: &State) -> CrashedDisk {
        let names = state.files().into_keys();
        let file = |name: &str| Some((name.to_owned(), Arc::new(state.content(name)?)));
        CrashedDisk { files: names.filter_map(file).collect() }
    }

    /// How many disks a crash may leave here.
    pub(crate) fn count(&self) -> f64 {
        self.open.iter().map(|(_, count)| *count as f64).product()
    }

    /// Calls `visit` with each of them, or with `limit` of them, drawn at random, if there are more: the one to which
    /// everything has come, and the one to which nothing has, among them.
    pub(crate) fn for_each(
        &self,
        limit: usize,
        random: &mut Random,
        mut visit: impl FnMut(&Choice),
    ) {
        let counts: Vec<usize> = self.open.iter().map(|(_, count)| *count).collect();
        let mut choice = vec![0; counts.len()];
        if self.count() <= limit as f64 {
            loop {
                visit(&choice);
                let Some(next) = (0..counts.len()).find(|&at| choice[at] + 1 < counts[at]) else {
                    return;
                };
                choice[next] += 1;
                choice[..next].fill(0);
            }
        }
        visit(&choice);
        counts.iter().zip(&mut choice).for_each(|(count, chosen)| *chosen = count - 1);
        visit(&choice);
        for _ in 2..limit {
            self.draw(random, &mut choice);
            visit(&choice);
        }
    }

    /// One of them. Whether few or many of the latest states have come to the disk is drawn first.
    pub(crate) fn draw(&self, random: &mut Random, choice: &mut Choice) {
        let odds = random.below(9);
        choice.clear();
        choice.extend(self.open.iter().map(|(_, count)| match random.below(8) < odds {
            true => count - 1,
            false => random.below(*count),
        }));
    }

    /// The disk of a choice.
    pub(crate) fn disk(&self, choice: &Choice) -> CrashedDisk {
        let names = self.state.names.iter().map(|(name, inode)| (name.as_str(), inode.durable));
        let mut names: BTreeMap<&str, Option<usize>> = names.collect();
        let mut files = self.durable.clone();
        for ((open, _), &chosen) in self.open.iter().zip(choice) {
            if let Open::Name(name) = open {
                names.insert(name, *self.state.names[name].get(chosen));
            }
        }
        for ((open, _), &chosen) in self.open.iter().zip(choice) {
            if let Open::Sector(inode, at) = open
                && let Some(bytes) = &mut files[*inode]
                && chosen > 0
            {
                let sector = self.state.inodes[*inode].sectors[*at].get(chosen);
                let end = (at + 1) * sector.len();
                let bytes = Arc::make_mut(bytes);
                bytes.resize(bytes.len().max(end), 0);
                bytes[at * sector.len()..end].copy_from_slice(sector);
            }
        }
        for ((open, _), &chosen) in self.open.iter().zip(choice) {
            if let Open::Len(inode) = open
                && let Some(bytes) = &mut files[*inode]
            {
                let len = *self.state.inodes[*inode].len.get(chosen);
                Arc::make_mut(bytes).resize(len as usize, 0);
            }
        }
        let files = names.into_iter().filter_map(|(name, inode)| {
            Some((name.to_owned(), Arc::clone(files[inode?].as_ref()?)))
        });
        CrashedDisk { files: files.collect() }
    }

    /// What was chosen, for messages.
    pub(crate) fn describe(&self, choice: &Choice) -> String {
        let parts = self
            .open
            .iter()
            .zip(choice)
            .map(|((open, count), chosen)| format!("{open:?}={chosen}/{}", count - 1));
        parts.collect::<Vec<_>>().join(" ")
    }
}

/// A disk that a crash has left. Restoring must not change it: then it can crash at any point, and begin again.
#[derive(Clone, Debug)]
pub(crate) struct CrashedDisk {
    pub(crate) files: Vec<(String, Arc<Vec<u8>>)>,
}

impl CrashedDisk {
    fn find(&self, name: &str) -> io::Result<&Arc<Vec<u8>>> {
        let found = self.files.iter().find(|(found, _)| found == name);
        found.map(|(_, bytes)| bytes).ok_or(io::ErrorKind::NotFound.into())
    }
}

fn changed<T>() -> io::Result<T> {
    panic!("a restoration changes the disk");
}

impl Disk for CrashedDisk {
    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        changed()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CrashedFile(Arc::clone(self.find(name)?))))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        changed()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        changed()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files.iter().map(|(name, _)| name.clone()).collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        changed()
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/crashed").join(name)
    }
}

struct CrashedFile(Arc<Vec<u8>>);

impl DiskFile for CrashedFile {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        changed()
    }

    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize> {
        let bytes = self.0.get(at as usize..).unwrap_or_default();
        let count = bytes.len().min(pages.len());
        pages[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn allocate(&self, _: Range<u64>) -> io::Result<()> {
        changed()
    }

    fn shorten(&self, _: u64) -> io::Result<()> {
        changed()
    }

    fn sync(&self) -> io::Result<()> {
        changed()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
