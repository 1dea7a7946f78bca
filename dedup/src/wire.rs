//! What goes over the two pipes between the parent and the writer.
//!
//! Down: work. A frame is its body's length and the number of its jobs (4 bytes each,
//! little-endian), then the jobs: chunk number (8), digest (32), length of the encoded
//! location (4), the location.
//!
//! Up: reports of 8 bytes, little-endian, of which the two highest bits tell what the others are:
//! 0 the number of a chunk whose insert has returned; 2 and 3 when the inserts of the chunks
//! reported since the last such pair began and ended, in nanoseconds of the writer's life. The
//! reports of a frame go up in one write of at most `PIPE_BUF` bytes, which the kernel does not
//! interleave with those of other threads, so no lock is needed; a kill may cut the stream anywhere
//! all the same, and a report of which a part is missing is none.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::plan::{Digest, Plan};
use crate::tempo::Span;

/// Jobs in a frame at most: as many as are reported in one write.
pub(crate) const FRAME_JOBS_MAX: usize = 256;
/// More than that many jobs with the longest paths have; the reader allocates it.
const FRAME_BYTES_MAX: usize = 2 << 20;
const REPORT_BYTES: usize = 8;
const TAG_SHIFT: u32 = 62;
const STORED: u64 = 0;
const BEGAN: u64 = 2;
const ENDED: u64 = 3;
/// Linux writes up to 4096 bytes to a pipe in one piece.
const _: () = assert!((FRAME_JOBS_MAX + 2) * REPORT_BYTES <= 4096);

/// Writes one frame of work: these chunks of the plan.
pub(crate) fn write_frame(
    output: &mut impl Write,
    plan: &Plan,
    chunks: &[usize],
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    buffer.clear();
    buffer.extend_from_slice(&[0; 8]);
    let mut location = Vec::new();
    for &index in chunks {
        location.clear();
        plan.location(index).encode_into(&mut location);
        buffer.extend_from_slice(&(index as u64).to_le_bytes());
        buffer.extend_from_slice(&plan.chunks[index].digest);
        buffer.extend_from_slice(&(location.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&location);
    }
    let body_bytes = (buffer.len() - 8) as u32;
    buffer[..4].copy_from_slice(&body_bytes.to_le_bytes());
    buffer[4..8].copy_from_slice(&(chunks.len() as u32).to_le_bytes());
    output.write_all(buffer)
}

/// Reads one frame into `buffer`; `None` at the end of the stream.
pub(crate) fn read_frame<'a>(
    input: &mut impl Read,
    buffer: &'a mut Vec<u8>,
) -> io::Result<Option<Jobs<'a>>> {
    let mut head = [0; 8];
    match input.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => input.read_exact(&mut head[1..])?,
    }
    let [b0, b1, b2, b3, c0, c1, c2, c3] = head;
    let body_bytes = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let jobs = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
    if body_bytes > FRAME_BYTES_MAX || jobs > FRAME_JOBS_MAX {
        return Err(malformed());
    }
    buffer.resize(body_bytes, 0);
    input.read_exact(buffer)?;
    Ok(Some(Jobs { left: jobs, bytes: buffer }))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the stream of work is malformed")
}

/// One chunk to be stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Job<'a> {
    pub(crate) chunk: u64,
    pub(crate) digest: &'a Digest,
    /// The encoded location.
    pub(crate) location: &'a [u8],
}

/// The jobs of a frame.
pub(crate) struct Jobs<'a> {
    left: usize,
    bytes: &'a [u8],
}

impl<'a> Jobs<'a> {
    fn split(&mut self) -> Option<Job<'a>> {
        let (chunk, rest) = self.bytes.split_first_chunk()?;
        let (digest, rest) = rest.split_first_chunk()?;
        let (location_bytes, rest) = rest.split_first_chunk()?;
        let (location, rest) =
            rest.split_at_checked(u32::from_le_bytes(*location_bytes) as usize)?;
        self.bytes = rest;
        Some(Job { chunk: u64::from_le_bytes(*chunk), digest, location })
    }
}

impl<'a> Iterator for Jobs<'a> {
    type Item = io::Result<Job<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(self.split().ok_or_else(malformed))
    }
}

/// The reports of one frame, sent all at once.
#[derive(Default)]
pub(crate) struct Reports {
    bytes: Vec<u8>,
}

impl Reports {
    /// To be called only once the chunk's insert has returned.
    pub(crate) fn add(&mut self, chunk: u64) {
        self.push(STORED, chunk);
    }

    pub(crate) fn send(&mut self, output: &mut impl Write, span: Span) -> io::Result<()> {
        self.push(BEGAN, span.began.as_nanos() as u64);
        self.push(ENDED, span.ended.as_nanos() as u64);
        output.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    fn push(&mut self, tag: u64, number: u64) {
        let number = number & !(u64::MAX << TAG_SHIFT);
        self.bytes.extend_from_slice(&(tag << TAG_SHIFT | number).to_le_bytes());
    }
}

/// What the writer says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// This chunk's insert has returned.
    Stored(u64),
    /// The inserts of the chunks before it were done in this time.
    Took(Span),
}

/// Puts reports together from whatever pieces the pipe delivers.
#[derive(Default)]
pub(crate) struct ReportReader {
    bytes: Vec<u8>,
    began: Duration,
}

impl ReportReader {
    /// Takes the next piece and returns the reports that are whole by now.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Vec<Report> {
        self.bytes.extend_from_slice(piece);
        let (whole, _) = self.bytes.as_chunks::<REPORT_BYTES>();
        let mut reports = Vec::with_capacity(whole.len());
        for bytes in whole {
            let word = u64::from_le_bytes(*bytes);
            let number = word & !(u64::MAX << TAG_SHIFT);
            match word >> TAG_SHIFT {
                BEGAN => self.began = Duration::from_nanos(number),
                ENDED => reports.push(Report::Took(Span {
                    began: self.began,
                    ended: Duration::from_nanos(number),
                })),
                _ => reports.push(Report::Stored(number)),
            }
        }
        let used = whole.len() * REPORT_BYTES;
        self.bytes.drain(..used);
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audience::Nobody;
    use crate::walk::Found;

    #[test]
    fn work_arrives_as_it_was_sent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), [7; 200_000]).unwrap();
        let found = [Found { path: "a".into(), bytes: 200_000 }];
        let plan = Plan::make(dir.path(), &found, 1, &Nobody);
        let mut stream = Vec::new();
        write_frame(&mut stream, &plan, &[0, 2], &mut Vec::new()).unwrap();
        write_frame(&mut stream, &plan, &[1], &mut Vec::new()).unwrap();

        let mut input = &stream[..];
        let mut buffer = Vec::new();
        let mut received = Vec::new();
        while let Some(jobs) = read_frame(&mut input, &mut buffer).unwrap() {
            for job in jobs {
                let job = job.unwrap();
                let index = job.chunk as usize;
                let mut location = Vec::new();
                plan.location(index).encode_into(&mut location);
                let expected = (&plan.chunks[index].digest, &location[..]);
                assert_eq!((job.digest, job.location), expected);
                received.push(index);
            }
        }
        assert_eq!(received, [0, 2, 1]);

        // Cut anywhere within a frame, the stream is an error and nothing worse.
        for length in 1..40 {
            assert!(read_frame(&mut &stream[..length], &mut buffer).is_err());
        }
    }

    #[test]
    fn a_frame_that_lies_is_an_error() {
        let mut buffer = Vec::new();
        assert!(read_frame(&mut &[0xff; 100][..], &mut buffer).is_err());
        let short = [4, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9];
        let mut jobs = read_frame(&mut &short[..], &mut buffer).unwrap().unwrap();
        assert!(jobs.next().unwrap().is_err());
        assert!(jobs.next().is_none());
    }

    #[test]
    fn reports_are_whole_or_not_at_all() {
        let mut sent = Vec::new();
        let mut reports = Reports::default();
        reports.add(3);
        reports.add(1 << 40);
        let span = Span { began: Duration::from_nanos(500), ended: Duration::from_nanos(700) };
        reports.send(&mut sent, span).unwrap();
        let all = [Report::Stored(3), Report::Stored(1 << 40), Report::Took(span)];
        for cut in 0..=sent.len() {
            let mut reader = ReportReader::default();
            let mut got = reader.feed(&sent[..cut]);
            assert_eq!(got, all[..[0, 1, 2, 2, 3][cut / 8]]);
            got.extend(reader.feed(&sent[cut..]));
            assert_eq!(got, all);
        }
    }
}
