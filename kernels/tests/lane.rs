//! Lanes between processes: the code of `pmem/src/meeting/lane.rs` itself.
//!
//! Properties: what is read of a request or of an answer is what was written; a request is begun or taken back, never
//! both; who sleeps is woken, the guest on its lane and the owner by a ring.

use pmem::meeting::{Asked, Doze, Lane, Part};
use pmem::sync::loom::{begin, end, explore, spawn};
use std::sync::Arc;

type Narrow = Lane<2>;

/// Begins what is asked, which is one of these, and answers with the successor. Returns whether the guest sleeps, if
/// anything was asked.
fn serve(lane: &Narrow, possible: &[u64]) -> Option<bool> {
    let mut request = Vec::new();
    let part = lane.take(&mut request)?;
    assert_eq!(part, Part::WHOLE, "a part of the request is another's");
    assert!(request.len() == 2 && request[0] == request[1], "the request is torn: {request:?}");
    assert!(possible.contains(&request[0]), "nobody has asked this: {request:?}");
    Some(lane.answer(&[request[0] + 1; 2], Part::WHOLE))
}

fn answer(lane: &Narrow) -> Vec<u64> {
    let mut answer = Vec::new();
    assert_eq!(lane.answer_into(&mut answer), Part::WHOLE, "a part of the answer is another's");
    answer
}

/// A guest that asks, looks, and gives up; and asks once more if it was answered.
#[test]
fn a_request_is_answered_or_taken_back_and_read_whole() {
    explore(None, || {
        let lane = Arc::new(Narrow::default());
        begin();
        let owner = {
            let lane = Arc::clone(&lane);
            spawn(1, move || (0..2).filter(|_| serve(&lane, &[10, 20]).is_some()).count())
        };
        lane.ask(&[10; 2], Part::WHOLE);
        let mut begun = 1;
        if lane.asked() == Asked::Answered {
            assert_eq!(answer(&lane), [11; 2]);
            lane.ask(&[20; 2], Part::WHOLE);
            begun = 2;
        }
        if lane.withdraw() {
            begun -= 1;
        }
        assert_eq!(owner.join().unwrap(), begun.min(2), "it was begun and taken back");
        end();
    });
}

/// The owner goes first, and loom tries looks that come earlier: not later ones.
#[test]
fn an_answer_is_read_whole() {
    explore(None, || {
        let lane = Arc::new(Narrow::default());
        lane.ask(&[10; 2], Part::WHOLE);
        begin();
        let guest = {
            let lane = Arc::clone(&lane);
            spawn(1, move || {
                let is_answered = lane.asked() == Asked::Answered;
                assert!(!is_answered || answer(&lane) == [11; 2], "the answer is torn");
            })
        };
        serve(&lane, &[10]);
        guest.join().unwrap();
        end();
    });
}

#[test]
fn a_guest_that_sleeps_is_woken() {
    explore(None, || {
        let lane = Arc::new(Narrow::default());
        lane.ask(&[10; 2], Part::WHOLE);
        begin();
        let owner = {
            let lane = Arc::clone(&lane);
            spawn(1, move || serve(&lane, &[10]).expect("it was asked before"))
        };
        let sleeps = lane.fall_asleep().is_some();
        let is_woken = owner.join().unwrap();
        assert!(is_woken || !sleeps, "nobody wakes the guest");
        assert_eq!(answer(&lane), [11; 2]);
        end();
    });
}

#[test]
fn an_owner_that_sleeps_is_rung_for() {
    explore(None, || {
        let both = Arc::new((Narrow::default(), Doze::default()));
        begin();
        let owner = {
            let both = Arc::clone(&both);
            spawn(1, move || {
                let (lane, doze) = &*both;
                doze.set_asleep(true);
                lane.is_asked()
            })
        };
        let (lane, doze) = &*both;
        lane.ask(&[10; 2], Part::WHOLE);
        let is_rung_for = doze.is_asleep();
        let has_seen = owner.join().unwrap();
        assert!(is_rung_for || has_seen, "the owner sleeps on");
        end();
    });
}
