//! What tells a pool's files from those of others: their names, and what they begin with. Neither does alone.
//!
//! ```text
//! identity  word 0  magic      2  pool UUID (2 words)                   6  CRC-32C of words 0 to 5
//!                1  version    4  UUID of a pool about to replace it,
//!                                 or 0 (2 words)
//! ```

/// Whose directory it is.
pub(super) const IDENTITY: &str = "identity";
/// The names of all other files, but for segments.
const NAMES: [&str; 5] = ["checkpoint.0", "checkpoint.1", "log.reserve", "sums", "sums.new"];
const MAGIC: &[u8; 8] = b"FIRNOWNR";
const VERSION: u64 = 1;
pub(super) const IDENTITY_BYTES: usize = 7 * 8;
/// What the files begin with.
const MAGICS: [&[u8; 8]; 5] = [MAGIC, b"FIRNSEG\0", b"FIRNSAFE", b"FIRNROOM", b"FIRNSUMS"];
/// Where each names the pool.
const UUID_AT: usize = 16;
/// What has to be read of a file: all of one that holds nothing yet.
pub(crate) const BEGINNING_BYTES: usize = 4096;

/// Whether a file that firndex makes may be called so.
pub(super) fn is_name(name: &str) -> bool {
    let is_segment = || {
        let number = name.strip_prefix("log.").and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| name == format!("log.{number}"))
    };
    name == IDENTITY || NAMES.contains(&name) || is_segment()
}

/// Whether a file of this length that begins with `beginning` is one that firndex made for the pool `uuid`. One that
/// holds nothing, or not more than a page of zeros, was about to be: nobody loses anything with it.
pub(crate) fn is_ours(beginning: &[u8], bytes: u64, uuid: u128) -> bool {
    let is_blank = bytes <= BEGINNING_BYTES as u64
        && bytes == beginning.len() as u64
        && beginning.iter().all(|&byte| byte == 0);
    let names_pool = || {
        MAGICS.iter().any(|magic| beginning.starts_with(&magic[..]))
            && beginning.get(UUID_AT..UUID_AT + 16) == Some(&uuid.to_le_bytes()[..])
    };
    is_blank || names_pool()
}

pub(super) fn encode(uuid: u128, next: u128) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(uuid.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes.extend(u64::from(crc32c::crc32c(&bytes)).to_le_bytes());
    bytes
}

/// The pool that an identity names, and the one that is about to replace it.
pub(super) fn decode(bytes: &[u8]) -> Result<(u128, u128), &'static str> {
    let number = |at: usize| bytes.get(at..at + 16)?.try_into().ok().map(u128::from_le_bytes);
    let (Some(uuid), Some(next), IDENTITY_BYTES) =
        (number(UUID_AT), number(UUID_AT + 16), bytes.len())
    else {
        return Err("is cut short");
    };
    if !bytes.starts_with(MAGIC) {
        return Err("is not one of firndex's");
    }
    if bytes[8..16] != VERSION.to_le_bytes() {
        return Err("was written by another version of firndex");
    }
    if bytes != encode(uuid, next) {
        return Err("is damaged");
    }
    Ok((uuid, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_file_with_anything_in_it_is_not_blank() {
        let mut bytes = vec![0; BEGINNING_BYTES];
        assert!(is_ours(&bytes, 4096, 7) && is_ours(&[], 0, 7));
        assert!(!is_ours(&bytes, 4097, 7));
        for at in [0, 31, 32, 4095] {
            bytes[at] = 1;
            assert!(!is_ours(&bytes, 4096, 7), "{at}");
            bytes[at] = 0;
        }
        // What could not be read is not known to be zero.
        assert!(!is_ours(&bytes[..32], 4096, 7));
    }

    #[test]
    fn names_are_exact() {
        for name in ["identity", "log.0", "log.17", "log.reserve", "sums", "checkpoint.1"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["log.", "log.07", "log.+7", "log.7.bak", "checkpoint.2", "notes", "sums.old"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
