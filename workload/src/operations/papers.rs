//! YCSB's workloads, and what the papers make of them.

use super::{Kind, Mix};
use crate::ParameterError;
use crate::ranks::{Distribution, YCSB_THETA};

const ZIPFIAN: Distribution = Distribution::Zipfian { theta: YCSB_THETA };
const LATEST: Distribution = Distribution::Latest { theta: YCSB_THETA };

/// The workloads of the Yahoo cloud serving benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ycsb {
    /// Insert every record.
    Load,
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of what was inserted lately, 5 % insertions.
    D,
    /// 95 % scans of 1 to 100 records, 5 % insertions.
    E,
    /// Half reads, half reads that are followed by a write.
    F,
}

impl Ycsb {
    /// All of them, in order.
    pub const ALL: [Ycsb; 7] = [Ycsb::Load, Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::D, Ycsb::E, Ycsb::F];
}

impl Mix {
    /// A YCSB workload as its authors define it (Cooper et al., SoCC 2010) and as Rewo-Hash uses
    /// A, B and C (its evaluation section: "50% reads and 50% updates", "95% reads and 5%
    /// updates", "100% reads", zipfian with skew 0.99).
    ///
    /// D reads the latest among the loaded records and those the same part has inserted, whose
    /// presence the thread can rely on. E scans loaded records, cut off at the last of them, as
    /// batches of look-ups ([`Operation::keys`](super::Operation::keys)).
    pub fn ycsb(workload: Ycsb) -> Mix {
        use Kind::{Insert, Read, ReadModifyWrite, Scan, Update};
        match workload {
            Ycsb::Load => Mix::load(),
            Ycsb::A => Mix::drawn(ZIPFIAN, &[(Read, 50), (Update, 50)]),
            Ycsb::B => Mix::drawn(ZIPFIAN, &[(Read, 95), (Update, 5)]),
            Ycsb::C => Mix::drawn(ZIPFIAN, &[(Read, 100)]),
            Ycsb::D => Mix::drawn(LATEST, &[(Read, 95), (Insert, 5)]),
            Ycsb::E => Mix::drawn(ZIPFIAN, &[(Scan, 95), (Insert, 5)]),
            Ycsb::F => Mix::drawn(ZIPFIAN, &[(Read, 50), (ReadModifyWrite, 50)]),
        }
    }

    /// A YCSB workload as the IcebergHT paper reads it (section 7.2, "Application workloads"):
    /// keys uniform, and A's and B's writes are insertions of new keys, so many that the table
    /// doubles: run as many operations as twice the records for A (128 M after 64 M loaded), 20
    /// times the records for B (1.28 G), as many as there are records for C.
    ///
    /// None for D, E and F, which the paper leaves out, "as operations required by other
    /// workloads are not supported by these hash tables".
    pub fn iceberg_ycsb(workload: Ycsb) -> Option<Mix> {
        use Kind::{Insert, Read};
        match workload {
            Ycsb::Load => Some(Mix::load()),
            Ycsb::A => Some(Mix::drawn(Distribution::Uniform, &[(Read, 50), (Insert, 50)])),
            Ycsb::B => Some(Mix::drawn(Distribution::Uniform, &[(Read, 95), (Insert, 5)])),
            Ycsb::C => Some(Mix::drawn(Distribution::Uniform, &[(Read, 100)])),
            Ycsb::D | Ycsb::E | Ycsb::F => None,
        }
    }

    /// Searches and insertions in the given shares, zipfian with skew 0.99: the five mixed
    /// workloads of the level hashing paper (section 5.2.7: "search/insertion requests following
    /// the default Zipfian distribution of YCSB", of which it names 10 % to 90 %). The slides of
    /// clevel hashing have read ratios of 0, 50, 95 and 100 % and call the rest writes; read
    /// those as insertions, with this mix, or as updates, with [`Mix::ycsb`].
    pub fn searches_and_inserts(insert_share: f64) -> Result<Mix, ParameterError> {
        if !(0.0..=1.0).contains(&insert_share) {
            return Err(ParameterError::OutOfRange {
                what: "the share of insertions",
                given: insert_share,
                expected: "from 0 to 1",
            });
        }
        Mix::new(ZIPFIAN, &[(Kind::Read, 1.0 - insert_share), (Kind::Insert, insert_share)])
    }
}
