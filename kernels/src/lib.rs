//! Small loom models of the memory orderings on which firndex's concurrent protocols rest.
//!
//! A simulation that interleaves threads on a sequentially consistent memory cannot tell whether
//! a `Release` is missing. Loom can: it lets every load return each value that the C11 model
//! allows. So each file in `tests/` restates one protocol, access by access and ordering by
//! ordering, names the functions it restates, and has loom explore all its executions.
//!
//! Each kernel takes its orderings as a value. The one called `PRODUCTION` must hold; each
//! spoilt one, with a single ordering or step weakened, must be found out. A kernel from which
//! nothing can be taken without loom noticing is one that tests what it claims to.
//!
//! A kernel is a copy, which no compiler ties to its original: whoever changes an ordering in
//! one of the functions named in a kernel changes the kernel as well.
//!
//! What loom does not show: a load that takes its value from a store executed later, a
//! read-modify-write that reads anything but the newest value, and the total order of `SeqCst`
//! accesses (as opposed to fences). Nor does it try every schedule: of an atomic's accesses it
//! backtracks to the last one only, and a bound on preemptions leaves out more. So that a kernel
//! holds is evidence, not a proof; kernels say where that matters.
