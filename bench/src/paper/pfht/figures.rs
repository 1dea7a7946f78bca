//! The figures that the paper printed.

/// The paper's table.
pub(super) const OWN: &str = "pfht-paper";

/// Load factors, in percent.
pub(super) const LOADS: [u64; 2] = [90, 95];

/// A table of the paper: the names of its columns, and rows of contenders.
pub(super) struct Figures {
    columns: &'static [&'static str],
    rows: &'static [(&'static str, &'static [f64])],
}

/// Table 2: "PCM write count per insert operation".
pub(super) const WRITES: Figures = Figures {
    columns: &["wo_90", "wo_95", "wh_90", "wh_95"],
    rows: &[
        ("probing", &[4.0, 4.0, 4.0, 4.0]),
        ("hopscotch", &[6.6, 7.4, 7.2, 11.4]),
        ("cuckoo-2-4", &[4.7, 5.8, 9.3, 26.7]),
        ("cuckoo-2-8", &[4.3, 4.6, 5.7, 8.8]),
        ("cuckoo-3-4", &[4.2, 4.5, 5.7, 8.6]),
        (OWN, &[4.0, 4.1, 4.7, 5.9]),
    ],
};

/// Table 3: "Memory used per KV", in bytes.
pub(super) const MEMORY: Figures = Figures {
    columns: &["90", "95"],
    rows: &[
        ("probing", &[16.0, 16.0]),
        ("hopscotch", &[24.01, 26.15]),
        ("cuckoo-2-4", &[16.0, 16.0]),
        ("cuckoo-2-8", &[16.0, 16.0]),
        ("cuckoo-3-4", &[16.0, 16.0]),
        (OWN, &[16.0, 18.09]),
    ],
};

impl Figures {
    /// The figures of each contender.
    pub(super) fn each(
        &self,
    ) -> impl Iterator<Item = (&'static str, impl Iterator<Item = (&'static str, f64)>)> {
        let columns = self.columns;
        self.rows
            .iter()
            .map(move |&(name, row)| (name, columns.iter().copied().zip(row.iter().copied())))
    }
}

/// A figure of a contender, if the paper has it.
pub(super) fn figure(figures: &Figures, contender: &str, column: &str) -> Option<f64> {
    let (_, mut row) = figures.each().find(|(name, _)| *name == contender)?;
    row.find(|(name, _)| *name == column).map(|(_, figure)| figure)
}
