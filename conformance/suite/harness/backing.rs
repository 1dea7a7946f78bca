//! What a pool lies on.

use super::{Image, Journal};
use crate::common::dram;
use pmem::Medium;
use pmem::medium::{Count, Either, Mapped, Memory};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use workload::effort;

/// What a pool lies on.
pub(crate) trait Backing: Send + Sync + Sized + 'static {
    type Medium: Medium;
    /// The amount of work is divided by this.
    const THRIFT: u64 = 1;

    /// The part of `all` that is tried here: at least one, and all the fewer in a usual run.
    fn part(all: u64) -> u64 {
        (all / Self::THRIFT / effort::of(1, 4)).max(1)
    }

    /// Whether tests of a theme are tried here.
    fn tries(_theme: &str) -> bool {
        true
    }

    /// An empty backing.
    fn empty(limit_bytes: u64) -> (Self, Self::Medium);

    /// A backing that holds an image.
    fn holding(image: &Image, limit_bytes: u64) -> (Self, Self::Medium);

    /// Makes sure that [`Backing::again`] finds what `medium`, soon to be dropped, holds.
    fn keep(&mut self, medium: &Self::Medium);

    /// What was kept.
    fn again(&self, limit_bytes: u64) -> Self::Medium;
}

/// Anonymous memory; an image stands in for what a file would keep.
pub(crate) struct Dram(Option<Image>);

impl Backing for Dram {
    type Medium = pmem::medium::Dram;

    fn empty(limit_bytes: u64) -> (Self, Self::Medium) {
        (Dram(None), dram(limit_bytes))
    }

    fn holding(image: &Image, limit_bytes: u64) -> (Self, Self::Medium) {
        let medium = dram(limit_bytes);
        image.fill(&medium);
        (Dram(None), medium)
    }

    fn keep(&mut self, medium: &Self::Medium) {
        self.0 = Some(Image::of(medium));
    }

    fn again(&self, limit_bytes: u64) -> Self::Medium {
        let medium = dram(limit_bytes);
        self.0.as_ref().expect("kept").fill(&medium);
        medium
    }
}

/// Media on which a call for each access does not matter. They are one type, so that the engines are compiled once for
/// both.
pub(crate) type Slow = Either<Count<pmem::medium::Dram>, Journal>;

/// Like [`Dram`], counted.
pub(crate) struct Counted(Dram);

impl Backing for Counted {
    type Medium = Slow;
    /// High, since each access adds to a set of lines.
    const THRIFT: u64 = 8;

    fn empty(limit_bytes: u64) -> (Self, Self::Medium) {
        let (backing, medium) = Dram::empty(limit_bytes);
        (Counted(backing), Either::One(Count::new(medium)))
    }

    fn holding(image: &Image, limit_bytes: u64) -> (Self, Self::Medium) {
        let (backing, medium) = Dram::holding(image, limit_bytes);
        (Counted(backing), Either::One(Count::new(medium)))
    }

    fn keep(&mut self, medium: &Self::Medium) {
        self.0.0 = Some(Image::of(medium));
    }

    fn again(&self, limit_bytes: u64) -> Self::Medium {
        Either::One(Count::new(self.0.again(limit_bytes)))
    }
}

/// Backings that are files.
pub(crate) trait FileBacking: Backing {
    /// Where the files are created.
    fn directory() -> PathBuf;
}

/// A mapped file.
pub(crate) struct MappedFile(File);

impl MappedFile {
    fn empty(directory: &Path) -> MappedFile {
        MappedFile(tempfile::tempfile_in(directory).expect("a temporary file"))
    }

    fn holding(directory: &Path, image: &Image) -> MappedFile {
        let file = MappedFile::empty(directory);
        let bytes: Vec<u8> = image.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.0.write_all_at(&bytes, 0).expect("the image is written");
        file
    }

    fn map(&self, limit_bytes: u64) -> Mapped {
        let file = self.0.try_clone().expect("a file");
        let size = file.metadata().expect("a file").len();
        Memory::mapped(file, size, limit_bytes, true).expect("the file is mapped")
    }
}

macro_rules! file_backing {
    ($(#[$doc:meta])* $name:ident in $directory:expr, thrift $thrift:literal, usually $themes:expr) => {
        $(#[$doc])*
        pub(crate) struct $name(MappedFile);

        impl Backing for $name {
            type Medium = Mapped;
            /// An engine runs the same code here as on [`Dram`].
            const THRIFT: u64 = $thrift;

            /// In a usual run those for which it matters where the words lie.
            fn tries(theme: &str) -> bool {
                effort::is_whole() || $themes.contains(&theme)
            }

            fn empty(limit_bytes: u64) -> (Self, Mapped) {
                let file = MappedFile::empty(&Self::directory());
                let medium = file.map(limit_bytes);
                ($name(file), medium)
            }

            fn holding(image: &Image, limit_bytes: u64) -> (Self, Mapped) {
                let file = MappedFile::holding(&Self::directory(), image);
                let medium = file.map(limit_bytes);
                ($name(file), medium)
            }

            fn keep(&mut self, _medium: &Mapped) {}

            fn again(&self, limit_bytes: u64) -> Mapped {
                self.0.map(limit_bytes)
            }
        }

        impl FileBacking for $name {
            fn directory() -> PathBuf {
                $directory
            }
        }
    };
}

file_backing! {
    /// A file in the directory for temporary files.
    TempFile in std::env::temp_dir(), thrift 4,
    usually ["model", "growth", "faults", "kills", "recovery"]
}
file_backing! {
    /// A file in shared memory; if there is none, like [`TempFile`].
    SharedMemory in {
        let shared = PathBuf::from("/dev/shm");
        if shared.is_dir() { shared } else { std::env::temp_dir() }
    }, thrift 8, usually ["kills", "recovery"]
}
