//! Histories around tables of two choices that double, as two engines have them: what begins, ends and turns back while
//! another thread is in the middle of something.

use crate::boundaries::shared;
use crate::history::{Action, Op};
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
    vec![turned_back(make), overtaken_at_its_end(make), moved_beside(make)]
}

/// A table with room for many more; an insertion of the second free key begins an extension, and an insertion of the
/// first one, which moves then, may be under way.
pub(crate) fn roomy(make: Make) -> Setup {
    let small = Small {
        name: "an extension is due with room to spare",
        slots: 4,
        initial_log2: 1,
        free: [(3, 1), (0, 0)],
        fillers: &[(2, 0), (1, 1), (3, 1)],
    };
    Setup { resize_at: 0.5, ..make(&small) }
}

fn insert(key: u8) -> Op {
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

/// One insertion empties the last bucket of an extension. Before it tells how far that has come, another one begins the
/// next extension, in which the first bucket has an item to be moved.
fn overtaken_at_its_end(make: Make) -> Directed {
    let small = Small {
        name: "an extension is about to end, and the next one is due",
        slots: 2,
        initial_log2: 1,
        free: [(1, 1), (2, 0)],
        fillers: &[(4, 0), (1, 1), (3, 1), (2, 0)],
    };
    let setup = Setup { resize_at: 0.6, ..make(&small) };
    shared::<TableSubject>(&setup, vec![vec![insert(0)], vec![insert(1)]], 2).always()
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
