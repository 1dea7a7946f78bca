//! `FIRN.SET`, with the options of Redis' own.

use super::spec::{CHANGES, KEY, arg, one_key, optional, token, with_token};
use crate::api::{Arg, ArgKind, Call, Command, Spec, now_ms};
use crate::keeper::with;
use crate::numbers::{Time, ends_ms, integer};
use crate::refusal::{Answer, Refusal};
use crate::value::Value;

/// `FIRN.SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT … | PXAT … | KEEPTTL]`
pub(super) struct Set;

const CONDITIONS: &[Arg] = &[token(c"nx", c"NX"), token(c"xx", c"XX")];
const ENDS: &[Arg] = &[
    with_token(c"seconds", c"EX", ArgKind::Integer),
    with_token(c"milliseconds", c"PX", ArgKind::Integer),
    with_token(c"unix-time-seconds", c"EXAT", ArgKind::Integer),
    with_token(c"unix-time-milliseconds", c"PXAT", ArgKind::Integer),
    token(c"keepttl", c"KEEPTTL"),
];

impl Command for Set {
    const SPEC: Spec = Spec {
        name: c"firn.set",
        summary: c"Sets the value of a key.",
        complexity: c"O(1)",
        arity: -3,
        flags: c"write fast",
        categories: c"write fast",
        // With GET it is read, so users need the right to read in any case. What depends on options would take a
        // function of the module for each look at the keys.
        keys: one_key(CHANGES),
        args: &[
            KEY,
            arg(c"value", ArgKind::String),
            optional(arg(c"condition", ArgKind::OneOf(CONDITIONS))),
            optional(token(c"get", c"GET")),
            optional(arg(c"expiration", ArgKind::OneOf(ENDS))),
        ],
    };

    fn run(call: &Call<'_>) -> Answer {
        if call.len() < 3 {
            return Err(Refusal::Arity);
        }
        let (key, bytes) = (call.arg(1), call.arg(2));
        let wanted = Wanted::read(call)?;
        with(|keeper| {
            let server = call.server();
            if wanted.is_plain() {
                keeper.admit(key)?;
                keeper.put(server, key, Value { ends_ms: None, bytes })?;
                call.signal_changed(1);
                call.reply_ok();
                return Ok(());
            }
            let ends_ms = wanted.ends_ms(now_ms())?;
            let former = keeper.find(key)?.map(|found| (found.ends_ms, found.bytes().to_vec()));
            let is_done = match wanted.condition {
                Some(Condition::IfAbsent) => former.is_none(),
                Some(Condition::IfPresent) => former.is_some(),
                None => true,
            };
            if is_done {
                let kept_ms = former.as_ref().and_then(|&(ends_ms, _)| ends_ms);
                let ends_ms = if wanted.keeps_end { kept_ms } else { ends_ms };
                keeper.put(server, key, Value { ends_ms, bytes })?;
                call.signal_changed(1);
            }
            match (wanted.returns_former, is_done) {
                (true, _) => call.reply_maybe(former.as_ref().map(|(_, bytes)| &bytes[..])),
                (false, true) => call.reply_ok(),
                (false, false) => call.reply_null(),
            }
            Ok(())
        })
    }
}

enum Condition {
    IfAbsent,
    IfPresent,
}

/// The options of a call.
#[derive(Default)]
struct Wanted<'a> {
    condition: Option<Condition>,
    returns_former: bool,
    keeps_end: bool,
    end: Option<(&'a [u8], Time)>,
}

impl<'a> Wanted<'a> {
    fn read(call: &Call<'a>) -> Answer<Wanted<'a>> {
        let mut wanted = Wanted::default();
        let mut options = call.args_from(3);
        while let Some(option) = options.next() {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            let may_end = !wanted.keeps_end;
            if is("NX") && !matches!(wanted.condition, Some(Condition::IfPresent)) {
                wanted.condition = Some(Condition::IfAbsent);
            } else if is("XX") && !matches!(wanted.condition, Some(Condition::IfAbsent)) {
                wanted.condition = Some(Condition::IfPresent);
            } else if is("GET") {
                wanted.returns_former = true;
            } else if is("KEEPTTL") && wanted.end.is_none() {
                wanted.keeps_end = true;
            } else if let Some(time) = time_of(option).filter(|_| may_end) {
                // Redis takes the same one twice, and refuses another one.
                if wanted.end.is_some_and(|(_, before)| before != time) {
                    return Err(Refusal::Syntax);
                }
                wanted.end = Some((options.next().ok_or(Refusal::Syntax)?, time));
            } else {
                return Err(Refusal::Syntax);
            }
        }
        Ok(wanted)
    }

    fn is_plain(&self) -> bool {
        self.condition.is_none() && !self.returns_former && !self.keeps_end && self.end.is_none()
    }

    fn ends_ms(&self, now_ms: u64) -> Answer<Option<u64>> {
        let Some((count, time)) = self.end else { return Ok(None) };
        let count = integer(count)?;
        let ends_ms = ends_ms(count, time, now_ms).filter(|_| count > 0);
        let ends_ms = ends_ms.and_then(|ends_ms| u64::try_from(ends_ms).ok());
        ends_ms.map(Some).ok_or(Refusal::ExpireTime { command: "firn.set" })
    }
}

fn time_of(option: &[u8]) -> Option<Time> {
    let time = |unit_ms, is_relative| Time { unit_ms, is_relative };
    match option.to_ascii_uppercase().as_slice() {
        b"EX" => Some(time(1000, true)),
        b"PX" => Some(time(1, true)),
        b"EXAT" => Some(time(1000, false)),
        b"PXAT" => Some(time(1, false)),
        _ => None,
    }
}
