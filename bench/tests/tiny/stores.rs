//! Stores of byte strings of other authors, sound ones and broken ones.

use anyhow::Result;
use bench::{AfterKill, ByteStore, Contender, Embedded, Pair, Reopens, See};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

/// What is wrong with an [`Other`] store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// One key in 64 is forgotten at once.
    ForgetsKeys,
    /// The last byte of one value in 64 is another.
    ChangesValues,
    /// Nothing is said of one key in 64.
    SaysNothing,
    /// A removal of one key in 64 does nothing and is told as done.
    SkipsRemovals,
    /// Nothing is in a file, whatever is promised.
    LosesEverything,
}

/// All of them.
pub(crate) const FAULTS: [Fault; 5] = [
    Fault::ForgetsKeys,
    Fault::ChangesValues,
    Fault::SaysNothing,
    Fault::SkipsRemovals,
    Fault::LosesEverything,
];

/// A store that appends each list of pairs to a file.
struct Other {
    pairs: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    file: File,
    fault: Fault,
}

/// The next string of bytes and its length before it.
fn take(from: &mut &[u8]) -> Option<Vec<u8>> {
    let (bytes, rest) = from.split_first_chunk().map(|(head, rest)| (*head, rest))?;
    let (string, rest) = rest.split_at_checked(u32::from_le_bytes(bytes) as usize)?;
    *from = rest;
    Some(string.to_vec())
}

impl Other {
    fn open(directory: &Path, fault: Fault) -> Result<Other> {
        let path = directory.join("other");
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let saved = fs::read(&path)?;
        let mut rest = &saved[..];
        let pairs = std::iter::from_fn(|| Some((take(&mut rest)?, take(&mut rest)?))).collect();
        Ok(Other { pairs: Mutex::new(pairs), file, fault })
    }

    fn is_hit(&self, key: &[u8], fault: Fault) -> bool {
        self.fault == fault && key[7].is_multiple_of(64)
    }

    fn save(&self, pairs: &[Pair<'_>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for string in pairs.iter().flat_map(|(key, value)| [key, value]) {
            bytes.extend((string.len() as u32).to_le_bytes());
            bytes.extend(*string);
        }
        (&self.file).write_all(&bytes)
    }
}

impl ByteStore for Other {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        let kept = pairs.iter().filter(|pair| !self.is_hit(pair.0, Fault::ForgetsKeys));
        let kept = kept.map(|(key, value)| (key.to_vec(), value.to_vec()));
        self.pairs.lock().unwrap().extend(kept);
        if self.fault != Fault::LosesEverything {
            self.save(pairs)?;
        }
        Ok(())
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        let pairs = self.pairs.lock().unwrap();
        for (place, key) in keys.iter().enumerate() {
            let mut found = pairs.get(*key).cloned();
            if self.is_hit(key, Fault::ChangesValues)
                && let Some(last) = found.as_mut().and_then(|value| value.last_mut())
            {
                *last ^= 1;
            }
            if !self.is_hit(key, Fault::SaysNothing) {
                see(place, found.as_deref());
            }
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut pairs = self.pairs.lock().unwrap();
        for key in keys.iter().filter(|key| !self.is_hit(key, Fault::SkipsRemovals)) {
            pairs.remove(*key);
        }
        Ok(None)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// A contender under the name of its fault, which promises to keep every put.
pub(crate) fn other(fault: Fault) -> Box<dyn Contender> {
    Box::new(Embedded {
        name: format!("{fault:?}"),
        version: "0".into(),
        after_power_loss: Some("every put"),
        after_kill: Some(AfterKill { text: "every put", is_all: true }),
        reopens: Reopens::Killed,
        groups: false,
        open: move |directory: &Path| {
            Ok(Box::new(Other::open(directory, fault)?) as Box<dyn ByteStore>)
        },
    })
}

/// Engines, and such a store beside them.
pub(crate) fn with_other(fault: Fault) -> Vec<Box<dyn Contender>> {
    let mut contenders = bench::table::engines();
    contenders.push(other(fault));
    contenders
}
