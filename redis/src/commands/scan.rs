//! `FIRN.SCAN`. The pool finds keys from a cursor on by reading all of it now and then, so this is a thread's work.

use super::spec::{arg, optional, with_token};
use crate::api::{ArgKind, Call, Command, Spec, block, guarded, now_ms};
use crate::glob;
use crate::keeper::with;
use crate::names;
use crate::numbers::integer;
use crate::refusal::{Answer, Refusal};
use crate::value::Value;
use crate::worker::in_background;
use firndex::Store;

/// Keys that a call looks at unless it says how many.
const COUNT: usize = 10;
/// Most keys that a call looks at, so that no reply is too large.
const COUNT_MAX: usize = 100_000;

/// `FIRN.SCAN cursor [MATCH pattern] [COUNT count]`
pub(super) struct Scan;

impl Command for Scan {
    const SPEC: Spec = Spec {
        name: c"firn.scan",
        summary: c"Iterates over the keys of the pool.",
        complexity: c"O(1) for most calls; a walk through the pool on a thread for some",
        arity: -2,
        flags: c"readonly deny-script",
        categories: c"read slow",
        keys: None,
        args: &[
            arg(c"cursor", ArgKind::Integer),
            optional(with_token(c"pattern", c"MATCH", ArgKind::Pattern)),
            optional(with_token(c"count", c"COUNT", ArgKind::Integer)),
        ],
    };

    fn run(call: &Call<'_>) -> Answer {
        if call.len() < 2 {
            return Err(Refusal::Arity);
        }
        let cursor = std::str::from_utf8(call.arg(1)).ok().and_then(|text| text.parse().ok());
        let cursor: u64 = cursor.ok_or(Refusal::Cursor)?;
        let (mut pattern, mut count) = (None, COUNT);
        let mut options = call.args_from(2);
        while let Some(option) = options.next() {
            let value = options.next().ok_or(Refusal::Syntax)?;
            if option.eq_ignore_ascii_case(b"MATCH") {
                pattern = Some(value.to_vec());
            } else if option.eq_ignore_ascii_case(b"COUNT") {
                let asked = integer(value)?;
                if asked < 1 {
                    return Err(Refusal::Syntax);
                }
                count = usize::try_from(asked).map_or(COUNT_MAX, |asked| asked.min(COUNT_MAX));
            } else {
                return Err(Refusal::Syntax);
            }
        }
        let store = with(|keeper| {
            keeper.admit_all()?;
            Ok(keeper.store.clone())
        })?;
        if !call.may_wait() {
            return Err(Refusal::MayNotWait { command: "FIRN.SCAN" });
        }
        let client = block(call);
        in_background(Box::new(move || {
            let found = guarded(|| scan(&store, cursor, count, pattern.as_deref()));
            drop(store);
            let found = found.and_then(|found| found);
            client.answer(Box::new(move |call| {
                let (mut keys, next) = found?;
                // Another node shows them, or will.
                with(|keeper| {
                    keys.retain(|key| keeper.slots.admit(key).is_ok());
                    Ok(())
                })?;
                reply(call, (keys, next))
            }));
        }));
        Ok(())
    }
}

fn scan(
    store: &Store,
    cursor: u64,
    count: usize,
    pattern: Option<&[u8]>,
) -> Answer<(Vec<Vec<u8>>, u64)> {
    let (pairs, next) = store.scan(cursor, count)?;
    let now_ms = now_ms();
    let keys = pairs.iter().filter_map(|(stored, value)| {
        let key = names::shown(stored)?;
        let is_over = Value::read(value).is_none_or(|value| value.has_ended(now_ms));
        let matches = pattern.is_none_or(|pattern| glob::matches(pattern, key));
        (matches && !is_over).then(|| key.to_vec())
    });
    Ok((keys.collect(), next))
}

fn reply(call: &Call<'_>, (keys, next): (Vec<Vec<u8>>, u64)) -> Answer {
    call.reply_array(2);
    call.reply_bytes(next.to_string().as_bytes());
    call.reply_array(keys.len());
    keys.iter().for_each(|key| call.reply_bytes(key));
    Ok(())
}
