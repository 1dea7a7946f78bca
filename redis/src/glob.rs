//! Patterns as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, `\` for the next byte as it is.

/// Whether `text` matches the pattern, byte by byte.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where to go on if what follows the last star does not match: behind it, one byte of the text later.
    let mut star = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, seen));
            continue;
        }
        if let Some(&byte) = text.get(seen) {
            if let Some(next) = step(&pattern[at..], byte) {
                at += next;
                seen += 1;
                continue;
            }
        } else if at >= pattern.len() {
            return true;
        }
        match star {
            Some((behind, from)) if from < text.len() => {
                star = Some((behind, from + 1));
                (at, seen) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

/// How many bytes of the pattern match this one byte, if they do.
fn step(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', class @ ..] => {
            let (is_in, len) = class_has(class, byte);
            is_in.then_some(1 + len)
        }
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Whether a class has the byte, and how long the class is. Without a bracket at its end it goes to the end.
fn class_has(class: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = class.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    while let Some(&first) = class.get(at) {
        match (first, class.get(at + 1), class.get(at + 2)) {
            (b']', ..) => return (is_in != is_negated, at + 1),
            (b'\\', Some(&literal), _) => {
                is_in |= literal == byte;
                at += 2;
            }
            (_, Some(b'-'), Some(&last)) => {
                is_in |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            _ => {
                is_in |= first == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated, class.len())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbbc", true),
            ("a*c", "abbb", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("[abc", "c", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_their_product() {
        let pattern = "a*".repeat(50) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
    }
}
