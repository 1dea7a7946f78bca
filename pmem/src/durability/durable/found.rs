//! A checkpoint and its log, as an opening finds them.

use super::super::checkpoint::{Checkpoint, Places};
use super::super::disk::recognises;
use super::super::frame::SegmentHeader;
use super::super::names;
use super::super::segments::Segments;
use super::super::supply::Supply;
use super::super::writer::{Position, Writer};
use super::{Config, Image, Shared, header_of};
use crate::durability::{LogError, RestoreError};
use crate::line_log::{LineLog, Room};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What there is.
pub(super) struct Found {
    pub(super) checkpoint: Checkpoint,
    /// The log's segments from the checkpoint on, all of them, in order.
    pub(super) log: Vec<FoundSegment>,
    /// Numbers of segments of the pool that are of no use.
    useless: Vec<u64>,
}

/// A segment of the log.
pub(super) struct FoundSegment {
    pub(super) header: SegmentHeader,
    bytes: u64,
}

impl Found {
    /// `None`: there is no checkpoint, not all of its log, or somebody else's file behind that.
    pub(super) fn look(segments: &Segments) -> io::Result<Option<Found>> {
        let (disk, uuid) = (&*segments.disk, segments.uuid);
        let checkpoint = match Checkpoint::open(disk) {
            Ok(Some(checkpoint)) if checkpoint.header.uuid == uuid => checkpoint,
            Err(RestoreError::Io { source, .. }) => return Err(source),
            Ok(_) | Err(_) => return Ok(None),
        };
        let (generation, begin) = (checkpoint.header.generation, checkpoint.header.log);
        let (mut log, mut useless, mut strange) = (Vec::new(), Vec::new(), Vec::new());
        for number in disk.names()?.iter().filter_map(|name| names::number_of(name)) {
            let name = names::segment(number);
            let is_own = recognises(disk, &name, uuid)? == Some(true);
            let file = match disk.open(&name) {
                Ok(file) if is_own => file,
                _ => {
                    strange.push(number);
                    continue;
                }
            };
            let header = header_of(&*file)?;
            match header.filter(|it| it.generation == generation && it.number == number) {
                Some(header) if number >= begin.segment => {
                    log.push(FoundSegment { header, bytes: file.len()? });
                }
                _ => useless.push(number),
            }
        }
        log.sort_unstable_by_key(|segment| segment.header.number);
        let numbers = log.iter().map(|segment| segment.header.number);
        let is_whole = !log.is_empty() && numbers.eq((begin.segment..).take(log.len()));
        let found = Found { checkpoint, log, useless };
        let is_last = is_whole && strange.into_iter().all(|number| number <= found.last());
        Ok(is_last.then_some(found))
    }

    /// The number of the log's last segment.
    pub(super) fn last(&self) -> u64 {
        self.log.last().map_or(0, |segment| segment.header.number)
    }

    /// Bytes of the log's segments.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log.iter().map(|segment| segment.bytes).sum()
    }
}

impl Segments {
    /// The segments of a log whose directory is as a process finds it: what the last one renamed or removed is so on
    /// the device from now on.
    pub(super) fn of(config: &Config, sizes: super::Sizes) -> Result<Segments, LogError> {
        let disk = Arc::clone(&config.disk);
        disk.sync_names().map_err(LogError::io("syncing", disk.path("")))?;
        Ok(Segments { disk, uuid: config.uuid, sizes })
    }

    /// A failure to read what is there.
    pub(super) fn reading(&self) -> impl FnOnce(io::Error) -> LogError + use<> {
        LogError::io("reading", self.disk.path(""))
    }
}

impl Shared {
    /// A log that goes on in the last segment of the one that was `found`, behind this position and epoch. `None`: it
    /// must not, or it would soon come to an end. The log has not started yet. If the second place `may_rest`, it is
    /// taken later.
    pub(super) fn go_on(
        config: Config,
        segments: Arc<Segments>,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        found: Found,
        at: (Position, u64),
        may_rest: bool,
    ) -> Result<Option<Shared>, LogError> {
        let last = found.last();
        let Some(current) = segments.again(last).map_err(segments.reading())? else {
            return Ok(None);
        };
        let disk = Arc::clone(&segments.disk);
        let places = Arc::new(Places::new(disk, segments.uuid, segments.sizes.chunk));
        places.settle()?;
        // The pool may grow by now, and needs room for that first.
        log.grow_with(Arc::clone(&places) as Arc<dyn Room>);
        if !(may_rest && places.rest_on()) {
            let reserved = places.reserve_again(image.bytes_at_hand());
            reserved.inspect_err(|_| log.grow_alone())?;
        }
        let Found { checkpoint, mut useless, .. } = found;
        let header = &checkpoint.header;
        let others: Vec<u64> = (header.log.segment..last).collect();
        let is_alone = places.is_alone();
        let bytes = segments.bytes(image.bytes());
        let supply = Supply::behind(last + 1, &segments, bytes, is_alone, &mut useless);
        let has_next = supply.has_reserve() || is_alone && supply.has_spare();
        if !has_next && others.is_empty() {
            // With one segment and nothing else the log would come to an end.
            log.grow_alone();
            return Ok(None);
        }
        useless.into_iter().for_each(|number| segments.remove(number));
        let writer = Writer::at(Arc::clone(&segments), header.generation, current, at, supply);
        let shared = Shared::of(config, log, image, segments, places, writer, others);
        shared.checkpoint_bytes.store(header.image_bytes, Ordering::Relaxed);
        Ok(Some(shared))
    }
}
