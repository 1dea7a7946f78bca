//! The media that contenders lie on.

use std::fmt;

/// What a contender lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Anonymous memory.
    Dram,
    /// A file mapped shared.
    Mapped,
    /// Anonymous memory behind latencies of so many nanoseconds per line read and per line
    /// written back.
    Delay {
        /// Per line read.
        read_ns: u64,
        /// Per line written back.
        write_back_ns: u64,
    },
    /// Anonymous memory that counts what is done to it; suite `writes` alone is for it.
    Count,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Medium::Dram => f.pad("dram"),
            Medium::Mapped => f.pad("mapped"),
            Medium::Delay { read_ns, write_back_ns } => {
                f.pad(&format!("delay-{read_ns}-{write_back_ns}"))
            }
            Medium::Count => f.pad("count"),
        }
    }
}

impl std::str::FromStr for Medium {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let latencies = |text: &str| {
            let (read_ns, write_back_ns) = text.split_once('-')?;
            let (read_ns, write_back_ns) = (read_ns.parse().ok()?, write_back_ns.parse().ok()?);
            Some(Medium::Delay { read_ns, write_back_ns })
        };
        match name {
            "dram" => Some(Medium::Dram),
            "mapped" => Some(Medium::Mapped),
            _ => name.strip_prefix("delay-").and_then(latencies),
        }
        .ok_or_else(|| {
            format!(
                "no medium is called {name:?}; there are dram, mapped and delay-READ-WRITE \
                 (nanoseconds, as in delay-200-600)"
            )
        })
    }
}
