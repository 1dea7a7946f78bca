//! What SIGKILL leaves, and how long opening it takes.

use super::rows::{files_in, lists, row};
use crate::byte_store::{AfterKill, ByteStore};
use crate::contender::{self, Contender};
use crate::contents::Contents;
use crate::files::allocated_bytes;
use crate::keys::Writer;
use crate::row::Row;
use crate::setting::Setting;
use crate::victim::{LoadOrder, Obeyed, Order, Victim};
use anyhow::{Context, Result, ensure};
use std::time::Instant;

/// Loads what was ordered into the store of a contender, and leaves it open.
pub(crate) fn load(order: &LoadOrder, contenders: &[Box<dyn Contender>]) -> Result<Obeyed> {
    let contender = contender::on_disk(contenders, &order.contender)?;
    let store = contender.open_store(&order.directory, order.seed)?;
    let contents = Contents::new(order.seed, order.pairs, order.value_bytes);
    for numbers in lists(order.pairs) {
        let words: Vec<u64> = numbers.map(|number| contents.word(number)).collect();
        store.put(&contents.pairs_of(&words, Writer::Insert).pairs())?;
    }
    Ok(Obeyed { report: String::new(), close: Box::new(move || store.close()) })
}

/// Loads a store in a process that is then killed, and opens the store.
pub(super) fn rows(
    contender: &dyn Contender,
    after_kill: AfterKill,
    contents: &Contents,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let directory = files_in(&setting.directory)?;
    let path = directory.path();
    let order = LoadOrder {
        contender: contender.name().to_owned(),
        directory: path.to_owned(),
        pairs: setting.pairs,
        value_bytes: setting.value_bytes,
        seed: setting.seed,
    };
    Victim::obeying(&Order::Load(order), setting)?.kill()?;
    let bytes = allocated_bytes(path).with_context(|| format!("measuring {}", path.display()))?;

    let started = Instant::now();
    let store = contender.open_store(path, setting.seed).context("opening after SIGKILL")?;
    let open_s = started.elapsed().as_secs_f64();
    let first = contents.keys(&[contents.word(0)]);
    let started = Instant::now();
    store.get(&first.keys(), &mut |_, _| ())?;
    let first_get_s = started.elapsed().as_secs_f64();
    let kept = count(&*store, contents)?;
    ensure!(
        kept == setting.pairs || !after_kill.is_all,
        "SIGKILL has left {kept} of {} pairs, and the promise is: {}",
        setting.pairs,
        after_kill.text
    );

    let row = |op| row(setting, op, contender.name());
    Ok(vec![
        Row {
            took_s: Some(open_s),
            kept: Some(kept as f64 / setting.pairs as f64),
            after_kill: Some(after_kill.text),
            ..row("open_after_kill")
        },
        Row { took_s: Some(first_get_s), ..row("first_get") },
        Row { bytes_per_pair: Some(bytes as f64 / setting.pairs as f64), ..row("on_disk") },
    ])
}

/// Counts the pairs that are there. Fails if one has another value.
fn count(store: &dyn ByteStore, contents: &Contents) -> Result<u64> {
    let (mut right, mut wrong) = (0, 0u64);
    for numbers in lists(contents.pairs()) {
        let words: Vec<u64> = numbers.map(|number| contents.word(number)).collect();
        let list = contents.keys(&words);
        store.get(&list.keys(), &mut |place, found| match found {
            Some(found) if contents.is_value(words[place], Writer::Insert, found) => right += 1,
            Some(_) => wrong += 1,
            None => (),
        })?;
    }
    ensure!(wrong == 0, "after SIGKILL {wrong} keys have values that nobody stored under them");
    Ok(right)
}
