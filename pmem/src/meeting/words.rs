//! Bytes in words, as they pass between processes of one machine.

/// Adds bytes to `words`: how many they are, then the bytes, and zeros to the end of a word.
pub fn push_bytes(words: &mut Vec<u64>, bytes: &[u8]) {
    words.push(bytes.len() as u64);
    let (whole, rest) = bytes.as_chunks::<8>();
    words.extend(whole.iter().map(|chunk| u64::from_ne_bytes(*chunk)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words.push(u64::from_ne_bytes(last));
    }
}

/// The bytes that words consist of.
pub fn as_bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any bytes are bytes; the slice is as long as the words are, and borrows them.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        for count in 0..40u8 {
            let bytes: Vec<u8> = (1..=count).collect();
            let mut words = Vec::new();
            push_bytes(&mut words, &bytes);
            assert_eq!(words[0], count.into());
            assert_eq!(words.len(), 1 + usize::from(count).div_ceil(8));
            let packed = as_bytes(&words[1..]);
            assert_eq!(packed[..count.into()], bytes);
            assert!(packed[count.into()..].iter().all(|&byte| byte == 0));
        }
    }
}
