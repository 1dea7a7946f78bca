//! The thread that keeps values in place while Python looks at them.
//!
//! A `Record` belongs to one thread, and Python may let go of a `memoryview` in any. So one thread for each store finds
//! the records and drops them, and what Python has is where the bytes are.

use firndex::{Record, Store};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

enum Wish {
    Keep(Vec<u8>, SyncSender<firndex::Result<Option<Kept>>>),
    Drop(u64),
}

/// Where a record is.
struct Kept {
    number: u64,
    start: *const u8,
    len: usize,
}

// SAFETY: it is an address and two numbers; who may read what is there, `Held` says.
unsafe impl Send for Kept {}

/// The other threads' side.
#[derive(Clone)]
pub(crate) struct Keeper {
    /// `None` only while it is dropped.
    wishes: Option<Sender<Wish>>,
    process: u32,
}

/// A value that stays in place until this is dropped.
pub(crate) struct Held {
    kept: Kept,
    keeper: Keeper,
    /// How many there are, which a handle looks at before it is closed.
    count: Arc<AtomicUsize>,
}

impl Held {
    pub(crate) fn start(&self) -> *const u8 {
        self.kept.start
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and another one may have held the channel's lock.
        if std::process::id() == self.keeper.process {
            self.keeper.wish(Wish::Drop(self.kept.number));
        }
        self.count.fetch_sub(1, Ordering::Release);
    }
}

impl Keeper {
    /// Begins the thread. It ends when the keeper and all that it holds are dropped.
    pub(crate) fn begin(store: Arc<Store>) -> std::io::Result<Self> {
        let (wishes, received) = channel();
        let keep = move || serve(&store, &received);
        std::thread::Builder::new().name("firndex-keeper".into()).spawn(keep)?;
        Ok(Keeper { wishes: Some(wishes), process: std::process::id() })
    }

    fn wish(&self, wish: Wish) {
        // The thread lives as long as there is a keeper.
        let _ = self.wishes.as_ref().map(|wishes| wishes.send(wish));
    }

    /// The value of `key`, which stays in place while it is held. `count` counts it.
    pub(crate) fn hold(
        &self,
        key: &[u8],
        count: &Arc<AtomicUsize>,
    ) -> firndex::Result<Option<Held>> {
        let (answer, answered) = sync_channel(1);
        self.wish(Wish::Keep(key.into(), answer));
        let Some(kept) = answered.recv().unwrap_or(Ok(None))? else { return Ok(None) };
        count.fetch_add(1, Ordering::Acquire);
        Ok(Some(Held { kept, keeper: self.clone(), count: Arc::clone(count) }))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // As in `Held`'s.
            std::mem::forget(self.wishes.take());
        }
    }
}

fn serve(store: &Store, wishes: &Receiver<Wish>) {
    let mut records: HashMap<u64, Record<'_>> = HashMap::new();
    let mut number = 0;
    for wish in wishes {
        match wish {
            Wish::Keep(key, answer) => {
                number += 1;
                let found = store.get(&key).map(|found| {
                    found.map(|record| {
                        let kept = Kept { number, start: record.as_ptr(), len: record.len() };
                        records.insert(number, record);
                        kept
                    })
                });
                // Whoever asked waits for it.
                let _ = answer.send(found);
            }
            Wish::Drop(number) => drop(records.remove(&number)),
        }
    }
}
