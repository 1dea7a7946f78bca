//! The paper's claims.

use super::entrant::{CCEH, LEVEL, PATH, PFHT, REWO};
use crate::paper::MORE_THREADS;
use crate::paper::claim::{Claim, Compared, Field, Found, Of, at_least, at_most, factors, figures};
use crate::row::Row;

const OPTANE: &str = "optane";
const DRAM: &str = "dram";
const UNCACHED: &str = "rewo-c0";
const ALL: [&str; 5] = [REWO, CCEH, LEVEL, PATH, PFHT];
/// The steps of the series of searches and of changes.
const AT_20: u32 = 0;
const AT_80: u32 = 3;
const FULLER: u32 = 1;

const HOST: &str =
    "1 operation in 10,000 is one of a handful here, and a pause of the host is as long";
const ONE_LINE: &str =
    "CCEH, PFHT and path hashing replace a word with one store here, and need no log for that";

/// The same factor over each of these.
fn each<'a>(names: &[&'a str], times: f64) -> Vec<(&'a str, f64)> {
    names.iter().map(|name| (*name, times)).collect()
}

fn slowest(row: &Row) -> Option<f64> {
    row.p9999_ns
}

pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut all = searches(found);
    all.extend(changes(found));
    all.extend(workloads(found));
    all.extend(growth(found));
    all.extend(counts(found));
    all
}

fn searches(found: &Found) -> Vec<Claim> {
    let zipf = |medium, step| Of::op("get_hit_zipf").on(medium).step(step);
    let miss = Of::op("get_miss").on(OPTANE).step(AT_80);
    let hit = zipf(OPTANE, AT_80);
    let cold_hit = Of::op("get_hit_uniform").on(OPTANE).step(AT_80);
    let slower = |(name, paper): (&str, f64)| Compared {
        what: name.into(),
        paper: Some(paper),
        ours: found.ratio((cold_hit, name), (miss, name)),
    };
    let tails = |step, names: &[(&str, f64)]| {
        let own = found.value(zipf(OPTANE, step), REWO, slowest);
        let one = |&(name, paper): &(&str, f64)| Compared {
            what: format!("over {name}"),
            paper: Some(paper),
            ours: found
                .value(zipf(OPTANE, step), name, slowest)
                .zip(own)
                .map(|(other, own)| other / own),
        };
        names.iter().map(one).collect::<Vec<_>>()
    };
    vec![
        Claim::out_of_reach(
            "figure 2",
            "latencies of Optane modules: a random read takes three times DRAM's",
            "there are no modules here; the model of medium optane has these figures",
        ),
        Claim::out_of_reach(
            "figure 3",
            "bandwidth of Optane modules by threads and sizes of accesses",
            "there are no modules here; the model of medium optane has these figures",
        ),
        found
            .similar(
                "figure 10",
                "search on DRAM at a load factor of 0.2: all five are similar",
                zipf(DRAM, AT_20),
                &[UNCACHED, CCEH, LEVEL, PATH, PFHT],
                1.5,
            )
            .because("CCEH reads 3.0 lines one after another, the others fewer (counted below)"),
        found.faster(
            "figure 10",
            "search on DRAM at 0.8: 1.33 to 2.05 times as fast as PFHT and path hashing",
            zipf(DRAM, AT_80),
            UNCACHED,
            &each(&[PFHT, PATH], 1.33),
        )
        .because("without a cached table a search also asks for the fingerprints of two buckets"),
        found
            .faster(
                "figure 10",
                "search on DRAM at 0.8: CCEH is the fastest",
                zipf(DRAM, AT_80),
                CCEH,
                &each(&[UNCACHED, LEVEL, PATH, PFHT], 1.0),
            )
            .because("CCEH reads its directory and a segment's header before the bucket"),
        found.faster(
            "figure 10",
            "search on Optane at 0.2: about 1.76 times as fast as others",
            zipf(OPTANE, AT_20),
            REWO,
            &each(&[CCEH, LEVEL, PATH, PFHT], 1.76),
        )
        .because("at 0.2 the others need one or two cold lines here, too"),
        found
            .faster(
                "figure 10",
                "search on Optane at 0.8: 1.57 to 3.39 times as fast",
                hit,
                REWO,
                &each(&[CCEH, LEVEL, PATH, PFHT], 1.57),
            )
            .because("the others are nearer here"),
        figures(
            "figure 11",
            "a negative search on Optane takes 3.8, 3.1, 1.8 times a positive one for PFHT, path and Level hashing",
            0.3,
            [(PFHT, 3.8), (PATH, 3.1), (LEVEL, 1.8)].map(slower).to_vec(),
        )
        .because("a miss reads 4.0 lines of PFHT, whose stash is empty here, 18 of path hashing and 4.0 of Level hashing (counted \
             below); a hit 2.4, 2.5, 1.9"),
        found.faster(
            "figure 11",
            "negative search on Optane: 1.4 to 4.2 times as fast as PFHT, path and Level hashing",
            miss,
            REWO,
            &each(&[PFHT, PATH, LEVEL], 1.4),
        )
        .because("the others are nearer here"),
        at_most(
            "section 5.2",
            "a negative search probes four lines of the pool, in two blocks",
            "lines",
            4.0,
            found.value(Of::op("get_miss_to_80"), "rewo-8-slots", |row| row.lines_read),
        ),
        factors(
            "table 5",
            "99.99 % of searches are 1.3 to 4.9 times as fast at 0.8",
            tails(AT_80, &[(PFHT, 4.4), (PATH, 4.9), (LEVEL, 2.3), (CCEH, 1.3)]),
        )
        .because(HOST),
        factors(
            "table 5",
            "99.99 % of searches are 1.5 to 2.7 times as fast at 0.2",
            tails(AT_20, &[(PFHT, 2.7), (PATH, 2.4), (LEVEL, 2.0), (CCEH, 1.5)]),
        )
        .because(HOST),
    ]
}

fn changes(found: &Found) -> Vec<Claim> {
    let of = |op: &'static str, step| Of::op(op).on(OPTANE).step(step);
    let mut all = vec![
        found
            .similar(
                "figure 12",
                "insertions on Optane at 0.2: all five are similar",
                of("insert_durable", AT_20),
                &ALL,
                1.5,
            )
            .because("the others read 4 lines, 6 or 18 to exclude the key (counted below), Rewo-Hash one"),
        found
            .faster(
                "figure 12",
                "updates on Optane at 0.2: 1.5 to 1.6 times as fast as PFHT, path hashing and CCEH",
                of("update_durable", AT_20),
                REWO,
                &each(&[PFHT, PATH, CCEH], 1.5),
            )
            .because(ONE_LINE),
    ];
    for (says, op, times) in [
        ("insertions on Optane at 0.8: 1.04 to 1.72 times as fast", "insert_durable", 1.04),
        ("updates on Optane at 0.8: 1.32 to 1.77 times as fast", "update_durable", 1.32),
        ("deletions on Optane at 0.8: 1.10 to 2.98 times as fast", "remove_durable", 1.10),
    ] {
        let others = each(&[CCEH, LEVEL, PATH, PFHT], times);
        let why = if op.starts_with("update") { ONE_LINE } else { "" };
        all.push(found.faster("figure 12", says, of(op, FULLER), REWO, &others).because(why));
    }
    for (says, op, papers) in [
        (
            "99.99 % of insertions at 0.8 against PFHT, path and Level hashing, CCEH",
            "insert_durable",
            [1.78, 1.70, 1.28, 1.06],
        ),
        ("the same of updates", "update_durable", [1.41, 1.38, 1.05, 1.17]),
        ("the same of deletions", "remove_durable", [2.54, 2.67, 1.46, 1.06]),
    ] {
        let own = found.value(of(op, FULLER), REWO, slowest);
        let one = |(name, paper): (&str, f64)| Compared {
            what: format!("over {name}"),
            paper: Some(paper),
            ours: found
                .value(of(op, FULLER), name, slowest)
                .zip(own)
                .map(|(other, own)| other / own),
        };
        let compared = [PFHT, PATH, LEVEL, CCEH].into_iter().zip(papers).map(one).collect();
        all.push(factors("table 6", says, compared).because(HOST));
    }
    all
}

fn workloads(found: &Found) -> Vec<Claim> {
    let mut all = Vec::new();
    let others = [CCEH, LEVEL, PATH, PFHT];
    all.push(
        found
            .faster(
                "figure 13",
                "one thread on DRAM, YCSB C: CCEH is the fastest",
                Of::op("ycsb_c_durable").on(DRAM).alone(),
                CCEH,
                &each(&[UNCACHED, LEVEL, PATH, PFHT], 1.0),
            )
            .because("CCEH reads its directory and a segment's header before the bucket"),
    );
    for (says, op, times) in [
        ("one thread on Optane: YCSB C 1.91 to 4.46 times as fast", "ycsb_c_durable", 1.91),
        ("one thread on Optane: YCSB B 1.54 to 4.02 times as fast", "ycsb_b_durable", 1.54),
        ("one thread on Optane: YCSB A 1.38 to 2.57 times as fast", "ycsb_a_durable", 1.38),
    ] {
        let of = Of::op(op).on(OPTANE).alone();
        all.push(found.faster("figure 13", says, of, REWO, &each(&others, times)).because(
            "the others gain from popular lines, too: the last 512 of a thread cost nothing in the model",
        ));
    }
    let slower = |op, name: &str, than: &str| {
        let speed = |name: &str| found.speed(Of::op(op), name);
        speed(name).zip(speed(than)).map(|(one, other)| one / other)
    };
    for (says, op) in [
        (
            "YCSB C, zipfian: at most 9 % slower than with a cached table as large as the table",
            "cached_c_zipf_durable",
        ),
        ("the same of B", "cached_b_zipf_durable"),
        ("the same of A", "cached_a_zipf_durable"),
    ] {
        let ours = slower(op, REWO, "rewo-c1");
        all.push(at_least("figure 14", says, "of its speed", 0.91, ours).because(
            "a cached table as large as the table answers nearly all, one of an eighth eight of ten; the others wait for the \
             pool, which takes the model 170 ns",
        ));
    }
    for (says, op) in [
        (
            "YCSB C, zipfian: 1.25 to 1.54 times as fast as without a cached table",
            "cached_c_zipf_durable",
        ),
        ("YCSB B, zipfian: faster than without a cached table, too", "cached_b_zipf_durable"),
        ("YCSB A, zipfian: faster than without a cached table, too", "cached_a_zipf_durable"),
    ] {
        let claim = found.faster("figure 14", says, Of::op(op), REWO, &each(&[UNCACHED], 1.25));
        all.push(claim.because("a change has to reach the cached table, too"));
    }
    let uniform = |what: &str, name, paper| Compared {
        what: what.into(),
        paper: Some(paper),
        ours: slower("cached_c_uniform_durable", name, "rewo-c1"),
    };
    all.push(
        figures(
            "figure 14",
            "YCSB C, uniform: 37 % slower with a half, 54 % with an eighth",
            0.15,
            vec![uniform("half", "rewo-c2", 0.63), uniform("eighth", REWO, 0.46)],
        )
        .because("what the cached table does not answer waits for the pool, 170 ns in the model"),
    );
    all.push(
        found
            .faster(
                "figure 14",
                "YCSB C, uniform: 1.07 times as fast as without a cached table",
                Of::op("cached_c_uniform_durable"),
                REWO,
                &each(&[UNCACHED], 1.07),
            )
            .because("most look-ups also pay for a miss of the cached table"),
    );
    all.push(
        found
            .faster(
                "figure 14",
                "YCSB C, uniform: CCEH is 1.3 times as fast",
                Of::op("cached_c_uniform_durable"),
                CCEH,
                &each(&[REWO], 1.3),
            )
            .because("a hit of CCEH reads 3.0 lines, of Rewo-Hash one (counted below)"),
    );
    for (says, op) in [
        (
            "several threads on Optane, YCSB C: ahead of Level hashing and CCEH (64 threads: 3.46 times)",
            "ycsb_c_durable",
        ),
        ("the same of B (64 threads: 3.01 times)", "ycsb_b_durable"),
        ("the same of A (64 threads: 1.70 times)", "ycsb_a_durable"),
    ] {
        let of = Of::op(op).on(OPTANE).together();
        let claim = found.faster("figure 15", says, of, REWO, &each(&[LEVEL, CCEH], 1.0));
        all.push(claim.because(
            "two threads are far from the modules' bandwidth, which the cached table saves",
        ));
    }
    all.push(Claim::out_of_reach(
        "figure 15",
        "up to 64 threads: Rewo-Hash and Level hashing scale, the others stop at 8 threads when half are updates",
        MORE_THREADS,
    ));
    let cached: Field = |row| row.from_cache;
    all.push(at_least(
        "table 2",
        "a cached table of 35 % answers over 80 % of YCSB C's searches",
        "with a quarter",
        0.8,
        found.value(Of::op("served"), "rewo-c4", cached),
    ));
    all
}

fn growth(found: &Found) -> Vec<Claim> {
    let double = Of::op("double_durable");
    let during = |says, op, bound| {
        let ours = found.value(Of::op(op), REWO, |row| row.ratio);
        at_least("figure 16", says, "of its speed", bound, ours)
    };
    vec![
        found.order(
            "figure 16",
            "a doubling takes Level hashing the least time",
            double,
            &[LEVEL, REWO],
        ),
        Claim::out_of_reach(
            "figure 16",
            "a doubling takes CCEH a little longer, PFHT and path hashing much longer",
            "CCEH splits segments one by one and does not double when it is told to; figure 15 of Level hashing has \
             what moving every pair takes PFHT and path hashing",
        ),
        during("reads during a doubling are 1 to 4 % slower", "during_reads_durable", 0.96)
            .because(
                "reader and doubling thread share what this machine has: two processors, one cache",
            ),
        during(
            "updates and reads during a doubling are 1 to 4 % slower",
            "during_updates_durable",
            0.96,
        )
        .because(
            "reader and doubling thread share what this machine has: two processors, one cache",
        ),
        at_least(
            "figure 16",
            "without a cached table reads during a doubling are 11 to 22 % slower",
            "of its speed",
            0.78,
            found.value(Of::op("during_reads_durable"), UNCACHED, |row| row.ratio),
        )
        .because(
            "reader and doubling thread share what this machine has: two processors, one cache",
        ),
        Claim::asserted(
            "section 3.6",
            "a doubling moves half of the pairs",
            "asserted by `cargo test -p firndex-engines --test rewo doubling_moves_half`",
        ),
    ]
}

fn counts(found: &Found) -> Vec<Claim> {
    let blocks = |op| found.value(Of::op(op), "rewo-8-slots", |row| row.blocks_written);
    let one = |what: &str, op| Compared { what: what.into(), paper: Some(1.0), ours: blocks(op) };
    vec![
        figures(
            "section 3.4",
            "a change writes one block",
            0.02,
            vec![
                one("insert", "insert_to_80"),
                one("update", "update_to_80"),
                one("remove", "remove_to_80"),
            ],
        ),
        at_least(
            "section 5.1",
            "the load factor reaches 0.92 with 8 slots",
            "full at",
            0.92,
            found.value(Of::op("full"), "rewo-8-slots-2-moves", |row| row.load_factor),
        ),
        at_least(
            "section 3.7",
            "recovery reads 100 M items in 0.67 s with one thread",
            "M pairs/s",
            149.0,
            found.speed(Of::op("open").on(DRAM), UNCACHED).map(|speed| speed / 1e6),
        ),
    ]
}
