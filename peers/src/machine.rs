//! What a reader on another machine has to know about this one.

use std::fs;

fn line_of(path: &str, field: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_once(':').map_or(line, |(_, value)| value).trim().to_owned())
}

/// Processor, last-level cache, memory, kernel, pages and load, in a line.
pub(crate) fn describe() -> String {
    const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
    let or = |found: Option<String>| found.unwrap_or_else(|| "unknown".into());
    let processor = or(line_of("/proc/cpuinfo", "model name"));
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let cache =
        or((0..8).rev().find_map(|level| line_of(&format!("{CACHES}/index{level}/size"), "")));
    let memory = or(line_of("/proc/meminfo", "MemTotal"));
    let kernel = or(line_of("/proc/sys/kernel/osrelease", ""));
    let pages = or(line_of("/sys/kernel/mm/transparent_hugepage/enabled", ""));
    let load = or(line_of("/proc/loadavg", ""));
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let load = load.join(" ");
    format!(
        "{processor}, {processors} processors, last-level cache {cache}, memory {memory}, \
         Linux {kernel}, huge pages {pages}, load at the start {load}"
    )
}
