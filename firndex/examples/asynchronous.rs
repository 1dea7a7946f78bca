//! A store in an asynchronous program: tasks share it, and what they keep across an `await` is their own.
//!
//! `cargo run --example asynchronous -p firndex`
//!
//! Look-ups and changes take less time than a task takes to be woken: call them as they are. A task that needs what it
//! did to survive power loss awaits `when_durable`. What blocks its thread for the disk, such as `sync` and `close`,
//! belongs on a thread that may wait.

use firndex::{Durability, Options, Store};
use std::sync::Arc;

/// What one visitor does. The future is `Send`: it holds no [`firndex::Record`] while it waits, but a copy.
async fn visit(sessions: Arc<Store>, user: String) -> firndex::Result<usize> {
    sessions.entry(&user).and_modify(|visits| visits.push(b'|')).or_insert("|")?;
    // All visitors who wait at the same time share one write to the disk.
    sessions.when_durable(sessions.ticket()?).await?;
    let before = sessions.get_owned(&user)?.unwrap_or_default();
    tokio::task::yield_now().await;
    let after = sessions.get_owned(&user)?.unwrap_or_default();
    assert!(after.starts_with(&before), "visits are only added");
    Ok(after.len())
}

#[tokio::main]
async fn main() -> firndex::Result<()> {
    let path = std::env::temp_dir().join("firndex-example-asynchronous.firn");
    let sessions = Options::new().durability(Durability::Periodic).open_or_create_store(&path)?;
    let sessions = Arc::new(sessions);
    let mut tasks = tokio::task::JoinSet::new();
    for visitor in 0..100 {
        tasks.spawn(visit(Arc::clone(&sessions), format!("user {}", visitor % 7)));
    }
    let mut most = 0;
    while let Some(visits) = tasks.join_next().await {
        most = most.max(visits.expect("no task panics")?);
    }
    println!("{} users, {most} visits at most", sessions.len());

    let sessions = Arc::into_inner(sessions).expect("all tasks have ended");
    tokio::task::spawn_blocking(move || sessions.close()).await.expect("it does not panic")
}
