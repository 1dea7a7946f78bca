//! Threads for what takes longer than a command may.

use crate::api::{Level, guard, log};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Work that must not be lost: a client waits for it.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

static SCANS: Mutex<Option<Sender<Work>>> = Mutex::new(None);

/// Does the work in the thread for scans, one after another: each may walk through the whole pool, and one processor is
/// enough to take from the server.
pub(crate) fn in_background(work: Work) {
    let mut scans = SCANS.lock().unwrap_or_else(PoisonError::into_inner);
    let work = match &*scans {
        Some(scans) => match scans.send(work) {
            Ok(()) => return,
            Err(unsent) => unsent.0,
        },
        None => work,
    };
    let (sender, receiver) = channel::<Work>();
    let started = std::thread::Builder::new().name("firn-scan".into()).spawn(move || {
        receiver.iter().for_each(|work| guard((), work));
    });
    match started {
        Ok(_) => {
            sender.send(work).ok();
            *scans = Some(sender);
        }
        Err(_) => at_once(work),
    }
}

/// Does the work in a thread of its own.
pub(crate) fn alone(name: &str, work: Work) {
    let work = std::sync::Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<Work>>| work.lock().ok().and_then(|mut work| work.take());
    let shared = std::sync::Arc::clone(&work);
    let started = std::thread::Builder::new()
        .name(name.into())
        .spawn(move || guard((), || take(&shared).into_iter().for_each(|work| work())));
    if started.is_err() {
        take(&work).into_iter().for_each(at_once);
    }
}

/// A client that is blocked must be answered, whatever it costs the others.
fn at_once(work: Work) {
    log(Level::Warning, "no thread can be started, so the server waits for a long command");
    guard((), work);
}
