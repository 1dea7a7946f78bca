//! What a thread holds when it ends, in thread-locals that outlive its number. Alone in its process, so
//! that no other test's threads take numbers.

use pmem::epoch::{Epochs, Guard};
use pmem::sync::{THREADS_MAX, thread_index};
use std::cell::RefCell;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Guards that are dropped at the very end of a thread, after its number was given back.
struct Kept {
    guards: Vec<Guard<'static>>,
    is_ending: Sender<usize>,
    may_end: Receiver<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A test that failed does not wait, and a panic here would hide why.
        let _ = self.is_ending.send(thread_index());
        let _ = self.may_end.recv();
        self.guards.clear();
    }
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Numbers of some threads that live at the same time.
fn numbers_of_others() -> Vec<usize> {
    const OTHERS: usize = 8;
    let all_have_one = Barrier::new(OTHERS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..OTHERS)
            .map(|_| {
                scope.spawn(|| {
                    let number = thread_index();
                    all_have_one.wait();
                    number
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_number_is_nobody_elses_while_its_thread_holds_a_guard() {
    let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new().unwrap()));
    let (is_ending, ends) = channel();
    let (end, may_end) = channel();
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        // First, so that it is destroyed after the thread's number.
        KEPT.set(Some(Kept { guards: Vec::new(), is_ending, may_end }));
        let guards = (0..3).map(|_| epochs.pin()).collect();
        KEPT.with_borrow_mut(|kept| kept.as_mut().unwrap().guards = guards);
        tell.send(thread_index()).unwrap();
    });
    let number = told.recv().unwrap();
    assert_eq!(ends.recv().unwrap(), THREADS_MAX, "the thread still has its number");
    assert!(!numbers_of_others().contains(&number), "{number} is in use twice");

    // Meanwhile the guards hold what they should.
    epochs.pin().retire(7, 1, |_| panic!("reclaimed under a guard"));
    (0..5).for_each(|_| assert!(epochs.collect(|_| panic!("reclaimed under a guard"))));
    end.send(()).unwrap();
    thread.join().unwrap();
    assert!(numbers_of_others().contains(&number), "{number} is lost");
    let mut reclaimed = Vec::new();
    epochs.collect(|item| reclaimed.push(item));
    assert_eq!(reclaimed, [7], "a pin stays for ever");
}
