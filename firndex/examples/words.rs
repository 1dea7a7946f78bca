//! Counts the words of a large file, with a progress bar, and shows the most frequent ones.
//!
//! `cargo run --release --example words -p firndex [FILE]`
//!
//! Without a file it writes one of 8 MB first, whose words it knows, and checks the counts.

use firndex::{Options, Store};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::Path;

const TEXT_BYTES: u64 = 8_000_000;
const BAR_COLUMNS: u64 = 40;
/// Bytes between two steps of the bar.
const STEP_BYTES: u64 = 1 << 20;
const SHOWN: usize = 5;

/// Draws the bar on a terminal, and nothing elsewhere.
fn show_progress(done_bytes: u64, all_bytes: u64) {
    if io::stderr().is_terminal() {
        let filled =
            (done_bytes * BAR_COLUMNS).checked_div(all_bytes).unwrap_or(BAR_COLUMNS) as usize;
        let bar = "#".repeat(filled) + &".".repeat(BAR_COLUMNS as usize - filled);
        eprint!("\r[{bar}] {} of {} MB", done_bytes / 1_000_000, all_bytes / 1_000_000);
    }
}

fn number(count: &[u8]) -> u64 {
    count.try_into().map_or(0, u64::from_le_bytes)
}

/// Adds the words of a file to the counts; returns how many there were.
fn count_words(path: &Path, counts: &Store) -> Result<u64, Box<dyn std::error::Error>> {
    let file = File::open(path)?;
    let all_bytes = file.metadata()?.len();
    let mut lines = BufReader::new(file);
    let (mut words, mut done_bytes, mut shown_bytes) = (0, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line)? {
            0 => break,
            read_bytes => done_bytes += read_bytes as u64,
        }
        // Keys are bytes, so text in any encoding will do.
        for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            counts
                .modify(word, |count| Some((count.map_or(0, number) + 1).to_le_bytes().to_vec()))?;
            words += 1;
        }
        if done_bytes - shown_bytes >= STEP_BYTES {
            show_progress(done_bytes, all_bytes);
            shown_bytes = done_bytes;
        }
    }
    show_progress(done_bytes, all_bytes);
    if io::stderr().is_terminal() {
        eprintln!();
    }
    Ok(words)
}

/// Writes a text whose words are known: each line has "the", "line" and "has", its own number, and one of a thousand
/// others. Returns the number of lines.
fn write_text(path: &Path) -> io::Result<u64> {
    let mut text = BufWriter::new(File::create(path)?);
    let (mut lines, mut written_bytes) = (0, 0);
    while written_bytes < TEXT_BYTES {
        let line = format!("the line {lines} has word-{}\n", lines % 1000);
        text.write_all(line.as_bytes())?;
        written_bytes += line.len() as u64;
        lines += 1;
    }
    text.flush()?;
    Ok(lines)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = format!("firndex-example-words-{}", std::process::id());
    let [text, pool] =
        ["txt", "firn"].map(|end| std::env::temp_dir().join(format!("{name}.{end}")));
    let given = std::env::args_os().nth(1);
    let lines = if given.is_none() { Some(write_text(&text)?) } else { None };

    // In a pool that is kept, a second run would go on from the counts of the first one.
    let counts = Store::create(&pool)?;
    let words = count_words(given.as_deref().map_or(text.as_path(), Path::new), &counts)?;

    let mut frequent: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut sum = 0;
    for pair in &counts {
        let (word, count) = pair?;
        sum += number(&count);
        frequent.push((number(&count), word));
    }
    assert_eq!(sum, words, "every word was counted once");
    frequent.sort_by(|one, other| other.cmp(one));
    for (count, word) in frequent.iter().take(SHOWN) {
        println!("{count:>10} {}", String::from_utf8_lossy(word));
    }
    println!("{words} words, {} different ones", counts.len());
    if let Some(lines) = lines {
        assert_eq!(counts.get("the")?.as_deref().map(number), Some(lines));
        assert_eq!(counts.len(), lines + 3 + 1000);
        fs::remove_file(&text)?;
    }

    counts.close()?;
    let companions = Options::new().log_files(&pool)?.paths;
    companions.iter().chain([&pool]).try_for_each(fs::remove_file)?;
    Ok(())
}
