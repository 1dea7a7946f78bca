//! A table of words as guests of its pool see it, in what the owner [shows](pmem::view).

use pmem::view::Look;

/// Look-ups that write nothing. Each is a search between two looks. What it cannot tell, the owner is to be asked.
pub trait Sight: Send + Sync {
    /// Begins a look-up, or some, without a look at items. `None`: the owner is to be asked.
    fn look(&self) -> Option<Look>;

    /// The same of items, too.
    fn look_at_items(&self) -> Option<Look>;

    /// What the key's value is, if [`Sight::is_as`] holds afterwards. `None`: that cannot be told.
    fn search(&self, look: Look, key: u64) -> Option<Option<u64>>;

    /// The same of several keys, with overlapped cache misses. `out` is as long as `keys`.
    fn search_many(&self, look: Look, keys: &[u64], out: &mut [Option<Option<u64>>]);

    /// A look-up of one key that is no item's: a look, a search and another look. `None`: the owner is to be asked.
    fn get(&self, key: u64) -> Option<Option<u64>> {
        let look = self.look()?;
        self.search(look, key).filter(|_| self.is_as(look))
    }

    /// Whether what was searched is what was there.
    fn is_as(&self, look: Look) -> bool;

    /// The same also of items to which a value led, since a look at them.
    fn are_items_as(&self, look: Look) -> bool;
}
