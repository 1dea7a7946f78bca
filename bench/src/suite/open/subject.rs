//! One contender with its files.

use super::NAME;
use super::order::{Report, value_bytes};
use crate::choices::Logging;
use crate::contender::Contender;
use crate::files::{allocated_bytes, bytes_of, files_below};
use crate::kept::{Files, Form, Owner};
use crate::own::Place;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::durable::named;
use crate::victim::{OpenOrder, Order, Task, Victim};
use crate::written::Device;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// What ends the name of the directory with a pool's log and checkpoints.
const SAFE: &str = ".safe";

/// What was written by one process.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Written {
    pub(super) charged: u64,
    pub(super) by_device: Option<u64>,
}

/// A contender in one form and with one number of pairs.
pub(super) struct Subject<'a> {
    contender: &'a dyn Contender,
    name: String,
    form: Form,
    step: u32,
    setting: &'a Setting,
    files: &'a mut Files,
}

impl<'a> Subject<'a> {
    /// With the files that there are. If there are none, a process makes them, with all pairs, and closes them.
    pub(super) fn new(
        contender: &'a dyn Contender,
        form: Form,
        step: u32,
        setting: &'a Setting,
        kept: &'a mut HashMap<Owner, Files>,
    ) -> Result<Subject<'a>> {
        let name = match form.logging {
            Some(logging) => named(contender.name(), logging.durability()),
            None => contender.name().to_owned(),
        };
        let owner = (name.clone(), form, setting.pairs);
        let is_new = !kept.contains_key(&owner);
        if is_new {
            kept.insert(
                owner.clone(),
                Files::new(&setting.directory, setting.openings.pools.as_deref())?,
            );
        }
        let files = kept.get_mut(&owner).context("files that were just made")?;
        let mut subject = Subject { contender, name, form, step, setting, files };
        if is_new {
            let filled = subject.start(Task::Fill).and_then(|(_, victim)| victim.close());
            filled.with_context(|| format!("filling {}", subject.name))?;
        }
        Ok(subject)
    }

    pub(super) fn contender(&self) -> &dyn Contender {
        self.contender
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn setting(&self) -> &Setting {
        self.setting
    }

    /// Where firndex's pool is.
    pub(super) fn place(&self) -> Place {
        let pools = self.files.pools.as_ref().map(|directory| directory.path());
        Place::new(self.files.directory.path(), pools)
    }

    /// Has a process do this. Returns once that is done.
    pub(super) fn start(&mut self, task: Task) -> Result<(Report, Victim)> {
        let order = OpenOrder {
            contender: self.contender.name().to_owned(),
            form: self.form,
            directory: self.files.directory.path().to_owned(),
            pools: self.files.pools.as_ref().map(|directory| directory.path().to_owned()),
            pairs: self.setting.pairs,
            seed: self.setting.seed,
            changed: self.files.changed,
            task,
        };
        let victim = Victim::obeying(&Order::Open(order), self.setting)?;
        self.files.changed += task.puts();
        let report = serde_json::from_str(victim.report())?;
        Ok((report, victim))
    }

    /// Has a process do this and close, and counts what is written for it.
    pub(super) fn closed(&mut self, task: Task) -> Result<(Report, Written)> {
        let (report, written) = self.counted(|subject| {
            let (report, victim) = subject.start(task)?;
            Ok((report, victim.close()?))
        })?;
        Ok((report, written))
    }

    /// Counts what is written while this is done; it tells what the kernel charged.
    pub(super) fn counted<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(T, u64)>,
    ) -> Result<(T, Written)> {
        let device = Device::below(self.files.directory.path())?;
        let written = || device.as_ref().map(Device::written_bytes).transpose();
        let before = written()?;
        let (done, charged) = work(self)?;
        let by_device = written()?.zip(before).map(|(now, before)| now - before);
        Ok((done, Written { charged, by_device }))
    }

    /// All files.
    fn all_files(&self) -> Result<Vec<PathBuf>> {
        let mut all = files_below(self.files.directory.path())?;
        if let Some(pools) = &self.files.pools {
            all.append(&mut files_below(pools.path())?);
        }
        Ok(all)
    }

    /// Reads all files into the page cache that are read through it.
    pub(super) fn read_ahead(&self) -> Result<()> {
        let is_past_it = |path: &PathBuf| {
            let parent = path.parent().and_then(|parent| parent.file_name());
            parent.is_some_and(|name| name.as_encoded_bytes().ends_with(SAFE.as_bytes()))
        };
        for path in self.all_files()?.into_iter().filter(|path| !is_past_it(path)) {
            // A socket of a server that has ended is no file to read.
            if let Ok(mut file) = File::open(&path) {
                io::copy(&mut file, &mut io::sink())?;
            }
        }
        Ok(())
    }

    /// The files of log and checkpoints.
    pub(super) fn logs(&self) -> Result<Vec<PathBuf>> {
        let Place { pool, logs } = self.place();
        let name = pool.file_name().context("a pool without a name")?.to_string_lossy();
        Ok(files_below(&logs.join(format!("{name}{SAFE}")))?)
    }

    /// What the closed files take.
    pub(super) fn at_rest(&self) -> Result<Row> {
        let directories = [Some(&self.files.directory), self.files.pools.as_ref()];
        let all =
            directories.into_iter().flatten().map(|directory| allocated_bytes(directory.path()));
        let all = all.sum::<io::Result<u64>>()?;
        let pool = match self.form.logging {
            Some(_) => Some(bytes_of(&self.place().pool)?),
            None => None,
        };
        Ok(Row {
            bytes_per_pair: Some(all as f64 / self.setting.pairs as f64),
            pool_bytes: pool.map(|pool| pool as f64),
            beside_bytes: pool.map(|pool| (all - pool) as f64),
            ..self.row("at_rest")
        })
    }

    /// A row of this contender.
    pub(super) fn row(&self, op: &str) -> Row {
        Row {
            medium: Some("files".to_owned()),
            value_bytes: Some(value_bytes(self.form)),
            step: Some(self.step),
            ..self.setting.row(NAME, op, &self.name)
        }
    }

    /// A row of how long something took.
    pub(super) fn took(&self, op: &str, took_s: Option<f64>) -> Row {
        Row { took_s, ..self.row(op) }
    }

    /// ... and of what was written for it.
    pub(super) fn took_and_wrote(&self, op: &str, took_s: Option<f64>, written: Written) -> Row {
        Row {
            written_bytes: Some(written.charged as f64),
            device_bytes: written.by_device.map(|bytes| bytes as f64),
            ..self.took(op, took_s)
        }
    }

    /// Whether it has a log.
    pub(super) fn has_log(&self) -> bool {
        self.form.logging == Some(Logging::Periodic)
    }
}
