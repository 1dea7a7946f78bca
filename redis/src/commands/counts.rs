//! Numbers.

use super::spec::{CHANGES, KEY, arg, one_key};
use crate::api::{ArgKind, Call, Command, Spec};
use crate::keeper::with;
use crate::numbers::integer;
use crate::refusal::{Answer, Refusal};
use crate::value::Value;

/// `FIRN.INCRBY key increment`
pub(super) struct IncrBy;

impl Command for IncrBy {
    const SPEC: Spec = Spec {
        name: c"firn.incrby",
        summary: c"Adds a number to the value of a key, which is 0 if there is none.",
        complexity: c"O(1)",
        arity: 3,
        flags: c"write fast",
        categories: c"write fast",
        keys: one_key(CHANGES),
        args: &[KEY, arg(c"increment", ArgKind::Integer)],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key, increment] = call.exactly()?;
        let increment = integer(increment)?;
        with(|keeper| {
            let (ends_ms, before) = match keeper.find(key)? {
                Some(found) => (found.ends_ms, integer(found.bytes())?),
                None => (None, 0),
            };
            let after = before.checked_add(increment).ok_or(Refusal::Overflow)?;
            let bytes = after.to_string().into_bytes();
            keeper.put(call.server(), key, Value { ends_ms, bytes: &bytes })?;
            call.signal_changed(1);
            call.reply_integer(after);
            Ok(())
        })
    }
}
