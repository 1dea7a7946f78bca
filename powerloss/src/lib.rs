//! A virtual machine is stopped hard in mid-write. Its disk was recorded: from the record come the disks that a power
//! loss at any moment may have left, and each is opened and judged.

mod appender;
pub mod cases;
pub mod dax;
pub mod disk;
pub mod filesystem;
pub mod judges;
pub mod loss;
pub mod machine;
mod mappings;
pub mod notes;
mod pool;
pub mod record;
pub mod trial;
pub mod victim;
