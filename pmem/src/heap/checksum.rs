//! CRC-32C of items. Most items are so short that a general function spends more time on choosing a method than on
//! computing. If the processor has the instruction, they take one for each eight bytes.

/// From this length on it pays to compute three parts at once, as the crate does.
#[cfg(target_arch = "x86_64")]
const LONG_BYTES: usize = 512;

/// The checksum of `first` followed by `second`.
#[inline]
pub(crate) fn checksum(first: &[u8], second: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if first.len() < LONG_BYTES
        && second.len() < LONG_BYTES
        && std::arch::is_x86_feature_detected!("sse4.2")
    {
        // SAFETY: the processor has the instructions, as was just asked.
        return unsafe { checksum_of_few(first, second) };
    }
    crc32c::crc32c_append(crc32c::crc32c(first), second)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn checksum_of_few(first: &[u8], second: &[u8]) -> u32 {
    !append(append(!0, first), second)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn append(mut crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        crc = _mm_crc32_u64(crc.into(), u64::from_le_bytes(word)) as u32;
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for &half in halves {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(half));
    }
    for &byte in rest {
        crc = _mm_crc32_u8(crc, byte);
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_crc_32c_of_both_parts_however_they_are_cut() {
        assert_eq!(checksum(b"1234", b"56789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..1500u32).map(|n| ((n * 167) >> 3) as u8).collect();
        for len in (0..80usize).chain([511, 512, 513, 1024, 1500]) {
            for cut in [0, 1, 7, 8, len / 2, len.saturating_sub(3), len] {
                let (first, second) = bytes[..len].split_at(cut.min(len));
                assert_eq!(
                    checksum(first, second),
                    crc32c::crc32c(&bytes[..len]),
                    "{cut} of {len}"
                );
            }
        }
    }
}
