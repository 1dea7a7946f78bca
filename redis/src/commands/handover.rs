//! `FIRN.HANDOVER`: what `redis/reshard` moves slots by. It takes no keys, so that a cluster routes none of it.
//!
//! 1. `WATCH`, on the source: from here on it remembers which keys of the slots change.
//! 2. `SCAN` on the source and `TAKE` on the target: all keys of the slots, while clients change them.
//! 3. `CHANGES` on the source, `TAKE` and `DROP` on the target: what has changed, again and again, until it is little.
//! 4. `CLOSE` on the source: clients are told to try again. `CHANGES` once more: the target has everything now.
//! 5. The slots become the target's, and are opened there. `DROP` on the source removes what it has of them.
//!
//! On the target the slots are closed from before the first `TAKE` until they are its own. So no scan shows a key at
//! both nodes, and no node answers for a key that the other one may have changed.

use super::spec::{arg, multiple};
use crate::api::{ArgKind, Call, Command, Spec, block, guarded};
use crate::keeper::{FOREIGN, with};
use crate::names;
use crate::numbers::integer;
use crate::refusal::{Answer, Refusal};
use crate::slots::{SLOTS, slot_of};
use crate::value::Value;
use crate::worker::in_background;
use firndex::Store;
use std::ops::RangeInclusive;

/// Most keys that one call goes through.
const COUNT_MAX: usize = 100_000;

/// `FIRN.HANDOVER WATCH | SCAN | CHANGES | CLOSE | OPEN | TAKE | DROP …`
pub(super) struct Handover;

impl Command for Handover {
    const SPEC: Spec = Spec {
        name: c"firn.handover",
        summary: c"Moves slots of a cluster from node to node. For the tool `reshard`.",
        complexity: c"O(N) where N is the number of keys that are passed",
        arity: -2,
        flags: c"write admin deny-script",
        categories: c"write admin dangerous slow",
        keys: None,
        args: &[arg(c"step", ArgKind::String), multiple(arg(c"argument", ArgKind::String))],
    };

    fn run(call: &Call<'_>) -> Answer {
        with(|keeper| keeper.admit_all())?;
        let step = call.arg(1).to_ascii_uppercase();
        match (step.as_slice(), call.len()) {
            (b"WATCH", 4) => {
                let slots = slots(call)?;
                with(|keeper| {
                    keeper.slots.watch(slots);
                    Ok(())
                })?;
                call.reply_ok();
                Ok(())
            }
            (b"SCAN", 6) => scan(call),
            (b"CHANGES", 3) => changes(call),
            (b"CLOSE", 4) => close(call, true),
            (b"OPEN", 4) => close(call, false),
            (b"TAKE", len) if len >= 4 && len % 2 == 0 => take(call),
            (b"DROP", len) if len >= 3 => drop_keys(call),
            _ => Err(Refusal::Syntax),
        }
    }
}

fn slots(call: &Call<'_>) -> Answer<RangeInclusive<u16>> {
    let slot = |index| {
        let number = u16::try_from(integer(call.arg(index))?).ok();
        number.filter(|&slot| slot < SLOTS).ok_or_else(|| Refusal::Argument {
            found: format!("slot {}", String::from_utf8_lossy(call.arg(index))),
            expected: "0 to 16383",
            advice: "give the first and the last slot",
        })
    };
    Ok(slot(2)?..=slot(3)?)
}

fn close(call: &Call<'_>, is_closed: bool) -> Answer {
    let slots = slots(call)?;
    with(|keeper| {
        if !is_closed {
            keeper.slots.watch_no_more();
        }
        keeper.close_slots(call.server(), slots, is_closed)
    })?;
    call.reply_ok();
    Ok(())
}

/// `SCAN first last cursor count`: the next cursor, then keys and stored values.
fn scan(call: &Call<'_>) -> Answer {
    let slots = slots(call)?;
    let cursor = std::str::from_utf8(call.arg(4)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(Refusal::Cursor)?;
    let count = usize::try_from(integer(call.arg(5))?).unwrap_or(1).clamp(1, COUNT_MAX);
    if !call.may_wait() {
        return Err(Refusal::MayNotWait { command: "FIRN.HANDOVER SCAN" });
    }
    let store = with(|keeper| Ok(keeper.store.clone()))?;
    let client = block(call);
    in_background(Box::new(move || {
        let found = guarded(|| find(&store, &slots, cursor, count)).and_then(|found| found);
        drop(store);
        client.answer(Box::new(move |call| {
            let (pairs, next) = found?;
            call.reply_array(2);
            call.reply_bytes(next.to_string().as_bytes());
            call.reply_array(2 * pairs.len());
            for (key, stored) in &pairs {
                call.reply_bytes(key);
                call.reply_bytes(stored);
            }
            Ok(())
        }));
    }));
    Ok(())
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn find(
    store: &Store,
    slots: &RangeInclusive<u16>,
    cursor: u64,
    count: usize,
) -> Answer<(Pairs, u64)> {
    let (pairs, next) = store.scan(cursor, count)?;
    let pairs = pairs.into_iter().filter_map(|(stored_key, stored)| {
        let key = names::shown(&stored_key)?;
        slots.contains(&slot_of(key)).then(|| (key.to_vec(), stored))
    });
    Ok((pairs.collect(), next))
}

/// `CHANGES count`: keys that have changed, each with its stored value or nothing.
fn changes(call: &Call<'_>) -> Answer {
    let count = usize::try_from(integer(call.arg(2))?).unwrap_or(1).clamp(1, COUNT_MAX);
    with(|keeper| {
        let keys = keeper.slots.take_changed(count).ok_or(Refusal::Argument {
            found: "nobody watches here".into(),
            expected: "a `FIRN.HANDOVER WATCH` before",
            advice: "begin anew: this node was restarted, or another one has taken its place",
        })?;
        let stored = keys.iter().map(|key| keeper.store.get(names::stored(key)));
        let stored = stored.collect::<firndex::Result<Vec<_>>>()?;
        call.reply_array(2 * keys.len());
        for (key, stored) in keys.iter().zip(&stored) {
            call.reply_bytes(key);
            call.reply_maybe(stored.as_deref());
        }
        Ok(())
    })
}

/// `TAKE key stored [key stored …]`
fn take(call: &Call<'_>) -> Answer {
    with(|keeper| {
        for index in (2..call.len()).step_by(2) {
            let value = Value::read(call.arg(index + 1)).ok_or(FOREIGN)?;
            keeper.put(call.server(), call.arg(index), value)?;
            call.signal_changed(index);
        }
        Ok(())
    })?;
    call.reply_ok();
    Ok(())
}

/// `DROP key [key …]`
fn drop_keys(call: &Call<'_>) -> Answer {
    with(|keeper| {
        for index in 2..call.len() {
            if keeper.remove(call.server(), call.arg(index))? {
                call.signal_changed(index);
            }
        }
        Ok(())
    })?;
    call.reply_ok();
    Ok(())
}
