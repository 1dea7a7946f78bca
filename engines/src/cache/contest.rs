//! Making room: the oldest segments of both queues are emptied, and their items contend for one segment.
//!
//! As long as the main queue has not its full share, the small queue's segments come into it as they are.

use super::empty::{Keep, class_in};
use super::learned::{NO_CLASS, class_of};
use super::segments::{Lists, Phase, Queue};
use super::{Cache, SMALL_SHARE, slot_of};
use pmem::arena::SEGMENT_HEAD_BYTES;
use pmem::sync::Ordering;
use pmem::{Medium, Offset};

/// Items that are looked at together, so that their lines come into the caches together.
const AHEAD: usize = 16;
/// One item of so many stays whatever it is worth: otherwise nothing would be learned of what never stays.
const EXPLORED: u64 = 256;
/// What is in the main queue stays if it is worth nearly as much as what would come in: else both would come and go.
const MAIN_BONUS: f64 = 1.2;
/// Where nothing is asked for, the main queue's oldest segment contends once in so many turns.
const IDLE_TURNS: u64 = 8;
/// Increments of the sketch, for each item that there is, in which all of its counters are halved once.
const INCREMENTS: f64 = 40.0;
/// Capacities that segments of which the accounts remember half and more were put in.
const REMEMBERED: f64 = 2.6;

/// An item that may stay.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: Offset,
    hash: u64,
    bytes: u64,
    queue: Queue,
    /// Its hits since it was looked at last, its class since then, and its class from now on.
    hits: u8,
    before: u64,
    class: u64,
    score: f64,
    stays: bool,
}

impl<M: Medium> Cache<M> {
    /// Makes room by one step; whether there was any to be made.
    pub(super) fn contend(&self) -> bool {
        let is_idle = self.learned.lock().is_idle();
        let (is_full, main, small) = {
            let mut lists = self.lists.lock();
            let is_full = self.is_main_full(&lists);
            // Of what nobody asks for the main queue is looked at now and then, to see whether that goes on.
            let is_asked = is_full && (!is_idle || lists.sequence.is_multiple_of(IDLE_TURNS));
            let main = is_asked.then(|| self.oldest(&mut lists, Queue::Main)).flatten();
            let small = self.oldest(&mut lists, Queue::Small);
            // Where nothing is in the small queue, the main one makes room alone.
            let is_alone = main.is_none() && small.is_none();
            let main = main.or_else(|| is_alone.then(|| self.oldest(&mut lists, Queue::Main))?);
            (is_full, main, small)
        };
        let is_large =
            |number: &u32| self.segments[*number as usize].run.load(Ordering::Relaxed) > 1;
        let mut taken = [main, small];
        for number in taken.iter_mut().filter_map(|one| one.take_if(|number| is_large(number))) {
            self.empty(number, Keep::Popular);
        }
        match taken {
            [None, None] => main.or(small).is_some(),
            [None, Some(small)] if !is_full => {
                self.requeue(small, Queue::Main);
                true
            }
            [main, small] => {
                self.contest(main, small);
                true
            }
        }
    }

    fn is_main_full(&self, lists: &Lists) -> bool {
        let spare = super::space::spare(self.streams[0].len()) as u32;
        let total = lists.limit.saturating_sub(lists.index_segments + spare);
        lists.lengths[Queue::Main as usize] + (total / SMALL_SHARE).max(1) + 1 >= total
    }

    /// The oldest segment of a queue that can be taken, taken.
    fn oldest(&self, lists: &mut Lists, queue: Queue) -> Option<u32> {
        let queue = &mut lists.queues[queue as usize];
        let mut place = 0;
        while let Some(&(number, sequence)) = queue.get(place) {
            let segment = &self.segments[number as usize];
            let is_other = segment.sequence.load(Ordering::Relaxed) != sequence;
            if is_other || segment.is_in(Phase::Retired) || segment.take_sealed() {
                queue.remove(place);
                if !is_other && segment.is_in(Phase::Busy) {
                    return Some(number);
                }
            } else {
                place += 1;
            }
        }
        None
    }

    /// Makes a segment that the caller has taken the youngest of a queue, as it is.
    pub(super) fn requeue(&self, number: u32, to: Queue) {
        use super::segments::{Use, mark_of};
        let segment = &self.segments[number as usize];
        let run = segment.run.load(Ordering::Relaxed);
        let sequence = {
            let mut lists = self.lists.lock();
            lists.lengths[segment.queue() as usize] -= run;
            lists.lengths[to as usize] += run;
            lists.next_sequence()
        };
        let of = match run {
            1 => Use::Items(to, sequence),
            _ => Use::Large(to, sequence),
        };
        self.arena.note_time(number, self.now_ms());
        self.set_use(number, of, mark_of(segment.generation.load(Ordering::Relaxed), run));
        segment.queue.store(to as u32, Ordering::Relaxed);
        segment.sequence.store(sequence, Ordering::Relaxed);
        segment.set_phase(Phase::Sealed);
        self.lists.lock().queues[to as usize].push_back((number, sequence));
    }

    /// Empties these segments, which the caller has taken; the best of what they have stays.
    fn contest(&self, main: Option<u32>, small: Option<u32>) {
        let mut candidates = Vec::new();
        for number in main.into_iter().chain(small) {
            self.find_candidates(number, &mut candidates);
        }
        self.judge(&mut candidates);
        let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
        let score = |place: u32| candidates[place as usize].score;
        // Stable: of equals those of the main queue stay.
        order.sort_by(|one, other| score(*other).total_cmp(&score(*one)));
        let mut room = self.segment_room() / if main.is_some() && small.is_some() { 1 } else { 2 };
        for place in order {
            let candidate = &mut candidates[place as usize];
            match room.checked_sub(candidate.bytes) {
                Some(rest) if candidate.score > 0.0 => room = rest,
                _ => break,
            }
            candidate.stays = true;
        }
        let is_entered =
            candidates.iter().any(|one| one.stays && one.queue == Queue::Small) || small.is_none();
        for few in candidates.chunks(AHEAD) {
            few.iter().for_each(|one| self.prefetch_lines(one.hash));
            for one in few {
                if one.queue == Queue::Main && !is_entered {
                    self.hits.set(self.arena.granule_of(one.at), 0);
                } else {
                    self.settle_candidate(one);
                }
            }
        }
        small.into_iter().for_each(|number| self.give_up(number));
        match main {
            Some(number) if !is_entered => self.requeue(number, Queue::Main),
            Some(number) => self.give_up(number),
            None => {}
        }
    }

    /// Lets a candidate stay, or go.
    fn settle_candidate(&self, one: &Candidate) {
        let guard = self.epochs.pin();
        let Some(entry) = self.arena.entry(one.at, &guard) else { return };
        let slot = slot_of(self.arena.granule_of(one.at), one.hash);
        if one.stays && self.move_item(one.hash, slot, &entry, (Queue::Main, 0, one.class)) {
            return;
        }
        self.drop_and_tell(one.hash, slot, &entry);
    }

    /// The items of a segment that are there.
    fn find_candidates(&self, number: u32, candidates: &mut Vec<Candidate>) {
        let segment = &self.segments[number as usize];
        let (start, queue) = (self.arena.start_of(number), segment.queue());
        let end = start.add(segment.used.load(Ordering::Acquire));
        let mut at = start.add(SEGMENT_HEAD_BYTES);
        while at < end {
            let guard = self.epochs.pin();
            let first = candidates.len();
            while candidates.len() < first + AHEAD && at < end {
                let Some(entry) = self.arena.entry_before(at, end, &guard) else {
                    at = end;
                    break;
                };
                let hash = self.hasher.first_bytes(entry.key);
                self.prefetch_lines(hash);
                self.sketch.prefetch(hash);
                let bytes = entry.bytes();
                candidates.push(Candidate {
                    at,
                    hash,
                    bytes,
                    queue,
                    hits: 0,
                    before: class_in(entry.stamp),
                    class: NO_CLASS,
                    score: 0.0,
                    stays: false,
                });
                at = at.add(bytes);
            }
            let mut place = first;
            while let Some(one) = candidates.get_mut(place) {
                let granule = self.arena.granule_of(one.at);
                let slot = slot_of(granule, one.hash);
                let is_there = self.slot_with(one.hash, slot).is_some();
                let is_there = is_there
                    && self.arena.entry(one.at, &guard).is_some_and(|entry| {
                        let is_current = self.is_current(entry.stamp);
                        if !is_current {
                            self.drop_and_tell(one.hash, slot, &entry);
                        }
                        is_current
                    });
                if !is_there {
                    candidates.remove(place);
                    continue;
                }
                one.hits = self.hits.of(granule);
                one.class =
                    class_of(one.before, queue, one.hits, self.sketch.add(one.hash, one.hits));
                place += 1;
            }
        }
    }

    /// Learns of what the candidates have earned, and says what each is worth.
    fn judge(&self, candidates: &mut [Candidate]) {
        let (now, segments) = {
            let lists = self.lists.lock();
            (lists.sequence, f64::from(lists.limit.max(1)))
        };
        let time_of = |one: &Candidate| {
            let sequence = self.segment_at(one.at).sequence.load(Ordering::Relaxed);
            now.saturating_sub(sequence) as f64 / segments
        };
        let mut learned = self.learned.lock();
        learned.forget(1.0 / (REMEMBERED * segments));
        for one in &*candidates {
            learned.learn(one.before, one.hits, time_of(one));
        }
        let is_idle = learned.is_idle();
        let mut increments = 0.0;
        for one in candidates.iter_mut() {
            increments += f64::from(one.hits) + if one.queue == Queue::Small { 1.0 } else { 0.0 };
            one.score = match mix(one.hash ^ now) % EXPLORED {
                0 => f64::INFINITY,
                _ => {
                    let bonus = match one.queue {
                        Queue::Main => MAIN_BONUS,
                        // To take the place of another that is not asked for either is not worth a copy.
                        Queue::Small if is_idle && one.hits == 0 => 0.0,
                        Queue::Small => 1.0,
                    };
                    bonus * learned.worth(one.class, one.hits) / one.bytes as f64
                }
            };
        }
        drop(learned);
        let items = candidates.len() as f64 / 2.0 * segments;
        self.sketch.age(increments / (INCREMENTS * items.max(1.0)));
    }
}

/// Spreads the bits of a word over all of it.
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ word >> 29
}
