//! loom models of the memory orderings on which firndex's concurrent protocols rest.
//!
//! A simulation that interleaves threads on a sequentially consistent memory cannot tell whether
//! a `Release` is missing. Loom can: it lets every load return each value that the C11 model
//! allows.
//!
//! `cargo test -p firndex-kernels --features models` runs them. They are not among the tests of the workspace: the
//! engines would be compiled a third time for them.
//!
//! # Models of the code itself
//!
//! `variants/` compiles `pmem`, `index` and `engines` once more, on loom's atomics (`pmem::sync::loom`) and on a pool
//! made of them (`pmem::medium::watched`). A broken protocol in the engines breaks these models.
//!
//! | file | what it runs |
//! |---|---|
//! | `epoch.rs` | `Epochs`: pins, with and without a number and those of the hot path, retirement, scans, collection |
//! | `gate.rs` | `Pool::write` and `Gate::enter_here` during `Pool::sync` and `Pool::wait_for_writers` |
//! | `lane.rs` | `Lane` and `Doze`: requests, answers, giving up and falling asleep on either side |
//! | `lease.rs` | `Lease` and `Renewal`: events that take leases away, renewals, slots that are used again |
//! | `line_log.rs` | `LineLog`: concurrent appends, and appends during a seal |
//! | `view.rs` | `View`, with `Epochs`: look-ups of guests while items are replaced and pairs are moved |
//! | `mod.rs` in the folder of an engine | whole operations: concurrent changes of one key, look-ups during changes of other keys (`scene/tables.rs`) |
//!
//! # Restated kernels
//!
//! The other files restate one protocol each, access by access and ordering by ordering, and name the functions they
//! restate. They take their orderings as a value. `PRODUCTION` must hold. Each spoilt value, with a single ordering or
//! step weakened, must be found out. Such a kernel is a copy, which no compiler ties to its original: if you change an
//! ordering in one of the functions named in a kernel, change the kernel as well.
//!
//! | file | why it is restated |
//! |---|---|
//! | `fingerprint_then_slot.rs`, `link_and_persist.rs` | they are about what is durable when a look-up answers, which `watched` does not model |
//! | `freed_slot.rs` | whether a freed slot is lost depends on steps that operations on a heap rarely take |
//! | those in the folder of an engine | its `mod.rs` runs this code, but whole operations take too many steps for more than two preemptions, so it notices missing steps but not each weakened ordering; and no small table moves an item to make room |
//!
//! # What loom does not show
//!
//! Loom does not show a load that takes its value from a store executed later, a read-modify-write that reads anything
//! but the newest value, or the total order of `SeqCst` accesses (as opposed to fences). Nor does it try every
//! schedule: of an atomic's accesses it backtracks only to the last one, and a bound on preemptions leaves out more. So
//! a model that holds is evidence, not a proof; kernels say where that matters.
