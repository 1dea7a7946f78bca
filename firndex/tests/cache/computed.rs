//! Values that are computed once.

use firndex::Cache;
use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn one_thread_computes_and_all_others_get_its_value() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    let (computed, together) = (AtomicU64::new(0), Barrier::new(8));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                for key in 0..100u64 {
                    let value = cache.get_or_put_with(key.to_le_bytes(), || {
                        computed.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, Infallible>(key.to_string().into_bytes())
                    });
                    assert_eq!(&value.unwrap().unwrap()[..], key.to_string().as_bytes());
                }
            });
        }
    });
    assert_eq!(computed.load(Ordering::Relaxed), 100);
}

#[test]
fn a_value_that_is_computed_was_missed_once() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    for _ in 0..2 {
        let value = cache.get_or_put_with("a", || Ok::<_, Infallible>(b"1".to_vec()));
        assert_eq!(&value.unwrap().unwrap()[..], b"1");
    }
    let stats = cache.stats().unwrap();
    assert_eq!((stats.hits, stats.misses, stats.insertions), (1, 1, 1));
}

#[test]
fn an_error_is_its_callers_and_is_not_kept() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    let failed = cache.get_or_put_with("a", || Err("no"));
    assert_eq!(failed.unwrap().unwrap_err(), "no");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.get_or_put_with("a", || -> Result<Vec<u8>, ()> { panic!("while it computes") })
    }));
    assert!(panicked.is_err());
    let value = cache.get_or_put_with("a", || Ok::<_, ()>(b"yes".to_vec()));
    assert_eq!(&value.unwrap().unwrap()[..], b"yes");
    // Too large to be put, it is returned all the same.
    let large = cache.get_or_put_with("large", || Ok::<_, ()>(vec![7; 1 << 20])).unwrap().unwrap();
    assert_eq!(large.len(), 1 << 20);
    assert!(cache.get("large").unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_wait_for_one_that_computes() {
    let cache = std::sync::Arc::new(Cache::in_memory(1 << 20).unwrap());
    let computed = std::sync::Arc::new(AtomicU64::new(0));
    let all = (0..16).map(|_| {
        let (cache, computed) = (cache.clone(), computed.clone());
        tokio::spawn(async move {
            let compute = async || {
                tokio::task::yield_now().await;
                computed.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(b"value".to_vec())
            };
            cache.get_or_put_with_async("key", compute).await.unwrap().unwrap()
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(&one.await.unwrap()[..], b"value");
    }
    assert_eq!(computed.load(Ordering::Relaxed), 1);
}
