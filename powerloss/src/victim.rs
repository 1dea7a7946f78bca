//! A writer that is killed with SIGKILL while the machine goes on.

use anyhow::Result;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, thread};
use workload::Random;

/// Starts this program with these arguments and kills it, again and again. `before` comes before each start.
pub fn run_and_kill(
    arguments: &[&str],
    life_ms: [u64; 2],
    before: impl Fn(&mut Random) -> Result<()>,
) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut random = Random::new(now.as_nanos() as u64);
    loop {
        before(&mut random)?;
        let mut writer = Command::new(env::current_exe()?).args(arguments).spawn()?;
        let [shortest, longest] = life_ms;
        thread::sleep(Duration::from_millis(shortest + random.below(longest - shortest)));
        writer.kill()?;
        writer.wait()?;
        // It may have been cut off within a line.
        println!();
    }
}
