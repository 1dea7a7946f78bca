//! A deduplication index: where each line of some text files was first seen.
//!
//! `cargo run --release --example duplicates -p firndex [DIRECTORY]`
//!
//! Keys are 16-byte digests and values are structs of fixed size, so a `Table` is enough.

use firndex::{Fixed, Options, Table};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

type Digest = [u8; 16];

/// Where a line was first seen. The derive makes it a value of tables: plain integers, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Place {
    file: u32,
    offset: u64,
}

/// What one pass over the files has found.
#[derive(Debug, Default, PartialEq)]
struct Found {
    lines: u64,
    duplicates: u64,
}

/// A quick digest for an example. A program that trusts digests alone takes a cryptographic one, such as BLAKE3.
fn digest(line: &[u8]) -> Digest {
    let half = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, line).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64 | half(1)).to_le_bytes()
}

fn files_below(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn index(
    table: &Table<Digest, Place>,
    files: &[PathBuf],
) -> Result<Found, Box<dyn std::error::Error>> {
    let mut found = Found::default();
    for (file, path) in (0..).zip(files) {
        let bytes = fs::read(path)?;
        let mut offset = 0;
        // Pieces that end where lines end are found again after text was inserted before them.
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let place = Place { file, offset };
            offset += line.len() as u64;
            found.lines += 1;
            // `insert` stores the place only if the digest is new, and returns the earlier one if it is not.
            if let Some(first) = table.insert(digest(line), place)? {
                // Equal digests mean equal lines only if the digest is good, so the example reads the first one again.
                let mut same = vec![0; line.len()];
                File::open(&files[first.file as usize])?.read_exact_at(&mut same, first.offset)?;
                assert_eq!(same, line, "two lines share a digest");
                found.duplicates += 1;
            }
        }
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/src").into());
    let mut files = Vec::new();
    files_below(&directory, &mut files)?;
    files.sort();

    // A pool of its own for each run, removed at the end.
    let path =
        std::env::temp_dir().join(format!("firndex-example-duplicates-{}", std::process::id()));
    let table = Table::create(&path)?;
    let first = index(&table, &files)?;
    println!("{} files, {} lines, {} duplicates", files.len(), first.lines, first.duplicates);
    assert_eq!(table.len(), first.lines - first.duplicates);
    table.close()?;

    // The index outlives its process. A second pass over the same files finds nothing new.
    let table = Table::open(&path)?;
    let second = index(&table, &files)?;
    assert_eq!(second, Found { lines: first.lines, duplicates: first.lines });
    println!("after reopening: all {} lines are known", second.duplicates);
    table.close()?;

    let companions = Options::new().log_files(&path)?.paths;
    companions.iter().chain([&path]).try_for_each(fs::remove_file)?;
    Ok(())
}
