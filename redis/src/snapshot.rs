//! The module's part of a snapshot (RDB).
//!
//! A snapshot for a replica has the whole pool. One for this server itself has only a marker: where the pool stood. The
//! pool survives by itself, so a restart that read it all again would only take time.
//!
//! ```text
//!   1 or 0: with the pool, or the marker alone
//!   the position, the number of keys
//!   chunks of pairs, then an empty one, then the number of pairs      if with the pool
//! ```
//!
//! A pair is the lengths of key and value in 4 bytes each, the stored key, the stored value. The child that writes a
//! snapshot is a guest of its parent: it reads the pool while the parent changes it, a part at a time. So what it
//! writes is of no one moment, but each key that was there throughout is in it. The position is that of the fork. The
//! effects behind it come to the replica in the stream, and make the copy right.

use crate::api::{Broken, Level, RdbReader, RdbWriter, Server, log};
use crate::keeper::{Keeper, Loading, with};
use crate::names;
use crate::position::Position;
use crate::refusal::Answer;
use firndex::{Options, Role, Store};
use std::ffi::{CString, c_int};

pub(crate) const VERSION: c_int = 1;
/// Bytes of pairs that are written together.
const CHUNK_BYTES: usize = 1 << 20;
/// In place of the number of pairs, if not all could be read.
const FAILED: u64 = u64::MAX;

/// Writes the module's part.
pub(crate) fn save(to: &mut RdbWriter) {
    let server = to.server();
    let state = with(|keeper| {
        let is_child = keeper.process != std::process::id();
        let is_full = keeper.settings.has_full_snapshots || is_child && has_waiting_replica(server);
        Ok((is_child, is_full, keeper.position.clone(), keeper.len()))
    });
    let Ok((is_child, is_full, position, len)) = state else {
        return fail(to, false, "the module's state is not there");
    };
    to.number(is_full.into());
    to.bytes(&position.to_bytes());
    to.number(len);
    if !is_full {
        return;
    }
    let written = with(|keeper| {
        if !is_child {
            let store = keeper.store.clone();
            return Ok(save_pairs(to, &store)?);
        }
        let guest = Options::new().never_own(true).open_store(&keeper.settings.path)?;
        // Its parent is gone, and its successor needs the pool.
        if guest.role() != Role::Guest {
            return Ok(FAILED);
        }
        Ok(save_pairs(to, &guest)?)
    });
    match written {
        Ok(FAILED) => fail(to, is_child, "the server that has the pool has ended"),
        Ok(pairs) => to.number(pairs),
        Err(refusal) => fail(to, is_child, &refusal.to_string()),
    }
}

/// Makes the snapshot one that nobody takes.
fn fail(to: &mut RdbWriter, is_child: bool, found: &str) {
    log(Level::Warning, &format!("the pool could not be written to a snapshot: {found}"));
    if is_child {
        crate::api::end_child();
    }
    to.bytes(&[]);
    to.number(FAILED);
}

/// Whether a replica waits for the snapshot that this child writes.
fn has_waiting_replica(server: Server) -> bool {
    let field = |name: &str| {
        let name = CString::new(name).unwrap_or_default();
        server.info(c"replication", &name)
    };
    // One that is to send a snapshot to nobody else begins when no replica waits.
    let replicas = field("connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0u32);
    (0..replicas).any(|number| {
        field(&format!("slave{number}")).is_some_and(|state| state.contains("state=wait_bgsave"))
    })
}

/// Writes all pairs, with the record of closed slots; how many.
fn save_pairs(to: &mut RdbWriter, store: &Store) -> firndex::Result<u64> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES + (64 << 10));
    let mut pairs = 0;
    store.for_each(|key, value| {
        // It is in the snapshot's head.
        if key == names::POSITION {
            return;
        }
        // The pool's limits are below 4 GiB.
        chunk.extend_from_slice(&(key.len() as u32).to_le_bytes());
        chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
        pairs += 1;
        if chunk.len() >= CHUNK_BYTES {
            to.bytes(&chunk);
            chunk.clear();
        }
    })?;
    if !chunk.is_empty() {
        to.bytes(&chunk);
    }
    to.bytes(&[]);
    Ok(pairs)
}

/// Reads the module's part. Whether it was good.
pub(crate) fn load(from: &mut RdbReader, version: c_int) -> bool {
    if version != VERSION {
        let expected = VERSION;
        log(
            Level::Warning,
            &format!(
                "the snapshot has version {version}, expected {expected}; load a newer module"
            ),
        );
        return false;
    }
    match read(from) {
        Ok(Ok(())) => true,
        Ok(Err(found)) => {
            log(Level::Warning, &format!("the snapshot is not taken: {found}"));
            false
        }
        Err(Broken) => {
            log(Level::Warning, "the snapshot ends within the pool");
            false
        }
    }
}

/// What a snapshot says before its pairs.
struct Head {
    is_full: bool,
    position: Position,
    len: u64,
}

fn read(from: &mut RdbReader) -> Result<Result<(), String>, Broken> {
    let is_full = from.number()? == 1;
    let position = from.bytes(Position::from_bytes)?;
    let len = from.number()?;
    let Some(position) = position else {
        return Ok(Err("it has no position that this version knows".into()));
    };
    let head = Head { is_full, position, len };
    let takes = match with(|keeper| Ok(takes(keeper, &head))) {
        Ok(Ok(takes)) => takes,
        Ok(Err(refused)) => return Ok(Err(refused)),
        Err(refusal) => return Ok(Err(refusal.to_string())),
    };
    if !is_full {
        return Ok(Ok(()));
    }
    if let Err(failed) = read_pairs(from, takes)? {
        return Ok(Err(failed));
    }
    if takes {
        let done = with(|keeper| keeper.is_at(head.position));
        return Ok(done.map_err(|refusal| refusal.to_string()));
    }
    Ok(Ok(()))
}

/// Whether the pool is to be filled from the snapshot; or why that is no snapshot for it.
fn takes(keeper: &mut Keeper, head: &Head) -> Result<bool, String> {
    let path = keeper.settings.path.display();
    if keeper.loading == Some(Loading::Masters) {
        return match head.is_full {
            true => Ok(true),
            false => Err("the master has sent a marker, and not its pool; it tries again".into()),
        };
    }
    // A pool that was being filled from a master's snapshot: the server has that snapshot on its disk, whole, unless
    // it was sent without one.
    let is_empty = keeper.is_fresh || keeper.position.is_partial;
    if head.is_full && is_empty && keeper.snapshot.is_none() {
        return Ok(true);
    }
    if keeper.is_fresh && head.len > 0 && !keeper.settings.may_be_new {
        return Err(format!(
            "it belongs to a pool with {} keys, and there was none at {path}; put that pool back, or, if it is lost, \
             load the module with the argument `new-pool yes`",
            head.len
        ));
    }
    keeper.snapshot = Some(head.position.clone());
    Ok(false)
}

fn read_pairs(from: &mut RdbReader, takes: bool) -> Result<Result<u64, String>, Broken> {
    let mut pairs = 0;
    let mut failed = None;
    loop {
        let count = from.bytes(|chunk| take_chunk(chunk, takes && failed.is_none()))?;
        match count {
            Ok(0) => break,
            Ok(count) => pairs += count,
            // The rest has to be read all the same.
            Err(found) => failed = Some(found),
        }
    }
    let expected = from.number()?;
    Ok(match failed {
        Some(found) => Err(found),
        None if expected == FAILED => {
            Err("the server that wrote it could not read its pool".into())
        }
        None if expected != pairs => Err(format!("it has {pairs} pairs, expected {expected}")),
        None => Ok(pairs),
    })
}

/// Stores the pairs of a chunk; how many there are.
fn take_chunk(chunk: &[u8], takes: bool) -> Result<u64, String> {
    let mut pairs = Vec::new();
    let mut rest = chunk;
    while !rest.is_empty() {
        let Some((key, value, behind)) = split_pair(rest) else {
            return Err("it has a pair that ends behind its chunk".into());
        };
        pairs.push((key, value));
        rest = behind;
    }
    if takes && !pairs.is_empty() {
        let put = |keeper: &mut Keeper| -> Answer {
            keeper.store.put_many(&pairs)?;
            Ok(())
        };
        with(put).map_err(|refusal| refusal.to_string())?;
    }
    Ok(pairs.len() as u64)
}

fn split_pair(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_len, rest) = bytes.split_first_chunk::<4>()?;
    let (value_len, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
    Some((key, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_as_written_and_damaged_ones_are_refused() {
        let mut chunk = Vec::new();
        for (key, value) in [(&b"a"[..], &b"1"[..]), (b"", b""), (b"key", b"value")] {
            chunk.extend_from_slice(&(key.len() as u32).to_le_bytes());
            chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
            chunk.extend_from_slice(key);
            chunk.extend_from_slice(value);
        }
        assert_eq!(take_chunk(&chunk, false), Ok(3));
        assert_eq!(take_chunk(&[], false), Ok(0));
        for len in (1..chunk.len()).filter(|len| ![10, 18].contains(len)) {
            assert!(take_chunk(&chunk[..len], false).is_err(), "{len}");
        }
        assert!(take_chunk(&[255; 8], false).is_err());
    }
}
