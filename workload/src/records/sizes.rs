//! How long values are.

use crate::ParameterError;
use crate::random::scale;

/// The largest theta of size classes. Steeper, the last of the classes would be too rare for a
/// random word to choose.
const STEEPEST: f64 = 4.0;

/// A distribution of value sizes in bytes, from 1 on.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSizes {
    law: Law,
}

#[derive(Debug, Clone, PartialEq)]
enum Law {
    /// Each size from `min` on, `count` of them, as likely as the others.
    Uniform { min: usize, count: u64 },
    /// Uniform within a class; the classes in order.
    Classes(Vec<Class>),
}

#[derive(Debug, Clone, PartialEq)]
struct Class {
    /// The class is chosen by words up to this one that no class before it takes.
    last_word: u64,
    min: usize,
    count: u64,
}

impl ValueSizes {
    /// Always `size` bytes.
    pub fn fixed(size: usize) -> Result<ValueSizes, ParameterError> {
        ValueSizes::uniform(size, size)
    }

    /// Each size from `min` to `max` as likely as the others.
    pub fn uniform(min: usize, max: usize) -> Result<ValueSizes, ParameterError> {
        check_sizes(min, max)?;
        Ok(ValueSizes { law: Law::Uniform { min, count: count(min, max) } })
    }

    /// Many small values and a few large ones, as caches hold them.
    ///
    /// The sizes from `min` to `max` fall into classes, each reaching to just below twice its
    /// smallest. The k-th class has probability proportional to 1/k^theta, theta from 0 to 4; within it sizes are
    /// uniform. With theta 0 each doubling of the size is as likely as the others, with theta 2
    /// half of the values and more are of the first class.
    ///
    /// ```
    /// use workload::Random;
    /// use workload::records::ValueSizes;
    ///
    /// let sizes = ValueSizes::zipf_classes(16, 65_536, 1.5)?;
    /// let mut random = Random::new(42);
    /// let mut drawn: Vec<usize> = (0..1_001).map(|_| sizes.size(random.word())).collect();
    /// drawn.sort_unstable();
    /// assert!(drawn[500] < 64 && drawn[1_000] > 8_192);
    /// # Ok::<(), workload::ParameterError>(())
    /// ```
    pub fn zipf_classes(min: usize, max: usize, theta: f64) -> Result<ValueSizes, ParameterError> {
        check_sizes(min, max)?;
        if !(0.0..=STEEPEST).contains(&theta) {
            return Err(ParameterError::OutOfRange {
                what: "theta of the size classes",
                given: theta,
                expected: "from 0 to 4",
            });
        }
        let mut bounds = Vec::new();
        let mut smallest = Some(min);
        while let Some(class_min) = smallest.filter(|&class_min| class_min <= max) {
            smallest = class_min.checked_mul(2);
            bounds.push((class_min, smallest.map_or(max, |next| (next - 1).min(max))));
        }
        let weight = |index: usize| ((index + 1) as f64).powf(-theta);
        let total: f64 = (0..bounds.len()).map(weight).sum();
        let mut below = 0.0;
        let mut classes = Vec::new();
        for (index, &(class_min, class_max)) in bounds.iter().enumerate() {
            below += weight(index);
            let last_word = if index + 1 == bounds.len() {
                u64::MAX
            } else {
                (below / total * 2f64.powi(64)) as u64
            };
            classes.push(Class { last_word, min: class_min, count: count(class_min, class_max) });
        }
        Ok(ValueSizes { law: Law::Classes(classes) })
    }

    /// The size chosen by a random word.
    pub fn size(&self, word: u64) -> usize {
        match &self.law {
            Law::Uniform { min, count } => min + scale(word, *count) as usize,
            Law::Classes(classes) => {
                let mut first_word = 0;
                for class in classes {
                    if word <= class.last_word {
                        // Where the word stands in its class's stretch says where the size does.
                        let within = u128::from(word - first_word) * u128::from(class.count);
                        let stretch = u128::from(class.last_word - first_word) + 1;
                        return class.min + (within / stretch) as usize;
                    }
                    first_word = class.last_word + 1;
                }
                // The last class takes every word.
                1
            }
        }
    }

    /// The largest size there is.
    pub fn largest(&self) -> usize {
        let (min, count) = match &self.law {
            Law::Uniform { min, count } => (*min, *count),
            Law::Classes(classes) => classes.last().map_or((1, 1), |last| (last.min, last.count)),
        };
        min + (count - 1) as usize
    }
}

fn check_sizes(min: usize, max: usize) -> Result<(), ParameterError> {
    if 1 <= min && min <= max { Ok(()) } else { Err(ParameterError::Sizes { min, max, least: 1 }) }
}

fn count(min: usize, max: usize) -> u64 {
    (max - min) as u64 + 1
}
