//! Histories around tables of two choices that double, as two engines have them: what begins, ends and turns back
//! while another thread is in the middle of something.

use crate::boundaries::{interleaved, shared};
use crate::history::{Action, Key, Op};
use crate::setups::choices::Choices;
use crate::subject::{Setup, TableSubject};
use crate::trial::Directed;

/// A table that is new.
pub(crate) struct Small {
    pub(crate) name: &'static str,
    pub(crate) slots: u32,
    /// log2 of its buckets at first.
    pub(crate) initial_log2: u32,
    pub(crate) free: [Choices; 2],
    pub(crate) fillers: &'static [Choices],
}

/// Makes the setup of an engine.
pub(crate) type Make = fn(&Small) -> Setup;

/// All of them.
pub(crate) fn histories(make: Make) -> Vec<Directed> {
    let mut all = overtaken_at_its_end(make);
    all.extend([turned_back(make), turned_back_twice(make), moved_beside(make)]);
    all.extend([chosen_otherwise(&two_choices(make)), moved_beside_a_scan(&moving(make))]);
    all
}

/// A table with room for many more; an insertion of the second free key begins an extension, and an insertion of the
/// first one, which moves then, may be under way. No other item of its bucket moves: so nothing else there tells.
pub(crate) fn roomy(make: Make) -> Setup {
    let small = Small {
        name: "an extension is due with room to spare",
        slots: 4,
        initial_log2: 1,
        free: [(3, 1), (0, 0)],
        fillers: &[(2, 0), (1, 1), (1, 1)],
    };
    Setup { resize_at: 0.5, ..make(&small) }
}

fn insert(key: Key) -> Op {
    Op::One(key, Action::Insert(2 + u16::from(key)))
}

/// A shrink has moved an item down when operations find no room for another one: it becomes an extension, which has to
/// move the first one back.
fn turned_back(make: Make) -> Directed {
    let small = Small {
        name: "operations turn a shrink back",
        slots: 1,
        initial_log2: 2,
        free: [(2, 2), (3, 3)],
        fillers: &[(4, 0), (1, 1), (5, 1)],
    };
    let mut setup = Setup { shrinks: true, ..make(&small) };
    setup.before.push(Op::Settle);
    shared::<TableSubject>(&setup, vec![vec![Op::Shrink], vec![insert(0), insert(1)]], 1).always()
}

/// Two that find no room in the same shrink: the second one must not turn back what has been turned back, and has got
/// on since.
fn turned_back_twice(make: Make) -> Directed {
    let small = Small {
        name: "two operations turn a shrink back",
        slots: 2,
        initial_log2: 2,
        free: [(2, 2), (3, 3)],
        fillers: &[(0, 0), (0, 0), (4, 0), (1, 1), (1, 1), (5, 1)],
    };
    let mut setup = Setup { shrinks: true, ..make(&small) };
    setup.before.push(Op::Settle);
    let other = vec![insert(1), Op::Settle];
    shared::<TableSubject>(&setup, vec![vec![Op::Shrink], vec![insert(0)], other], 2).always()
}

/// One insertion empties the last bucket of an extension. Before it tells how far that has come, another one begins
/// the next extension, in which the first bucket has an item to be moved.
fn overtaken_at_its_end(make: Make) -> Vec<Directed> {
    let small = Small {
        name: "an extension is about to end, and the next one is due",
        slots: 2,
        initial_log2: 1,
        free: [(1, 1), (2, 0)],
        fillers: &[(4, 0), (1, 1), (3, 1), (2, 0)],
    };
    let setup = Setup { resize_at: 0.6, ..make(&small) };
    let insertions = shared::<TableSubject>(&setup, vec![vec![insert(0)], vec![insert(1)]], 2);
    vec![insertions.always(), looked_up_at_the_end(&setup)]
}

/// A look-up of the first filler that knows the resize which is about to end, and goes on when the next one has moved
/// the filler.
pub(crate) fn looked_up_at_the_end(setup: &Setup) -> Directed {
    let filler = setup.free_keys as Key;
    let both = vec![insert(0), insert(1), Op::Settle];
    let look_ups = vec![Op::One(filler, Action::Get); 2];
    shared::<TableSubject>(setup, vec![look_ups, both], 1).always()
}

/// An item that an insertion moves to its other bucket, beside a scan that must meet it once. Suspended anywhere: what
/// the scan alone touches matters, too.
pub(crate) fn moved_beside_a_scan(setup: &Setup) -> Directed {
    interleaved::<TableSubject>(setup, vec![vec![insert(0)], vec![Op::Scan]], 0).always()
}

/// A table in which an insertion moves an item.
fn moving(make: Make) -> Setup {
    make(&Small {
        name: "an insertion moves an item",
        slots: 1,
        initial_log2: 1,
        free: [(0, 0), (2, 0)],
        fillers: &[(0, 1)],
    })
}

/// A key with two buckets that hold an item each.
fn two_choices(make: Make) -> Setup {
    make(&Small {
        name: "a key with two buckets of an item each",
        slots: 4,
        initial_log2: 1,
        free: [(0, 1), (0, 1)],
        fillers: &[(0, 0), (1, 1)],
    })
}

/// An insertion has chosen a bucket. Before it goes on, the other one loses an item, so that another insertion of the
/// key chooses that.
pub(crate) fn chosen_otherwise(setup: &Setup) -> Directed {
    let last = setup.keys.len() as Key - 1;
    let again = vec![Op::One(last, Action::Remove), insert(0), Op::One(0, Action::Get)];
    shared::<TableSubject>(setup, vec![vec![insert(0)], again], 1).always()
}

/// An insertion moves an item to its other bucket, which an extension that has begun since has emptied for good.
fn moved_beside(make: Make) -> Directed {
    let small = Small {
        name: "an item can be moved to a bucket that another insertion lets be emptied",
        slots: 1,
        initial_log2: 2,
        free: [(1, 1), (3, 3)],
        fillers: &[(5, 0)],
    };
    let setup = Setup { resize_at: 0.5, ..make(&small) };
    shared::<TableSubject>(&setup, vec![vec![insert(0)], vec![insert(1), Op::Settle]], 2).always()
}
