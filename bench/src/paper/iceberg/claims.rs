//! The paper's claims.

use super::yards::{SHAPES, name};
use super::{CLHT, DASH, LIBCUCKOO, NAME, TBB};
use crate::paper::MORE_THREADS;
use crate::paper::claim::{Claim, Compared, Field, Found, Of, at_least, at_most, factors, figures};

const OPTANE: &str = "optane";
const DRAM: &str = "dram";
/// Steps of figure 6 with the emptiest and the fullest table.
const FILLS: u32 = 7;

const LATENCY: &str = "the medium has latencies and a buffer of blocks, but no limit of bandwidth that few threads meet; \
                       CLHT's one bucket a line is then as near as it gets";
const MOVES: &str = "while the table doubles, one insertion in some 40 moves a block of up to 64 pairs, which takes longer \
                     than 99 of 100 insertions of the others; the paper's shows that from 1 in 1,000 on";
const BALLS: &str = "by balls in bins (Poisson) 8.66, 6.96, 5.43, 17.09, 13.69, 10.43 % of the pairs find their block full \
                     at 0.95, which are ours in both levels together; the paper's are those of 0.951 to 0.960";
const HOST: &str = "the longest operation of a run is often a pause of the host";

pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut all = on_pmem(found);
    all.extend(in_dram(found));
    all.extend(latencies(found));
    all.extend(space(found));
    all.extend(counts(found));
    all
}

fn on_pmem(found: &Found) -> Vec<Claim> {
    let mut all = Vec::new();
    let others = [(DASH, 1.1), (CLHT, 1.1)];
    for (place, is_alone) in [("figure 1", false), ("figure 3", true)] {
        for (says, op) in [
            ("insertions 1.1 to 2.7 times as fast as Dash and CLHT", "insert_durable"),
            ("positive queries 1.1 to 2.7 times as fast", "get_hit_durable"),
            ("negative queries 1.1 to 2.7 times as fast", "get_miss_durable"),
            ("deletions 1.1 to 2.7 times as fast", "remove_durable"),
        ] {
            let of = Of::op(op).on(OPTANE);
            let of = if is_alone { of.alone() } else { of.together() };
            all.push(found.faster(place, says, of, NAME, &others).because(LATENCY));
        }
    }
    let of_thread: Field = |row| Some(row.ops_per_s? / row.threads? as f64);
    let insert = Of::op("insert_durable").on(OPTANE);
    let [alone, together] =
        [insert.alone(), insert.together()].map(|of| found.value(of, NAME, of_thread));
    let scaling = together.zip(alone).map(|(together, alone)| together / alone);
    all.push(at_least(
        "figure 3",
        "insertions scale almost linearly (0.67 of it at 16 threads)",
        "of linear, all processors",
        0.67,
        scaling,
    ));
    all.push(Claim::out_of_reach("figure 3", "4, 8 and 16 threads", MORE_THREADS));
    for (says, op) in [
        ("YCSB, load: 1.1 to 2.5 times as fast as Dash and CLHT", "load_durable"),
        ("YCSB A, of which half are insertions: faster than both", "a_durable"),
        ("YCSB B: faster than both", "b_durable"),
        ("YCSB C: faster than both, and CLHT is close", "c_durable"),
    ] {
        let times = if op == "load_durable" { 1.1 } else { 1.0 };
        let of = Of::op(op).on(OPTANE);
        let claim = found.faster("figure 4", says, of, NAME, &[(DASH, times), (CLHT, times)]);
        all.push(claim.because(LATENCY));
    }
    all
}

fn in_dram(found: &Found) -> Vec<Claim> {
    let of = |op| Of::op(op).on(DRAM);
    let peers = "libcuckoo and TBB are other authors' maps, which one asks for with --peers";
    vec![
        found
            .faster(
                "figure 5",
                "insertions in DRAM 2.3 to 9.1 times as fast as libcuckoo and TBB",
                of("insert"),
                NAME,
                &[(LIBCUCKOO, 2.3), (TBB, 2.3)],
            )
            .because("libcuckoo and TBB share their locks with one other thread here, and with 15 there"),
        found.faster(
            "figure 5",
            "positive queries in DRAM 1.7 to 2.6 times as fast",
            of("get_hit"),
            NAME,
            &[(LIBCUCKOO, 1.7), (TBB, 1.7)],
        )
        .because(peers),
        found
            .faster(
                "figure 5",
                "deletions in DRAM up to 5.3 times as fast as TBB",
                of("remove"),
                NAME,
                &[(TBB, 1.0)],
            ),
        found
            .order(
                "figure 5",
                "deletions in DRAM: libcuckoo is about twice as fast",
                of("remove"),
                &[LIBCUCKOO, NAME],
            )
            .because("libcuckoo shares its locks with one other thread here, and with 15 there"),
        found.faster(
            "figure 5",
            "insertions in DRAM are faster than CLHT's",
            of("insert"),
            NAME,
            &[(CLHT, 1.0)],
        )
        .because("a sized CLHT has three slots in each bucket and hardly chains; an insertion is one line"),
        found
            .order("figure 5", "queries in DRAM: CLHT is faster", of("get_hit"), &[CLHT, NAME])
            .because("our look-ups ask for metadata and pair at once; here both tables are as fast as the memory"),
        found
            .order("figure 5", "deletions in DRAM: CLHT is faster", of("remove"), &[CLHT, NAME])
            .because("our look-ups ask for metadata and pair at once; here both tables are as fast as the memory"),
        found
            .faster(
                "figure 5",
                "YCSB, load in DRAM: up to 2.2 and 4.4 times as fast as libcuckoo and TBB",
                of("load"),
                NAME,
                &[(LIBCUCKOO, 1.0), (TBB, 1.0)],
            )
            .because("with two threads, one waits while libcuckoo resizes"),
        found
            .faster(
                "figure 5",
                "YCSB, load in DRAM: up to 2.9 times as fast as CLHT",
                of("load"),
                NAME,
                &[(CLHT, 1.0)],
            )
            .because("with two threads, one waits while CLHT resizes"),
        found
            .order("figure 5", "YCSB C in DRAM: CLHT is faster", of("c"), &[CLHT, NAME])
            .because("our look-ups ask for metadata and pair at once; here both tables are as fast as the memory"),
    ]
}

fn latencies(found: &Found) -> Vec<Claim> {
    let mut all = Vec::new();
    let ratio = |of: Of, name: &'static str, paper, field: Field| Compared {
        what: format!("over {name}"),
        paper: Some(paper),
        ours: found
            .value(of, name, field)
            .zip(found.value(of, NAME, field))
            .map(|(other, own)| other / own),
    };
    let p50: Field = |row| row.p50_ns;
    let p99: Field = |row| row.p99_ns;
    let longest: Field = |row| row.max_ns;
    let [insert, get] = ["a_insert_durable", "a_get_durable"].map(|op| Of::op(op).on(OPTANE));
    for (says, of, field, papers) in [
        (
            "the median insertion is 2.4 and 3.7 times as fast as Dash's and CLHT's",
            insert,
            p50,
            [2.35, 3.65],
        ),
        (
            "1 insertion in 100 takes Dash and CLHT 1.8 and 1.9 times as long",
            insert,
            p99,
            [1.78, 1.89],
        ),
        ("the median query is 1.4 and 1.6 times as fast", get, p50, [1.39, 1.62]),
        ("1 query in 100 takes them 1.4 and 1.7 times as long", get, p99, [1.40, 1.74]),
    ] {
        let compared = vec![ratio(of, DASH, papers[0], field), ratio(of, CLHT, papers[1], field)];
        let why = if says.starts_with("1 insertion") { MOVES } else { LATENCY };
        all.push(factors("table 2", says, compared).because(why));
    }
    all.push(
        factors(
            "table 2",
            "CLHT's longest insertion takes 300 times as long, since all wait for a resize",
            vec![ratio(insert, CLHT, 332.0, longest)],
        )
        .because(
            "the longest grows with the table, and this one is a twentieth of the paper's or less",
        ),
    );
    let [insert, get] = ["a_insert", "a_get"].map(|op| Of::op(op).on(DRAM));
    all.push(
        figures(
            "table 5",
            "in DRAM the median insertion takes libcuckoo 0.8, TBB 2.4 times as long",
            0.3,
            vec![ratio(insert, LIBCUCKOO, 0.79, p50), ratio(insert, TBB, 2.44, p50)],
        )
        .because(
            "libcuckoo and TBB share their locks with one other thread here, and with 15 there",
        ),
    );
    all.push(
        figures(
            "table 5",
            "in DRAM the median query takes libcuckoo 0.7, TBB 1.7 times as long",
            0.3,
            vec![ratio(get, LIBCUCKOO, 0.68, p50), ratio(get, TBB, 1.70, p50)],
        )
        .because(
            "libcuckoo and TBB share their locks with one other thread here, and with 15 there",
        ),
    );
    all.push(
        factors(
            "table 5",
            "libcuckoo's longest insertion takes 6 times as long",
            vec![ratio(insert, LIBCUCKOO, 6.0, longest)],
        )
        .because(HOST),
    );
    all
}

fn space(found: &Found) -> Vec<Claim> {
    let efficiency = |name: &str| {
        found
            .value(Of::op("space_durable").on(OPTANE), name, |row| row.bytes_per_pair)
            .map(|bytes| 16.0 / bytes)
    };
    let of = |what: &str, paper, ours| Compared { what: what.into(), paper: Some(paper), ours };
    let fill = |name: &str| {
        let speeds: Vec<f64> =
            (0..FILLS).filter_map(|step| found.speed(Of::op("fill").step(step), name)).collect();
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        (speeds.len() == FILLS as usize).then(|| slowest / fastest)
    };
    let best = |name: &str| {
        let bytes: Vec<f64> = (0..FILLS)
            .filter_map(|step| {
                found.value(Of::op("fill").step(step), name, |row| row.bytes_per_pair)
            })
            .collect();
        let least = bytes.iter().copied().fold(f64::INFINITY, f64::min);
        (!bytes.is_empty()).then(|| 16.0 / least)
    };
    let mut all = vec![
        figures(
            "table 3",
            "space efficiency 85, 69, 33 % for IcebergHT, Dash, CLHT",
            0.1,
            vec![
                of(NAME, 0.85, efficiency(NAME)),
                of(DASH, 0.69, efficiency(DASH)),
                of(CLHT, 0.33, efficiency(CLHT)),
            ],
        )
        .because(
            "ours include metadata in DRAM, and what a pool keeps ready; Dash begins with a power of two of segments; our \
             CLHT is sized by its pairs",
        ),
        at_most("figure 6", "CLHT never gets above 40 %", "at best", 0.4, best(CLHT)).because(
            "our CLHT is sized by its pairs, with a bucket of 64 bytes for each 2.25 of them",
        ),
        at_least(
            "figure 6",
            "IcebergHT's insertions are as fast at any load factor",
            "slowest over fastest",
            0.7,
            fill(NAME),
        )
        .because("the last steps find level 1 full for two of three pairs, and look at both blocks of level 2; those lines are not \
             in the caches as the paper's were"),
        at_most(
            "figure 6",
            "libcuckoo's insertions slow down as it fills",
            "slowest over fastest",
            0.7,
            fill(LIBCUCKOO),
        )
        .because("libcuckoo rounds up to a power of two, so it never is as full"),
    ];
    all.push(levels(found));
    all.extend(yards(found));
    all
}

/// Part of the pairs in a level, in percent.
fn share(found: &Found, op: &str, contender: &str, level: usize) -> Option<f64> {
    let mut rows = found.0.iter().filter(|row| row.op == op && row.contender == contender);
    let pairs = rows.find_map(|row| row.level_pairs.clone())?;
    let all: u64 = pairs.iter().sum();
    Some(100.0 * *pairs.get(level)? as f64 / all.max(1) as f64)
}

fn levels(found: &Found) -> Claim {
    let percent =
        |what: &str, paper, ours| Compared { what: what.into(), paper: Some(paper), ours };
    figures(
        "table 4",
        "percentages of the pairs in levels 1 and 2: 91.2 and 8.7 at 0.95, 95.9 and 4.0 after YCSB's load",
        0.02,
        vec![
            percent("level 1 at 0.95", 91.2, share(found, "levels", "64-8", 0)),
            percent("level 2", 8.7, share(found, "levels", "64-8", 1)),
            percent("level 1 loaded", 95.9, share(found, "levels_loaded", NAME, 0)),
        ],
    )
    .because("how full the paper's loaded table is, it does not say")
}

fn yards(found: &Found) -> Vec<Claim> {
    let percents = |level, papers: [f64; 6]| {
        let one = |(shape, paper)| Compared {
            what: name(shape),
            paper: Some(paper),
            ours: share(found, "levels", &name(shape), level),
        };
        SHAPES.into_iter().zip(papers).map(one).collect::<Vec<_>>()
    };
    let order = |says, op, names: &[&str]| {
        found
            .order("table 6", says, Of::op(op), names)
            .because("so few pairs are in level 3 that a miss seldom looks there; the rest is the noise of one round")
    };
    vec![
        figures(
            "table 6",
            "percentages of the pairs in level 2, by slots of blocks",
            0.02,
            percents(1, [8.7, 7.0, 5.4, 17.7, 13.7, 10.38]),
        )
        .because(BALLS),
        figures(
            "table 6",
            "percentages in level 3: 0.00007, 0.007, 0.27, 0.03, 0.06, 0.64",
            0.25,
            percents(2, [0.00007, 0.007, 0.27, 0.03, 0.06, 0.64]),
        )
        .because(BALLS),
        order("insertions: 64 slots before 32", "yards_insert", &["64-8", "32-8"]),
        order("negative queries: 8 slots of level 2 before 4", "yards_get_miss", &["64-8", "64-4"]),
        order("positive queries: 64 slots before 32", "yards_get_hit", &["64-8", "32-8"]),
        order("deletions: 64 slots before 32", "yards_remove", &["64-8", "32-8"]),
    ]
}

fn counts(found: &Found) -> Vec<Claim> {
    let count = |op: &'static str, field: Field| found.value(Of::op(op), NAME, field);
    let one = |what: &str, ours| Compared { what: what.into(), paper: Some(1.0), ours };
    let speed = |op| found.speed(Of::op(op).on(DRAM), NAME);
    vec![
        figures(
            "section 6",
            "an insertion, an update or a deletion writes one line",
            0.02,
            vec![
                one("lines of an insertion", count("cost_insert", |row| row.lines_written)),
                one("of an update", count("cost_update", |row| row.lines_written)),
                one("of a deletion", count("cost_remove", |row| row.lines_written)),
            ],
        ),
        at_most(
            "section 9",
            "a positive query reads one line, and another for one in four",
            "lines",
            1.25,
            count("cost_hit", |row| row.lines_read),
        ),
        at_most(
            "section 6",
            "a negative query reads a line at most, but for false positives",
            "lines",
            1.25,
            count("cost_miss", |row| row.lines_read),
        ),
        at_least(
            "section 6",
            "recovery reads 148 M items a second with one thread",
            "M/s",
            148.0,
            speed("open").map(|speed| speed / 1e6),
        )
        .because("what one thread reads a second depends on the machine"),
        at_least(
            "section 6",
            "which is 63 times as fast as inserting them",
            "times",
            63.0,
            speed("open").zip(speed("fill_once")).map(|(open, fill)| open / fill),
        )
        .because("our insertions are faster: they were measured in DRAM, the paper's in persistent memory"),
        Claim::out_of_reach(
            "section 9",
            "with 16 threads insertions reach 70 %, queries half of what the hardware allows",
            "two processors do not reach what memory allows; performance.md compares with this machine's ceilings",
        ),
    ]
}
