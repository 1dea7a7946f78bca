//! When keys end.

use super::spec::{KEY, LOOKS, arg, one_key};
use crate::api::{ArgKind, Call, Command, Spec, now_ms};
use crate::keeper::with;
use crate::numbers::{Time, ends_ms, integer};
use crate::refusal::{Answer, Refusal};
use crate::value::Value;
use redis_module::raw;

/// `FIRN.EXPIRE key seconds`
pub(super) struct Expire;

impl Command for Expire {
    const SPEC: Spec = Spec {
        name: c"firn.expire",
        summary: c"Sets when a key ends.",
        complexity: c"O(1)",
        arity: 3,
        flags: c"write fast",
        categories: c"write fast",
        keys: one_key(raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE),
        args: &[KEY, arg(c"seconds", ArgKind::Integer)],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key, seconds] = call.exactly()?;
        let seconds = integer(seconds)?;
        let now_ms = now_ms();
        let ends_ms = ends_ms(seconds, Time { unit_ms: 1000, is_relative: true }, now_ms);
        let ends_ms = ends_ms.ok_or(Refusal::ExpireTime { command: "firn.expire" })?;
        with(|keeper| {
            let Some(bytes) = keeper.find(key)?.map(|found| found.bytes().to_vec()) else {
                call.reply_integer(0);
                return Ok(());
            };
            match u64::try_from(ends_ms).ok().filter(|&ends_ms| ends_ms > now_ms) {
                Some(ends_ms) => {
                    let value = Value { ends_ms: Some(ends_ms), bytes: &bytes };
                    keeper.put(call.server(), key, value)?;
                }
                None => drop(keeper.remove(call.server(), key)?),
            }
            call.signal_changed(1);
            call.reply_integer(1);
            Ok(())
        })
    }
}

/// `FIRN.TTL key`
pub(super) struct Ttl;

impl Command for Ttl {
    const SPEC: Spec = Spec {
        name: c"firn.ttl",
        summary:
            c"Returns the seconds until a key ends; -1 if it has no end, -2 if there is no key.",
        complexity: c"O(1)",
        arity: 2,
        flags: c"readonly fast",
        categories: c"read fast",
        keys: one_key(LOOKS | raw::REDISMODULE_CMD_KEY_ACCESS),
        args: &[KEY],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key] = call.exactly()?;
        with(|keeper| {
            let seconds = match keeper.find(key)?.map(|found| found.ends_ms) {
                None => -2,
                Some(None) => -1,
                // Rounded, as Redis does.
                Some(Some(ends_ms)) => {
                    let left_ms = ends_ms.saturating_sub(now_ms());
                    i64::try_from((left_ms.saturating_add(500)) / 1000).unwrap_or(i64::MAX)
                }
            };
            call.reply_integer(seconds);
            Ok(())
        })
    }
}
