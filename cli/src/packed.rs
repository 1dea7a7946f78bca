//! Compressed files, as far as to know one.

use std::ffi::OsStr;

/// A way of compressing files.
pub(crate) struct Packed {
    pub(crate) name: &'static str,
    extension: &'static str,
    /// What its files begin with.
    start: &'static [u8],
    /// Commands that unpack to stdout, and that pack from stdin.
    pub(crate) unpack: &'static str,
    pub(crate) pack: &'static str,
}

/// No text begins so.
const ALL: [Packed; 5] = [
    Packed { name: "gzip", extension: "gz", start: b"\x1f\x8b", unpack: "zcat", pack: "gzip" },
    Packed {
        name: "zstd",
        extension: "zst",
        start: b"\x28\xb5\x2f\xfd",
        unpack: "zstdcat",
        pack: "zstd",
    },
    Packed { name: "xz", extension: "xz", start: b"\xfd7zXZ\0", unpack: "xzcat", pack: "xz" },
    Packed {
        name: "bzip2",
        extension: "bz2",
        // The digit between them says how large its blocks are.
        start: b"BZh91AY&SY",
        unpack: "bzcat",
        pack: "bzip2",
    },
    Packed { name: "zip", extension: "zip", start: b"PK\x03\x04", unpack: "unzip -p", pack: "zip" },
];
/// Where the digit is.
const BZIP2_LEVEL: usize = 3;
/// As long as the longest beginning.
pub(crate) const START_BYTES: usize = 10;

/// How a file is compressed that begins so.
pub(crate) fn by_start(start: &[u8]) -> Option<&'static Packed> {
    let mut start = start.to_vec();
    if start.get(BZIP2_LEVEL).is_some_and(|level| (b'1'..=b'9').contains(level)) {
        start[BZIP2_LEVEL] = b'9';
    }
    ALL.iter().find(|packed| start.starts_with(packed.start))
}

/// How a file is compressed whose name ends so.
pub(crate) fn by_extension(extension: &OsStr) -> Option<&'static Packed> {
    ALL.iter().find(|packed| extension.eq_ignore_ascii_case(packed.extension))
}
