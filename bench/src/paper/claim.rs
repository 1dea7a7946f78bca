//! What a paper claims, beside what was measured.

use crate::row::Row;
use serde::Serialize;
use std::fmt;

/// Speeds may fall short of the paper's factor by this much: machines and media differ.
const FACTOR_NEAR: f64 = 0.8;
/// Speeds closer than this are equal.
const ORDER_SLACK: f64 = 0.95;
/// A bound may be missed by this much and is nearly kept.
const BOUND_NEAR: f64 = 1.1;
/// Figures off by this much more than they may, or by this much at all, are nearly the paper's.
const TOLERANCE_NEAR: f64 = 1.5;
const NEAR_AT_LEAST: f64 = 0.06;

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Yes,
    /// The order is the paper's, or the figure close to it.
    Nearly,
    /// It does not.
    No,
    /// This hardware cannot tell.
    OutOfReach,
    /// The run left it out.
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Yes => "yes",
            Verdict::Nearly => "nearly",
            Verdict::No => "no",
            Verdict::OutOfReach => "cannot be run here",
            Verdict::NotMeasured => "not measured",
        })
    }
}

/// One figure of the paper and of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What it is a figure of.
    pub what: String,
    /// The paper's, if it prints one.
    pub paper: Option<f64>,
    /// Ours, if it was measured.
    pub ours: Option<f64>,
}

/// One statement of a paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// Table, figure or section.
    pub place: &'static str,
    /// What it says.
    pub says: &'static str,
    /// The figures from which the verdict follows.
    pub compared: Vec<Compared>,
    /// Whether it holds here.
    pub verdict: Verdict,
    /// The cause if it does not hold, or what shows it if that is no figure.
    pub why: &'static str,
}

impl Claim {
    /// A claim that this hardware cannot decide.
    pub(crate) fn out_of_reach(
        place: &'static str,
        says: &'static str,
        why: &'static str,
    ) -> Claim {
        Claim { place, says, compared: Vec::new(), verdict: Verdict::OutOfReach, why }
    }

    /// A claim that a test asserts, so that it holds wherever the test passes.
    pub(crate) fn asserted(place: &'static str, says: &'static str, test: &'static str) -> Claim {
        Claim { place, says, compared: Vec::new(), verdict: Verdict::Yes, why: test }
    }

    /// Adds the cause, which is told unless the claim holds.
    #[must_use]
    pub(crate) fn because(self, why: &'static str) -> Claim {
        Claim { why, ..self }
    }

    /// The figures, as a reader compares them.
    pub fn measured(&self) -> String {
        let one = |Compared { what, paper, ours }: &Compared| {
            let ours = ours.map_or("-".into(), shown);
            let paper = paper.map_or(String::new(), |paper| format!(" ({})", shown(paper)));
            format!("{what} {ours}{paper}")
        };
        self.compared.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The verdict, and its cause if there is one to tell.
    pub fn judged(&self) -> String {
        let is_told = self.verdict != Verdict::NotMeasured
            && (self.verdict != Verdict::Yes || self.compared.is_empty());
        if is_told && !self.why.is_empty() {
            format!("{}: {}", self.verdict, self.why)
        } else {
            self.verdict.to_string()
        }
    }
}

/// Three digits that count, and no more than are meant.
fn shown(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".into(),
        large if large >= 100.0 => format!("{figure:.0}"),
        middle if middle >= 10.0 => format!("{figure:.1}"),
        small if small >= 0.01 => format!("{figure:.2}"),
        _ => format!("{figure:.1e}"),
    }
}

/// Rows of an operation: on one medium, with one thread or several, at one step of a series; whatever is left open may
/// be anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Of<'a> {
    op: &'a str,
    medium: Option<&'a str>,
    is_alone: Option<bool>,
    step: Option<u32>,
}

impl<'a> Of<'a> {
    pub(crate) const fn op(op: &'a str) -> Of<'a> {
        Of { op, medium: None, is_alone: None, step: None }
    }

    pub(crate) const fn on(self, medium: &'a str) -> Of<'a> {
        Of { medium: Some(medium), ..self }
    }

    /// With one thread.
    pub(crate) const fn alone(self) -> Of<'a> {
        Of { is_alone: Some(true), ..self }
    }

    /// With several threads.
    pub(crate) const fn together(self) -> Of<'a> {
        Of { is_alone: Some(false), ..self }
    }

    pub(crate) const fn step(self, step: u32) -> Of<'a> {
        Of { step: Some(step), ..self }
    }

    fn is_of(&self, row: &Row, contender: &str) -> bool {
        row.op == self.op
            && row.contender == contender
            && self.medium.is_none_or(|medium| row.medium.as_deref() == Some(medium))
            && self.is_alone.is_none_or(|is_alone| (row.threads == Some(1)) == is_alone)
            && self.step.is_none_or(|step| row.step == Some(step))
    }
}

/// A figure of a row.
pub(crate) type Field = fn(&Row) -> Option<f64>;

/// The rows of a run, from which claims are judged.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a>(pub &'a [Row]);

impl Found<'_> {
    /// A figure of the first row that has it.
    pub(crate) fn value(&self, of: Of, contender: &str, field: Field) -> Option<f64> {
        self.0.iter().filter(|row| of.is_of(row, contender)).find_map(field)
    }

    /// Operations a second.
    pub(crate) fn speed(&self, of: Of, contender: &str) -> Option<f64> {
        self.value(of, contender, |row| row.ops_per_s)
    }

    /// How many times as fast one is as the other.
    pub(crate) fn ratio(&self, one: (Of, &str), other: (Of, &str)) -> Option<f64> {
        Some(self.speed(one.0, one.1)? / self.speed(other.0, other.1)?)
    }

    /// Claims that one is this many times as fast as each of the others.
    pub(crate) fn faster(
        &self,
        place: &'static str,
        says: &'static str,
        of: Of,
        fast: &str,
        others: &[(&str, f64)],
    ) -> Claim {
        let compared = others.iter().map(|&(slow, times)| Compared {
            what: format!("over {slow}"),
            paper: Some(times),
            ours: self.ratio((of, fast), (of, slow)),
        });
        factors(place, says, compared.collect())
    }

    /// Claims that these are sorted by speed, the fastest first.
    pub(crate) fn order(
        &self,
        place: &'static str,
        says: &'static str,
        of: Of,
        names: &[&str],
    ) -> Claim {
        let compared: Vec<Compared> = names
            .iter()
            .map(|&name| Compared {
                what: name.into(),
                paper: None,
                ours: self.speed(of, name).map(|speed| speed / 1e6),
            })
            .collect();
        let verdict = judge(&compared, |speeds| {
            let is_sorted = speeds.windows(2).all(|pair| pair[0] >= pair[1] * ORDER_SLACK);
            let fastest = speeds.iter().copied().fold(0.0, f64::max);
            match (is_sorted, speeds[0] >= fastest * ORDER_SLACK) {
                (true, _) => Verdict::Yes,
                (false, true) => Verdict::Nearly,
                (false, false) => Verdict::No,
            }
        });
        Claim { place, says, compared, verdict, why: "" }
    }

    /// Claims that these are sorted by a count, the smallest first.
    pub(crate) fn fewest(
        &self,
        place: &'static str,
        says: &'static str,
        of: Of,
        names: &[&str],
        field: Field,
    ) -> Claim {
        let one = |name: &&str| Compared {
            what: (*name).into(),
            paper: None,
            ours: self.value(of, name, field),
        };
        let compared: Vec<Compared> = names.iter().map(one).collect();
        let verdict = judge(&compared, |counts| {
            let is_sorted = counts.windows(2).all(|pair| pair[0] * ORDER_SLACK <= pair[1]);
            if is_sorted { Verdict::Yes } else { Verdict::No }
        });
        Claim { place, says, compared, verdict, why: "" }
    }

    /// Claims that these are as fast as each other: the fastest at most `factor` times as fast as the slowest.
    pub(crate) fn similar(
        &self,
        place: &'static str,
        says: &'static str,
        of: Of,
        names: &[&str],
        factor: f64,
    ) -> Claim {
        let claim = self.order(place, says, of, names);
        let verdict = judge(&claim.compared, |speeds| {
            let fastest = speeds.iter().copied().fold(0.0, f64::max);
            let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
            bounded(fastest / slowest, factor)
        });
        Claim { verdict, ..claim }
    }
}

/// Factors that the paper's must not exceed by much.
pub(crate) fn factors(place: &'static str, says: &'static str, compared: Vec<Compared>) -> Claim {
    let papers: Vec<f64> = compared.iter().map(|one| one.paper.unwrap_or(1.0)).collect();
    let verdict = judge(&compared, |ours| {
        let all = |least: &dyn Fn(f64) -> f64| {
            ours.iter().zip(&papers).all(|(ours, &paper)| *ours >= least(paper))
        };
        // What is to be faster must not be slower, however small the paper's factor is.
        if all(&|paper| (paper * FACTOR_NEAR).max(paper.min(1.0) * ORDER_SLACK)) {
            Verdict::Yes
        } else if all(&|paper| paper.min(1.0) * ORDER_SLACK) {
            Verdict::Nearly
        } else {
            Verdict::No
        }
    });
    Claim { place, says, compared, verdict, why: "" }
}

/// Ratios that are all above 1.
pub(crate) fn above(place: &'static str, says: &'static str, compared: Vec<Compared>) -> Claim {
    let verdict = judge(&compared, |ours| {
        if ours.iter().all(|ours| *ours > 1.0) { Verdict::Yes } else { Verdict::No }
    });
    Claim { place, says, compared, verdict, why: "" }
}

/// Figures that are the paper's to within a part of them.
pub(crate) fn figures(
    place: &'static str,
    says: &'static str,
    tolerance: f64,
    compared: Vec<Compared>,
) -> Claim {
    let papers: Vec<f64> = compared.iter().filter_map(|one| one.paper).collect();
    let verdict = judge(&compared, |ours| {
        let off = |(ours, paper): (&f64, &f64)| (ours / paper - 1.0).abs();
        let worst = ours.iter().zip(&papers).map(off).fold(0.0, f64::max);
        match worst {
            near if near <= tolerance => Verdict::Yes,
            far if far <= (tolerance * TOLERANCE_NEAR).max(NEAR_AT_LEAST) => Verdict::Nearly,
            _ => Verdict::No,
        }
    });
    Claim { place, says, compared, verdict, why: "" }
}

/// A figure that is at most a bound.
pub(crate) fn at_most(
    place: &'static str,
    says: &'static str,
    what: &str,
    bound: f64,
    ours: Option<f64>,
) -> Claim {
    let compared = vec![Compared { what: what.into(), paper: Some(bound), ours }];
    let verdict = judge(&compared, |ours| bounded(ours[0], bound));
    Claim { place, says, compared, verdict, why: "" }
}

/// A figure that is at least a bound.
pub(crate) fn at_least(
    place: &'static str,
    says: &'static str,
    what: &str,
    bound: f64,
    ours: Option<f64>,
) -> Claim {
    let compared = vec![Compared { what: what.into(), paper: Some(bound), ours }];
    let verdict = judge(&compared, |ours| bounded(bound, ours[0]));
    Claim { place, says, compared, verdict, why: "" }
}

fn bounded(figure: f64, bound: f64) -> Verdict {
    if figure <= bound {
        Verdict::Yes
    } else if figure <= bound * BOUND_NEAR {
        Verdict::Nearly
    } else {
        Verdict::No
    }
}

/// The verdict on figures that were all measured.
fn judge(compared: &[Compared], verdict: impl FnOnce(&[f64]) -> Verdict) -> Verdict {
    let ours: Option<Vec<f64>> =
        compared.iter().map(|one| one.ours.filter(|ours| ours.is_finite())).collect();
    match ours {
        Some(ours) if !ours.is_empty() => verdict(&ours),
        _ => Verdict::NotMeasured,
    }
}

/// A claim to build others from.
#[cfg(test)]
pub(crate) fn claim_of_tests() -> Claim {
    Claim::asserted("figure 1", "something", "a test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(speeds: &[(&str, f64)]) -> Vec<Row> {
        let row = |&(name, speed): &(&str, f64)| Row {
            medium: Some("dram".into()),
            threads: Some(1),
            ..Row::new("paper", "get", name).with_rate(speed, None)
        };
        speeds.iter().map(row).collect()
    }

    fn compared(all: &[(f64, f64)]) -> Vec<Compared> {
        let one = |&(paper, ours): &(f64, f64)| Compared {
            what: "x".into(),
            paper: Some(paper),
            ours: Some(ours),
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn factors_hold_if_they_are_roughly_the_papers() {
        let verdict = |ours| factors("", "", compared(&[(3.0, ours), (1.5, 1.6)])).verdict;
        assert_eq!(
            [5.0, 2.5, 2.3, 1.0, 0.9].map(verdict),
            [Verdict::Yes, Verdict::Yes, Verdict::Nearly, Verdict::Nearly, Verdict::No]
        );
        // A paper that is slower itself is not asked to be faster.
        assert_eq!(factors("", "", compared(&[(0.5, 0.5)])).verdict, Verdict::Yes);
        assert_eq!(factors("", "", compared(&[(0.5, 0.3)])).verdict, Verdict::No);
        // ... and what is to be faster must not be slower.
        let barely = |ours| factors("", "", compared(&[(1.1, ours)])).verdict;
        assert_eq!([1.0, 0.96, 0.9].map(barely), [Verdict::Yes, Verdict::Yes, Verdict::No]);
        assert_eq!(above("", "", compared(&[(1.0, 1.01)])).verdict, Verdict::Yes);
        assert_eq!(above("", "", compared(&[(1.0, 1.0)])).verdict, Verdict::No);
    }

    #[test]
    fn figures_hold_within_their_tolerance() {
        let verdict = |ours| figures("", "", 0.02, compared(&[(10.0, 10.0), (1.0, ours)])).verdict;
        assert_eq!(
            [1.019, 0.981, 1.05, 0.9].map(verdict),
            [Verdict::Yes, Verdict::Yes, Verdict::Nearly, Verdict::No]
        );
    }

    #[test]
    fn bounds_have_a_side() {
        let most = |ours| at_most("", "", "x", 2.0, Some(ours)).verdict;
        assert_eq!([2.0, 2.1, 2.3].map(most), [Verdict::Yes, Verdict::Nearly, Verdict::No]);
        let least = |ours| at_least("", "", "x", 2.0, Some(ours)).verdict;
        assert_eq!([2.0, 1.9, 1.7].map(least), [Verdict::Yes, Verdict::Nearly, Verdict::No]);
    }

    #[test]
    fn orders_and_likenesses_are_those_of_speeds() {
        let rows = rows(&[("a", 9e6), ("b", 4e6), ("c", 4.1e6), ("d", 1e6)]);
        let found = Found(&rows);
        let order = |names: &[&str]| found.order("", "", Of::op("get"), names).verdict;
        assert_eq!(order(&["a", "b", "c", "d"]), Verdict::Yes);
        assert_eq!(order(&["a", "d", "c"]), Verdict::Nearly);
        assert_eq!(order(&["d", "a"]), Verdict::No);
        let similar = |names: &[&str]| found.similar("", "", Of::op("get"), names, 1.5).verdict;
        assert_eq!([similar(&["b", "c"]), similar(&["a", "c"])], [Verdict::Yes, Verdict::No]);
        let faster = |of| found.faster("", "", of, "a", &[("b", 2.0), ("d", 9.0)]).measured();
        assert_eq!(
            faster(Of::op("get").on("dram").alone()),
            "over b 2.25 (2.00), over d 9.00 (9.00)"
        );
        assert_eq!(faster(Of::op("get").on("optane")), "over b - (2.00), over d - (9.00)");
    }

    #[test]
    fn counts_are_sorted_from_the_smallest() {
        let row = |name: &str, lines| Row {
            lines_read: Some(lines),
            ..Row::new("paper", "cost_hit", name)
        };
        let rows = [row("a", 1.5), row("b", 1.49), row("c", 3.0)];
        let fewest = |names: &[&str]| {
            let lines: Field = |row| row.lines_read;
            Found(&rows).fewest("", "", Of::op("cost_hit"), names, lines).verdict
        };
        assert_eq!(fewest(&["a", "b", "c"]), Verdict::Yes);
        assert_eq!(fewest(&["c", "a"]), Verdict::No);
        assert_eq!(fewest(&["a", "d"]), Verdict::NotMeasured);
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        let found = Found(&[]);
        let claims = [
            found.order("", "", Of::op("get"), &["a"]),
            found.similar("", "", Of::op("get"), &["a"], 2.0),
            found.faster("", "", Of::op("get"), "a", &[("b", 1.0)]),
            at_most("", "", "x", 1.0, None),
            at_least("", "", "x", 1.0, Some(f64::NAN)),
        ];
        for claim in claims {
            let claim = claim.because("nothing");
            assert_eq!(
                (claim.verdict, claim.judged().as_str()),
                (Verdict::NotMeasured, "not measured")
            );
        }
    }

    #[test]
    fn causes_are_told_unless_the_claim_holds() {
        let claim = |ours| at_most("", "", "x", 1.0, Some(ours)).because("a cause");
        assert_eq!(claim(1.0).judged(), "yes");
        assert_eq!(claim(9.0).judged(), "no: a cause");
        assert_eq!(Claim::asserted("", "", "a test").judged(), "yes: a test");
        assert_eq!(
            Claim::out_of_reach("", "", "a reason").judged(),
            "cannot be run here: a reason"
        );
    }
}
