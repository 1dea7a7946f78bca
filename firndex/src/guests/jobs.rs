//! What takes long: a few threads do it, one after the other.

use pmem::meeting::Bell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Jobs that run at the same time.
const RUNNING_MAX: usize = 4;

type Work = Box<dyn FnOnce() -> Vec<u64> + Send>;

/// What a job has found, and whose it is.
type Found<P> = (P, Vec<u64>);

/// Jobs of whom a `P` names, which find words.
pub(super) struct Jobs<P> {
    bell: Bell,
    /// What is found by a job that was not done.
    refused: fn(&str) -> Vec<u64>,
    queue: VecDeque<(P, Work)>,
    running: Vec<JoinHandle<()>>,
    done: (Sender<Found<P>>, Receiver<Found<P>>),
}

impl<P: Copy + Send + 'static> Jobs<P> {
    /// None. `bell` is rung whenever one is done.
    pub(super) fn new(bell: Bell, refused: fn(&str) -> Vec<u64>) -> Self {
        Jobs { bell, refused, queue: VecDeque::new(), running: Vec::new(), done: channel() }
    }

    pub(super) fn begin(&mut self, whose: P, work: impl FnOnce() -> Vec<u64> + Send + 'static) {
        self.queue.push_back((whose, Box::new(work)));
        self.go_on();
    }

    /// Those that have not begun never will.
    pub(super) fn begin_no_more(&mut self) {
        for (whose, _) in std::mem::take(&mut self.queue) {
            self.refuse(whose, "it is closing the pool");
        }
    }

    fn refuse(&self, whose: P, why: &str) {
        // The receiver is here.
        let _ = self.done.0.send((whose, (self.refused)(why)));
    }

    fn go_on(&mut self) {
        self.running.retain(|job| !job.is_finished());
        while self.running.len() < RUNNING_MAX
            && let Some((whose, work)) = self.queue.pop_front()
        {
            let (done, bell, refused) = (self.done.0.clone(), self.bell.clone(), self.refused);
            let work = move || {
                // Whoever asked is told in any case.
                let found = catch_unwind(AssertUnwindSafe(work));
                let found = found.unwrap_or_else(|_| refused("it has panicked"));
                if done.send((whose, found)).is_ok() {
                    bell.ring();
                }
            };
            match Builder::new().name("firndex-job".into()).spawn(work) {
                Ok(job) => self.running.push(job),
                Err(error) => self.refuse(whose, &format!("it can start no thread: {error}")),
            }
        }
    }

    /// What has been found since this was asked last.
    pub(super) fn take_done(&mut self) -> Vec<Found<P>> {
        let done: Vec<_> = self.done.1.try_iter().collect();
        if !done.is_empty() || !self.queue.is_empty() {
            self.go_on();
        }
        done
    }

    pub(super) fn are_done(&self) -> bool {
        self.queue.is_empty() && self.running.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn join(&mut self) {
        self.running.drain(..).for_each(|job| drop(job.join()));
    }
}
