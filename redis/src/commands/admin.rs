//! The pool as a whole: its size, its figures, the disk, its soundness.

use crate::api::{Call, Command, Spec, block, guarded};
use crate::figures::{Figure, figures};
use crate::keeper::with;
use crate::refusal::{Answer, Refusal};
use crate::worker::alone;
use firndex::{CheckReport, Store};
use std::sync::Arc;

/// `FIRN.LEN`
pub(super) struct Len;

impl Command for Len {
    const SPEC: Spec = Spec {
        name: c"firn.len",
        summary: c"Returns how many keys the pool has.",
        complexity: c"O(1)",
        arity: 1,
        flags: c"readonly fast",
        categories: c"read fast",
        keys: None,
        args: &[],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [] = call.exactly()?;
        with(|keeper| {
            keeper.admit_all()?;
            call.reply_integer(i64::try_from(keeper.len()).unwrap_or(i64::MAX));
            Ok(())
        })
    }
}

/// `FIRN.INFO`
pub(super) struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"firn.info",
        summary: c"Returns figures of the pool.",
        complexity: c"O(1)",
        arity: 1,
        flags: c"readonly",
        categories: c"read slow",
        keys: None,
        args: &[],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [] = call.exactly()?;
        let figures = with(figures)?;
        call.reply_map(figures.len());
        for (name, figure) in &figures {
            call.reply_bytes(name.to_bytes());
            match figure {
                Figure::Number(number) => {
                    call.reply_integer(i64::try_from(*number).unwrap_or(i64::MAX));
                }
                Figure::Text(text) => call.reply_bytes(text.as_bytes()),
            }
        }
        Ok(())
    }
}

/// Lets the client wait for what `work` finds in a thread.
fn in_thread(
    call: &Call<'_>,
    command: &'static str,
    work: impl FnOnce(&Store) -> Answer<Option<CheckReport>> + Send + 'static,
) -> Answer {
    let [] = call.exactly()?;
    if !call.may_wait() {
        return Err(Refusal::MayNotWait { command });
    }
    let store = with(|keeper| Ok(Arc::clone(&keeper.store)))?;
    let client = block(call);
    alone(
        "firn-check",
        Box::new(move || {
            let found = guarded(|| work(&store)).and_then(|found| found);
            drop(store);
            client.answer(Box::new(move |call| reply(call, found?)));
        }),
    );
    Ok(())
}

fn reply(call: &Call<'_>, report: Option<CheckReport>) -> Answer {
    match report {
        None => call.reply_ok(),
        Some(report) if report.is_sound() => call.reply_ok(),
        Some(report) => {
            let first = report.findings.first().map_or("", String::as_str);
            call.reply_error(&format!(
                "ERR the pool is damaged: {} faults, the first is: {first}; copy out what reads well with \
                 `firndex salvage`",
                report.faults
            ));
        }
    }
    Ok(())
}

/// `FIRN.SYNC`
pub(super) struct Sync;

impl Command for Sync {
    const SPEC: Spec = Spec {
        name: c"firn.sync",
        summary: c"Waits until all that was stored survives power loss.",
        complexity: c"O(N) where N is what was written since the last time",
        arity: 1,
        flags: c"readonly deny-script",
        categories: c"read slow blocking",
        keys: None,
        args: &[],
    };

    fn run(call: &Call<'_>) -> Answer {
        in_thread(call, "FIRN.SYNC", |store| {
            store.sync()?;
            Ok(None)
        })
    }
}

/// `FIRN.CHECK`
pub(super) struct Check;

impl Command for Check {
    const SPEC: Spec = Spec {
        name: c"firn.check",
        summary: c"Verifies the pool, and says what is wrong with it.",
        complexity: c"O(N) where N is the number of keys, on a thread",
        arity: 1,
        flags: c"readonly deny-script admin",
        categories: c"read slow blocking admin dangerous",
        keys: None,
        args: &[],
    };

    fn run(call: &Call<'_>) -> Answer {
        in_thread(call, "FIRN.CHECK", |store| Ok(Some(store.check()?)))
    }
}
