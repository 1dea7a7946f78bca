//! What can be chosen on the command line.

use crate::choices::{CachePart, Choices, Kind, Logging, Openings, Part, State};
use crate::medium::Medium;
use crate::suite::open;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Page size to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageSize {
    /// Pages of 2 MiB wherever the kernel offers them
    #[value(name = "2m")]
    Large,
    /// Pages of 4 KiB everywhere
    #[value(name = "4k")]
    Small,
}

/// Which operations have real flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Flushes {
    /// As usual on the medium: none on dram and mapped
    None,
    /// Real cache flushes and fences, as on dax
    Real,
    /// Measure without flushes, then with real ones
    Both,
}

/// The benchmark's options; a program's command line holds them with [`clap::Args`].
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Contenders by name [default: all engines, and with --peers all peers]. Only if named: classic tables, such as
    /// probing and cuckoo-2-8, with one thread; clht, cceh, dash-eh and cmap
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Also measure other authors' maps; needs a checkout, builds them with peers/run
    #[arg(long)]
    pub peers: bool,
    /// Media: dram, mapped, optane, or delay-READ-WRITE for latencies in nanoseconds
    #[arg(long, value_delimiter = ',', default_value = "dram")]
    pub media: Vec<Medium>,
    /// Bytes of a value in suite values, each size measured
    #[arg(long, value_delimiter = ',', default_value = "8,100,1000,10000", value_parser = value_bytes)]
    pub value_bytes: Vec<usize>,
    /// Directory for pools of medium mapped [default: the directory for temporary files]
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Numbers of threads, each measured
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = threads)]
    pub threads: Vec<usize>,
    /// Pairs to store, in tables sized for them in advance; k, M and G are understood [default: 14M, or as in the
    /// suite's paper; in suites values, cache and open 500k]. Suite values stores fewer where they take more than 640
    /// MiB. Suite open takes several numbers, as in 1M,64M
    #[arg(long, value_delimiter = ',', value_parser = count)]
    pub pairs: Vec<u64>,
    /// Pairs from which suite resize measures growth [default: 1M, at most pairs / 16]
    #[arg(long, value_parser = count)]
    pub grow_from: Option<u64>,
    /// Fill tables to this load factor instead, if a table can tell how full it is. They then may not grow; except in
    /// suite load-factor, it is an error if one is full earlier
    #[arg(long, value_parser = load_factor)]
    pub load_factor: Option<f64>,
    /// Operations of each kind after the insertions [default: 16M, at most all pairs]
    #[arg(long, value_parser = count)]
    pub ops: Option<u64>,
    /// Keys per call of the operations that take many
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub batch: u16,
    /// Operations with real cache flushes, without them, or both
    #[arg(long, value_enum, default_value_t = Flushes::Both)]
    pub flushes: Flushes,
    /// Parts of suite durable [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub parts: Vec<Part>,
    /// Parts of suite cache [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub cache_parts: Vec<CachePart>,
    /// Directory for the pools of suites durable and open, such as /dev/shm [default: beside their logs in --directory]
    #[arg(long)]
    pub pools: Option<PathBuf>,
    /// What suite open opens: tables, stores [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub kinds: Vec<Kind>,
    /// Durability of firndex's pools in suite open [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub durability: Vec<Logging>,
    /// In which state suite open finds files [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub states: Vec<State>,
    /// Openings in a row in suite open, each with 1,000 puts; 0 for none
    #[arg(long, default_value = "60", value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub restarts: u64,
    /// The command whose put and get suite open measures [default: firndex beside this program, if it is there]
    #[arg(long)]
    pub command: Option<PathBuf>,
    /// Page size to ask for
    #[arg(long, value_enum, default_value_t = PageSize::Large)]
    pub page_size: PageSize,
    /// Skew of zipfian requests
    #[arg(long, default_value = "0.99", value_parser = skew)]
    pub skew: f64,
    /// Seed of keys and orders
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Rounds; the median counts
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Write the rows to this file, as one JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write a report to this file: one page with charts
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Arguments with which this program gets to [`crate::run`] again. Suites `open`, `values` and `cache` start it
    /// once more, to be closed or killed. `None`: those it was started with.
    #[arg(skip)]
    pub again: Option<Vec<OsString>>,
}

/// File name of the command that suite `open` measures.
const COMMAND: &str = "firndex";
/// Most bytes of a value in suite `values`.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Default number of pairs.
pub(crate) const PAIRS_DEFAULT: u64 = 14_000_000;
/// Default number of pairs from which growth is measured.
const GROW_FROM_DEFAULT: u64 = 1_000_000;
/// ... and at most this part of all pairs.
const GROW_FROM_PART: u64 = 16;
/// Default number of operations of each kind.
const OPS_DEFAULT: u64 = 16 << 20;

impl Options {
    /// Operations of each kind.
    pub fn ops(&self) -> u64 {
        self.ops.unwrap_or(OPS_DEFAULT)
    }

    /// Pairs from which growth is measured.
    pub fn grow_from(&self) -> u64 {
        self.grow_from.unwrap_or_else(|| {
            let pairs = self.pairs.first().copied().unwrap_or(PAIRS_DEFAULT);
            GROW_FROM_DEFAULT.min(pairs / GROW_FROM_PART)
        })
    }

    /// The choices for suite `durable`.
    pub fn durable(&self) -> Choices {
        Choices { parts: self.parts.clone(), pools: self.pools.clone() }
    }

    /// The choices for suite `open`.
    pub fn openings(&self) -> Openings {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name(COMMAND));
        let command = self.command.clone().or_else(|| beside().filter(|path| path.is_file()));
        Openings {
            sizes: if self.pairs.is_empty() { vec![open::PAIRS] } else { self.pairs.clone() },
            kinds: self.kinds.clone(),
            logging: self.durability.clone(),
            states: self.states.clone(),
            restarts: self.restarts,
            pools: self.pools.clone(),
            command,
        }
    }

    /// Where pools are created.
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// A number with k, M or G.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 1_000),
        Some((end, 'M')) => (&text[..end], 1_000_000),
        Some((end, 'G')) => (&text[..end], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| {
        format!("{text:?} is no count: expected digits, and k, M or G after them if you like")
    })?;
    let number = number.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))?;
    match number {
        0 => Err("at least 1".into()),
        _ => Ok(number),
    }
}

fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ 1..=VALUE_BYTES_MAX) => Ok(bytes),
        _ => Err(format!("{text:?} is no size of values: expected 1 to {}", VALUE_BYTES_MAX)),
    }
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err(format!("{text:?} is no number of threads: expected 1 to 1024")),
    }
}

fn load_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if part > 0.0 && part <= 0.95 => Ok(part),
        _ => Err(format!("{text:?} is no load factor: expected more than 0, at most 0.95")),
    }
}

fn skew(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(skew) if (0.0..1.0).contains(&skew) => Ok(skew),
        _ => Err(format!("{text:?} is no skew: expected from 0 to below 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        assert_eq!(count("17"), Ok(17));
        assert_eq!(count("3k"), Ok(3_000));
        assert_eq!(count("114M"), Ok(114_000_000));
        for wrong in ["", "M", "1.5M", "-1", "0", "99999999999G", "1m"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn odd_threads_skews_and_load_factors_are_refused() {
        assert!(threads("0").is_err() && threads("x").is_err());
        assert_eq!(threads("2"), Ok(2));
        assert_eq!(value_bytes("100"), Ok(100));
        assert!(value_bytes("0").is_err() && value_bytes("1M").is_err());
        assert!(skew("1").is_err() && skew("-0.5").is_err() && skew("nan").is_err());
        assert_eq!(skew("0.99"), Ok(0.99));
        assert_eq!(load_factor("0.85"), Ok(0.85));
        for wrong in ["0", "1.5", "nan", "-0.1"] {
            assert!(load_factor(wrong).is_err(), "{wrong}");
        }
    }
}
