//! The step that removes keys that are over, which the server's timer calls.

use crate::api::{Server, in_ms, now_ms};
use crate::keeper::{self, Keeper};
use crate::names;
use crate::refusal::Answer;
use crate::value::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// From one step to the next: if nothing waits, and if something does.
const IDLE_MS: u32 = 100;
const BUSY_MS: u32 = 1;

/// Removes some of the keys that are over, and comes again.
pub(crate) fn step(server: Server) {
    let mut next_ms = IDLE_MS;
    // During a failover the stream must come to rest, and the server ends if a module disturbs that.
    if server.is_master() && !server.must_be_silent() {
        let queued = keeper::with(|keeper| {
            keeper.expiry.set_master(true);
            let expiry = Arc::clone(&keeper.expiry);
            for key in expiry.take() {
                if remove_if_over(keeper, server, &key)? {
                    expiry.removed.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(expiry.queued())
        });
        if queued.is_ok_and(|queued| queued > 0) {
            next_ms = BUSY_MS;
        }
    }
    in_ms(server, next_ms, step);
}

/// Removes a key, unless it has a later end by now or is gone. Whether it did.
fn remove_if_over(keeper: &mut Keeper, server: Server, key: &[u8]) -> Answer<bool> {
    // A closed slot is its next owner's.
    if keeper.admit(key).is_err() {
        return Ok(false);
    }
    let is_over = match keeper.store.get(names::stored(key))? {
        Some(stored) => Value::read(&stored).is_some_and(|value| value.has_ended(now_ms())),
        None => false,
    };
    if is_over && keeper.remove(server, key)? {
        server.signal_changed(key);
        return Ok(true);
    }
    Ok(false)
}
