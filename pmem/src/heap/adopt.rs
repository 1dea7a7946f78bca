//! Segments that an opening finds.
//!
//! An opening reads the word of each segment, eight bytes, and notes which are free. The state of a segment in use, a
//! line, is set up when somebody first asks for it: with those of its chunk, by whoever asks. Until then it is zero,
//! which says [`NONE`](usage::NONE). Otherwise an opening would write a line for each segment, and a process that gets
//! one item would wait for that.
//!
//! The words of a chunk whose states are not set up are as the opening has found them, except those of segments that
//! were free: whoever changes the others has asked for their states before.

use super::Heap;
use super::segment::{Descriptor, usage};
use crate::medium::Medium;
use crate::sync::{Mutex, Ordering};
use std::ops::Range;

/// Segments of a chunk, but for what the last slab or item in it has more. The crash lab's pools are tiny, and are to
/// have several.
const CHUNK_SEGMENTS: u64 = if cfg!(feature = "simulated") { 4 } else { 1024 };

/// The segments that an opening has found, in chunks that begin and end with a slab or an item.
#[derive(Default)]
pub(super) struct Chunks(Vec<Chunk>);

/// What begins with a segment.
enum Found {
    Free,
    Vacant,
    Slab { class: usize },
    Item { segments: u32 },
}

struct Chunk {
    segments: Range<u64>,
    /// Whether the states of its segments are set up. Locked while they are.
    is_adopted: Mutex<bool>,
}

impl Chunks {
    fn of(&self, segment: u64) -> Option<&Chunk> {
        let place = self.0.partition_point(|chunk| chunk.segments.end <= segment);
        self.0.get(place).filter(|chunk| chunk.segments.contains(&segment))
    }

    fn add(&mut self, segments: Range<u64>) {
        if !segments.is_empty() {
            self.0.push(Chunk { segments, is_adopted: Mutex::new(false) });
        }
    }
}

impl<M: Medium> Heap<M> {
    /// Takes in segments without a gap between them, which are behind all that were taken in before.
    pub(super) fn find_segments(&mut self, segments: Range<u64>) -> Result<(), String> {
        self.segments_taken.fetch_add(segments.end - segments.start, Ordering::Relaxed);
        let (mut segment, mut chunk) = (segments.start, segments.start);
        while segment < segments.end {
            let Some((first_at, count)) = self.tables.row_of(segment) else {
                let start = self.start_of(segment);
                return Err(format!("the heap segment at {start} has no descriptor"));
            };
            // Most words are as the one before, of which nothing more is to be noted then.
            let mut alike = None;
            let row = segment..segments.end.min(segment + count);
            while row.contains(&segment) {
                if segment - chunk >= CHUNK_SEGMENTS {
                    self.chunks.add(chunk..segment);
                    chunk = segment;
                }
                let at = first_at.word(segment - row.start);
                let word = self.medium().load(at);
                let left = segments.end - segment;
                if let Some((alike, segments)) = alike
                    && word == alike
                    && segments <= left
                {
                    segment += segments;
                    continue;
                }
                let found = self.found(word, left);
                let found =
                    found.map_err(|what| format!("heap segment descriptor at {at}: {what}"))?;
                match found {
                    Found::Free => {
                        self.state(segment).usage.store(usage::FREE, Ordering::Relaxed);
                        self.release_run(segment, 1);
                    }
                    Found::Vacant => self.adopt_vacant(segment),
                    Found::Slab { class } => {
                        self.note_class(class);
                        alike = Some((word, self.segments_in(&found)));
                    }
                    Found::Item { .. } => {}
                }
                segment += self.segments_in(&found);
            }
        }
        self.chunks.add(chunk..segments.end);
        Ok(())
    }

    /// What a segment is used for.
    #[inline]
    pub(super) fn usage_of(&self, segment: u64) -> u32 {
        match self.state(segment).usage.load(Ordering::Acquire) {
            usage::NONE => self.adopt(segment),
            known => known,
        }
    }

    #[cold]
    #[inline(never)]
    fn adopt(&self, segment: u64) -> u32 {
        if let Some(chunk) = self.chunks.of(segment) {
            self.adopt_chunk(chunk);
        }
        self.state(segment).usage.load(Ordering::Acquire)
    }

    /// Sets up the states of all segments.
    pub(super) fn adopt_all(&self) {
        self.chunks.0.iter().for_each(|chunk| self.adopt_chunk(chunk));
    }

    fn adopt_chunk(&self, Chunk { segments, is_adopted }: &Chunk) {
        let mut is_adopted = is_adopted.lock();
        if std::mem::replace(&mut *is_adopted, true) {
            return;
        }
        let mut segment = segments.start;
        while segment < segments.end {
            // It was free, and may be in use by now.
            if self.state(segment).usage.load(Ordering::Acquire) != usage::NONE {
                segment += 1;
                continue;
            }
            let word = self.descriptor_at(segment).map_or(0, |at| self.medium().load(at));
            // The opening has refused what is no descriptor: somebody has written over it since.
            let found = self.found(word, segments.end - segment).unwrap_or(Found::Free);
            match found {
                Found::Free | Found::Vacant => {}
                Found::Slab { class } => self.mark_slab(segment, class),
                Found::Item { segments } => self.mark_large(segment, segments),
            }
            segment += self.segments_in(&found);
        }
    }

    /// What this word of a segment says, behind which, with itself, so many segments are `left`.
    fn found(&self, word: u64, left: u64) -> Result<Found, &'static str> {
        let found = match Descriptor::decode(word).ok_or("not a descriptor")? {
            Descriptor::Free => Found::Free,
            Descriptor::Vacant => Found::Vacant,
            Descriptor::Small { class, .. } => {
                let class = usize::from(class);
                self.classes.size(class).ok_or("no such size class")?;
                Found::Slab { class }
            }
            Descriptor::Large { segments: 0, .. } => return Err("a large item without segments"),
            Descriptor::Large { segments, .. } => Found::Item { segments },
        };
        match found {
            Found::Slab { .. } if self.segments_in(&found) > left => {
                Err("a slab leaves its extent")
            }
            Found::Item { segments } if u64::from(segments) > left => {
                Err("a large item leaves its extent")
            }
            found => Ok(found),
        }
    }

    fn segments_in(&self, found: &Found) -> u64 {
        match found {
            Found::Free | Found::Vacant => 1,
            Found::Slab { class } => self.classes.segments(*class),
            Found::Item { segments } => u64::from(*segments),
        }
    }
}
