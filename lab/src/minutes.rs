//! The argument that says how long a command goes on.

/// A number of minutes, none or for ever included.
pub(crate) fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    number.ok_or_else(|| "expected a number of minutes, 0 or more".into())
}
