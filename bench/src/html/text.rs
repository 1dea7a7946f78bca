//! Text that is safe in a page, and figures that are short to read.

/// What stands for a figure that is missing.
pub(super) const NOTHING: &str = "–";

/// Text as it may stand between tags and inside quoted attributes, in XML too: characters that
/// XML knows no way to write become the replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' | '\r' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// At most so many characters, the last of them an ellipsis if some were left out.
pub(super) fn shorten(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters_max.saturating_sub(1)).collect();
    kept + "…"
}

/// Three digits that count.
pub(super) fn plain(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => NOTHING.into(),
        0.0 => "0".into(),
        size if !(0.001..1e6).contains(&size) => format!("{value:.2e}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Three digits and a prefix: `12.3 M`.
pub(super) fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    scaled(value, &PREFIXES, "")
}

/// A time in the unit that suits it: `12.3 µs`.
pub(super) fn time(value_ns: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, " s"), (1e6, " ms"), (1e3, " µs")];
    scaled(value_ns, &UNITS, " ns")
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    // A value that rounds up to the next unit is written in that.
    let unit = units.iter().find(|(size, _)| value.abs() >= size * 0.9995);
    match unit {
        _ if !value.is_finite() => NOTHING.into(),
        Some((size, name)) => format!("{}{name}", plain(value / size)),
        None => format!("{}{smallest}", plain(value)),
    }
}

/// A figure as an axis has it: without the zeros that only say how exact it is.
pub(super) fn brief(figure: &str) -> String {
    let (digits, unit) =
        figure.split_once(' ').map_or((figure, ""), |(digits, _)| figure.split_at(digits.len()));
    let is_fraction = digits.contains('.') && !digits.contains('e');
    let digits = match is_fraction {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{unit}")
}

/// A part of a whole.
pub(super) fn percent(part: f64) -> String {
    let hundredths = part * 100.0;
    match hundredths.abs() {
        size if !size.is_finite() => NOTHING.into(),
        size if size < 1e5 => format!("{hundredths:.0} %"),
        _ => format!("{hundredths:.1e} %"),
    }
}

/// `1 thread`, `2 threads`.
pub(super) fn threads(count: usize) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

/// `format` of a figure that may be missing.
pub(super) fn or_nothing(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.into(), format)
}
