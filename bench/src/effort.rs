//! What a thread did itself while others use the machine, too: processor time, page faults, waits.
//!
//! A latency is what a caller saw. This tells how much of it the operation is to blame for, rather than a scheduler
//! that ran another thread, or a host that ran another machine.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Operations between two looks. A look costs some microseconds.
pub const OPS_PER_LOOK: u32 = 64;
/// Index of the minor page faults in /proc/thread-self/stat, counted from the field after the thread's name.
const FAULTS_FIELD: usize = 7;

/// What the calling thread has spent so far.
#[derive(Debug, Clone, Copy)]
struct Spent {
    on_cpu_ns: u64,
    page_faults: u64,
}

/// Watches the thread that created it.
#[derive(Debug)]
pub struct Effort {
    stat: File,
    last: Spent,
    /// Operations since the last look.
    ops: u32,
    longest_ns: u64,
    waits_before: u64,
    own_max_ns: u64,
}

impl Effort {
    /// Watches from now on.
    pub fn begin() -> Result<Effort> {
        let stat = File::open("/proc/thread-self/stat").context("opening a thread's statistics")?;
        let last = spent(&stat)?;
        Ok(Effort { stat, last, ops: 0, longest_ns: 0, waits_before: waits()?, own_max_ns: 0 })
    }

    /// Counts an operation that has ended and took `ns`.
    #[inline]
    pub fn count(&mut self, ns: u64) -> Result<()> {
        self.ops += 1;
        if self.ops == OPS_PER_LOOK {
            self.look_at(ns)
        } else {
            self.longest_ns = self.longest_ns.max(ns);
            Ok(())
        }
    }

    /// Like [`Effort::count`], with a look at once.
    pub fn look_at(&mut self, ns: u64) -> Result<()> {
        self.longest_ns = self.longest_ns.max(ns);
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        let now = spent(&self.stat)?;
        if now.page_faults == self.last.page_faults {
            let own_ns = self.longest_ns.min(now.on_cpu_ns - self.last.on_cpu_ns);
            self.own_max_ns = self.own_max_ns.max(own_ns);
        }
        (self.ops, self.longest_ns, self.last) = (0, 0, now);
        Ok(())
    }

    /// Processor time in nanoseconds that no operation exceeded, except those near a page fault; and how often the
    /// thread has waited for something, such as a lock.
    ///
    /// An operation took at most what its thread was charged for from one look to the next, and at most its own
    /// latency.
    pub fn end(self) -> Result<(u64, u64)> {
        Ok((self.own_max_ns, waits()? - self.waits_before))
    }
}

fn spent(stat: &File) -> Result<Spent> {
    let mut text = [0; 512];
    let len = stat.read_at(&mut text, 0).context("reading a thread's statistics")?;
    let text = String::from_utf8_lossy(&text[..len]);
    // The name may contain anything.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace());
    let faults = fields.and_then(|mut fields| fields.nth(FAULTS_FIELD)?.parse().ok());
    let page_faults = faults.with_context(|| format!("a thread's statistics say {text}"))?;
    Ok(Spent { on_cpu_ns: on_cpu_ns(), page_faults })
}

/// Processor time of the calling thread.
fn on_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Voluntary context switches of the calling thread.
fn waits() -> Result<u64> {
    let status =
        fs::read_to_string("/proc/thread-self/status").context("reading a thread's status")?;
    let field = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
    status.lines().find_map(field).context("a thread's status without context switches")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Watches `ops` operations that do this.
    fn work(ops: u32, extra: impl Fn(u32)) -> (u64, u64) {
        let mut effort = Effort::begin().unwrap();
        for op in 0..ops {
            let started = Instant::now();
            extra(op);
            effort.count(started.elapsed().as_nanos() as u64).unwrap();
        }
        effort.end().unwrap()
    }

    #[test]
    fn processor_time_counts_and_time_asleep_does_not() {
        let nap = |op| {
            if op == 3 {
                std::thread::sleep(Duration::from_millis(300));
            }
        };
        let (own_max_ns, waits) = work(2 * OPS_PER_LOOK, nap);
        assert!(own_max_ns < 200_000_000, "{own_max_ns}");
        assert!(waits > 0);
        let spin = |op| {
            if op % OPS_PER_LOOK == 3 {
                spend(2_000_000);
            }
        };
        assert!(work(8 * OPS_PER_LOOK, spin).0 > 1_000_000);
    }

    /// Spends so much processor time, however long other processes have the processor meanwhile.
    fn spend(ns: u64) {
        let begun = on_cpu_ns();
        while on_cpu_ns() - begun < ns {}
    }

    #[test]
    fn many_short_operations_are_no_long_one() {
        let mut effort = Effort::begin().unwrap();
        for _ in 0..8 * OPS_PER_LOOK {
            spend(100_000);
            effort.count(300_000).unwrap();
        }
        // Between two looks they have spent 6.4 ms.
        assert!(effort.end().unwrap().0 <= 300_000);
    }

    #[test]
    fn what_meets_page_faults_is_left_out() {
        // Large enough that it is asked of the system, and is not memory that was used before.
        let touch = |op| {
            let touched = if op == 3 { vec![1u8; 64 << 20] } else { Vec::new() };
            assert!(std::hint::black_box(touched).iter().all(|&byte| byte == 1));
        };
        assert_eq!(work(OPS_PER_LOOK, touch).0, 0);
    }
}
