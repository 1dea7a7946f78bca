//! Parameters that describe no workload.

/// A parameter is outside what a workload can be made from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The skew is not a number from 0 to below 1.
    #[error("the skew is {theta}; it must be at least 0 (uniform) and below 1, such as 0.99")]
    Skew {
        /// The skew that was given.
        theta: f64,
    },
    /// There are no records, or more than ranks can number.
    #[error("{records} records; from 1 to {limit} are possible here")]
    Records {
        /// The number that was given.
        records: u64,
        /// The largest that is possible.
        limit: u64,
    },
    /// Some part has no record.
    #[error("{records} records for {parts} parts; each part must have at least one")]
    FewerThanParts {
        /// The number of records.
        records: u64,
        /// The number of parts.
        parts: u64,
    },
    /// The part does not exist.
    #[error("part {index} of {of}; parts are numbered from 0 to one less than their number")]
    Part {
        /// The part's number.
        index: usize,
        /// The number of parts.
        of: usize,
    },
    /// A number is not within its limits.
    #[error("{what} is {given}; it must be {expected}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// The number that was given.
        given: f64,
        /// What is possible.
        expected: &'static str,
    },
    /// A mix has no operations.
    #[error("the mix has no operations; give at least one kind a share above 0")]
    EmptyMix,
    /// A mix has removals beside other operations.
    #[error(
        "removals beside other operations would leave unknown what the others find; \
         use the caching stream, which keeps account, or a mix of removals only"
    )]
    RemovalsInMix,
}
