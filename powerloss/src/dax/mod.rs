//! Pools on a DAX file system, in a virtual machine with an emulated NVDIMM that is killed in the middle of writing.
//!
//! The machine starts again and again with the same NVDIMM. Each time the guest recovers its pools, judges them, tells
//! the host how many operations it found of each thread, and goes on writing. While it writes it tells how many were
//! acknowledged. So the host knows what no start may miss, and does not rely on what the NVDIMM says of itself.

pub mod guest;
pub mod host;

use crate::pool::{Pool, THREADS};
use anyhow::Result;
use firndex::{Durability, Engine, Kind, Medium};
use std::fmt::{self, Display, Formatter};

/// Few enough keys that a thread often goes round them: the table grows and shrinks again and again.
const TABLE: Pool = Pool {
    kind: Kind::Table,
    medium: Medium::Dax,
    // Each operation is durable when it returns.
    durability: Durability::Commit,
    keys: 1000,
    batch: 1,
};
/// With fewer keys, because the first store to each page of a file waits for the file system's journal.
const STORE: Pool = Pool { kind: Kind::Store, keys: 200, batch: 4, ..TABLE };

/// One of the pools on the NVDIMM.
struct Member {
    /// Of all pools, which one.
    number: usize,
    name: String,
    engine: Engine,
    pool: Pool,
}

/// A table and a store of each engine.
fn members() -> Vec<Member> {
    let each = Engine::ALL.iter().flat_map(|&engine| [(engine, TABLE), (engine, STORE)]);
    let member = |(number, (engine, pool)): (usize, (Engine, Pool))| Member {
        number,
        name: format!("{engine}-{}", pool.kind),
        engine,
        pool,
    };
    each.enumerate().map(member).collect()
}

/// What the guest tells of a pool, in a line on the console.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    what: What,
    pool: String,
    /// Operations of each thread.
    counts: [u64; THREADS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// So many are there after recovery.
    Found,
    /// So many must not be lost any more.
    Acknowledged,
}

const SAID: [(What, &str); 2] =
    [(What::Found, "guest: found"), (What::Acknowledged, "guest: acknowledged")];

/// Without it, a number might have lost digits.
const END: &str = " operations";

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (_, said) = SAID.iter().find(|(what, _)| *what == self.what).expect("each is listed");
        write!(f, "{said} {}", self.pool)?;
        self.counts.iter().try_for_each(|count| write!(f, " {count}"))?;
        write!(f, "{END}")
    }
}

impl Report {
    /// The report in a line, if there is one and no kill has cut it off.
    fn of_line(line: &str) -> Option<Report> {
        let (what, rest) =
            SAID.iter().find_map(|&(what, said)| Some((what, line.strip_prefix(said)?)))?;
        let (pool, counts) = rest.trim().strip_suffix(END)?.split_once(' ')?;
        let counts: Vec<u64> = counts.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Report { what, pool: pool.into(), counts: counts.try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for (what, _) in SAID {
            let report = Report { what, pool: "level-table".into(), counts: [12, 0] };
            assert_eq!(Report::of_line(&format!("{report}\r")), Some(report.clone()));
        }
    }

    #[test]
    fn a_cut_report_says_nothing() {
        let line =
            Report { what: What::Found, pool: "level-table".into(), counts: [12, 345] }.to_string();
        for end in 1..line.len() {
            assert_eq!(Report::of_line(&line[..end]), None);
            assert_eq!(Report::of_line(&format!("{}{line}", &line[..end])), None);
        }
    }
}
