//! What the owner of a pool shows its guests: the sidecar, while the geometry is at rest. See [`pmem::view`].

use super::Core;
use crate::Settings;
use pmem::slots::Area;
use pmem::sync::{Array, AtomicU64, Line, Mutex, Ordering};
use pmem::view::{NOTES, View};
use pmem::{Medium, Offset};
use std::io;
use std::sync::Arc;

/// Parts of the view: the lines of level 1, the words of level 2, and the heads of level 3's chains.
pub(super) const LINES: usize = 0;
pub(super) const WORDS: usize = 1;
pub(super) const HEADS: usize = 2;
/// Notes of the view: where the extents of levels 1 and 2 begin.
pub(super) const STARTS: [usize; 2] = [0, NOTES / 2];

/// The view, and who may change what it shows.
pub(super) struct Shown {
    pub(super) view: Arc<View>,
    turn: Mutex<()>,
}

impl Shown {
    pub(super) fn by(view: Arc<View>) -> Shown {
        Shown { view, turn: Mutex::new(()) }
    }
}

/// The parts of the sidecar that look-ups read.
pub(super) struct Arrays {
    pub(super) lines: Array<Line>,
    pub(super) words: Array<AtomicU64>,
    pub(super) heads: Array<AtomicU64>,
    pub(super) view: Option<Arc<View>>,
}

impl Arrays {
    /// Of a table that may have `most` blocks in levels 1 and 2, and has `now`. Without a view if that is not wanted,
    /// or if the system does not grant one: guests then ask.
    pub(super) fn of(settings: &Settings, most: [usize; 2], now: [usize; 2]) -> io::Result<Arrays> {
        let bytes = [most[0] * size_of::<Line>(), most[1] * 8, most[0] * 8];
        let view = settings.is_shown.then(|| View::make(&bytes).ok()).flatten();
        if let Some(view) = view {
            return Ok(Arrays::in_view(view.into()));
        }
        Ok(Arrays {
            lines: Array::reserve(most[0], now[0])?,
            words: Array::reserve(most[1], now[1])?,
            heads: Array::reserve(most[0], now[0])?,
            view: None,
        })
    }

    pub(super) fn in_view(view: Arc<View>) -> Arrays {
        Arrays {
            lines: view.part(LINES),
            words: view.part(WORDS),
            heads: view.part(HEADS),
            view: Some(view),
        }
    }
}

impl<M: Medium> Core<M> {
    /// Replaces a geometry at rest by another one. Guests know of none meanwhile: a move that they saw half of would
    /// hide a key from them.
    pub(super) fn hide_while(&self, replace: impl FnOnce()) {
        let Some(shown) = &self.shown else { return replace() };
        // Somebody may be about to show the geometry that is replaced.
        let _turn = shown.turn.lock();
        shown.view.hide();
        replace();
    }

    /// Shows guests the geometry, if it is at rest.
    pub(super) fn show(&self) {
        let Some(shown) = &self.shown else { return };
        let _turn = shown.turn.lock();
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return;
        }
        let levels = [
            (self.blocks_1.area(), geometry.level_1_log2()),
            (&self.area_2, geometry.level_2_log2()),
        ];
        for ((area, log2), first) in levels.into_iter().zip(STARTS) {
            for index in 0..area.extents_for(log2) {
                let Offset(start) = area.at(area.first_of(index));
                shown.view.note(first + index as usize).store(start, Ordering::Relaxed);
            }
        }
        shown.view.show(geometry.0);
    }
}

/// Where the extents of a level begin, of which a view shows `1 << log2` units.
pub(super) fn starts_in(view: &View, level: usize, area: &Area, log2: u32) -> Vec<Offset> {
    let notes = (0..area.extents_for(log2) as usize).map(|index| view.note(STARTS[level] + index));
    notes.map(|note| Offset(note.load(Ordering::Relaxed))).collect()
}
