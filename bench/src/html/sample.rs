//! Made-up rows of every suite.

use crate::machine::Machine;
use crate::row::Row;

pub(super) const CONTENDERS: [&str; 5] = ["iceberg", "level", "dashmap", "papaya", "tbb"];
const SINGLES: [&str; 6] = ["insert", "get_hit", "get_miss", "update", "upsert", "remove"];
const MANY: [&str; 5] =
    ["insert_many", "get_many_hit", "get_many_miss", "update_many", "remove_many"];

fn machine() -> Machine {
    Machine {
        processor: "Example Processor 9000".into(),
        processors: 2,
        caches: ["L1 Data 48K", "L1 Instruction 32K", "L2 Unified 2048K", "L3 Unified 266240K"]
            .map(str::to_owned)
            .into(),
        memory: "24737524 kB".into(),
        kernel: "6.8.0".into(),
        huge_pages: "madvise".into(),
        huge_pages_shm: "never".into(),
        file_system: "ext4".into(),
        load: "0.10 0.22 0.31".into(),
    }
}

/// Between 0.8 and 1.2, the same for the same numbers.
fn noise(seed: u64) -> f64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ seed;
    0.8 + (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as f64 / (1u64 << 24) as f64 * 0.4
}

pub(super) fn row(suite: &'static str, op: &str, who: &str, medium: &str, threads: usize) -> Row {
    Row {
        medium: Some(medium.into()),
        threads: Some(threads),
        pairs: Some(14_000_000),
        ..Row::new(suite, op, who)
    }
}

/// Rates of a suite's operations on both media, by one thread and by two.
fn rates(rows: &mut Vec<Row>, suite: &'static str, ops: &[&str], batch: Option<usize>) {
    for (number, medium) in ["dram", "mapped"].into_iter().enumerate() {
        for threads in [1, 2] {
            for (rank, op) in ops.iter().enumerate() {
                for (place, who) in CONTENDERS.iter().enumerate() {
                    if medium == "mapped" && place > 1 {
                        continue;
                    }
                    let seed = (number * 1000 + threads * 100 + rank * 10 + place) as u64;
                    let speed = if op.contains("get") { 2.0 } else { 1.0 }
                        * if batch.is_some() { 2.5 } else { 1.0 }
                        / (1.0 + place as f64 * 0.5);
                    let durable = op.ends_with("_durable");
                    let (speed, ceiling) =
                        if durable { (speed * 0.2, 2.1e6) } else { (speed, 36e6) };
                    let rate = 9e6 * speed * threads as f64 * noise(seed);
                    rows.push(Row {
                        batch: Some(batch.unwrap_or(1)),
                        load_factor: (place < 2).then_some(0.85),
                        spread: Some(0.3 * (noise(seed + 7) - 0.8)),
                        cpu_share: Some(if rank == 2 && place == 2 { 0.7 } else { 0.99 }),
                        ..row(suite, op, who, medium, threads).with_rate(rate, Some(ceiling))
                    });
                }
            }
        }
    }
}

fn latencies(rows: &mut Vec<Row>) {
    for threads in [1, 2] {
        let clock = row("latency", "clock", "machine", "dram", threads);
        rows.push(Row { p50_ns: Some(18.0), p99_ns: Some(21.0), max_ns: Some(9e3), ..clock });
        for (rank, op) in ["insert", "get_hit", "get_miss", "update", "remove"].iter().enumerate() {
            for (place, who) in CONTENDERS.iter().enumerate() {
                let typical = 90.0 * (1.0 + place as f64 * 0.6) * noise((rank * 10 + place) as u64);
                rows.push(Row {
                    p50_ns: Some(typical),
                    p99_ns: Some(typical * 4.0),
                    p9999_ns: Some(typical * 60.0),
                    max_ns: Some(typical * 9e3),
                    ..row("latency", op, who, "dram", threads)
                });
            }
        }
    }
}

fn load_factor(rows: &mut Vec<Row>) {
    for (place, who) in CONTENDERS[..2].iter().enumerate() {
        for step in 0..20 {
            let fill = 0.05 * f64::from(step).min(18.6) + 0.02;
            for (rank, op) in ["insert", "get_hit", "get_miss"].iter().enumerate() {
                let slowed = 1.0 / (1.0 + fill.powi(8) * (3 - rank) as f64 * 2.0);
                let pairs = (fill * 1e7) as u64;
                let spilled = (fill.powi(10) * 8e5) as u64;
                rows.push(Row {
                    pairs: Some(pairs),
                    load_factor: Some(fill),
                    step: Some(step),
                    p50_ns: Some(90.0 / slowed),
                    p99_ns: Some(320.0 / slowed * noise(u64::from(step) + place as u64)),
                    level_pairs: Some(vec![pairs - spilled, spilled * 9 / 10, spilled / 10]),
                    ..row("load-factor", op, who, "dram", 1)
                        .with_rate(9e6 * slowed / (1 + place) as f64, None)
                });
            }
        }
    }
    let full = row("load-factor", "full", CONTENDERS[1], "dram", 1);
    rows.push(Row { load_factor: Some(0.92), level_pairs: Some(vec![9, 4, 0]), ..full });
}

fn resize(rows: &mut Vec<Row>) {
    for threads in [1, 2] {
        let stall = row("resize", "stall", "machine", "mapped", threads);
        rows.push(Row { p9999_ns: Some(9e3), max_ns: Some(2.4e5), ..stall });
        for (place, who) in CONTENDERS[..2].iter().enumerate() {
            let presized = 7e6 / (1 + place) as f64;
            let sized = |op, rate: f64, ceiling| {
                row("resize", op, who, "mapped", threads).with_rate(rate * threads as f64, ceiling)
            };
            rows.push(sized("insert_presized", presized, None));
            rows.push(sized("insert_growing", presized * 0.6, Some(presized)));
            rows.push(Row {
                p50_ns: Some(110.0),
                p99_ns: Some(900.0),
                p9999_ns: Some(4e4),
                max_ns: Some(3e6),
                ..sized("insert_growing_latency", presized * 0.5, None)
            });
            for step in 0..90 {
                let is_growing = [3, 9, 10, 21, 22, 23, 48, 49, 50, 51, 52].contains(&step);
                let rate = presized * 0.7 * noise(u64::from(step)) * threads as f64;
                rows.push(Row {
                    at_s: Some(f64::from(step) * 0.05),
                    step: Some(step),
                    max_ns: Some(if is_growing { 2e6 } else { 9e4 } * noise(u64::from(step) + 5)),
                    ops_per_s: Some(if is_growing { rate * 0.3 } else { rate }),
                    ..row("resize", "timeline", who, "mapped", threads)
                });
            }
        }
    }
}

fn others(rows: &mut Vec<Row>) {
    for (place, who) in CONTENDERS.iter().enumerate() {
        let factor = 1.0 + place as f64 * 0.3;
        for (op, step) in
            ["presized", "grown"].into_iter().flat_map(|op| (0..8).map(move |step| (op, step)))
        {
            let pairs = 1_750_000 * u64::from(step + 1);
            let room = if op == "grown" { pairs.next_power_of_two() } else { 14_000_000 };
            rows.push(Row {
                pairs: Some(pairs),
                step: Some(step),
                bytes_per_pair: Some(17.0 * factor * room as f64 / pairs as f64),
                ..row("space", op, who, "dram", 1)
            });
        }
        if place > 1 {
            continue;
        }
        for (op, rate) in [("open", 7e7), ("scan", 1.9e8), ("open_clean", 3e8)] {
            rows.push(row("recovery", op, who, "mapped", 2).with_rate(rate / factor, None));
        }
        for (op, batch) in SINGLES.iter().map(|op| (op, 1)).chain(MANY.iter().map(|op| (op, 32))) {
            let is_get = op.contains("get");
            let written = if is_get { 0.0 } else { factor };
            rows.push(Row {
                batch: Some(batch),
                load_factor: Some(0.85),
                lines_read: Some(1.02 * factor),
                lines_written: Some(written),
                blocks_written: Some(written * 0.98),
                flushes: Some(written),
                fences: Some(written / batch as f64),
                write_amplification: (!is_get).then_some(3.94),
                ..row("writes", op, who, "count", 1)
            });
        }
    }
}

fn level(rows: &mut Vec<Row>) {
    let point = |op, variant: &str, step: u32| Row {
        step: Some(step),
        pairs: Some(100_000 << step),
        load_factor: Some(0.1 + 0.1 * f64::from(step)),
        ..row("level", op, &format!("level-{variant}"), "dram", 1)
    };
    for step in 0..7 {
        let slow = noise(u64::from(step));
        for (op, variant) in [("get_hit", "static"), ("get_hit", "dynamic"), ("get_miss", "static")]
        {
            let expansions = Some(step / 2);
            rows.push(Row { mean_ns: Some(90.0 * slow), expansions, ..point(op, variant, step) });
            let medium = Some("count".into());
            rows.push(Row { lines_read: Some(slow), medium, ..point(op, variant, step) });
        }
        for variant in ["log-free", "logged", "in-place"] {
            let mean_ns = Some(400.0 * slow);
            rows.push(Row { mean_ns, ..point("update_durable", variant, step) });
        }
        for variant in ["2-slots", "8-slots"] {
            let log_free = Some(slow - 0.4);
            rows.push(Row { log_free, ..point("update_log_free", variant, step) });
        }
    }
    for variant in ["without-b2t", "with-b2t"] {
        for step in 0..6 {
            let expansions = Some(step + 1);
            rows.push(Row { expansions, ..point("expansion", variant, step) });
        }
    }
    rows.push(Row { step: None, ..point("full", "d1", 0) });
    for (op, took_s, ratio) in
        [("expand_full_rehash", 0.4, None), ("expand_in_place", 0.1, Some(4.0))]
    {
        rows.push(Row { took_s: Some(took_s), ratio, ..row("level", op, "level", "dram", 1) });
    }
}

fn ceilings(rows: &mut Vec<Row>) {
    for medium in ["dram", "mapped"] {
        for threads in [1, 2] {
            let each = |op, rate: f64| {
                row("ceilings", op, "machine", medium, threads)
                    .with_rate(rate * threads as f64, None)
            };
            rows.push(Row { spread: Some(0.04), ..each("read_line_1", 1.1e7) });
            rows.push(Row { spread: Some(0.07), ..each("read_line_16", 7.2e7) });
            rows.push(each("store_line", 3.1e7));
            rows.push(each("persist_line", 2.1e6));
            let stall = row("ceilings", "stall", "machine", medium, threads);
            rows.push(Row { p9999_ns: Some(8e3), max_ns: Some(1.4e5), ..stall });
        }
    }
}

/// A run of all suites, as large as one of five contenders is.
pub(super) fn sample() -> (Machine, Vec<Row>) {
    let mut rows = Vec::new();
    ceilings(&mut rows);
    rates(&mut rows, "micro", &SINGLES, None);
    rates(&mut rows, "micro", &MANY, Some(32));
    rates(&mut rows, "micro", &["insert_durable", "update_durable", "remove_durable"], None);
    rates(&mut rows, "ycsb", &["load", "a", "b", "c", "d", "e", "f"], None);
    latencies(&mut rows);
    load_factor(&mut rows);
    resize(&mut rows);
    others(&mut rows);
    level(&mut rows);
    (machine(), rows)
}
