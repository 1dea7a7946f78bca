//! How many scans an item waits for, exactly.
//!
//! On the crash lab's machine loads are never stale, and there one scan less would do: that machine cannot
//! tell an epoch that is one off from the right one. The step in reserve is for processors that reorder
//! loads, and these tests hold it in place.

use pmem::epoch::Epochs;
use std::sync::mpsc::channel;

/// So large that every item makes its bag scan once.
const BYTES: u64 = 1 << 40;

/// Retires an item, which scans once; returns what this reclaimed.
fn retire(epochs: &Epochs, item: u64) -> Vec<u64> {
    let mut reclaimed = Vec::new();
    epochs.pin().retire(item, BYTES, |item| reclaimed.push(item));
    reclaimed
}

#[test]
fn an_item_is_reclaimed_by_the_third_scan_and_not_before() {
    let epochs = Epochs::new().unwrap();
    assert_eq!(retire(&epochs, 1), []);
    assert_eq!(retire(&epochs, 2), []);
    assert_eq!(retire(&epochs, 3), [1]);
    assert_eq!(retire(&epochs, 4), [2]);
}

#[test]
fn a_pin_lets_one_scan_pass_and_no_more() {
    let epochs = Epochs::new().unwrap();
    std::thread::scope(|scope| {
        let (is_pinned, wait_for_pin) = channel();
        let (unpin, wait_for_unpin) = channel::<()>();
        let epochs = &epochs;
        let reader = scope.spawn(move || {
            let _guard = epochs.pin();
            is_pinned.send(()).unwrap();
            let _ = wait_for_unpin.recv();
        });
        wait_for_pin.recv().unwrap();
        for item in 1..=5 {
            assert_eq!(retire(epochs, item), []);
        }
        drop(unpin);
        reader.join().unwrap();
        // One scan passed beside the pin: two are left.
        assert_eq!(retire(epochs, 6), []);
        assert!(retire(epochs, 7).contains(&1));
    });
}
