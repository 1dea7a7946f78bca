//! What is written to the log: frames in segments.
//!
//! ```text
//! segment   page 0: header     word 0  magic              frame   word 0  magic
//!           then: frames            1  version                    1  generation (2 words)
//!                                   2  pool UUID (2 words)        3  number
//!                                   4  generation (2 words)       4  epoch
//!                                   6  number of the segment      5  words of content | 1 << 32 if the epoch's last
//!                                   7  its first frame's number   6  CRC-32C of words 0 to 5 and the content
//!                                   8  bytes                      8  content, to the end of a page
//!                                   9  CRC-32C of words 0 to 8
//! ```
//!
//! A frame counts if its checksum is right, its generation is the log's, its number follows that of the previous
//! frame, and its epoch that of the last one that is complete. Reused space holds old frames: their numbers are lower,
//! or their generation is another one. What a killed process wrote of an epoch that it did not complete has numbers
//! that the log has again, and earlier epochs than what is there now (`durable::rejoin`).

use super::disk::PAGE_BYTES;
use super::pages::PAGE_WORDS;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"FIRNSEG\0");
const FRAME_MAGIC: u64 = u64::from_le_bytes(*b"FIRNLOG\0");
/// The version of the log's format.
const VERSION: u64 = 1;
/// Words of a frame before its content.
pub(super) const FRAME_HEADER_WORDS: usize = 8;
const LAST: u64 = 1 << 32;

/// CRC-32C of words.
pub(super) fn checksum(seed: u32, words: &[u64]) -> u32 {
    // SAFETY: every byte of a word is a valid byte.
    let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) };
    crc32c::crc32c_append(seed, bytes)
}

fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

pub(super) fn whole(low: u64, high: u64) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

/// The first page of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) uuid: u128,
    pub(super) generation: u128,
    pub(super) number: u64,
    pub(super) first_frame: u64,
    pub(super) bytes: u64,
}

impl SegmentHeader {
    pub(super) fn encode(&self, page: &mut [u64]) {
        let [uuid, generation] = [halves(self.uuid), halves(self.generation)];
        page[..2].copy_from_slice(&[SEGMENT_MAGIC, VERSION]);
        page[2..4].copy_from_slice(&uuid);
        page[4..6].copy_from_slice(&generation);
        page[6..9].copy_from_slice(&[self.number, self.first_frame, self.bytes]);
        page[9] = checksum(0, &page[..9]).into();
    }

    /// `None`: not written yet, or cut amid that.
    pub(super) fn decode(page: &[u64]) -> Option<SegmentHeader> {
        let words: &[u64; 10] = page.first_chunk()?;
        let is_whole = words[0] == SEGMENT_MAGIC
            && words[1] == VERSION
            && words[9] == u64::from(checksum(0, &words[..9]));
        is_whole.then(|| SegmentHeader {
            uuid: whole(words[2], words[3]),
            generation: whole(words[4], words[5]),
            number: words[6],
            first_frame: words[7],
            bytes: words[8],
        })
    }
}

/// What stands before a frame's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) generation: u128,
    pub(super) number: u64,
    pub(super) epoch: u64,
    /// Whether the epoch ends with this frame.
    pub(super) is_last: bool,
}

impl FrameHeader {
    /// Fills in the first words of a frame, whose content follows them.
    pub(super) fn seal(&self, frame: &mut [u64]) {
        let (header, content) = frame.split_at_mut(FRAME_HEADER_WORDS);
        let [low, high] = halves(self.generation);
        let length = content.len() as u64 | if self.is_last { LAST } else { 0 };
        header.copy_from_slice(&[FRAME_MAGIC, low, high, self.number, self.epoch, length, 0, 0]);
        header[6] = checksum(checksum(0, &header[..6]), content).into();
    }

    /// Number and epoch of the frame of this generation that seems to begin at the first of these words, be it whole or
    /// not.
    pub(super) fn seen_in(words: &[u64], generation: u128) -> Option<(u64, u64)> {
        let header: &[u64; FRAME_HEADER_WORDS] = words.first_chunk()?;
        let is_of_it = header[0] == FRAME_MAGIC && whole(header[1], header[2]) == generation;
        is_of_it.then_some((header[3], header[4]))
    }

    /// The frame that begins at the first of these words, if it is whole: its header and its content.
    pub(super) fn read(words: &[u64]) -> Option<(FrameHeader, &[u64])> {
        let (header, rest) = words.split_first_chunk::<FRAME_HEADER_WORDS>()?;
        let content = rest.get(..(header[5] & (LAST - 1)) as usize)?;
        let sum = || checksum(checksum(0, &header[..6]), content);
        let is_whole = header[0] == FRAME_MAGIC && header[6] == u64::from(sum());
        let found = FrameHeader {
            generation: whole(header[1], header[2]),
            number: header[3],
            epoch: header[4],
            is_last: header[5] & LAST != 0,
        };
        is_whole.then_some((found, content))
    }
}

/// Words from the beginning of a frame to that of the next one.
pub(super) fn frame_words(content_words: usize) -> usize {
    (FRAME_HEADER_WORDS + content_words).next_multiple_of(PAGE_WORDS)
}

/// The same in bytes.
pub(super) fn frame_bytes(content_words: usize) -> u64 {
    (frame_words(content_words) / PAGE_WORDS * PAGE_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let header = FrameHeader { generation: 1 << 70 | 5, number: 9, epoch: 3, is_last: true };
        let mut frame = vec![7; FRAME_HEADER_WORDS + 5];
        header.seal(&mut frame);
        assert_eq!(FrameHeader::read(&frame), Some((header, &[7; 5][..])));
        for bit in (0..frame.len() * 64).filter(|bit| bit / 64 != 7) {
            frame[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(FrameHeader::read(&frame), None, "bit {bit}");
            frame[bit / 64] ^= 1 << (bit % 64);
        }
        assert_eq!(FrameHeader::read(&frame[..frame.len() - 1]), None);
        assert_eq!((frame_words(504), frame_words(505)), (512, 1024));
        let segment =
            SegmentHeader { uuid: 1 << 90, generation: 2, number: 3, first_frame: 4, bytes: 5 };
        let mut page = [0; PAGE_WORDS];
        assert_eq!(SegmentHeader::decode(&page), None);
        segment.encode(&mut page);
        assert_eq!(SegmentHeader::decode(&page), Some(segment));
    }
}
