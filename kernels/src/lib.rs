//! loom models of the memory orderings on which firndex's concurrent protocols rest.
//!
//! A simulation that interleaves threads on a sequentially consistent memory cannot tell whether
//! a `Release` is missing. Loom can: it lets every load return each value that the C11 model
//! allows.
//!
//! # Models of the code itself
//!
//! `variants/` compiles `pmem`, `index` and `engines` once more, on loom's atomics (`pmem::sync::loom`) and on a pool
//! of them (`pmem::medium::watched`). What breaks a protocol in the engines breaks these models.
//!
//! | file | what it runs |
//! |---|---|
//! | `epoch.rs` | `Epochs`: pins, with and without a number, retirement, scans, collection |
//! | `gate.rs` | `Pool::write` beside `Pool::sync` |
//! | `line_log.rs` | `LineLog`: appends beside each other and beside a seal |
//! | `mod.rs` in the folder of an engine | whole operations: changes of one key beside each other, look-ups beside changes of other keys (`scene/tables.rs`) |
//!
//! # Restated kernels
//!
//! The other files restate one protocol each, access by access and ordering by
//! ordering, and name the functions they restate. They take their orderings as a value. The one called
//! `PRODUCTION` must hold; each spoilt one, with a single ordering or step weakened, must be found out.
//! Such a kernel is a copy, which no compiler ties to its original: whoever changes an ordering in
//! one of the functions named in a kernel changes the kernel as well.
//!
//! | file | why it is restated |
//! |---|---|
//! | `epoch_advance.rs` | the one ordering of epochs that `epoch.rs` does not notice |
//! | `fingerprint_then_slot.rs`, `link_and_persist.rs` | they are about what is durable when a look-up answers, which `watched` does not keep |
//! | `freed_slot.rs` | whether a freed slot is lost depends on steps that operations on a heap take rarely |
//! | those in the folder of an engine | its `main.rs` runs this code, but whole operations take too many steps for more than two preemptions: it notices missing steps, and not each weakened ordering; and no small table moves an item to make room |
//!
//! # What loom does not show
//!
//! A load that takes its value from a store executed later, a
//! read-modify-write that reads anything but the newest value, and the total order of `SeqCst`
//! accesses (as opposed to fences). Nor does it try every schedule: of an atomic's accesses it
//! backtracks to the last one only, and a bound on preemptions leaves out more. So that a model
//! holds is evidence, not a proof; kernels say where that matters.
