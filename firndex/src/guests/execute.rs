//! How a request is carried out.

use super::figures::Figures;
use super::rights::Rights;
use super::service::{Scans, Served};
use super::wire::{DONE, Operation, Reader, write_log_use};
use crate::{Error, Result};
use index::Done;
use pmem::durability::{Attendant, WhenDurable};
use pmem::sync::upheavals;
use std::sync::Arc;
use std::time::Instant;

/// Most scans that a guest can have under way.
const SCANS_MAX: usize = 256;

/// What becomes of a request.
pub(super) enum Outcome {
    Answered,
    /// The answer is ready when this is. If it answers a batch, with the entries that were done.
    Waits(WhenDurable, Option<Done>),
    /// It takes long, and is to be run elsewhere.
    Long(Operation),
    /// A sync keeps writers out: it is to be tried again.
    PutAside,
}

/// What requests are carried out with.
pub(super) struct Asked<'s, 'a> {
    pub(super) served: &'a Arc<dyn Served>,
    pub(super) rights: &'s Rights,
}

impl<'a> Asked<'_, 'a> {
    pub(super) fn execute(
        &self,
        request: &[u64],
        scans: &mut Scans<'a>,
        answer: &mut Vec<u64>,
        seen: &mut u64,
    ) -> Result<Outcome> {
        let mut request = Reader(request);
        let operation = request.operation()?;
        self.look(seen)?;
        let (served, rights) = (&**self.served, self.rights);
        match operation {
            Operation::Get | Operation::GetMany | Operation::Peek | Operation::TimeLeft => {
                served.serve(operation, &mut request, answer)?;
            }
            Operation::Insert
            | Operation::Update
            | Operation::Upsert
            | Operation::Remove
            | Operation::CompareExchange
            | Operation::InsertMany
            | Operation::UpdateMany
            | Operation::UpsertMany
            | Operation::RemoveMany
            | Operation::PutUntil
            | Operation::PutMany
            | Operation::PutIf
            | Operation::Touch
            | Operation::Clear => {
                if rights.pool.gate().is_syncing() {
                    return Ok(Outcome::PutAside);
                }
                let write = rights.enter()?;
                let done = served.serve(operation, &mut request, answer)?;
                drop(write);
                if let Some(log) = rights.log.as_ref().filter(|_| rights.commits) {
                    self.look(seen)?;
                    return Ok(Outcome::Waits(log.when_durable(log.ticket()), done));
                }
            }
            Operation::Scan => {
                let number = request.word()?;
                if scans.len() == SCANS_MAX {
                    let found = format!("this process has {SCANS_MAX} scans under way already");
                    return Err(Error::Owner { found });
                }
                scans.insert(number, (served.scan(), Instant::now()));
                answer.push(DONE);
            }
            Operation::ScanOn => {
                let number = request.word()?;
                let (scan, since) = scans.get_mut(&number).ok_or(Error::Interrupted)?;
                answer.push(DONE);
                let goes_on = scan.go_on(answer)?;
                answer.push(goes_on.into());
                *since = Instant::now();
                if !goes_on {
                    scans.remove(&number);
                }
            }
            Operation::ScanOff => {
                scans.remove(&request.word()?);
                answer.push(DONE);
            }
            Operation::Len if served.body().is_built() => {
                answer.extend([DONE, served.body().pairs()]);
            }
            Operation::Ticket => {
                let log = rights.log()?;
                let ticket = rights.tickets().ticket(log.map_or(0, Attendant::ticket));
                answer.extend([DONE, ticket.0]);
            }
            Operation::DurableUpTo => {
                let tickets = rights.tickets();
                let durable = |log: &Attendant| tickets.durable(log.durable_up_to());
                let ticket = rights.log()?.map_or_else(|| tickets.ticket(0), durable);
                answer.extend([DONE, ticket.0]);
            }
            Operation::WaitDurable => {
                let ticket = request.word()?;
                answer.push(DONE);
                if let Some(log) = rights.log()? {
                    let epoch = rights.tickets().epoch(ticket, log.ticket());
                    return Ok(Outcome::Waits(log.when_durable(epoch), None));
                }
            }
            Operation::Sync if rights.log.is_some() => {
                answer.push(DONE);
                if let Some(log) = &rights.log {
                    return Ok(Outcome::Waits(log.when_durable(log.ticket()), None));
                }
            }
            Operation::LogUse => {
                answer.push(DONE);
                write_log_use(answer, rights.log_use().as_ref());
            }
            // Figures are counted in every block, and what is not built yet would be waited for.
            Operation::Figures
            | Operation::Len
            | Operation::Sync
            | Operation::Shrink
            | Operation::Compact
            | Operation::CacheFigures => return Ok(Outcome::Long(operation)),
        }
        self.look(seen)?;
        Ok(Outcome::Answered)
    }

    /// Refuses a pool that has lost a page: what was read may be zeros for it.
    fn look(&self, seen: &mut u64) -> Result<()> {
        let now = upheavals();
        if now != *seen {
            self.rights.look()?;
            *seen = now;
        }
        Ok(())
    }

    /// Does what takes long, and adds what it finds to `answer`.
    pub(super) fn run_long(
        &self,
        operation: Operation,
        guests: u64,
        answer: &mut Vec<u64>,
    ) -> Result<()> {
        let (body, rights) = (self.served.body(), self.rights);
        match operation {
            Operation::Len => answer.push(body.pairs()),
            Operation::Figures => Figures::of(body, &rights.of_pool(), guests).write(answer),
            Operation::CacheFigures => {
                answer.clear();
                self.served.serve(operation, &mut Reader(&[]), answer)?;
            }
            Operation::Shrink => {
                let write = rights.enter()?;
                let halved = body.shrink()? == index::Shrunk::Halved;
                drop(write);
                answer.push(halved.into());
            }
            Operation::Compact => {
                let write = rights.enter()?;
                answer.push(body.compact());
                drop(write);
            }
            _ => {
                body.settle();
                let synced = rights.pool.sync_counted(&|| Some(body.pairs()));
                synced.map_err(|source| Error::Io { action: "syncing the pool", source })?;
            }
        }
        rights.look()
    }
}
