//! How large a stash hopscotch hashing needs (section 3.1.2).

use super::tested::Tested;
use super::workloads::Filled;
use crate::pool::memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use baselines::Kind;

/// The stash has room for one in this many slots: more than it needs.
const ROOM_PART: u64 = 10;

pub(super) fn rows(load: u64, setting: &Setting) -> Result<Vec<Row>> {
    let kind = Kind::Hopscotch;
    let table = Tested::classic(kind, setting.pairs / ROOM_PART, setting, memory()?)?;
    let (mut filled, _, _) = Filled::new(table, load, setting)?;
    let row = |filled: &Filled, workload: &str| {
        let row = filled.row(&format!("stash_{workload}_{load}"), kind.name(), setting);
        Row { stashed: row.stashed.or(Some(0.0)), ..row }
    };
    let mut rows = vec![row(&filled, "wo")];
    filled.replace(setting.ops.min(setting.pairs))?;
    rows.push(row(&filled, "wh"));
    Ok(rows)
}
