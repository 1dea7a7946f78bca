//! Tickets: who gets one, and what waits for it.

use firndex::{Durability, Error, Options, Store, Table};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Asks for everything that waits for a log.
fn asked(store: &Store) -> [firndex::Result<()>; 3] {
    [store.ticket().map(drop), store.durable_up_to().map(drop), store.commit()]
}

#[test]
fn without_a_log_there_is_no_ticket_wherever_the_pool_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let logged = Options::new().durability(Durability::Periodic);
    let store = logged.create_store(&path).unwrap();
    store.put("a", "b").unwrap();
    assert!(asked(&store).iter().all(Result::is_ok));
    store.close().unwrap();

    let read_only = Options::new().read_only(true).open_store(&path).unwrap();
    let unlogged = directory.path().join("unlogged");
    let unlogged = Options::new().durability(Durability::Process).create_store(unlogged).unwrap();
    // Whose `commit` returned would have been told that something survives.
    let in_memory = Store::in_memory().unwrap();
    for store in [&read_only, &unlogged, &in_memory] {
        for refused in asked(store) {
            assert!(matches!(refused, Err(Error::NotLogged)), "{refused:?}");
        }
    }
    let table: Table = Table::in_memory().unwrap();
    assert!(matches!(table.commit(), Err(Error::NotLogged)));
    in_memory.sync().unwrap();
}

/// A pool whose log is written by itself only once an hour.
fn lazily_logged(path: &std::path::Path) -> Store {
    let options = Options::new().durability(Durability::Periodic);
    options.durable_every(Duration::from_secs(3600)).open_or_create_store(path).unwrap()
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_thousand_futures_wait_for_the_disk_on_one_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let store = Arc::new(lazily_logged(&path));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for key in 0..1000u32 {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                store.put(key.to_le_bytes(), "here")?;
                let ticket = store.ticket()?;
                store.when_durable(ticket).await?;
                assert!(store.durable_up_to()? >= ticket);
                firndex::Result::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
        // What survives already is not waited for.
        let mut over = store.when_durable(store.durable_up_to().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(Pin::new(&mut over).poll(&mut context), Poll::Ready(Ok(()))));
    });
    // As power loss leaves it: restored from the log.
    let restored = tempfile::tempdir().unwrap();
    crate::places::copy_companions(&path, restored.path());
    let store = Store::open(restored.path().join("pool")).unwrap();
    assert_eq!(store.len(), 1000);
}

#[test]
fn futures_may_be_dropped_and_outlive_the_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let store = lazily_logged(&path);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    for _ in 0..100 {
        store.put("a", "b").unwrap();
        let mut one = store.when_durable(store.ticket().unwrap());
        let _ = Pin::new(&mut one).poll(&mut context);
        drop(one);
        // One that nobody polls.
        drop(store.when_durable(store.ticket().unwrap()));
    }
    store.put("c", "d").unwrap();
    let mut last = store.when_durable(store.ticket().unwrap());
    let polled = Pin::new(&mut last).poll(&mut context);
    store.close().unwrap();
    // Closing has written everything, and freed the file although the future is there.
    if polled.is_pending() {
        assert!(woken.0.load(Ordering::SeqCst) > 0);
        assert!(matches!(Pin::new(&mut last).poll(&mut context), Poll::Ready(Ok(()))));
    }
    let store = lazily_logged(&path);
    assert_eq!(store.len(), 2);
    let unasked = store.when_durable(store.ticket().unwrap());
    drop(store);
    let mut unasked = unasked;
    assert!(matches!(Pin::new(&mut unasked).poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn a_future_without_a_log_ends_at_once_as_a_wait_does() {
    let directory = tempfile::tempdir().unwrap();
    let logged = lazily_logged(&directory.path().join("pool"));
    let ticket = logged.ticket().unwrap();
    let store = Store::in_memory().unwrap();
    let mut refused = store.when_durable(ticket);
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut refused).poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Err(Error::NotLogged))), "{polled:?}");
}
