//! Pages of a closed pool that have become zeros, as a disk that forgets them or a hole in a copy
//! leaves them: no pair is lost unnoticed. Opening or `check` says so, and what is left can be read.

use crate::superblocks::{
    PAIRS, PREFERRED, change, decode, make_store_on, make_table_on, store_pairs, value_of,
};
use crate::{effort, places};
use firndex::{Engine, Error, OpenError, Options, Store, Table};
use pmem::superblock::SUPERBLOCK_BYTES;
use std::path::Path;

const PAGE: usize = 4096;
const LINE: usize = 64;

/// A table or a store that holds what `superblocks` puts into it.
trait Filled: Sized {
    fn open(options: &Options, path: &Path) -> firndex::Result<Self>;
    fn pairs(&self) -> u64;
    /// Whether all pairs that were put are found, and no others counted.
    fn is_whole(&self) -> bool;
    /// What `check` finds.
    fn findings(&self) -> Vec<String>;
    /// Waits until everything is built that an opening may leave for later.
    fn build(&self) -> firndex::Result<()>;
}

impl Filled for Table {
    fn open(options: &Options, path: &Path) -> firndex::Result<Table> {
        options.open_table(path)
    }

    fn pairs(&self) -> u64 {
        self.len()
    }

    fn is_whole(&self) -> bool {
        let is_there = |key| self.get(key).is_ok_and(|found| found == Some(value_of(key)));
        self.len() == PAIRS && (0..PAIRS).all(is_there)
    }

    fn findings(&self) -> Vec<String> {
        self.check().unwrap().findings
    }

    fn build(&self) -> firndex::Result<()> {
        self.stats()?;
        self.stats().map(drop)
    }
}

impl Filled for Store {
    fn open(options: &Options, path: &Path) -> firndex::Result<Store> {
        options.open_store(path)
    }

    fn pairs(&self) -> u64 {
        self.len()
    }

    fn is_whole(&self) -> bool {
        let mut pairs = store_pairs();
        let is_there = |(key, value): (Vec<u8>, Vec<u8>)| match self.get(key) {
            Ok(Some(found)) => *found == *value,
            _ => false,
        };
        self.len() == store_pairs().count() as u64 && pairs.all(is_there)
    }

    fn findings(&self) -> Vec<String> {
        self.check().unwrap().findings
    }

    fn build(&self) -> firndex::Result<()> {
        self.stats()?;
        self.stats().map(drop)
    }
}

/// What was noticed of a loss.
#[derive(Debug, Default)]
struct Noticed {
    /// By opening for writing, which counted.
    by_counting: u64,
    /// By opening, which met what cannot be.
    by_opening: u64,
    by_check: u64,
    /// Nothing was lost.
    harmless: u64,
}

/// Opens what is left of a pool, and looks whether a loss goes unnoticed.
fn look<T: Filled>(usual: &Options, path: &Path, what: &str, noticed: &mut Noticed) {
    // Whether it is refused by the opening or soon after.
    let open = |options: &Options| {
        let pool = T::open(options, path)?;
        pool.build().map(|()| pool)
    };
    match open(usual) {
        Ok(pool) if !pool.findings().is_empty() => noticed.by_check += 1,
        Ok(pool) => {
            assert!(pool.is_whole(), "{what}: {} pairs, and nobody says so", pool.pairs());
            noticed.harmless += 1;
        }
        Err(Error::Open(OpenError::Miscounted { found, expected })) => {
            // Nor does it help to try again.
            let again = open(usual).map(|pool| pool.pairs());
            let is_same = |error: &Error| {
                matches!(error, Error::Open(OpenError::Miscounted { found: f, expected: e })
                    if (*f, *e) == (found, expected))
            };
            assert!(again.as_ref().is_err_and(is_same), "{what}: {again:?}");
            // Nor to open it for reading: what was lost would seem never to have been there.
            let reading = usual.clone().read_only(true);
            let refused = open(&reading).map(|pool| pool.pairs());
            assert!(refused.as_ref().is_err_and(is_same), "{what}: {refused:?}");
            let rest = T::open(&reading.may_lack_pairs(true), path).unwrap();
            assert_eq!(rest.pairs(), found, "{what}");
            let (findings, says) = (rest.findings(), format!("{found} pairs were found"));
            let is_told = findings.iter().any(|finding| {
                finding.contains(&says) && finding.contains(&format!("had {expected} when"))
            });
            assert!(is_told, "{what}: {findings:?}");
            noticed.by_counting += 1;
        }
        Err(error) => {
            assert!(matches!(error, Error::Open(_) | Error::Corrupt(_)), "{what}: {error:?}");
            noticed.by_opening += 1;
        }
    }
}

fn lose_each<T: Filled>(engine: Engine, make: fn(Engine, &Path), unit: usize, step: u64) {
    lose_each_of::<T>(&Options::new(), engine, make, unit, step);
}

fn lose_each_of<T: Filled>(
    options: &Options,
    engine: Engine,
    make: fn(Engine, &Path),
    unit: usize,
    step: u64,
) {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make(engine, &path);
    let bytes = std::fs::read(&path).unwrap();
    let end = decode(&bytes).end as usize;
    let mut noticed = Noticed::default();
    let starts = (SUPERBLOCK_BYTES as usize..end).step_by(unit * step as usize);
    for range in starts.map(|start| start..(start + unit).min(end)) {
        if bytes[range.clone()].iter().all(|&byte| byte == 0) {
            continue;
        }
        let mut damaged = bytes.clone();
        damaged[range.clone()].fill(0);
        std::fs::write(&path, damaged).unwrap();
        look::<T>(options, &path, &format!("{engine}, bytes {range:x?}"), &mut noticed);
    }
    assert!(noticed.by_counting > 0, "{engine}: {noticed:?}");
}

#[test]
fn a_lost_page_of_a_table_is_noticed() {
    Engine::ALL.iter().for_each(|&engine| lose_each::<Table>(engine, make_table_on, PAGE, 1));
}

/// Found after the opening, it is as good: later calls fail, and so do later openings.
#[test]
fn a_lost_page_is_noticed_by_what_is_built_later() {
    let later = Options::new().built_at_once_max(0);
    for &engine in Engine::ALL.iter().filter(|engine| engine.description().opens_at_once) {
        lose_each_of::<Table>(&later, engine, make_table_on, PAGE, 1);
        lose_each_of::<Store>(&later, engine, make_store_on, PAGE, effort::of(1, 5));
    }
}

#[test]
fn a_lost_line_of_a_table_is_noticed() {
    Engine::ALL
        .iter()
        .for_each(|&engine| lose_each::<Table>(engine, make_table_on, LINE, effort::of(5, 40)));
}

#[test]
fn a_lost_page_of_a_store_is_noticed() {
    Engine::ALL
        .iter()
        .for_each(|&engine| lose_each::<Store>(engine, make_store_on, PAGE, effort::of(1, 5)));
}

/// The number of pairs that the superblock says.
fn recorded(path: &Path) -> Option<u64> {
    decode(&std::fs::read(path).unwrap()).pairs()
}

#[test]
fn a_clean_pool_says_how_many_pairs_it_holds() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let table = Options::new().engine(engine).create_table(&path).unwrap();
        assert_eq!(recorded(&path), None, "being written");
        (0..100).for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
        table.sync().unwrap();
        assert_eq!(recorded(&path), Some(100), "{engine}: synced");
        // As a power failure would leave it now.
        let copy = directory.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(<Table>::open(&copy).unwrap().len(), 100);
        assert_eq!(recorded(&copy), Some(100), "{engine}: dropped");
        table.put(100, 0).unwrap();
        assert_eq!(recorded(&path), None, "{engine}: being written again");
        table.close().unwrap();
        assert_eq!(recorded(&path), Some(101), "{engine}: closed");
        Options::new().read_only(true).open_table(&path).unwrap().close().unwrap();
        assert_eq!(recorded(&path), Some(101), "{engine}: read");
    }
}

/// Pairs come and go on threads that hold the table up to its end, in growth and with a helper.
#[test]
fn the_number_of_pairs_is_exact_whenever_a_pool_is_closed() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let options = Options::new().engine(engine);
        for round in 0..8 {
            let store = options.open_or_create_store(&path).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..3u64 {
                    let store = &store;
                    scope.spawn(move || {
                        for number in 0..400 * round {
                            let key = (thread << 32 | number).to_le_bytes();
                            if number % 3 == round % 3 {
                                store.remove(key).unwrap();
                            } else {
                                store.put(key, key).unwrap();
                            }
                        }
                    });
                }
            });
            let pairs = store.len();
            drop(store);
            assert_eq!(recorded(&path), Some(pairs), "{engine}, round {round}");
        }
    }
}

/// One that another build has written to, which keeps what it does not know, or that says nothing.
#[test]
fn a_pool_without_a_record_is_opened_as_it_is() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_table_on(PREFERRED, &path);
    let bytes = std::fs::read(&path).unwrap();
    let unrecorded: [fn(&mut pmem::superblock::Superblock); 2] =
        [|superblock| superblock.sequence += 1, |superblock| superblock.advance(true, None)];
    for change_it in unrecorded {
        let mut bytes = bytes.clone();
        change(&mut bytes, change_it);
        bytes[SUPERBLOCK_BYTES as usize..].fill(0);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(<Table>::open(&path).unwrap().len(), 0);
    }
}
