//! Histories around tables that change buckets under locks, and that are resized bucket by bucket.

use crate::arena::{Arena, arenas_of};
use crate::boundaries::{
    alone_in, directed, helped, interleaved, repeating, shared, store_histories, syncing,
    writers_of_the_heap,
};
use crate::deep::{batches_beside, late, looking_up_fillers};
use crate::history::{Action, Op};
use crate::subject::{LongTableSubject, Setup, StoreSubject, Subject, TableSubject};
use crate::trial::Directed;

/// The setups of such an engine.
pub(crate) struct Setups {
    pub(crate) words: Vec<Setup>,
    /// Of pairs that are longer than two words.
    pub(crate) long: Vec<Setup>,
    /// A table in which two keys' changes can share a fence.
    pub(crate) two_buckets: Setup,
    pub(crate) synced: Vec<Setup>,
    pub(crate) helped: Vec<Setup>,
    /// Recovered by two threads.
    pub(crate) recovered: Vec<Setup>,
    pub(crate) stores: Vec<Setup>,
    /// With room to spare; an insertion of the second free key makes the table grow.
    pub(crate) roomy: Vec<Setup>,
    /// Whether an update of a word takes several steps.
    pub(crate) is_moved: fn(&Setup) -> bool,
}

impl Setups {
    /// Where random histories begin.
    pub(crate) fn arenas(self) -> impl Iterator<Item = Arena> {
        arenas_of::<TableSubject>(self.words)
            .chain(arenas_of::<LongTableSubject>(self.long))
            .chain(arenas_of::<TableSubject>(self.synced))
            .chain(arenas_of::<TableSubject>(self.helped))
            .chain(arenas_of::<TableSubject>(self.roomy))
            .chain(arenas_of::<TableSubject>(self.recovered))
            .chain(arenas_of::<StoreSubject>(self.stores))
    }

    /// Directed histories.
    pub(crate) fn histories(self) -> Vec<Directed> {
        let Setups { words, long, two_buckets, synced, helped: with_helper, .. } = self;
        let moved = words.iter().filter(|setup| (self.is_moved)(setup));
        let mut all = directed::<TableSubject>(&words);
        all.extend(directed::<LongTableSubject>(&long));
        all.extend(resizing::<TableSubject>(&words));
        all.extend(resizing::<LongTableSubject>(&long));
        all.extend(several_that_resize::<TableSubject>(&words));
        all.extend(self.roomy.iter().flat_map(growing_meanwhile));
        all.extend(moved.flat_map(updating::<TableSubject>));
        all.extend(long.iter().flat_map(updating::<LongTableSubject>));
        all.extend(sharing_fences(&two_buckets));
        all.extend(repeating::<TableSubject>(&two_buckets));
        all.extend(syncing::<TableSubject>(&synced));
        all.extend(helped::<TableSubject>(&with_helper));
        all.extend(alone_in::<TableSubject>(self.recovered));
        all.extend(looking_up_fillers::<TableSubject>(&words, 4));
        all.extend(looking_up_fillers::<LongTableSubject>(&long, 4));
        all.extend(late::<TableSubject>(&words[0]));
        all.extend(batches_beside::<TableSubject>(&words[0]));
        let stores = self.stores;
        all.extend(repeating::<StoreSubject>(&stores[0]));
        all.extend(directed::<StoreSubject>(&stores[..1]));
        all.extend(alone_in::<StoreSubject>(stores[1..].to_vec()));
        all.extend(resizing::<StoreSubject>(&stores));
        all.extend(store_histories::<StoreSubject>(stores[0].clone()));
        all.extend(writers_of_the_heap());
        all
    }
}

/// Updates that take several steps, beside others of the same key.
pub(crate) fn updating<S: Subject>(setup: &Setup) -> Vec<Directed> {
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

/// Changes of several buckets whose fence is still to come, beside whoever meets them.
pub(crate) fn sharing_fences(setup: &Setup) -> Vec<Directed> {
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
    programs.into_iter().map(|program| interleaved::<TableSubject>(setup, program, 0)).collect()
}

/// Tables that are halved, and tables that grow, beside others.
pub(crate) fn resizing<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
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

/// Calls in the middle of which another thread's insertion makes the table grow, though there is room to spare: so it
/// waits for nobody, and may look for the first key, or change it, before the first thread goes on.
pub(crate) fn growing_meanwhile(setup: &Setup) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let (get, grow) = (one(0, Action::Get), one(1, Action::Insert(3)));
    let insert = |value| one(0, Action::Insert(value));
    let upsert = |value| one(0, Action::Upsert(value));
    let (remove, batch) = (one(0, Action::Remove), Op::Many(vec![(0, Action::Upsert(2))]));
    let again = vec![grow.clone(), insert(4), get.clone()];
    let to_its_end = vec![grow.clone(), Op::Settle, get.clone()];
    let programs = if setup.before_history(0).is_some() {
        vec![
            (vec![get.clone(), get.clone()], to_its_end.clone(), 1),
            (vec![Op::Many(vec![(0, Action::Get)])], to_its_end.clone(), 1),
            (vec![upsert(2), get.clone()], to_its_end.clone(), 1),
            (vec![batch, get.clone()], to_its_end.clone(), 1),
            (vec![Op::Scan], to_its_end, 1),
            (vec![remove.clone(), get.clone()], again, 1),
            (vec![get.clone(), get], vec![grow, remove, Op::Settle], 1),
        ]
    } else {
        vec![
            (vec![insert(2)], vec![get.clone(), grow.clone(), get.clone()], 1),
            (vec![insert(2)], again.clone(), 2),
            (vec![batch], again, 1),
            (vec![insert(2), get.clone()], to_its_end, 1),
            (vec![upsert(2), get], vec![grow, upsert(4), Op::Settle], 1),
        ]
    };
    let shared = |(one, other, changes)| shared::<TableSubject>(setup, vec![one, other], changes);
    programs.into_iter().map(shared).collect()
}

/// Two that empty buckets, one of them while the other one still publishes the resize; and a shrink that is
/// given up, or that another one helps with.
pub(crate) fn several_that_resize<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let grower = vec![one(1, Action::Insert(3)), Op::Settle];
    let settle = || vec![Op::Settle];
    let growing = |setup: &Setup| {
        let others = [settle(), vec![Op::Settle, one(0, Action::Insert(2))]];
        let programs = others.map(|other| vec![grower.clone(), other]);
        let programs = programs.into_iter().chain([vec![settle(), settle()]]);
        programs.map(|program| shared::<S>(setup, program, 2)).collect::<Vec<_>>()
    };
    let shrinking = |setup: &Setup| {
        let shrink = || vec![Op::Shrink];
        let inserter = vec![one(0, Action::Insert(2)), one(1, Action::Insert(3))];
        [vec![shrink(), shrink()], vec![shrink(), settle()], vec![shrink(), inserter]]
            .map(|program| shared::<S>(setup, program, 1))
    };
    let grows = |setup: &&Setup| setup.resize_at < 1.0 && !setup.shrinks;
    let mut all: Vec<Directed> = setups.iter().filter(grows).flat_map(growing).collect();
    all.extend(setups.iter().filter(|setup| setup.shrinks).flat_map(shrinking));
    all
}
