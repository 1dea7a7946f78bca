//! How much tests try. Those that explore many kills, histories or places of damage take a part of them in a usual run,
//! always the same part, and all with `FIRNDEX_WHOLE=1`, as `.ci/whole` does.

/// Whether all is to be tried.
pub fn is_whole() -> bool {
    std::env::var_os("FIRNDEX_WHOLE").is_some()
}

/// `all`, or in a usual run the smaller number `some`.
pub fn of(all: u64, some: u64) -> u64 {
    if is_whole() { all } else { some }
}

/// Every one of `all`, or in a usual run every `step`th, the first included.
pub fn each<T>(all: impl IntoIterator<Item = T>, step: u64) -> impl Iterator<Item = T> {
    all.into_iter().step_by(of(1, step) as usize)
}
