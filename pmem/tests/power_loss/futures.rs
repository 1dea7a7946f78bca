//! Futures that wait for the disk: told of faults as threads are.

use crate::disk::SimulatedDisk;
use crate::faults::{fail_from_now_on, soon, started};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_future_ends_with_the_fault_of_a_log_and_another_one_is_ready_once_it_is_mended() {
    for is_full in [false, true] {
        let disk = SimulatedDisk::of(4096, []);
        let (pool, durable) = started(&disk);
        let mut context = Context::from_waker(Waker::noop());
        pool.operate(1);
        let mut first = durable.when_durable(durable.ticket());
        assert!(soon(|| matches!(Pin::new(&mut first).poll(&mut context), Poll::Ready(Ok(())))));

        fail_from_now_on(&disk, is_full);
        pool.operate(2);
        let ticket = durable.ticket();
        let mut failed = durable.when_durable(ticket);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        if Pin::new(&mut failed).poll(&mut Context::from_waker(&waker)).is_pending() {
            // Nobody polls it meanwhile: it is woken, perhaps before the poll has returned.
            assert!(soon(|| woken.0.load(Ordering::SeqCst) > 0));
        }
        let mut ended = None;
        assert!(soon(|| match Pin::new(&mut failed).poll(&mut context) {
            Poll::Ready(result) => {
                ended = Some(result);
                true
            }
            Poll::Pending => false,
        }));
        let told = ended.unwrap().unwrap_err().to_string();
        assert!(told.contains("/disk/"), "{told}");

        disk.state().fault = None;
        let mut again = durable.when_durable(ticket);
        assert!(soon(|| match Pin::new(&mut again).poll(&mut context) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(_)) => {
                again = durable.when_durable(ticket);
                false
            }
            Poll::Pending => false,
        }));
    }
}

#[test]
fn a_future_of_a_log_that_ends_broken_ends_with_it() {
    let disk = SimulatedDisk::of(4096, []);
    let (pool, durable) = started(&disk);
    pool.operate(1);
    assert!(soon(|| durable.wait(durable.ticket()).is_ok()));
    fail_from_now_on(&disk, false);
    pool.operate(2);
    let mut left = durable.when_durable(durable.ticket());
    let mut context = Context::from_waker(Waker::noop());
    drop(durable);
    assert!(matches!(Pin::new(&mut left).poll(&mut context), Poll::Ready(Err(_))));
}
