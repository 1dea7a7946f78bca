//! What memory the maps lie on, and that it goes with them. Alone in its process: other tests
//! would take and return memory meanwhile.

use peers::{ForEach, Peer, for_each};
use std::fs;

/// Anonymous memory of this process, in bytes.
#[derive(Clone, Copy)]
struct Resident {
    all: u64,
    on_large_pages: u64,
}

impl Resident {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
        };
        Resident { all: field("Anonymous:"), on_large_pages: field("AnonHugePages:") }
    }
}

const PAIRS: u64 = 4_000_000;
/// What a map may leave behind: less than what the pairs themselves take.
const LEFT_MAX: u64 = PAIRS * 16 / 2;

struct Memory {
    has_large_pages: bool,
}

impl ForEach for Memory {
    fn with<P: Peer>(&mut self) {
        let capacities = if P::GROWS { &[PAIRS, 0][..] } else { &[PAIRS] };
        for &capacity in capacities {
            let before = Resident::now();
            let map = P::open(capacity).unwrap();
            // Removed and stored again: what that takes and frees must go as well.
            (0..PAIRS).for_each(|key| assert!(map.insert(key, key)));
            (0..PAIRS).for_each(|key| assert!(map.remove(key)));
            (0..PAIRS).for_each(|key| assert!(map.insert(key, key)));
            let full = Resident::now();
            drop(map);
            let after = Resident::now();

            let taken = full.all.saturating_sub(before.all);
            let large = full.on_large_pages.saturating_sub(before.on_large_pages);
            let left = after.all.saturating_sub(before.all);
            let what = format!("{} made for {capacity}", P::NAME);
            println!("{what}: {taken} bytes taken, {large} on large pages, {left} left");
            assert!(taken >= PAIRS * 16, "{what} took {taken} bytes");
            assert!(left <= LEFT_MAX, "{what} left {left} bytes of {taken}");
            // The arrays that a map outgrows are given back, and leave holes in large pages.
            if self.has_large_pages && capacity == PAIRS {
                assert!(large >= taken / 10 * 8, "{what}: {large} bytes of {taken} on large pages");
            }
        }
    }
}

#[test]
fn peers_lie_on_large_pages_and_leave_nothing_behind() {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let has_large_pages = setting.is_ok_and(|setting| !setting.contains("[never]"));
    for_each(&mut Memory { has_large_pages });
}
