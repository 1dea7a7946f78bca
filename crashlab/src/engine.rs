//! What the lab can be asked to try, and the directed histories of each.

use crate::boundaries::{alone_in, helped, overtaken, repeating, store_histories, syncing};
use crate::deep;
use crate::directed::{Directed, Look, directed, interleaved, reusing};
use crate::history::{Action, Op};
use crate::interleave::Points;
use crate::setups;
use crate::subject::{
    ClevelStoreSubject, ClevelSubject, HeapSubject, LevelStoreSubject, LevelSubject,
    LongLevelSubject, PoolSubject, Setup, StoreSubject, Subject, TableSubject,
};

/// What is on trial together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The pool alone.
    Pool,
    /// The heap and its epochs alone.
    Heap,
    /// IcebergHT, as a table of words and under a store of bytes.
    Iceberg,
    /// Level hashing, as a table of words, of longer pairs, and under a store of bytes.
    Level,
    /// Clevel hashing, as a table of words and as a store of bytes.
    Clevel,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 5] =
        [Engine::Pool, Engine::Heap, Engine::Iceberg, Engine::Level, Engine::Clevel];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Pool => PoolSubject::NAME,
            Engine::Heap => HeapSubject::NAME,
            Engine::Iceberg => TableSubject::NAME,
            Engine::Level => LevelSubject::NAME,
            Engine::Clevel => ClevelSubject::NAME,
        }
    }

    /// The engine of this name.
    pub fn by_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Its directed histories.
    pub fn directed(self) -> Vec<Directed> {
        match self {
            Engine::Pool => {
                let mut all = directed::<PoolSubject>(&setups::pool());
                all.extend(syncing::<PoolSubject>(&setups::synced_pool()));
                all
            }
            Engine::Heap => {
                let mut all = directed::<HeapSubject>(&setups::heap());
                all.extend(deep::heap());
                all.extend(writers_of_the_heap());
                all
            }
            Engine::Iceberg => {
                let mut all = directed::<TableSubject>(&setups::iceberg());
                all.extend(directed::<StoreSubject>(&setups::store()));
                all.extend(kept_histories());
                all.extend(alone_in::<TableSubject>(setups::iceberg_blocks()));
                all.extend(syncing::<TableSubject>(&setups::synced_iceberg()));
                all.extend(helped::<TableSubject>(&setups::helped_iceberg()));
                all.extend(alone_in::<TableSubject>(setups::recovered_iceberg()));
                all.extend(alone_in::<StoreSubject>(setups::recovered_store()));
                all.extend(syncing::<StoreSubject>(&setups::synced_store()));
                all.extend(repeating::<TableSubject>(&setups::iceberg()[2]));
                all.extend(repeating::<StoreSubject>(&setups::store()[2]));
                all.extend(store_histories::<StoreSubject>(setups::store().swap_remove(0)));
                all.extend(deep::looking_up_fillers::<TableSubject>(&setups::iceberg(), 4));
                all.extend(deep::looking_up_fillers::<StoreSubject>(&setups::store(), 4));
                all.extend(deep::late::<TableSubject>(&setups::iceberg()[0]));
                all.extend(deep::iceberg());
                all.extend(deep::store());
                // Items are in the heap.
                all.extend(writers_of_the_heap());
                all
            }
            Engine::Clevel => {
                let setups = setups::clevel();
                // Its operations take many steps. Where several threads meet is alike in the others.
                let (meeting, alone): (Vec<_>, Vec<_>) = setups
                    .into_iter()
                    .partition(|setup| !setup.is_tight && !setup.shrinks && setup.resize_at == 1.0);
                let mut all = directed::<ClevelSubject>(&meeting);
                all.extend(
                    meeting.iter().filter(|setup| setup.before.len() > 16).flat_map(beside_moves),
                );
                all.extend(alone.iter().filter(|setup| setup.shrinks).flat_map(beside_moves));
                all.extend(alone_in::<ClevelSubject>(alone));
                all.extend(deep::looking_up_fillers::<ClevelSubject>(&setups::clevel(), 0));
                all.extend(deep::late::<ClevelSubject>(&setups::clevel()[0]));
                all.extend(deep::clevel(&setups::clevel()[0]));
                all.extend(overtaken());
                all.extend(syncing::<ClevelSubject>(&setups::synced_clevel()));
                all.extend(helped::<ClevelSubject>(&setups::helped_clevel()));
                all.extend(alone_in::<ClevelSubject>(setups::recovered_clevel()));
                all.extend(repeating::<ClevelSubject>(&setups::clevel()[0]));
                all.extend(repeating::<ClevelStoreSubject>(&setups::clevel_store()[0]));
                all.extend(alone_in::<ClevelStoreSubject>(setups::clevel_store()));
                let empty = setups::clevel_store().swap_remove(0);
                all.extend(store_histories::<ClevelStoreSubject>(empty));
                all.extend(writers_of_the_heap());
                all
            }
            Engine::Level => {
                let (words, long) = (setups::level(), setups::level_long());
                let mut all = directed::<LevelSubject>(&words);
                all.extend(directed::<LongLevelSubject>(&long));
                all.extend(resizing::<LevelSubject>(&words));
                all.extend(resizing::<LongLevelSubject>(&long));
                let is_moved = |setup: &&Setup| !setup.level_shape.design.in_place_update;
                all.extend(words.iter().filter(is_moved).flat_map(updating::<LevelSubject>));
                all.extend(long.iter().flat_map(updating::<LongLevelSubject>));
                all.extend(sharing_fences(&setups::two_buckets()));
                all.extend(syncing::<LevelSubject>(&setups::synced_level()));
                all.extend(alone_in::<LevelSubject>(setups::recovered_level()));
                all.extend(repeating::<LevelSubject>(&setups::two_buckets()));
                let stores = setups::level_store();
                all.extend(repeating::<LevelStoreSubject>(&stores[0]));
                all.extend(directed::<LevelStoreSubject>(&stores[..1]));
                all.extend(alone_in::<LevelStoreSubject>(stores[1..].to_vec()));
                all.extend(resizing::<LevelStoreSubject>(&stores));
                all.extend(store_histories::<LevelStoreSubject>(stores[0].clone()));
                all.extend(deep::looking_up_fillers::<LevelSubject>(&words, 4));
                all.extend(deep::looking_up_fillers::<LongLevelSubject>(&long, 4));
                all.extend(deep::late::<LevelSubject>(&words[0]));
                all.extend(deep::level());
                all.extend(writers_of_the_heap());
                all
            }
        }
    }
}

/// Updates that take several steps, beside others of the same key.
fn updating<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let one = |action| Op::One(0, action);
    let update = |value| one(Action::Update(value));
    let others = [
        vec![one(Action::Get), one(Action::Get)],
        vec![Op::Scan],
        vec![update(4), one(Action::Get)],
        vec![one(Action::Remove), one(Action::Insert(4))],
    ];
    let stored = vec![one(Action::Insert(2))];
    let program = |other| vec![stored.clone(), vec![update(3), update(5)], other];
    others.into_iter().map(|other| interleaved::<S>(setup, program(other), 1)).collect()
}

/// A key that is changed by one thread and looked at by another while a third one moves it.
fn beside_moves(setup: &Setup) -> Vec<Directed> {
    let one = |action| Op::One(0, action);
    let mover = if setup.shrinks { Op::Shrink } else { Op::Settle };
    let pairs =
        [[one(Action::Upsert(3)), one(Action::Get)], [one(Action::Remove), one(Action::Insert(4))]];
    let programs =
        pairs.map(|[writer, other]| vec![vec![writer], vec![mover.clone()], vec![other]]);
    programs.into_iter().map(|program| interleaved::<ClevelSubject>(setup, program, 0)).collect()
}

/// Changes of several buckets whose fence is still to come, beside whoever meets them.
fn sharing_fences(setup: &Setup) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let both = |action| Op::Many(vec![(0, action), (1, action)]);
    let turned = |action| Op::Many(vec![(1, action), (0, action)]);
    let upsert = |value| both(Action::Upsert(value));
    let look = vec![one(1, Action::Get), one(0, Action::Get)];
    let programs = [
        [vec![both(Action::Insert(2))], look.clone()],
        [vec![both(Action::Insert(2))], vec![Op::Scan, one(0, Action::Get)]],
        [vec![upsert(2), upsert(3)], look.clone()],
        [vec![upsert(2), both(Action::Remove)], look],
        [vec![upsert(2), both(Action::Remove)], vec![one(0, Action::Insert(4))]],
        // Each may hold what the other wants next.
        [vec![upsert(2), upsert(3)], vec![turned(Action::Upsert(4))]],
        [vec![upsert(2), both(Action::Remove)], vec![turned(Action::Remove)]],
    ];
    let programs = programs.map(|program| program.to_vec());
    programs.into_iter().map(|program| interleaved::<LevelSubject>(setup, program, 0)).collect()
}

/// Tables that are halved, and tables that grow, beside others.
fn resizing<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let get_both = || Op::Many(vec![(0, Action::Get), (1, Action::Get)]);
    let others = || {
        [
            vec![one(0, Action::Get), one(1, Action::Get)],
            vec![get_both(), get_both()],
            vec![one(0, Action::Upsert(3)), one(0, Action::Get)],
            vec![one(0, Action::Remove), one(0, Action::Insert(3))],
            vec![one(1, Action::Insert(3)), one(1, Action::Remove)],
            vec![Op::Scan, one(0, Action::Get)],
            vec![Op::Settle],
        ]
    };
    let beside = |setup: &Setup, resizer: &[Op]| {
        let program = |other| vec![vec![one(0, Action::Upsert(2))], resizer.to_vec(), other];
        let directed = |other| interleaved::<S>(setup, program(other), 1);
        others().into_iter().chain([resizer.to_vec()]).map(directed).collect::<Vec<_>>()
    };
    let grows = |setup: &&Setup| setup.resize_at < 1.0;
    let growth = [one(1, Action::Insert(4)), Op::Settle];
    let shrunk = setups.iter().filter(|setup| setup.shrinks);
    let shrinking = shrunk.flat_map(|setup| beside(setup, &[Op::Shrink]));
    shrinking.chain(setups.iter().filter(grows).flat_map(|setup| beside(setup, &growth))).collect()
}

/// What only several writers of the heap show.
fn writers_of_the_heap() -> Vec<Directed> {
    // Threads without a number allocate from one segment: what one of them has begun to write
    // back, the other's fence does not complete.
    let store = |key| vec![Op::One(key, Action::Insert(2 + u16::from(key)))];
    let sharing = vec![Vec::new(), Vec::new(), store(0), store(1)];
    let empty = setups::heap().swap_remove(0);
    // A large item's segments are freed by one thread; a second takes all but the last of them, a
    // third takes that one.
    let freeing = vec![vec![Op::One(0, Action::Remove)], store(1), store(2)];
    vec![
        interleaved::<HeapSubject>(&setups::one_item(), reusing(), 0),
        interleaved::<HeapSubject>(&empty, sharing, 0),
        interleaved::<HeapSubject>(&setups::freed_segments(), freeing, 1),
    ]
}

/// Histories that once showed a fault, or a fault planted by hand, shrunk.
fn kept_histories() -> Vec<Directed> {
    // A scan reported a pair of level 3 that was durable but in no chain yet; the same thread's
    // search then did not find it.
    let one = |action| Op::One(0, action);
    let writer = vec![one(Action::Remove), one(Action::Insert(4))];
    let program = vec![writer, vec![Op::Scan, one(Action::Get)]];
    // Two threads that move the same blocks: the second must notice that the first has done it.
    let both = vec![vec![Op::Settle], vec![Op::Settle, one(Action::Insert(4))]];
    let movers = Look::Interleaved { program: both, first: 0, changes: 2, points: Points::Shared };
    let moving = Directed::new::<TableSubject>(setups::moving_with_level_2(), movers);
    // A look-up that read the geometry before a whole resize, and the fingerprints after it: the key
    // was stored before, and has moved.
    let moved = |action| Op::One(1, action);
    let overtaken = [moved(Action::Get), Op::Many(vec![(1, Action::Get)])].map(|reading| {
        let reader = vec![moved(Action::Insert(2)), reading];
        let doubler = vec![one(Action::Insert(3)), Op::Settle];
        interleaved::<TableSubject>(&setups::second_insertion_doubles(), vec![reader, doubler], 0)
    });
    let in_level_3 = setups::iceberg().into_iter().filter(|setup| setup.keys.contains(&0));
    in_level_3
        .map(|setup| interleaved::<TableSubject>(&setup, program.clone(), 0))
        .chain([moving])
        .chain(overtaken)
        .collect()
}
