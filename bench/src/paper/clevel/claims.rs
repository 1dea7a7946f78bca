//! The slides' claims.

use super::{CCEH, CLHT, CMAP, NAME};
use crate::paper::MORE_THREADS;
use crate::paper::claim::{Claim, Compared, Found, Of, at_least, factors, figures};
use crate::paper::level::LEVEL_PAPER;

pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let growth = |name: &str| found.value(Of::op("growth"), name, |row| row.load_factor);
    let ratio = growth(NAME).zip(growth(LEVEL_PAPER)).map(|(clevel, level)| clevel / level);
    let one = Of::op("get_hit_durable").alone();
    let all = |op| Of::op(op).together();
    let over_clht = |op| {
        let of = Of::op(op).together();
        found.ratio((of, NAME), (of, CLHT))
    };
    let reads = ["read_0_durable", "read_50_durable", "read_95_durable", "read_100_durable"];
    let best = reads.map(over_clht).into_iter().collect::<Option<Vec<f64>>>();
    let best = best.map(|all| all.into_iter().fold(0.0, f64::max));
    let others = |times| [LEVEL_PAPER, CCEH, CMAP, CLHT].map(|name| (name, times));
    let line = "an item lies behind a pointer, so a hit reads 3.0 lines, where CLHT reads 1.1 and Level hashing 1.5 \
                (counted below); what locks cost 36 threads cannot be seen here";
    vec![
        at_least(
            "load factor",
            "tables expand at a load factor of 86 %",
            NAME,
            0.86,
            growth(NAME),
        )
        .because("a table expands when one key finds no slot"),
        figures(
            "load factor",
            "which is comparable to Level hashing's",
            0.1,
            vec![Compared { what: "over level-paper".into(), paper: Some(1.0), ours: ratio }],
        )
        .because("both expand when one key finds no slot, and 8 slots leave more choice than 4"),
        found
            .faster("micro-benchmarks", "positive searches 1.2 to 5.0 times as fast, one thread", one, NAME, &others(1.2))
            .because(line),
        found
            .faster(
                "micro-benchmarks",
                "positive searches 1.2 to 5.0 times as fast, several threads",
                all("get_hit_durable"),
                NAME,
                &others(1.2),
            )
            .because(line),
        found
            .faster(
                "micro-benchmarks",
                "negative searches 1.4 to 9.0 times as fast, one thread",
                Of::op("get_miss_durable").alone(),
                NAME,
                &others(1.4),
            )
            .because("its tags lie in the pool beside the pointers, so a miss still reads a line for each bucket"),
        found
            .faster(
                "micro-benchmarks",
                "negative searches 1.4 to 9.0 times as fast, several threads",
                all("get_miss_durable"),
                NAME,
                &others(1.4),
            )
            .because("its tags lie in the pool beside the pointers, so a miss still reads a line for each bucket"),
        found
            .order(
                "micro-benchmarks",
                "insertions have a low latency while they are correct: here, no higher than the concurrent map's",
                all("insert_durable"),
                &[NAME, CMAP],
            )
            .because("both write an item and a pointer; Clevel hashing reads 4.0 lines to exclude the key, cmap 1.4"),
        factors(
            "macro-benchmarks",
            "up to 4.2 times as fast as P-CLHT, by the part of reads",
            vec![Compared { what: "at best".into(), paper: Some(4.2), ours: best }],
        )
        .because(
            "36 threads wait while P-CLHT copies its table, here one; and an insertion of Clevel hashing flushes two \
             lines and reads four, of CLHT 1.3 and 1.1 (counted below)",
        ),
        Claim::out_of_reach("macro-benchmarks", "36 threads", MORE_THREADS),
        Claim::asserted(
            "non-blocking resizing",
            "no thread waits for another, resizes included",
            "a thread is suspended at each of its accesses, and the others finish: `cargo test -p firndex-crashlab --test \
             freeze`; except for mutexes of the heap",
        ),
    ]
}
