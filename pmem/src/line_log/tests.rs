use super::*;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

type Image = HashMap<Offset, u64>;

fn memory(words: usize) -> Array<AtomicU64> {
    Array::reserve(words, words).unwrap()
}

fn started() -> LineLog {
    let log = LineLog::new(0).unwrap();
    log.start();
    log
}

fn append(log: &LineLog, memory: &Array<AtomicU64>, at: u64, words: u64) {
    let load = |at: Offset| memory.get((at.0 / WORD) as usize).load(Ordering::Acquire);
    log.append(&[Flushed { at: Offset(at * WORD), words }], load);
}

fn replay(cut: &Cut, image: &mut Image) {
    cut.replay(|at, value| _ = image.insert(at, value));
}

#[test]
fn pieces_lie_in_one_stripe_each_and_cover_all() {
    let of = |at, words| {
        let flushed = [Flushed { at: Offset(at * WORD), words }];
        pieces(&flushed).map(|piece| (piece.at.0 / WORD, piece.words)).collect::<Vec<_>>()
    };
    assert_eq!(of(5, 0), []);
    assert_eq!(of(5, 3), [(5, 3)]);
    assert_eq!(of(512, 512), [(512, 512)]);
    assert_eq!(of(510, 1026), [(510, 2), (512, 512), (1024, 512)]);
}

#[test]
fn a_cut_has_what_was_appended_before_it() {
    let (log, memory) = (started(), memory(4096));
    (0..4096).for_each(|word| memory.get(word).store(word as u64 + 7, Ordering::Relaxed));
    append(&log, &memory, 3, 2);
    // More than a ring holds at once is in several groups.
    append(&log, &memory, 100, 1000);
    let first = log.seal();
    assert_eq!((first.epoch(), log.epoch()), (1, 2));
    memory.get(3).store(1, Ordering::Relaxed);
    assert!(log.seal().is_empty());
    append(&log, &memory, 3, 1);
    let mut image = Image::new();
    replay(&first, &mut image);
    let expected = [3, 4].into_iter().chain(100..1100).map(|word| (Offset(word * WORD), word + 7));
    assert_eq!(image, expected.collect());
    replay(&log.seal(), &mut image);
    assert_eq!((image[&Offset(24)], image[&Offset(32)]), (1, 11));
}

#[test]
fn later_records_of_a_word_replace_earlier_ones() {
    let (log, memory) = (started(), memory(8));
    for value in 1..=100 {
        memory.get(2).store(value, Ordering::Relaxed);
        append(&log, &memory, 0, 8);
    }
    let mut image = Image::new();
    replay(&log.seal(), &mut image);
    assert_eq!(image[&Offset(16)], 100);
}

#[test]
fn rings_are_used_again_and_again() {
    let (log, memory) = (started(), memory(512));
    let mut image = Image::new();
    // Positions wrap, too.
    for round in 0..12_000 {
        memory.get(round % 512).store(round as u64, Ordering::Relaxed);
        append(&log, &memory, 0, 512);
        replay(&log.seal(), &mut image);
    }
    let word = |at| memory.get(at as usize).load(Ordering::Relaxed);
    assert!((0..512).all(|at| image[&Offset(at * WORD)] == word(at)));
}

/// A log that fails is stopped while threads wait for room in their rings.
#[test]
fn nobody_waits_for_room_in_a_log_that_was_stopped() {
    let (log, memory) = (&started(), &memory(1 << 16));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| append(log, memory, 0, 1 << 16));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!writer.is_finished(), "it has to wait for room");
        log.stop();
        // What takes ten minutes hangs.
        let ended = (0..60_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            writer.is_finished()
        });
        // Lets it go before the scope waits for it.
        (0..100).for_each(|_| drop(log.seal()));
        assert!(ended);
    });
}

/// Threads hand a number on, each to a word of the next one, on lines that they share. In every cut no number is
/// larger than the one that it was derived from.
#[test]
fn cuts_are_consistent_beside_writers() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 20_000;
    let (log, memory) = (&started(), &memory(THREADS * 4));
    let is_over = &AtomicBool::new(false);
    let mut image = Image::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let own = memory.get(thread * 4);
                    for round in 1..=ROUNDS {
                        let value = match thread {
                            0 => round,
                            _ => memory.get(thread * 4 - 4).load(Ordering::Acquire),
                        };
                        // What was seen may not be logged yet: a helper logs it.
                        if thread > 0 {
                            append(log, memory, (thread as u64 - 1) * 4 / 8 * 8, 8);
                        }
                        own.store(value, Ordering::Release);
                        append(log, memory, thread as u64 * 4, 1);
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Release);
        });
        loop {
            let was_over = is_over.load(Ordering::Acquire);
            replay(&log.seal(), &mut image);
            let value = |thread: usize| {
                let at = Offset(thread as u64 * 4 * WORD);
                image.get(&at).copied().unwrap_or_default()
            };
            assert!((1..THREADS).all(|thread| value(thread) <= value(thread - 1)), "{image:?}");
            if was_over {
                break;
            }
        }
    });
    for thread in 0..THREADS {
        let at = thread * 4;
        let found = image.get(&Offset(at as u64 * WORD)).copied().unwrap_or_default();
        assert_eq!(found, memory.get(at).load(Ordering::Relaxed));
    }
}

/// Pairs that are changed under a lock, their numbers drawn when it was taken, and observers that store what they have
/// seen. In every cut an observer has seen nothing newer than the cut has.
#[test]
fn observers_of_locked_pairs_see_nothing_newer_than_a_cut_has() {
    const PAIRS: u64 = 3;
    const WRITERS: u64 = 2;
    const ROUNDS: u64 = 30_000;
    let (log, memory) = (&started(), &memory(256));
    let locks: &[AtomicBool] =
        &std::array::from_fn::<_, { PAIRS as usize }, _>(|_| AtomicBool::new(false));
    let at = |word: u64| Offset(word * WORD);
    let word = |at: Offset| memory.get((at.0 / WORD) as usize);
    let load = |at: Offset| word(at).load(Ordering::Acquire);
    let seen_at = |pair: u64| at(128 + pair * 8);
    let running = &AtomicU64::new(WRITERS);
    let mut image = Image::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let pair = (round + writer) % PAIRS;
                    while locks[pair as usize].swap(true, Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    let (key, value) = (at(pair * 2), at(pair * 2 + 1));
                    let sequence = log.sequence(key);
                    let next = load(value) + 1;
                    word(value).store(next, Ordering::Release);
                    word(key).store(next, Ordering::Release);
                    log.note_pair(key, sequence, load);
                    log.fence(load);
                    locks[pair as usize].store(false, Ordering::Release);
                }
                running.fetch_sub(1, Ordering::AcqRel);
            });
        }
        scope.spawn(move || {
            while running.load(Ordering::Acquire) > 0 {
                for pair in 0..PAIRS {
                    let key = at(pair * 2);
                    let seen = load(key);
                    if locks[pair as usize].load(Ordering::Acquire) {
                        log.append_observed(&[Flushed { at: key, words: 2 }], load);
                    }
                    word(seen_at(pair)).store(seen, Ordering::Release);
                    log.append(&[Flushed { at: seen_at(pair), words: 1 }], load);
                }
            }
        });
        loop {
            let were_running = running.load(Ordering::Acquire) > 0;
            replay(&log.seal(), &mut image);
            let of = |at: Offset| image.get(&at).copied().unwrap_or_default();
            for pair in 0..PAIRS {
                let (key, value) = (of(at(pair * 2)), of(at(pair * 2 + 1)));
                assert!(key == value || key + 1 == value, "{key} {value}");
                assert!(of(seen_at(pair)) <= key, "{} {key}", of(seen_at(pair)));
            }
            if !were_running {
                break;
            }
        }
    });
    assert!((0..PAIRS * 2).all(|word| image[&at(word)] == load(at(word))));
}

/// What a thread has staged and not fenced is no newer than what others have changed since.
#[test]
fn what_was_left_unfenced_is_no_newer_than_later_changes() {
    let (log, memory) = (&started(), &memory(8));
    let load = |at: Offset| memory.get((at.0 / WORD) as usize).load(Ordering::Acquire);
    memory.get(0).store(1, Ordering::Relaxed);
    log.note_pair(Offset(0), log.sequence(Offset(0)), load);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            memory.get(0).store(2, Ordering::Relaxed);
            log.note_pair(Offset(0), log.sequence(Offset(0)), load);
            log.fence(load);
        });
    });
    log.fence(load);
    let mut image = Image::new();
    replay(&log.seal(), &mut image);
    assert_eq!(image[&Offset(0)], 2);
}
