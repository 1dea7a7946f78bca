//! The claims as markup of a page: every figure of a paper as a bar beside ours.

use super::{Judged, Report, paper_of};
use crate::html::escape;
use crate::paper::{Claim, Compared, Verdict};
use std::fmt::Write;

/// A section for each paper, with a chart for each claim. All that is not markup is escaped.
pub(super) fn claims(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = report.papers.iter().try_for_each(|judged| section(&mut text, judged));
    text
}

fn section(text: &mut String, judged: &Judged) -> std::fmt::Result {
    let Some(paper) = paper_of(judged.paper) else { return Ok(()) };
    let (by, title, how) = (escape(paper.by), escape(paper.title), escape(paper.how));
    writeln!(text, "<h2>{}: claims</h2><p>{by}: <i>{title}</i></p><p>{how}</p>", judged.paper)?;
    writeln!(text, "<p>Grey: the paper's figure. Blue: ours.</p>")?;
    judged.claims.iter().try_for_each(|claim| chart(text, claim))
}

fn chart(text: &mut String, claim: &Claim) -> std::fmt::Result {
    let class = match claim.verdict {
        Verdict::Yes => "yes",
        Verdict::Nearly => "nearly",
        Verdict::No => "no",
        Verdict::OutOfReach | Verdict::NotMeasured => "none",
    };
    let (place, says) = (claim.place, escape(claim.says));
    writeln!(text, "<section class=\"claim {class}\"><h3>{place}: {says}</h3>")?;
    let figures = claim.compared.iter().flat_map(|one| [one.paper, one.ours]).flatten();
    let largest = figures.filter(|figure| figure.is_finite()).fold(0.0, f64::max);
    for Compared { what, paper, ours } in &claim.compared {
        writeln!(text, "<div class=\"what\">{}</div>", escape(what))?;
        for (class, figure) in [("paper", paper), ("ours", ours)] {
            let Some(figure) = figure.filter(|figure| figure.is_finite()) else { continue };
            let part = if largest > 0.0 { (figure / largest).clamp(0.0, 1.0) } else { 0.0 };
            let percent = part * 100.0;
            writeln!(
                text,
                "<div class=\"bar {class}\"><i style=\"width:{percent:.1}%\"></i>{figure:.3}</div>"
            )?;
        }
    }
    writeln!(text, "<p>{}</p></section>", escape(&claim.judged()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{PAPERS, claim_of_tests};

    #[test]
    fn text_stays_text_and_odd_figures_have_no_bar() {
        let hostile = "</section><script>alert(\"1\")</script>{text}{data}&";
        let compared = |ours| Compared { what: hostile.into(), paper: Some(2.0), ours };
        let claim = |ours| Claim { compared: vec![compared(ours)], ..claim_of_tests() };
        let odd = [Some(4.0), Some(f64::NAN), Some(f64::INFINITY), None].map(claim);
        let papers = vec![Judged { paper: PAPERS[0].name, claims: odd.to_vec() }];
        let text = claims(&Report { rows: Vec::new(), papers });
        for wrong in ["<script", "NaN", "inf<", "{text}", "{data}", "http:", "https:", "src="] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
        assert_eq!(text.matches("class=\"bar ours\"").count(), 1);
        assert_eq!(text.matches("class=\"bar paper\"").count(), 4);
        assert!(text.contains("width:50.0%") && text.contains("width:100.0%"), "{text}");
    }
}
