//! The sum that normalizes a zipfian distribution.

/// Terms that are added one by one. The first term left out of the rest's expansion is then
/// below 10^-11 of the sum for every skew.
const SUMMED: u64 = 256;

/// The generalized harmonic number Σ 1/k^theta for k from 1 to `count`, theta from 0 to below 1.
///
/// The first 256 terms are added; the rest, of terms *f(k)* from *m* to *n*, is Euler's and
/// Maclaurin's ∫*f* + (*f(m)* + *f(n)*)/2 + (*f′(n)* − *f′(m)*)/12: a microsecond or two at any
/// `count`, where adding 2^27 terms takes seconds.
///
/// ```
/// use workload::ranks::zeta;
///
/// let summed: f64 = (1..=100_000).map(|k| f64::from(k).powf(-0.99)).sum();
/// assert!((zeta(100_000, 0.99) / summed - 1.0).abs() < 1e-11);
/// ```
pub fn zeta(count: u64, theta: f64) -> f64 {
    let term = |k: u64| (k as f64).powf(-theta);
    if count <= SUMMED {
        return (1..=count).map(term).sum();
    }
    let slope = |k: u64| -theta * term(k) / k as f64;
    let head: f64 = (1..SUMMED).map(term).sum();
    let ends = (term(SUMMED) + term(count)) / 2.0 + (slope(count) - slope(SUMMED)) / 12.0;
    head + integral(SUMMED as f64, count as f64, theta) + ends
}

/// ∫ 1/x^theta from `low` to `high`. Written with `exp_m1`, since the difference of the two
/// powers loses its digits as theta nears 1.
fn integral(low: f64, high: f64, theta: f64) -> f64 {
    let exponent = 1.0 - theta;
    low.powf(exponent) * (exponent * (high / low).ln()).exp_m1() / exponent
}
