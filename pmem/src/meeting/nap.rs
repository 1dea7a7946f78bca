//! Sleeping on a lane, across processes.

use super::lane::Lane;
use rustix::thread::futex::{self, Flags, Timespec};
use std::time::Duration;

/// Sleeps until the lane's state is no longer `state`, somebody [wakes](wake) it, or the time is over.
pub fn sleep_on<const N: usize>(lane: &Lane<N>, state: u32, time: Duration) {
    let time = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // Woken or not, and for whatever reason: the caller looks again. Not private: the other side is another process.
    let _ = futex::wait(lane.state_word(), Flags::empty(), state, Some(&time));
}

/// Wakes the guest that sleeps on a lane.
pub fn wake<const N: usize>(lane: &Lane<N>) {
    // It cannot fail on a word that is mapped.
    let _ = futex::wake(lane.state_word(), Flags::empty(), 1);
}
