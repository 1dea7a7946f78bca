//! Commands on several keys.

use super::spec::{KEY, LOOKS, OVERWRITES, READS, REMOVES, arg, multiple};
use crate::api::{Arg, ArgKind, Call, Command, Keys, Spec};
use crate::keeper::with;
use crate::refusal::{Answer, Refusal};
use crate::value::Value;

const KEYS: &[Arg] = &[multiple(KEY)];
const PAIRS: &[Arg] = &[KEY, arg(c"value", ArgKind::String)];

/// All arguments are keys.
const fn all_keys(flags: u32) -> Option<Keys> {
    Some(Keys { flags, last: -1, step: 1 })
}

fn at_least_one(call: &Call<'_>) -> Answer {
    if call.len() < 2 { Err(Refusal::Arity) } else { Ok(()) }
}

/// `FIRN.DEL key [key …]`
pub(super) struct Del;

impl Command for Del {
    const SPEC: Spec = Spec {
        name: c"firn.del",
        summary: c"Removes keys, and returns how many were there.",
        complexity: c"O(N) where N is the number of keys",
        arity: -2,
        flags: c"write",
        categories: c"write slow",
        keys: all_keys(REMOVES),
        args: KEYS,
    };

    fn run(call: &Call<'_>) -> Answer {
        at_least_one(call)?;
        with(|keeper| {
            // All or none: in a cluster they are of one slot.
            call.args_from(1).try_for_each(|key| keeper.admit(key))?;
            let mut removed = 0;
            for (index, key) in (1..).zip(call.args_from(1)) {
                // What is over is removed as well, but was not there.
                let was_there = keeper.find(key)?.is_some();
                if keeper.remove(call.server(), key)? {
                    removed += i64::from(was_there);
                    call.signal_changed(index);
                }
            }
            call.reply_integer(removed);
            Ok(())
        })
    }
}

/// `FIRN.EXISTS key [key …]`
pub(super) struct Exists;

impl Command for Exists {
    const SPEC: Spec = Spec {
        name: c"firn.exists",
        summary: c"Returns how many of the keys are there.",
        complexity: c"O(N) where N is the number of keys",
        arity: -2,
        flags: c"readonly fast",
        categories: c"read fast",
        keys: all_keys(LOOKS),
        args: KEYS,
    };

    fn run(call: &Call<'_>) -> Answer {
        at_least_one(call)?;
        with(|keeper| {
            let mut there = 0;
            for key in call.args_from(1) {
                there += i64::from(keeper.find(key)?.is_some());
            }
            call.reply_integer(there);
            Ok(())
        })
    }
}

/// `FIRN.MGET key [key …]`
pub(super) struct MGet;

impl Command for MGet {
    const SPEC: Spec = Spec {
        name: c"firn.mget",
        summary: c"Returns the values of keys.",
        complexity: c"O(N) where N is the number of keys",
        arity: -2,
        flags: c"readonly fast",
        categories: c"read fast",
        keys: all_keys(READS),
        args: KEYS,
    };

    fn run(call: &Call<'_>) -> Answer {
        at_least_one(call)?;
        with(|keeper| {
            // First all look-ups: a reply cannot become an error half-way.
            let found = call.args_from(1).map(|key| keeper.find(key));
            let found = found.collect::<Answer<Vec<_>>>()?;
            call.reply_array(found.len());
            for found in &found {
                call.reply_maybe(found.as_ref().map(|found| found.bytes()));
            }
            Ok(())
        })
    }
}

/// `FIRN.MSET key value [key value …]`
pub(super) struct MSet;

impl Command for MSet {
    const SPEC: Spec = Spec {
        name: c"firn.mset",
        summary: c"Sets the values of keys.",
        complexity: c"O(N) where N is the number of keys",
        arity: -3,
        flags: c"write",
        categories: c"write slow",
        keys: Some(Keys { flags: OVERWRITES, last: -1, step: 2 }),
        args: &[multiple(arg(c"data", ArgKind::Block(PAIRS)))],
    };

    fn run(call: &Call<'_>) -> Answer {
        if call.len() < 3 || call.len().is_multiple_of(2) {
            return Err(Refusal::Arity);
        }
        let indexes = || (1..call.len()).step_by(2);
        with(|keeper| {
            indexes().try_for_each(|index| keeper.admit(call.arg(index)))?;
            for index in indexes() {
                let (key, bytes) = (call.arg(index), call.arg(index + 1));
                keeper.put(call.server(), key, Value { ends_ms: None, bytes })?;
                call.signal_changed(index);
            }
            call.reply_ok();
            Ok(())
        })
    }
}
