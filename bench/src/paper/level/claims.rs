//! The paper's claims.

use super::mixes::LIBCUCKOO;
use super::{BCH, LEVEL_PAPER, NAME, PATH, PFHT};
use crate::paper::MORE_THREADS;
use crate::paper::claim::{Claim, Compared, Field, Found, Of, above, at_least, factors, figures};

const DRAM: &str = "dram";
const NVM_200: &str = "delay-200-200";
const NVM_600: &str = "delay-200-600";
const NVM_1000: &str = "delay-200-1000";
const AT_40: u32 = 1;
const AT_60: u32 = 2;
const AT_80: u32 = 3;
const HIGHEST: u32 = 4;
const FULLNESS: Field = |row| row.load_factor;

/// All with which the paper compares, as what is not to be faster.
const OTHERS: [(&str, f64); 3] = [(BCH, 1.0), (PFHT, 1.0), (PATH, 1.0)];

/// Why times of ours differ where lines, flushes and fences do not.
const MANY_THREADS: &str = "our Level hashing is made for many threads: each change takes a lock, each search compares \
                            versions, each call goes through a table of functions; the others are for one thread";
const ROOM: &str = "the paper's cuckoo hashing is full at 0.85 (figure 10), where each insertion displaces many pairs; ours \
                    has room until 0.96, and its 2.4 flushes and 2.7 lines at 0.8 (counted below) weigh as much as Level \
                    hashing's 1.2 and 4.0";
const STASH: &str = "PFHT's stash is hardly in use at 0.8, so nearly all pairs are found in two buckets, as in cuckoo \
                     hashing";
const WORDS: &str =
    "values are words here, and one store replaces a word: the others need no log for that";
const FOUR_BUCKETS: &str = "Level hashing reads the four buckets of a key before it knows that the key is absent, cuckoo \
                            hashing two; and it is made for many threads, the others for one";

pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut all = load_factors(found);
    all.extend(own_design(found));
    all.extend(insertions(found));
    all.extend(other_operations(found));
    all.extend(resizing(found));
    all.extend(workloads(found));
    all
}

/// How many times as large one is as the other, of each pair of these.
fn over(value: &dyn Fn(&str) -> Option<f64>, pairs: &[(&str, &str)]) -> Vec<Compared> {
    let one = |&(one, other): &(&str, &str)| Compared {
        what: format!("{one} over {other}"),
        paper: Some(1.0),
        ours: value(one).zip(value(other)).map(|(one, other)| one / other),
    };
    pairs.iter().map(one).collect()
}

fn load_factors(found: &Found) -> Vec<Claim> {
    let full = |name: &str| found.value(Of::op("full"), name, FULLNESS);
    let maximum = |name: &str| found.value(Of::op("maximum"), name, FULLNESS);
    let of = |what: &str, paper, ours| Compared { what: what.into(), paper: Some(paper), ours };
    let expansion = |name: &str, step| found.value(Of::op("expansion").step(step), name, FULLNESS);
    let least = |steps: &[u32], name: &str| {
        let all: Option<Vec<f64>> = steps.iter().map(|&step| expansion(name, step)).collect();
        Some(all?.into_iter().fold(f64::INFINITY, f64::min))
    };
    // How much earlier each even expansion comes than the odd one before.
    let gaps = [0, 2, 4].map(|odd| {
        let of = |step| expansion("level-without-b2t", step);
        of(odd).zip(of(odd + 1)).map(|(odd, even)| odd - even)
    });
    let gap = gaps.into_iter().collect::<Option<Vec<f64>>>();
    let gap = gap.map(|gaps| gaps.into_iter().fold(f64::INFINITY, f64::min));
    vec![
        figures(
            "figure 2",
            "load factor before the first expansion with one hash, two hashes, two levels, movement: all decisions \
             together reach over 0.9",
            0.02,
            vec![of("all", 0.91, full("level-d1-d2-d3-d4"))],
        ),
        above(
            "figure 2",
            "each decision raises the load factor",
            over(&full, &[("level-d1-d2", "level-d1"), ("level-d1-d2-d3", "level-d1-d2"), ("level-d1-d2-d3-d4", "level-d1-d2-d3")]),
        ),
        at_least(
            "figure 4",
            "with movements to the top level all six expansions come above 0.9",
            "least",
            0.9,
            least(&[0, 1, 2, 3, 4, 5], "level-with-b2t"),
        )
        .because("an expansion follows the first insertion that fails, and the more buckets there are, the earlier one of them is \
             full"),
        at_least(
            "figure 4",
            "without them the second, fourth and sixth come earlier than the first, third and fifth",
            "least that an even one comes earlier",
            0.01,
            gap,
        )
        .because("the second does; later ones all come at 0.83 to 0.85, since a bottom level that was a top level is full"),
        at_least("figure 10", "path hashing reaches 0.942", "path", 0.942, maximum("path")).because(
            "a path has log2(n) / 2 levels, so a larger table has more of them, and gets fuller",
        ),
        figures(
            "figure 10",
            "bucketized cuckoo hashing of 4 slots reaches 0.85",
            0.02,
            vec![of("bch-4", 0.85, maximum("bch-4"))],
        )
        .because("two choices of 4 slots are known to reach 0.97; the paper's gives up sooner than it says"),
        above(
            "figure 10",
            "8 slots reach more than 4",
            over(&maximum, &[("bch-8", "bch-4"), ("pfht-8", "pfht-4"), ("level-8", "level-4")]),
        ),
        figures(
            "figure 10",
            "PFHT and Level hashing of the same slots reach about the same",
            0.03,
            over(&maximum, &[("level-4", "pfht-4"), ("level-8", "pfht-8")]),
        )
        .because("PFHT goes on until its stash of 3 % is full, Level hashing until one pair finds no place"),
    ]
}

fn own_design(found: &Found) -> Vec<Claim> {
    // Which steps come after an expansion depends on the size.
    let of = |op, step| Of::op(op).on(DRAM).alone().step(step);
    let steps = |op: &'static str| {
        let is_after = |step| {
            found.value(of(op, step), "level-dynamic", |row| row.expansions.map(f64::from))
                > Some(0.0)
        };
        let ratio = |step| {
            let speed = |name| found.speed(of(op, step), name);
            Some(speed("level-dynamic")? / speed("level-static")?).filter(|_| is_after(step))
        };
        let all: Vec<f64> = (0..64).filter_map(ratio).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let lines = |name: &str| {
        let read = |step| {
            found.value(Of::op("get_hit").on("count").step(step), name, |row| row.lines_read)
        };
        let all: Vec<f64> = (0..64).filter_map(read).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let saved = lines("level-static").zip(lines("level-dynamic"));
    let log_free = |slots: &str, step| {
        found.value(Of::op("update_log_free").step(step), &format!("level-{slots}-slots"), |row| {
            row.log_free
        })
    };
    let update = |step| {
        let speed = |name| found.speed(Of::op("update_durable").on(DRAM).step(step), name);
        speed("level-log-free").zip(speed("level-logged")).map(|(free, logged)| free / logged)
    };
    vec![
        at_least(
            "figure 5",
            "after expansions, searching the fuller level first needs fewer lines",
            "lines of static over dynamic",
            1.0,
            saved.map(|(fixed, dynamic)| fixed / dynamic),
        ),
        at_least(
            "figure 5",
            "and is faster on average",
            "speed of dynamic over static",
            1.0,
            steps("get_hit"),
        )
        .because("what it saves in lines it pays for with a branch that is predicted badly"),
        at_least(
            "figure 8",
            "most updates at a load factor below 2/3 need no log",
            "4 slots at 0.6",
            0.5,
            log_free("4", 11),
        )
        .because(
            "at 0.6 of all slots the top level is 0.9 full, and two of three of its buckets of 4 are full; at 0.5 it is \
             six of ten updates, and with 8 slots most at 0.6",
        ),
        above(
            "figure 8",
            "more slots make updates without a log more likely",
            vec![
                Compared {
                    what: "8 over 4 slots at 0.6".into(),
                    paper: Some(1.0),
                    ours: log_free("8", 11)
                        .zip(log_free("4", 11))
                        .map(|(eight, four)| eight / four),
                },
                Compared {
                    what: "4 over 2 slots at 0.6".into(),
                    paper: Some(1.0),
                    ours: log_free("4", 11).zip(log_free("2", 11)).map(|(four, two)| four / two),
                },
            ],
        ),
        factors(
            "figure 12",
            "updates that use an empty slot are 1.2 to 2.1 times as fast as logged ones",
            [(1, "0.2"), (3, "0.4"), (4, "0.5")]
                .map(|(step, at)| Compared {
                    what: format!("at {at}"),
                    paper: Some(1.2),
                    ours: update(step),
                })
                .to_vec(),
        ),
    ]
}

fn insertions(found: &Found) -> Vec<Claim> {
    let insert = |medium, step| {
        Of::op(if medium == DRAM { "insert" } else { "insert_durable" }).on(medium).step(step)
    };
    vec![
        found
            .similar(
                "figure 11",
                "insertions in DRAM below 0.6: cuckoo hashing, PFHT and Level hashing are similar",
                insert(DRAM, AT_40),
                &[LEVEL_PAPER, BCH, PFHT],
                1.5,
            )
            .because(FOUR_BUCKETS),
        factors(
            "figure 11",
            "insertions in DRAM below 0.6: path hashing is slower than the others",
            [LEVEL_PAPER, BCH, PFHT]
                .map(|name| Compared {
                    what: format!("{name} over {PATH}"),
                    paper: Some(1.0),
                    ours: found.ratio((insert(DRAM, AT_40), name), (insert(DRAM, AT_40), PATH)),
                })
                .to_vec(),
        )
        .because(MANY_THREADS),
        found
            .similar(
                "figure 11",
                "insertions at 200/200 ns below 0.6: cuckoo hashing, PFHT and Level hashing are similar",
                insert(NVM_200, AT_40),
                &[LEVEL_PAPER, BCH, PFHT],
                1.5,
            )
            .because(FOUR_BUCKETS),
        found
            .faster(
                "figure 11",
                "insertions at 200/200 ns above 0.8: 3.0, 1.8, 1.4 times as fast as cuckoo hashing, PFHT, path hashing",
                insert(NVM_200, HIGHEST),
                LEVEL_PAPER,
                &[(BCH, 3.0), (PFHT, 1.8), (PATH, 1.4)],
            )
            .because(ROOM),
        found
            .faster(
                "figure 11",
                "insertions at 200/600 ns above 0.8: Level hashing is the fastest",
                insert(NVM_600, HIGHEST),
                LEVEL_PAPER,
                &OTHERS,
            )
            .because(ROOM),
        found
            .faster(
                "figure 11",
                "the same at 200/1000 ns",
                insert(NVM_1000, HIGHEST),
                LEVEL_PAPER,
                &OTHERS,
            )
            .because(ROOM),
    ]
}

fn other_operations(found: &Found) -> Vec<Claim> {
    let at = |op, step| Of::op(op).on(NVM_600).step(step);
    let negative = |name: &str| Compared {
        what: name.into(),
        paper: Some(1.0),
        ours: found
            .ratio((at("get_hit_durable", AT_80), name), (at("get_miss_durable", AT_80), name)),
    };
    vec![
        found
            .similar(
                "figure 12",
                "updates at 200/600 ns: cuckoo hashing, PFHT and path hashing are similar",
                at("update_durable", AT_60),
                &[BCH, PFHT, PATH],
                1.5,
            )
            .because("all of them write one line once; what differs is how many lines lead there"),
        above(
            "figure 12",
            "below 0.5 updates of cuckoo hashing, PFHT and path hashing take longer than their insertions: they log",
            [BCH, PFHT, PATH]
                .map(|name| Compared {
                    what: name.into(),
                    paper: Some(1.0),
                    ours: found.ratio((at("insert_durable", AT_40), name), (at("update_durable", AT_40), name)),
                })
                .to_vec(),
        )
        .because(WORDS),
        found
            .faster(
                "figure 12",
                "updates at 200/600 ns and 0.4: Level hashing is 1.2 to 2.1 times as fast as the others",
                at("update_durable", AT_40),
                LEVEL_PAPER,
                &[BCH, PFHT, PATH].map(|name| (name, 1.2)),
            )
            .because(WORDS),
        found
            .order(
                "figure 13",
                "positive searches at 0.6: cuckoo hashing is the fastest, then Level hashing",
                at("get_hit_durable", AT_60),
                &[BCH, LEVEL_PAPER],
            )
            .because(MANY_THREADS),
        found.fewest(
            "figure 13",
            "positive searches read the fewest lines in cuckoo hashing, then Level hashing, PFHT, path hashing",
            Of::op("cost_hit").on("count"),
            &[BCH, LEVEL_PAPER, PFHT, PATH],
            |row| row.lines_read,
        )
        .because(STASH),
        found
            .order(
                "figure 13",
                "positive searches at 0.8: cuckoo hashing, Level hashing, PFHT, path hashing",
                at("get_hit_durable", AT_80),
                &[BCH, LEVEL_PAPER, PFHT, PATH],
            )
            .because(MANY_THREADS),
        above(
            "figure 13",
            "a negative search takes longer than a positive one, in each table",
            [BCH, LEVEL_PAPER, PFHT, PATH].map(negative).to_vec(),
        ),
        factors(
            "figure 14",
            "deletions at 200/600 ns: cuckoo hashing and Level hashing before PFHT and path hashing",
            [(BCH, PFHT), (BCH, PATH), (LEVEL_PAPER, PFHT), (LEVEL_PAPER, PATH)]
                .map(|(one, other)| Compared {
                    what: format!("{one} over {other}"),
                    paper: Some(1.0),
                    ours: found.ratio((at("remove_durable", AT_80), one), (at("remove_durable", AT_80), other)),
                })
                .to_vec(),
        )
        .because(MANY_THREADS),
        found.fewest(
            "figure 14",
            "deletions read the fewest lines in cuckoo hashing, then Level hashing, PFHT, path hashing",
            Of::op("cost_remove").on("count"),
            &[BCH, LEVEL_PAPER, PFHT, PATH],
            |row| row.lines_read,
        )
        .because(STASH),
        found
            .order(
                "figure 14",
                "deletions in DRAM: cuckoo hashing and Level hashing before path hashing",
                Of::op("remove").on(DRAM).step(AT_80),
                &[BCH, LEVEL_PAPER, PATH],
            )
            .because(MANY_THREADS),
    ]
}

fn resizing(found: &Found) -> Vec<Claim> {
    let ratio = |op| found.value(Of::op(op).on(DRAM), NAME, |row| row.ratio);
    let times = |what: &str, paper, ours| Compared { what: what.into(), paper: Some(paper), ours };
    let over = |in_place, full, name: &str, paper| Compared {
        what: format!("over {name}"),
        paper: Some(paper),
        ours: found.ratio((Of::op(in_place), NAME), (Of::op(full), name)),
    };
    vec![
        factors(
            "figure 15",
            "expanding in place is 4.3 times as fast as rehashing everything",
            vec![
                times("in DRAM", 4.3, ratio("expand_in_place")),
                times("with flushes", 4.3, ratio("expand_in_place_durable")),
            ],
        ),
        found
            .similar(
                "figure 15",
                "rehashing everything takes all tables about as long",
                Of::op("expand_full_rehash_durable"),
                &[NAME, BCH, PFHT, PATH],
                1.5,
            )
            .because(MANY_THREADS),
        factors(
            "figure 15",
            "shrinking in place is 1.4 times as fast as rehashing everything",
            vec![
                times("in DRAM", 1.4, ratio("shrink_in_place")),
                times("with flushes", 1.4, ratio("shrink_in_place_durable")),
            ],
        ),
        factors(
            "figure 15",
            "and as in cuckoo hashing, PFHT and path hashing",
            [BCH, PFHT, PATH]
                .map(|name| {
                    over("shrink_in_place_durable", "shrink_full_rehash_durable", name, 1.4)
                })
                .to_vec(),
        )
        .because(MANY_THREADS),
        Claim::asserted(
            "figure 15",
            "an expansion rehashes a third of the buckets, a shrink two thirds",
            "asserted by `cargo test -p firndex-engines --test level`",
        ),
    ]
}

fn workloads(found: &Found) -> Vec<Claim> {
    let on = |medium, op| Of::op(op).on(medium);
    let concurrent = |says, op| {
        found
            .faster("figure 17", says, on(DRAM, op).together(), LEVEL_PAPER, &[(LIBCUCKOO, 1.6)])
            .because("the paper's factor comes from waiting for locks, and two threads hardly wait; libcuckoo is also larger for the same \
                 pairs, since it rounds up to a power of two")
    };
    vec![
        found
            .faster(
                "figure 16",
                "searches with 10 % insertions in DRAM: Level hashing takes the least time",
                on(DRAM, "mix_10"),
                LEVEL_PAPER,
                &OTHERS,
            )
            .because(MANY_THREADS),
        found
            .faster(
                "figure 16",
                "searches with 50 % insertions at 200/600 ns: Level hashing takes the least time",
                on(NVM_600, "mix_50_durable"),
                LEVEL_PAPER,
                &OTHERS,
            )
            .because(MANY_THREADS),
        found
            .faster(
                "figure 16",
                "searches with 90 % insertions at 200/600 ns: 2.7, 1.7, 1.5 times as fast as cuckoo hashing, PFHT, path \
                 hashing",
                on(NVM_600, "mix_90_durable"),
                LEVEL_PAPER,
                &[(BCH, 2.7), (PFHT, 1.7), (PATH, 1.5)],
            )
            .because(ROOM),
        concurrent("two threads, 10 % insertions: 1.6 to 2.1 times libcuckoo's throughput", "concurrent_10"),
        concurrent("the same with 50 %", "concurrent_50"),
        concurrent("the same with 90 %", "concurrent_90"),
        Claim::out_of_reach("figure 17", "4, 8 and 16 threads", MORE_THREADS),
    ]
}
