//! Tickets: who gets one, and what waits for it.

use firndex::{Durability, Error, Options, Store, Table};

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
