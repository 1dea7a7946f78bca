//! One adapter per file.

mod dash;
#[cfg(any(has_libcuckoo, has_tbb, has_boost, has_iceberght))]
mod foreign;
mod papaya;
mod scc;
mod unlocked;

pub use self::dash::Dash;
#[cfg(has_boost)]
pub use self::foreign::Boost;
#[cfg(has_iceberght)]
pub use self::foreign::IcebergHt;
#[cfg(has_libcuckoo)]
pub use self::foreign::LibCuckoo;
#[cfg(has_tbb)]
pub use self::foreign::Tbb;
pub use self::papaya::Papaya;
pub use self::scc::Scc;
pub use self::unlocked::Unlocked;
