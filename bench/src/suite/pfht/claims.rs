//! The paper's claims, compared with the rows.

use super::figures::{Figures, MEMORY, NAME, WRITES};
use crate::row::Row;
use crate::suite::paper::Claim;

/// A figure that is within this part of the paper's counts as near.
const NEAR: f64 = 0.15;

/// The columns of table 2 as operations, and those of table 3.
const INSERT: &str = "insert_";
const MEMORY_OF: &str = "memory_";
/// The paper's own table.
const OWN: &str = NAME;
const OWN_WORDS: &str = "the paper's table";
const CUCKOOS: [&str; 3] = ["cuckoo-2-4", "cuckoo-2-8", "cuckoo-3-4"];

struct Rows<'a>(&'a [Row]);

impl Rows<'_> {
    fn find(&self, op: &str, contender: &str, has: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let is_it = |row: &&Row| row.op == op && row.contender == contender;
        self.0.iter().filter(is_it).find_map(has)
    }

    fn rate(&self, op: &str, contender: &str) -> Option<f64> {
        self.find(op, contender, |row| row.ops_per_s)
    }

    /// Compares one line of a table of the paper.
    fn line(
        &self,
        place: &'static str,
        figures: &Figures,
        op: &str,
        has: impl Fn(&Row) -> Option<f64>,
    ) -> Vec<Claim> {
        let line = |(name, row): (&str, Vec<(&str, f64)>)| {
            let found: Vec<Option<f64>> = row
                .iter()
                .map(|(column, _)| self.find(&format!("{op}{column}"), name, &has))
                .collect();
            let is_near = |(found, (_, paper)): (&Option<f64>, &(&str, f64))| {
                found.map(|found| (found / paper - 1.0).abs() <= NEAR)
            };
            let near: Option<Vec<bool>> = found.iter().zip(&row).map(is_near).collect();
            let columns: Vec<&str> = row.iter().map(|(column, _)| *column).collect();
            let paper: Vec<String> = row.iter().map(|(_, figure)| format!("{figure:.2}")).collect();
            Claim {
                place,
                says: format!("{name}: {} ({})", paper.join(", "), columns.join(", ")),
                measured: shown(&found),
                holds: near.map(|near| near.into_iter().all(|is_near| is_near)),
            }
        };
        figures.each().map(|(name, row)| line((name, row.collect()))).collect()
    }

    /// Claims that one is this many times as fast as each of the others.
    fn faster(
        &self,
        place: &'static str,
        says: &str,
        op: &str,
        fast: &str,
        others: &[&str],
        times: f64,
    ) -> Claim {
        let rate = self.rate(op, fast);
        let ratios: Vec<Option<f64>> =
            others.iter().map(|other| Some(rate? / self.rate(op, other)?)).collect();
        let known: Option<Vec<f64>> = ratios.iter().copied().collect();
        Claim {
            place,
            says: says.to_owned(),
            measured: format!("{} ({op}: {fast} over {})", shown(&ratios), others.join(", ")),
            holds: known.map(|ratios| ratios.iter().all(|&ratio| ratio >= times)),
        }
    }
}

fn shown(figures: &[Option<f64>]) -> String {
    let one = |figure: &Option<f64>| figure.map_or("-".into(), |figure| format!("{figure:.2}"));
    figures.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// All of them; tables first.
pub(super) fn claims(rows: &[Row]) -> Vec<Claim> {
    let rows = Rows(rows);
    let mut all = rows.line("table 2, writes per insertion", &WRITES, INSERT, |row| row.writes);
    all.extend(rows.line("table 3, bytes per pair", &MEMORY, MEMORY_OF, |row| row.bytes_per_pair));
    let [small, large, three] = CUCKOOS;
    let others = ["hopscotch", small, large, three];
    for (place, durable) in [("figure 2, dram", ""), ("figure 3, pcm", "_durable")] {
        let op = |op: &str| format!("{op}{durable}");
        all.extend([
            rows.faster(
                place,
                "linear probing inserts fastest in the write-once workload",
                &op("insert_wo_90"),
                "probing",
                &others,
                1.0,
            ),
            rows.faster(
                place,
                "hopscotch hashing's successful look-ups are faster than linear probing's once pairs come and go",
                &op("get_hit_wh_95"),
                "hopscotch",
                &["probing"],
                1.0,
            ),
            rows.faster(
                place,
                "linear probing's unsuccessful look-ups are 20 times slower in the write-heavy workload",
                &op("get_miss_wh_95"),
                "hopscotch",
                &["probing"],
                20.0,
            ),
        ]);
    }
    all.push(rows.faster(
        "section 3.2, dram",
        "in the write-heavy workload cuckoo hashing performs better than hopscotch hashing",
        "insert_wh_95",
        large,
        &["hopscotch"],
        1.0,
    ));
    all.push(rows.faster(
        "section 3.3, pcm",
        "in the write-heavy workload hopscotch hashing performs better than cuckoo-2-4",
        "insert_wh_95_durable",
        "hopscotch",
        &[small],
        1.0,
    ));
    for (other, times) in [("hopscotch", 2.0), (small, 8.0)] {
        all.push(rows.faster(
            "section 4.4, pcm",
            &format!("the paper's table inserts more than {times} times as fast as {other}"),
            "insert_wh_95_durable",
            OWN,
            &[other],
            times,
        ));
    }
    for (other, times) in [(small, 5.0), ("hopscotch", 1.4)] {
        all.push(rows.faster(
            "figure 5",
            &format!("as a cache the paper's table does {times} times as much as {other}"),
            "cache_90_95_durable",
            OWN,
            &[other],
            times,
        ));
    }
    all.push(rows.faster(
        "figure 5",
        "linear probing is very slow as a cache",
        "cache_90_95_durable",
        "hopscotch",
        &["probing"],
        1.0,
    ));
    let stash = rows.find("stash_wh_95", "hopscotch", |row| row.stashed);
    all.push(Claim {
        place: "section 3.1.2",
        says:
            "3 % of the slots are enough as a stash of hopscotch hashing at a load factor of 0.95"
                .into(),
        measured: format!("{} of the slots", shown(&[stash])),
        holds: stash.map(|stash| stash <= 0.03),
    });
    // What was not asked for is left out, but a missing table of the paper is mentioned.
    let is_about_own = |claim: &Claim| claim.says.contains(OWN) || claim.says.contains(OWN_WORDS);
    let is_measured = |claim: &Claim| claim.measured.starts_with(|c: char| c.is_ascii_digit());
    all.retain(|claim| is_measured(claim) || is_about_own(claim));
    for claim in all.iter_mut().filter(|claim| claim.holds.is_none() && is_about_own(claim)) {
        claim.measured = format!("nothing: there are no such rows of {OWN}");
    }
    all
}
