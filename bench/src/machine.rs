//! What a reader on another machine, or later, has to know about this one.

use crate::date;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The machine's facts. A fact that could not be found out says so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Sizes of the caches of the first processor, by level.
    pub caches: Vec<String>,
    /// Total memory.
    pub memory: String,
    /// Kernel's release.
    pub kernel: String,
    /// What anonymous memory gets: the setting of transparent huge pages.
    pub huge_pages: String,
    /// The same for /dev/shm.
    pub huge_pages_shm: String,
    /// File system of the directory with the pools.
    pub file_system: String,
    /// Load averages at the start.
    pub load: String,
    /// firndex's version.
    pub version: String,
    /// When it was measured: the date of the start.
    pub date: String,
}

impl Machine {
    /// Facts of this machine; `directory` is where pools are created.
    pub fn look(directory: &Path) -> Machine {
        const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
        const PAGES: &str = "/sys/kernel/mm/transparent_hugepage";
        let or = |found: Option<String>| found.unwrap_or_else(|| "unknown".into());
        let cache = |index: usize| {
            let field = |name: &str| line_of(&format!("{CACHES}/index{index}/{name}"), "");
            Some(format!("L{} {} {}", field("level")?, field("type")?, field("size")?))
        };
        let load = or(line_of("/proc/loadavg", ""));
        Machine {
            processor: or(line_of("/proc/cpuinfo", "model name")),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            caches: (0..8).map_while(cache).collect(),
            memory: or(line_of("/proc/meminfo", "MemTotal").map(|total| in_gib(&total))),
            kernel: or(line_of("/proc/sys/kernel/osrelease", "")),
            huge_pages: or(chosen(&format!("{PAGES}/enabled"))),
            huge_pages_shm: or(chosen(&format!("{PAGES}/shmem_enabled"))),
            file_system: or(file_system(directory)),
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            version: env!("CARGO_PKG_VERSION").into(),
            date: date::of(SystemTime::now()),
        }
    }

    /// All facts, one per line.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("firndex", format!("{}, {}", self.version, self.date)),
            ("processor", format!("{}, {} processors", self.processor, self.processors)),
            ("caches", self.caches.join(", ")),
            ("memory", self.memory.clone()),
            ("kernel", self.kernel.clone()),
            ("huge pages", format!("{}, in /dev/shm {}", self.huge_pages, self.huge_pages_shm)),
            ("file system", self.file_system.clone()),
            ("load at the start", self.load.clone()),
        ]
    }
}

/// The kernel tells kibibytes.
fn in_gib(total: &str) -> String {
    let kib = total.strip_suffix(" kB").and_then(|digits| digits.trim().parse::<f64>().ok());
    kib.map_or_else(|| total.to_owned(), |kib| format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

fn line_of(path: &str, field: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_once(':').map_or(line, |(_, value)| value).trim().to_owned())
}

/// The word in brackets of a file that lists choices.
fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Type of the file system that a directory is on, according to the longest mount point above it.
fn file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    let above = mounts.lines().filter_map(mount).filter(|(at, _)| directory.starts_with(at));
    Some(above.max_by_key(|(at, _)| at.len())?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_a_unit_that_people_read() {
        assert_eq!(in_gib("16384000 kB"), "15.6 GiB");
        assert_eq!(in_gib("1073741824 kB"), "1024.0 GiB");
        assert_eq!(in_gib("some"), "some");
    }

    #[test]
    fn a_report_says_of_which_version_it_is_and_when_it_was_made() {
        let (name, fact) = Machine::look(Path::new("/")).lines().swap_remove(0);
        let version = env!("CARGO_PKG_VERSION");
        assert!(name == "firndex" && fact.starts_with(&format!("{version}, 20")), "{fact}");
        assert!(fact.ends_with(" UTC"), "{fact}");
    }
}
