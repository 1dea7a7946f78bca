//! Judging a pool against what was reported, and the files against the pool.

use std::collections::BTreeSet;
use std::fs::File;
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use firndex::{Record, Store};

use crate::audience::{Audience, Progress, Stage};
use crate::crew::on_threads;
use crate::error::{Error, Result};
use crate::plan::{Digest, Location, Plan};
use crate::tempo::{Span, Tempo};

/// Gets that are timed together: reading the clock costs a part of a get.
const GETS_TIMED: usize = 64;

/// What became of the chunks that were looked up.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Their digest is not in the pool.
    pub(crate) missing: Vec<usize>,
    /// Their digest is there and leads to no chunk of that digest.
    pub(crate) misplaced: Vec<usize>,
    /// It leads to just this chunk, so that each location in the pool counts once.
    pub(crate) firsts: Vec<usize>,
    pub(crate) gets: Tempo,
}

impl Verdict {
    /// The chunks that were reported and cannot be had back.
    pub(crate) fn lost(&self) -> impl Iterator<Item = usize> {
        self.missing.iter().chain(&self.misplaced).copied()
    }
}

/// Looks up these chunks of the plan, with several threads.
pub(crate) fn judge(
    store: &Store,
    plan: &Plan,
    chunks: &[usize],
    threads: usize,
    audience: &dyn Audience,
) -> Result<Verdict> {
    let progress = audience.begin(Stage::Check, Some(chunks.len() as u64));
    let progress = progress.as_ref();
    let started = Instant::now();
    let parts = split(chunks, threads, |part| judge_part(store, plan, part, started, progress));
    let mut all = Verdict::default();
    let mut spans = Vec::new();
    for part in parts {
        let (verdict, its_spans) = part?;
        all.missing.extend(verdict.missing);
        all.misplaced.extend(verdict.misplaced);
        all.firsts.extend(verdict.firsts);
        spans.extend(its_spans);
    }
    all.gets = Tempo::over(chunks.len() as u64, spans);
    Ok(all)
}

fn judge_part(
    store: &Store,
    plan: &Plan,
    chunks: &[usize],
    started: Instant,
    progress: &dyn Progress,
) -> Result<(Verdict, Vec<Span>)> {
    let mut verdict = Verdict::default();
    let mut spans = Vec::with_capacity(chunks.len().div_ceil(GETS_TIMED));
    for group in chunks.chunks(GETS_TIMED) {
        let began = started.elapsed();
        let found: Vec<Option<Record<'_>>> = group
            .iter()
            .map(|&index| store.get(plan.chunks[index].digest))
            .collect::<Result<_, firndex::Error>>()
            .map_err(Error::pool("looking up a chunk"))?;
        let ended = started.elapsed();
        spans.push(Span { began, ended });
        for (&index, record) in group.iter().zip(&found) {
            match record {
                None => verdict.missing.push(index),
                Some(record) => match chunk_behind(plan, record, &plan.chunks[index].digest) {
                    None => verdict.misplaced.push(index),
                    Some(first) if first == index => verdict.firsts.push(index),
                    Some(_) => {}
                },
            }
        }
        progress.advance(group.len() as u64);
    }
    Ok((verdict, spans))
}

/// The chunk of the plan that a stored location leads to, if it is one of that digest.
fn chunk_behind(plan: &Plan, location: &[u8], digest: &Digest) -> Option<usize> {
    let index = plan.chunk_at(&Location::decode(location)?)?;
    (plan.chunks[index].digest == *digest).then_some(index)
}

/// What the files no longer hold.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    pub(crate) chunks: u64,
    pub(crate) files: BTreeSet<PathBuf>,
}

/// Reads these chunks of the plan from their files once more and compares the digests.
pub(crate) fn reread(
    plan: &Plan,
    chunks: &[usize],
    threads: usize,
    audience: &dyn Audience,
) -> Changed {
    let lengths = chunks.iter().map(|&index| u64::from(plan.chunks[index].length));
    let progress = audience.begin(Stage::Reread, Some(lengths.sum()));
    let progress = progress.as_ref();
    let parts = split(chunks, threads, |part| reread_part(plan, part, progress));
    parts.into_iter().fold(Changed::default(), |mut all, part| {
        all.chunks += part.chunks;
        all.files.extend(part.files);
        all
    })
}

fn reread_part(plan: &Plan, chunks: &[usize], progress: &dyn Progress) -> Changed {
    let mut changed = Changed::default();
    let mut bytes = Vec::new();
    let same_file = |a: &usize, b: &usize| plan.chunks[*a].file == plan.chunks[*b].file;
    for of_one_file in chunks.chunk_by(same_file) {
        let path = &plan.files[plan.chunks[of_one_file[0]].file as usize].path;
        let file = File::open(plan.dir.join(path)).ok();
        for &index in of_one_file {
            let chunk = &plan.chunks[index];
            bytes.resize(chunk.length as usize, 0);
            let same = file
                .as_ref()
                .is_some_and(|file| file.read_exact_at(&mut bytes, chunk.offset).is_ok())
                && *blake3::hash(&bytes).as_bytes() == chunk.digest;
            if !same {
                changed.chunks += 1;
                changed.files.insert(path.clone());
            }
            progress.advance(u64::from(chunk.length));
        }
    }
    changed
}

/// Gives each thread its share of the chunks and returns what they made of it, in order.
fn split<T: Send>(chunks: &[usize], threads: usize, work: impl Fn(&[usize]) -> T + Sync) -> Vec<T> {
    let share = chunks.len().div_ceil(threads.max(1)).max(1);
    let shares = Mutex::new(chunks.chunks(share).enumerate());
    let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work_on = || iter::from_fn(next).map(|(index, share)| (index, work(share))).collect();
    let mut done: Vec<(usize, T)> =
        on_threads(threads, work_on).into_iter().flat_map(|some: Vec<_>| some).collect();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use firndex::Options;

    use super::*;
    use crate::audience::Nobody;
    use crate::walk::Found;

    const FILES: [&str; 3] = ["a", "b", "copy of a"];

    fn plan_in(dir: &Path) -> Plan {
        let found = FILES.map(|name| {
            let byte = if name == "b" { b'b' } else { b'a' };
            let bytes: Vec<u8> =
                (0..40_000_u32).flat_map(|n| [byte, n as u8, (n >> 8) as u8]).collect();
            std::fs::write(dir.join(name), &bytes).unwrap();
            Found { path: name.into(), bytes: bytes.len() as u64 }
        });
        Plan::make(dir, &found, 2, &Nobody)
    }

    fn store_in(dir: &Path, plan: &Plan, left_out: Option<usize>) -> Store {
        let store = Options::default().create_store(dir.join("pool")).unwrap();
        for index in 0..plan.chunks.len() {
            if left_out.is_none_or(|out| plan.chunks[out].digest != plan.chunks[index].digest) {
                let mut location = Vec::new();
                plan.location(index).encode_into(&mut location);
                store.insert(plan.chunks[index].digest, &location).unwrap();
            }
        }
        store
    }

    fn judge_all(store: &Store, plan: &Plan) -> Verdict {
        let all: Vec<usize> = (0..plan.chunks.len()).collect();
        judge(store, plan, &all, 2, &Nobody).unwrap()
    }

    #[test]
    fn what_is_there_is_found_and_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan_in(dir.path());
        let store = store_in(dir.path(), &plan, None);
        let verdict = judge_all(&store, &plan);
        assert_eq!(verdict.lost().count(), 0);
        assert_eq!(verdict.gets.operations, plan.chunks.len() as u64);
        assert_eq!(verdict.firsts.len() as u64, store.len());
        let copies = plan.files[2].chunks.clone();
        assert!(verdict.firsts.iter().all(|index| !copies.contains(index)));
    }

    #[test]
    fn a_missing_chunk_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan_in(dir.path());
        let missing = plan.files[1].chunks.start + 1;
        let store = store_in(dir.path(), &plan, Some(missing));
        let verdict = judge_all(&store, &plan);
        assert_eq!(verdict.lost().collect::<Vec<_>>(), [missing]);
    }

    #[test]
    fn a_location_that_leads_elsewhere_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan_in(dir.path());
        let store = store_in(dir.path(), &plan, None);
        let [first, second] = [0, 1].map(|nth| plan.files[1].chunks.start + nth);
        let mut location = Vec::new();
        plan.location(second).encode_into(&mut location);
        for wrong in [&location[..], &location[..location.len() - 1], b"rubbish", b""] {
            store.put(plan.chunks[first].digest, wrong).unwrap();
            let verdict = judge_all(&store, &plan);
            assert_eq!(verdict.misplaced, [first], "{wrong:?}");
            assert_eq!(verdict.lost().count(), 1);
        }
    }

    #[test]
    fn a_file_that_changed_or_vanished_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan_in(dir.path());
        let all: Vec<usize> = (0..plan.chunks.len()).collect();
        let reread_all = || reread(&plan, &all, 2, &Nobody);
        assert_eq!(reread_all().chunks, 0);

        let path = dir.path().join("b");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let changed = reread_all();
        assert_eq!((changed.chunks, changed.files), (1, ["b".into()].into()));

        std::fs::remove_file(&path).unwrap();
        let changed = reread_all();
        assert_eq!(changed.chunks, plan.files[1].chunks.len() as u64);
        assert_eq!(changed.files, ["b".into()].into());
    }
}
