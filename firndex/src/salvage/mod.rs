//! Copies what still reads well of a damaged or refused pool into a new one.

mod found;
mod report;

pub use report::{Salvaged, SuperblockState};

use crate::draft::{Draft, Existing};
use crate::shapes::Shapes;
use crate::{
    Engine, Error, Kind, Options, Result,
    contents::{Contents, check_superblock},
};
use found::Led;
use index::Fixed;
use pmem::OpenError;
use pmem::file::PoolFile;
use pmem::heap::salvage::{Remains, for_each_item};
use pmem::superblock::{COPY_BYTES, COPY_WORDS, Superblock};
use report::Tally;
use std::path::Path;

/// What to do with orphans: items that no slot leads to. Their pairs were removed or replaced, or their slots are
/// damaged; nobody can tell which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Orphans {
    /// They are counted, and left out. Without a superblock everything is an orphan; then they are copied all the same.
    Leave,
    /// They are copied, unless a slot leads to another item with the same key.
    Copy,
}

/// Offset of the image in a checkpoint.
const IMAGE_OF_CHECKPOINT: u64 = 4096;
/// What a checkpoint begins with, and where its number is.
const CHECKPOINT: &[u8; 8] = b"FIRNSAFE";
const NUMBER_OF_CHECKPOINT: u64 = 14 * 8;

/// A pool that may be damaged anywhere, or a checkpoint (`POOL.safe`). Nothing in it is trusted unless it proves sound:
/// items and groups of items must fit their checksums, and pairs must lie where their keys belong.
///
/// It is for pools that cannot be opened, or fail their check, and have no backup. Pairs of a table have no checksum on
/// most engines: flipped bits in a value go unnoticed. If a pool only needs recovery, open it instead.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let (path, out) = (directory.path().join("notes.firn"), directory.path().join("saved.firn"));
/// use firndex::{Existing, Options, Orphans, Salvage, Store};
///
/// let notes = Store::open_or_create(&path)?;
/// notes.put("milk", "two bottles")?;
/// notes.close()?;
/// // Something writes over both copies of the superblock.
/// let mut bytes = std::fs::read(&path).unwrap();
/// bytes[..8192].fill(0xff);
/// std::fs::write(&path, &bytes).unwrap();
///
/// let options = Options::new();
/// let saved = Salvage::open(&path)?.store(&out, Existing::Keep, &options, Orphans::Leave)?;
/// assert_eq!((saved.pairs, saved.is_complete()), (1, false));
/// assert_eq!(Store::open(&out)?.get("milk")?.as_deref(), Some(&b"two bottles"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Salvage {
    file: PoolFile,
    /// Where the pool begins in the file, and its length.
    begin: u64,
    bytes: u64,
    state: SuperblockState,
    /// The superblock, or all candidates for it.
    superblocks: Vec<Superblock>,
}

impl Remains for Salvage {
    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        let end = at.checked_add(bytes.len() as u64);
        end.is_some_and(|end| end <= self.bytes)
            && self.file.read_exact_at(bytes, self.begin + at).is_ok()
    }

    fn len(&self) -> u64 {
        self.bytes
    }
}

impl Salvage {
    /// Locks the pool at `path` against writers, and changes nothing in it.
    ///
    /// Fails if there is no such file, if another process or handle writes to it, or if another version of firndex made
    /// it.
    pub fn open(path: impl AsRef<Path>) -> Result<Salvage> {
        let file = claim(path.as_ref())?;
        let bytes = file.len()?;
        let mut salvage = Salvage {
            file,
            begin: 0,
            bytes,
            state: SuperblockState::Lost,
            superblocks: Vec::new(),
        };
        let mut magic = [0; 8];
        if salvage.read(0, &mut magic) && &magic == CHECKPOINT {
            salvage.begin = IMAGE_OF_CHECKPOINT.min(bytes);
            salvage.bytes -= salvage.begin;
        }
        let copies = [0, COPY_BYTES].map(|at| salvage.copy(at));
        match Superblock::choose([copies[0].as_deref(), copies[1].as_deref()]) {
            Ok((superblock, _)) => {
                check_superblock(&superblock, None, Contents::of(&superblock))?;
                salvage.state = SuperblockState::Sound;
                salvage.superblocks = vec![superblock];
            }
            Err(OpenError::Damaged { .. } | OpenError::NotAPool { .. }) => {
                let guesses = copies.iter().flatten().filter_map(|copy| Superblock::guess(copy));
                let is_known = |guess: &Superblock| Engine::from_id(guess.engine).is_some();
                salvage.superblocks = guesses.filter(is_known).collect();
                if !salvage.superblocks.is_empty() {
                    salvage.state = SuperblockState::Damaged;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(salvage)
    }

    fn copy(&self, at: u64) -> Option<Box<[u64; COPY_WORDS]>> {
        let mut bytes = vec![0; COPY_BYTES as usize];
        if !self.read(at, &mut bytes) {
            return None;
        }
        let mut words = Box::new([0; COPY_WORDS]);
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Some(words)
    }

    /// What the pool holds, if the superblock still tells.
    pub fn kind(&self) -> Option<Kind> {
        self.superblocks.first().map(|superblock| Kind::of(superblock.kind))
    }

    /// Bytes of a table's keys and values, if the superblock still tells; 0 and 0 for a store.
    pub fn sizes(&self) -> Option<(u32, u32)> {
        self.superblocks.first().map(|superblock| (superblock.key_bytes, superblock.value_bytes))
    }

    /// Writes a store at `out` with everything that still reads well, on the same engine unless `options` choose
    /// another.
    pub fn store(
        &self,
        out: impl AsRef<Path>,
        existing: Existing,
        options: &Options,
        orphans: Orphans,
    ) -> Result<Salvaged> {
        if self.kind().is_some_and(|kind| kind != Kind::Store) {
            return Err(self.refusal(Contents::STORE));
        }
        let superblock = self.best(|superblock| {
            let mut well = 0;
            found::for_each_record(self, superblock, &mut |led| well += u64::from(led.is_pair()));
            well
        });
        let options = self.options(options, superblock)?;
        let draft = Draft::begin(&options, out.as_ref(), existing)?;
        let store = draft.make::<crate::Store>(&options)?;
        let mut tally = self.tally(superblock);
        let keep = |key: &[u8], value: &[u8]| -> Result<bool> {
            let before = store.insert(key, value)?;
            Ok(before.is_none_or(|before| before == value))
        };
        if let Some(superblock) = superblock {
            tally.unread_bytes = found::for_each_record(self, superblock, &mut |led| match led {
                Led::Pair((key, value)) => tally.keep(|| keep(&key, &value)),
                other => tally.lose(&other),
            });
        }
        let copies_orphans = orphans == Orphans::Copy || superblock.is_none();
        for_each_item(self, superblock, &mut |_, (key, value)| {
            tally.try_orphan(|| {
                if store.get(&key)?.is_some() {
                    return Ok(false);
                }
                if copies_orphans {
                    store.put(&key, &value)?;
                }
                Ok(true)
            });
        });
        tally.failure()?;
        let pairs = store.len();
        if superblock.is_none() && pairs == 0 {
            return Err(OpenError::NotAPool {
                found: "neither a superblock nor an item is left in it".into(),
                advice: "name the pool's file, or its checkpoint (in POOL.safe)",
            }
            .into());
        }
        store.close()?;
        Ok(tally.end(pairs, draft.publish()?))
    }

    /// Writes a table at `out` with everything that still reads well, on the same engine unless `options` choose
    /// another. Without a superblock nothing of a table can be found.
    pub fn table_of<K: Fixed, V: Fixed>(
        &self,
        out: impl AsRef<Path>,
        existing: Existing,
        options: &Options,
    ) -> Result<Salvaged> {
        let contents = Contents::table::<K, V>();
        let superblock = self.best(|superblock| {
            let mut well = 0;
            let visit = &mut |led: Led<(K, V)>| well += u64::from(led.is_pair());
            found::for_each_pair(self, superblock, visit);
            well
        });
        let Some(superblock) = superblock.filter(|found| Contents::of(found) == contents) else {
            return Err(self.refusal(contents));
        };
        let options = self.options(options, Some(superblock))?;
        let draft = Draft::begin(&options, out.as_ref(), existing)?;
        let table = draft.make::<crate::Table<K, V>>(&options)?;
        let mut tally = self.tally(Some(superblock));
        let unread_bytes = found::for_each_pair::<K, V>(self, superblock, &mut |led| match led {
            Led::Pair((key, value)) => tally.keep(|| {
                let before = table.insert(key, value)?;
                Ok(before.is_none_or(|before| index::is_same(before, value)))
            }),
            other => tally.lose(&other),
        });
        tally.unread_bytes = unread_bytes;
        tally.failure()?;
        let pairs = table.len();
        table.close()?;
        Ok(tally.end(pairs, draft.publish()?))
    }

    /// A report on what is found with this superblock.
    fn tally(&self, superblock: Option<&Superblock>) -> Tally {
        // What a checkpoint's copy of the superblock says was true at another moment than its pairs.
        let is_closed = self.begin == 0 && superblock.is_some_and(|superblock| superblock.clean);
        Tally::new(self.state, superblock, is_closed)
    }

    /// The superblock by which the most reads well, as `well` counts it; `None` if there is no candidate.
    fn best(&self, well: impl Fn(&Superblock) -> u64) -> Option<&Superblock> {
        match &self.superblocks[..] {
            [only] => Some(only),
            several => several.iter().max_by_key(|superblock| well(superblock)),
        }
    }

    /// What the new pool holds.
    fn options(&self, asked: &Options, superblock: Option<&Superblock>) -> Result<Options> {
        let mut options = asked.clone();
        options.mode = Some(self.file.ownership()?.mode());
        if let Some(superblock) = superblock {
            if options.parameters.iter().next().is_none() {
                options.engine = options.engine.or(Engine::from_id(superblock.engine));
            }
            options.durability = options.durability.or(superblock.durability());
            options.shapes = Some(Shapes::read(superblock, |bytes, at| self.read(at, bytes)));
        }
        Ok(options)
    }

    /// Why nothing can be salvaged.
    fn refusal(&self, wanted: Contents) -> Error {
        let Some(superblock) = self.superblocks.first() else {
            let found = "its superblock is lost in both copies, without which nothing tells where a table has \
                         its pairs"
                .into();
            return OpenError::Damaged { found }.into();
        };
        match check_superblock(superblock, None, wanted) {
            Err(error) => error,
            Ok(_) => {
                OpenError::Corrupt { found: "its superblock contradicts itself".into() }.into()
            }
        }
    }
}

/// The file to be salvaged, locked against writers: of a directory of a pool's checkpoints the newest one.
fn claim(path: &Path) -> Result<PoolFile> {
    if !path.is_dir() {
        return Ok(PoolFile::claim_to_read(path)?);
    }
    let mut newest: Option<(u64, PoolFile)> = None;
    for name in ["checkpoint.0", "checkpoint.1"] {
        let Ok(file) = PoolFile::claim_to_read(&path.join(name)) else { continue };
        let word = |at| {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at).map(|()| word).unwrap_or_default()
        };
        let number = u64::from_le_bytes(word(NUMBER_OF_CHECKPOINT));
        let is_newer = newest.as_ref().is_none_or(|newest| newest.0 < number);
        if &word(0) == CHECKPOINT && is_newer {
            newest = Some((number, file));
        }
    }
    let found = newest.ok_or_else(|| OpenError::NotAPool {
        found: format!("{} is a directory without a checkpoint", path.display()),
        advice: "name the pool's file",
    })?;
    Ok(found.1)
}
