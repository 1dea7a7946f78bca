//! placeholder
pub struct Items;
