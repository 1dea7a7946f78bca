//! Commands on one value: look-up, removal, compare and swap.

use super::spec::{CHANGES, KEY, READS, arg, one_key};
use crate::api::{ArgKind, Call, Command, Spec};
use crate::keeper::with;
use crate::refusal::Answer;
use crate::value::Value;
use redis_module::raw;

/// `FIRN.GET key`
pub(super) struct Get;

impl Command for Get {
    const SPEC: Spec = Spec {
        name: c"firn.get",
        summary: c"Returns the value of a key.",
        complexity: c"O(1)",
        arity: 2,
        flags: c"readonly fast",
        categories: c"read fast",
        keys: one_key(READS),
        args: &[KEY],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key] = call.exactly()?;
        with(|keeper| {
            let found = keeper.find(key)?;
            call.reply_maybe(found.as_ref().map(|found| found.bytes()));
            Ok(())
        })
    }
}

/// `FIRN.GETDEL key`
pub(super) struct GetDel;

impl Command for GetDel {
    const SPEC: Spec = Spec {
        name: c"firn.getdel",
        summary: c"Removes a key and returns its value.",
        complexity: c"O(1)",
        arity: 2,
        flags: c"write fast",
        categories: c"write fast",
        keys: one_key(
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_DELETE,
        ),
        args: &[KEY],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key] = call.exactly()?;
        with(|keeper| {
            let found = keeper.find(key)?.map(|found| found.bytes().to_vec());
            if found.is_some() {
                keeper.remove(call.server(), key)?;
                call.signal_changed(1);
            }
            call.reply_maybe(found.as_deref());
            Ok(())
        })
    }
}

/// `FIRN.CAS key expected new`
pub(super) struct Cas;

impl Command for Cas {
    const SPEC: Spec = Spec {
        name: c"firn.cas",
        summary: c"Replaces the value of a key if it is the expected one. The key keeps its end.",
        complexity: c"O(1)",
        arity: 4,
        flags: c"write fast",
        categories: c"write fast",
        keys: one_key(CHANGES),
        args: &[KEY, arg(c"expected", ArgKind::String), arg(c"new", ArgKind::String)],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key, expected, new] = call.exactly()?;
        with(|keeper| {
            let ends_ms = keeper
                .find(key)?
                .and_then(|found| (found.bytes() == expected).then_some(found.ends_ms));
            if let Some(ends_ms) = ends_ms {
                keeper.put(call.server(), key, Value { ends_ms, bytes: new })?;
                call.signal_changed(1);
            }
            call.reply_integer(ends_ms.is_some().into());
            Ok(())
        })
    }
}
