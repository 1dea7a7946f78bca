//! The commands that carry a master's effects to its replicas.

use super::spec::{KEY, OVERWRITES, REMOVES, arg, one_key};
use crate::api::{Arg, ArgKind, Call, Command, Level, Spec, log};
use crate::keeper::{Effect, FOREIGN, stamp_of, with};
use crate::refusal::{Answer, Refusal};
use crate::value::Value;

const STAMP: Arg = arg(c"stamp", ArgKind::String);

/// `FIRN.REPLPUT key stamp stored`
pub(super) struct Put;

/// `FIRN.REPLDEL key stamp ""`
pub(super) struct Remove;

/// `FIRN.REPLSLOTS "" stamp slots`
pub(super) struct Slots;

impl Command for Put {
    const SPEC: Spec = Spec {
        name: c"firn.replput",
        summary: c"A value that this server's master has stored. Not for clients.",
        complexity: c"O(1)",
        arity: 4,
        flags: c"write admin fast no-monitor",
        categories: c"write admin dangerous fast",
        keys: one_key(OVERWRITES),
        args: &[KEY, STAMP, arg(c"stored", ArgKind::String)],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key, _, stored] = call.exactly()?;
        Value::read(stored).ok_or(FOREIGN)?;
        apply(call, "FIRN.REPLPUT", Effect::Put(key, stored))
    }
}

impl Command for Remove {
    const SPEC: Spec = Spec {
        name: c"firn.repldel",
        summary: c"A key that this server's master has removed. Not for clients.",
        complexity: c"O(1)",
        arity: 4,
        flags: c"write admin fast no-monitor",
        categories: c"write admin dangerous fast",
        keys: one_key(REMOVES),
        args: &[KEY, STAMP, arg(c"nothing", ArgKind::String)],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [key, _, _] = call.exactly()?;
        apply(call, "FIRN.REPLDEL", Effect::Remove(key))
    }
}

impl Command for Slots {
    const SPEC: Spec = Spec {
        name: c"firn.replslots",
        summary: c"Slots that this server's master has closed. Not for clients.",
        complexity: c"O(1)",
        arity: 4,
        flags: c"write admin fast no-monitor",
        categories: c"write admin dangerous fast",
        keys: None,
        args: &[arg(c"nothing", ArgKind::String), STAMP, arg(c"slots", ArgKind::String)],
    };

    fn run(call: &Call<'_>) -> Answer {
        let [_, _, bits] = call.exactly()?;
        apply(call, "FIRN.REPLSLOTS", Effect::Slots(bits))
    }
}

fn apply(call: &Call<'_>, command: &'static str, effect: Effect<'_>) -> Answer {
    if !call.is_replicated() {
        return Err(Refusal::OnlyReplicated { command });
    }
    let stamp = stamp_of(call.arg(2)).ok_or(Refusal::Syntax)?;
    let applied = with(|keeper| keeper.apply(stamp, effect));
    if let Err(refusal) = &applied {
        // Nobody reads what a replica answers its master.
        log(Level::Warning, &format!("{command} was refused: {refusal}"));
    }
    applied?;
    call.signal_changed(1);
    call.reply_ok();
    Ok(())
}
