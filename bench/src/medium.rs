//! The media on which contenders lie.

use pmem::medium::Latency;
use std::fmt;

/// The medium on which a contender lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Anonymous memory.
    Dram,
    /// A file mapped shared.
    Mapped,
    /// Anonymous memory behind these latencies per line read and per line written back.
    Delay {
        /// Per line read.
        read_ns: u64,
        /// Per line written back.
        write_back_ns: u64,
    },
    /// Anonymous memory with the latencies known of Optane modules: [`pmem::medium::Latency::OPTANE`].
    Optane,
    /// Anonymous memory that counts what is done to it. Only suite `writes` is for it.
    Count,
    /// Files of any kind: for suite `durable`, on a disk that keeps them through power loss, and for suite `values`.
    Disk,
}

impl Medium {
    /// Whether it is memory of this process, on which a table needs no pool: with latencies, counted, or as it is.
    pub(crate) fn is_in_memory(self) -> bool {
        matches!(self, Medium::Dram | Medium::Count) || self.latency().is_some()
    }

    /// The latencies, if the medium adds some.
    pub(crate) fn latency(self) -> Option<Latency> {
        match self {
            Medium::Delay { read_ns, write_back_ns } => {
                Some(Latency::of_lines(read_ns, write_back_ns))
            }
            Medium::Optane => Some(Latency::OPTANE),
            Medium::Dram | Medium::Mapped | Medium::Count | Medium::Disk => None,
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Medium::Dram => f.pad("dram"),
            Medium::Mapped => f.pad("mapped"),
            Medium::Delay { read_ns, write_back_ns } => {
                f.pad(&format!("delay-{read_ns}-{write_back_ns}"))
            }
            Medium::Optane => f.pad("optane"),
            Medium::Count => f.pad("count"),
            Medium::Disk => f.pad("disk"),
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
            "optane" => Some(Medium::Optane),
            _ => name.strip_prefix("delay-").and_then(latencies),
        }
        .ok_or_else(|| {
            format!(
                "no medium is called {name:?}; there are dram, mapped, optane and \
                 delay-READ-WRITE (nanoseconds, as in delay-200-600)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_that_may_be_asked_for_are_called_what_they_print() {
        for name in ["dram", "mapped", "optane", "delay-200-600"] {
            assert_eq!(name.parse::<Medium>().unwrap().to_string(), name);
        }
        for wrong in ["count", "disk", "delay", "delay-200", "delay-a-b", "Optane"] {
            let error = wrong.parse::<Medium>().unwrap_err();
            assert!(error.contains("optane"), "{error}");
        }
    }

    #[test]
    fn only_slow_media_add_latencies() {
        let latency = |name: &str| name.parse::<Medium>().unwrap().latency();
        assert_eq!((latency("dram"), latency("mapped")), (None, None));
        assert_eq!(latency("delay-200-600"), Some(Latency::READ_200_WRITE_600_NS));
        assert!(latency("optane").unwrap().blocks.is_some());
    }
}
