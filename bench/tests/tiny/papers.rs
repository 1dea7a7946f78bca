//! Papers: every claim is decided by rows or says why not, and the page of claims lacks none.

use crate::repeat;
use bench::paper::{Claim, Found, PAPERS, Paper, Verdict};
use std::collections::BTreeSet;
use std::path::Path;

/// Other authors' maps, without which a claim about them is not measured.
const PEERS: [&str; 2] = ["libcuckoo", "tbb"];

fn claims(paper: &Paper) -> Vec<Claim> {
    (paper.claims)(&Found(&[]))
}

#[test]
fn every_figure_and_table_of_a_paper_has_a_claim_or_explains() {
    for paper in PAPERS {
        let claims = claims(paper);
        let places: BTreeSet<&str> = claims.iter().map(|claim| claim.place).collect();
        let figures = (1..=paper.figures).map(|number| format!("figure {number}"));
        let tables = (1..=paper.tables).map(|number| format!("table {number}"));
        for place in figures.chain(tables) {
            let explains = paper.explaining.contains(&place.as_str());
            assert!(explains != places.contains(place.as_str()), "{}: {place}", paper.name);
        }
        for part in paper.parts {
            let is_claimed = part.places.iter().any(|place| places.contains(place));
            assert!(is_claimed, "{}: nothing is claimed of {:?}", paper.name, part.places);
        }
    }
}

#[test]
fn claims_differ_and_say_why_they_cannot_be_decided() {
    for paper in PAPERS {
        let claims = claims(paper);
        let names: BTreeSet<_> = claims.iter().map(|claim| (claim.place, claim.says)).collect();
        assert_eq!(names.len(), claims.len(), "{}: two claims are called the same", paper.name);
        for claim in claims {
            let is_decided = !claim.compared.is_empty();
            assert!(is_decided || !claim.why.is_empty(), "{}: {claim:?}", paper.name);
            assert_eq!(claim.verdict == Verdict::NotMeasured, is_decided, "{claim:?}");
        }
    }
}

/// Whether a claim needs maps that this build has not.
fn is_about_peers(claim: &Claim) -> bool {
    let is_one = |what: &str| PEERS.iter().any(|peer| what.contains(peer));
    claim.compared.iter().any(|one| is_one(&one.what)) || is_one(claim.says)
}

#[test]
fn a_run_decides_every_claim() {
    for paper in PAPERS {
        let report = repeat(&format!("{} --scale 0.0004", paper.name));
        for row in &report.rows {
            assert_eq!(row.suite, paper.name);
        }
        let judged = &report.papers[0].claims;
        assert_eq!(judged.len(), claims(paper).len());
        for claim in judged.iter().filter(|claim| !is_about_peers(claim)) {
            assert_ne!(claim.verdict, Verdict::NotMeasured, "{}: {claim:?}", paper.name);
        }
    }
}

/// The page is written by a run with everything.
#[test]
fn no_claim_lacks_a_row_on_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/papers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let verdicts = [Verdict::Yes, Verdict::Nearly, Verdict::No, Verdict::OutOfReach];
    for paper in PAPERS {
        let heading = format!("\n## {}\n", paper.name);
        let (_, after) = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading:?}"));
        let section = after.split_once("\n## ").map_or(after, |(section, _)| section);
        for claim in claims(paper) {
            let start = format!("| {}: {} | ", claim.place, claim.says);
            let row = section.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("{}: no row {start:?}", paper.name));
            let judged = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
            let has_verdict =
                verdicts.iter().any(|verdict| judged.starts_with(&verdict.to_string()));
            assert!(has_verdict, "{}: no verdict in {row:?}", paper.name);
        }
    }
}

#[test]
fn what_is_not_in_a_paper_is_refused() {
    let refusal = |arguments: &str| {
        let words = format!("repro {arguments}");
        let options = <crate::Papers as clap::Parser>::parse_from(words.split(' ')).options;
        bench::repro::run(&options, &[], &mut Vec::new(), &|_| ()).unwrap_err().to_string()
    };
    let message = refusal("level --figure 99");
    assert!(message.contains("\"99\"") && message.contains("figure 11"), "{message}");
    let message = refusal("--json /nowhere/at/all");
    assert!(message.contains("/nowhere/at/all"), "{message}");
    for wrong in ["--scale 0", "--scale 2", "--scale nan", "nobody", "--runs 0", "--threads 0"] {
        let words = format!("repro {wrong}");
        assert!(
            <crate::Papers as clap::Parser>::try_parse_from(words.split(' ')).is_err(),
            "{wrong}"
        );
    }
}
