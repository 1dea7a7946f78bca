//! Keys of clients, and the few keys that the module keeps for itself in the same pool.
//!
//! A client's key is stored as it is, unless it begins as the module's own do. Then the prefix is doubled, so no
//! client can name one of them. Both ways cost nothing for all other keys.

use std::borrow::Cow;

const OWN: &[u8] = b"\0firn";
const ESCAPED: &[u8] = b"\0firn/";
/// Where the pool stands in the stream of effects.
pub(crate) const POSITION: &[u8] = b"\0firn:position";
/// Which slots are closed, since they are being handed over.
pub(crate) const CLOSED_SLOTS: &[u8] = b"\0firn:closed";

/// The key under which a client's key is stored.
pub(crate) fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    if key.starts_with(OWN) { [ESCAPED, key].concat().into() } else { key.into() }
}

/// The client's key that is stored so; `None` for the module's own.
pub(crate) fn shown(stored: &[u8]) -> Option<&[u8]> {
    match stored.strip_prefix(ESCAPED) {
        Some(key) => Some(key),
        None if stored.starts_with(OWN) => None,
        None => Some(stored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_can_name_a_key_of_the_module() {
        for own in [POSITION, CLOSED_SLOTS] {
            assert_eq!(shown(own), None);
            assert_ne!(stored(own), own);
            assert_eq!(shown(&stored(own)), Some(own));
        }
    }

    #[test]
    fn keys_are_shown_as_given_and_never_meet() {
        let keys: [&[u8]; 6] = [b"", b"a", b"\0firn", b"\0firn/", b"\0firn/\0firn/", b"\0fir"];
        for key in keys {
            assert_eq!(shown(&stored(key)), Some(key));
        }
        let stored: std::collections::HashSet<_> = keys.iter().map(|key| stored(key)).collect();
        assert_eq!(stored.len(), keys.len());
    }
}
