//! Finds the lanes of a line, or of a word, that hold a fingerprint.
//!
//! A lane is one byte. Lane *i* of a word is its *i*-th byte from the low end; lane *i* of a
//! line is lane *i* mod 8 of word *i* / 8, on every platform.
//!
//! ```text
//!  line    word 0                           word 1                        …   word 7
//!  lane   │0 F│1 F│2 F│3 F│4 F│5 F│6 F│7 F│8 F│9 F│10 │11 │12 │13 │14 │15 │ … │56 │ … │63 │
//! ```
//!
//! `F` lanes give their top bit to a flag, a lock say, and hold the low 7 bits of their fingerprint;
//! there, only those 7 bits are compared. How many of a word's lanes are such its user says. All functions are exact:
//! a bit of the answer is set if and only if its lane matches.
//!
//! Lanes are in groups of four. A key prefers one of them, and what a lane holds also tells whether the entry is in the
//! group that it prefers ([`DISPLACED`]). So most entries that a key could be taken for by chance are told from it.
//!
//! Lines are written by other threads while they are matched. To a vector load written in Rust
//! that would be a data race; so the loads are assembly, each standing for eight relaxed loads of
//! the line's words, and the processor gives each lane a value that was stored there. Lanes need
//! not be of one moment, and nothing is ordered: a caller that goes on to read what a matched
//! lane guards puts an acquire fence between, as after relaxed loads.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;

pub use lanes::{DISPLACED, EMPTY, FLAG, FLAG_LANES_OF_LINE, GROUP_LANES, Near, Sought, Tables};
use lanes::{Differences, repeat, without_flags};
use pmem::sync::{AtomicU64, Ordering};

/// The instruction set that [`match_line`] uses.
///
/// The variants that not every processor of an architecture has can only be got from
/// [`Isa::detect`] and [`Isa::available`]: that makes a value of this type the proof that its
/// instructions may be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// AVX-512 F and BW, beside what [`Isa::Avx2`] stands for: the whole line at once.
    #[non_exhaustive]
    Avx512,
    /// AVX2, with BMI1, BMI2 and LZCNT, which came with it: half a line at once.
    #[non_exhaustive]
    Avx2,
    /// SSE2, which every x86-64 processor has. Elsewhere the same as [`Isa::Portable`].
    Sse2,
    /// NEON, which every little-endian aarch64 processor has. Elsewhere the same as
    /// [`Isa::Portable`].
    Neon,
    /// Plain arithmetic on words, read by `AtomicU64::load`.
    Portable,
}

impl Isa {
    const FASTEST_FIRST: [Isa; 5] = [Isa::Avx512, Isa::Avx2, Isa::Sse2, Isa::Neon, Isa::Portable];

    /// The fastest instruction set that this processor and its operating system offer.
    pub fn detect() -> Isa {
        Isa::offered().next().unwrap_or(Isa::Portable)
    }

    /// All instruction sets on offer, for tests to compare.
    pub fn available() -> Vec<Isa> {
        Isa::offered().collect()
    }

    /// Runs `work` compiled for this instruction set, and hands it over as a constant, so that what
    /// depends on it is decided at compile time. Worth a call only for whole operations: it is
    /// the shorter bit arithmetic around the matching that counts.
    #[inline(always)]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            // SAFETY: this value came from `is_offered`, which asked for all of the features.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { run_avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { run_avx2(work) },
            isa => work.run(isa),
        }
    }

    fn offered() -> impl Iterator<Item = Isa> {
        Isa::FASTEST_FIRST.into_iter().filter(|isa| isa.is_offered())
    }

    fn is_offered(self) -> bool {
        if cfg!(any(feature = "simulated", feature = "loom")) {
            // A vector load is no scheduling point: nothing could happen between its lanes.
            return self == Isa::Portable;
        }
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_offered()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Sse2 => true,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Isa::Neon => true,
            Isa::Portable => true,
            _ => false,
        }
    }
}

/// What [`Isa::run`] compiles anew for each instruction set.
pub trait Work {
    /// What it makes.
    type Output;

    /// Does it. Only what is inlined here, and this itself, is compiled for the instruction set,
    /// so implementations are `#[inline(always)]`. (That cannot be said of a closure; left to
    /// itself, the compiler makes one function of it that all callers share.)
    fn run(self, isa: Isa) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run(Isa::Avx512)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run(Isa::Avx2)
}

/// [`match_line`] where it takes a few instructions; `None` where it takes more.
#[inline(always)]
pub fn match_line_fast(isa: Isa, line: &[AtomicU64; 8], sought: Sought<'_>) -> Option<u64> {
    match isa {
        // SAFETY: this value came from `is_offered`, which asked for both features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Some(unsafe { avx512::match_line(line, sought) }),
        // SAFETY: this value came from `is_offered`, which asked for the feature.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Some(unsafe { avx2::match_line(line, sought) }),
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        Isa::Neon => Some(match_anywhere(isa, line, sought.print(), sought.differences())),
        // There what is usual in production shall be usual too.
        _ if cfg!(any(feature = "simulated", feature = "loom")) => {
            Some(match_anywhere(isa, line, sought.print(), sought.differences()))
        }
        _ => None,
    }
}

/// The lanes of `line` that may hold what is sought: bit *i* stands for lane *i*.
#[inline(always)]
pub fn match_line(isa: Isa, line: &[AtomicU64; 8], sought: Sought<'_>) -> u64 {
    match match_line_fast(isa, line, sought) {
        Some(matches) => matches,
        None => match_out_of_line(isa, line, sought.print(), sought.differences()),
    }
}

/// The lanes of `line` that hold `fingerprint`, changed by the differences, without what newer x86 processors have.
#[inline(always)]
fn match_anywhere(
    isa: Isa,
    line: &[AtomicU64; 8],
    fingerprint: u8,
    differences: &Differences,
) -> u64 {
    match isa {
        // SAFETY: SSE2 is part of the architecture.
        #[cfg(target_arch = "x86_64")]
        Isa::Sse2 | Isa::Avx2 | Isa::Avx512 => unsafe {
            sse2::match_line(line, fingerprint, differences)
        },
        // SAFETY: NEON is part of every such target that std is built for.
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        Isa::Neon => unsafe { neon::match_line(line, fingerprint, differences) },
        _ => portable::match_line(line, fingerprint, differences),
    }
}

/// [`match_anywhere`] is long, and inlined it would be copied into every operation.
#[inline(never)]
fn match_out_of_line(
    isa: Isa,
    line: &[AtomicU64; 8],
    fingerprint: u8,
    differences: &Differences,
) -> u64 {
    match_anywhere(isa, line, fingerprint, differences)
}

/// [`scan_line`] where it takes a few instructions; `None` where it takes more.
#[inline(always)]
pub fn scan_line_fast(isa: Isa, line: &[AtomicU64; 8], sought: Sought<'_>) -> Option<(u64, u64)> {
    match isa {
        // SAFETY: this value came from `is_offered`, which asked for both features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Some(unsafe { avx512::scan_line(line, sought) }),
        // SAFETY: this value came from `is_offered`, which asked for the feature.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Some(unsafe { avx2::scan_line(line, sought) }),
        _ => match_line_fast(isa, line, sought)
            .map(|matches| (matches, match_anywhere(isa, line, EMPTY, Differences::NONE))),
    }
}

/// The lanes of `line` that may hold what is sought, and those that are EMPTY: [`match_line`] and [`empty_line`] at the
/// cost of little more than one of them.
#[inline(always)]
pub fn scan_line(isa: Isa, line: &[AtomicU64; 8], sought: Sought<'_>) -> (u64, u64) {
    match scan_line_fast(isa, line, sought) {
        Some(found) => found,
        None => (
            match_out_of_line(isa, line, sought.print(), sought.differences()),
            match_out_of_line(isa, line, EMPTY, Differences::NONE),
        ),
    }
}

/// The lanes of `line` that are EMPTY: bit *i* stands for lane *i*.
#[inline(always)]
pub fn empty_line(isa: Isa, line: &[AtomicU64; 8]) -> u64 {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => {
            static ANY: Tables = Tables::for_slots(64);
            scan_line(isa, line, ANY.sought(0, ANY.near(0))).1
        }
        _ => match_out_of_line(isa, line, EMPTY, Differences::NONE),
    }
}

/// The lanes of a word, its first `FLAG_LANES` with flags, that hold `fingerprint`: bit *i* stands
/// for lane *i*.
#[inline(always)]
pub fn match_word<const FLAG_LANES: usize>(word: u64, fingerprint: u8) -> u8 {
    let difference = (word ^ repeat(fingerprint)) & const { without_flags(FLAG_LANES) };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the architecture.
    unsafe {
        sse2::zero_lanes(difference)
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable::zero_lanes(difference)
}

/// The lanes of the upper halves of four words that hold `fingerprint`: bit 4*w* + *i* stands for
/// lane 4 + *i* of word *w*. There are no flag lanes.
#[inline(always)]
pub fn match_upper_halves(isa: Isa, words: &[u64; 4], fingerprint: u8) -> u32 {
    match isa {
        // SAFETY: SSE2 is part of the architecture.
        #[cfg(target_arch = "x86_64")]
        Isa::Sse2 | Isa::Avx2 | Isa::Avx512 => unsafe {
            sse2::match_upper_halves(words, fingerprint)
        },
        _ => portable::match_upper_halves(words, fingerprint),
    }
}

/// The lanes of two words that hold `fingerprint`: bit 8*w* + *i* stands for lane *i* of word *w*.
/// There are no flag lanes.
#[inline(always)]
pub fn match_two_words(words: [u64; 2], fingerprint: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the architecture.
    unsafe {
        sse2::match_two_words(words, fingerprint)
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable::match_two_words(words, fingerprint)
}

/// The lanes of a word, its first `FLAG_LANES` with flags, that are EMPTY: bit *i* stands for lane
/// *i*.
#[inline(always)]
pub fn empty_word<const FLAG_LANES: usize>(word: u64) -> u8 {
    match_word::<FLAG_LANES>(word, EMPTY)
}

/// Whether the flag of one of the lanes 0 to 7 is set, with acquire ordering.
#[inline(always)]
pub fn has_flag(line: &[AtomicU64; 8], lane: usize) -> bool {
    let lane = lane % 8;
    #[cfg(all(target_arch = "x86_64", not(any(feature = "simulated", feature = "loom"))))]
    {
        let byte: u32;
        // SAFETY: a load of one of the line's 64 bytes, which the reference keeps in place. It stands for one of its
        // word, of which the rest is not looked at. Loads are in order on this architecture; as the block may write
        // memory, so they are to the compiler.
        unsafe {
            std::arch::asm!(
                "movzx {byte:e}, byte ptr [{line} + {lane}]",
                line = in(reg) line, lane = in(reg) lane, byte = lateout(reg) byte,
                options(nostack, preserves_flags),
            );
        }
        byte as u8 & FLAG != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(feature = "simulated", feature = "loom")))))]
    {
        line[0].load(Ordering::Acquire) >> (8 * lane) & u64::from(FLAG) != 0
    }
}

/// Sets the fingerprint of a lane of `line` and leaves its flag, with release ordering. Nobody else changes the line
/// meanwhile, except that a flag which is set may be set again: the line's lock is held, and others try for it.
#[inline(always)]
pub fn set_lane(line: &[AtomicU64; 8], lane: usize, fingerprint: u8) {
    let lane = lane % 64;
    #[cfg(all(target_arch = "x86_64", not(any(feature = "simulated", feature = "loom"))))]
    if lane >= FLAG_LANES_OF_LINE {
        // SAFETY: a store to one of the line's 64 bytes, which the reference keeps in place. It stands for a
        // read-modify-write of its word, which leaves the other bytes as they are. Stores are in order on this
        // architecture; as the block may write memory, so they are to the compiler.
        unsafe {
            std::arch::asm!(
                "mov byte ptr [{line} + {lane}], {fingerprint}",
                line = in(reg) line, lane = in(reg) lane, fingerprint = in(reg_byte) fingerprint,
                options(nostack, preserves_flags),
            );
        }
        return;
    }
    set_lane_of_word(&line[lane / 8], lane % 8, lane < FLAG_LANES_OF_LINE, fingerprint);
}

/// [`set_lane`] for a lane of a word, of which the user says whether it is a flag lane.
#[inline(always)]
pub fn set_lane_of_word(word: &AtomicU64, lane: usize, is_flag_lane: bool, fingerprint: u8) {
    let bits = u64::from(if is_flag_lane { !FLAG } else { u8::MAX });
    let shift = lane % 8 * 8;
    let others = word.load(Ordering::Relaxed) & !(bits << shift);
    word.store(others | (u64::from(fingerprint) & bits) << shift, Ordering::Release);
}

/// The lanes whose bits are set in `mask`, lowest first.
#[inline(always)]
pub fn lanes(mask: u64) -> Lanes {
    Lanes(mask)
}

/// Iterates over the lanes of a mask; made by [`lanes`].
#[derive(Clone, Copy, Debug)]
pub struct Lanes(u64);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

/// The mask of the lanes of a bucket of `slots` slots; 64 and more are the whole line.
#[inline(always)]
pub const fn lane_masks_for(slots: usize) -> u64 {
    if slots < 64 { (1 << slots) - 1 } else { u64::MAX }
}
