//! Pool files as creators and openers meet them.

use super::*;

#[test]
fn a_created_file_appears_only_when_published() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    drop(PoolFile::create(&path).unwrap());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let mut file = PoolFile::create(&path).unwrap();
    file.publish().unwrap();
    assert!(path.is_file());
    assert!(matches!(PoolFile::create(&path), Err(OpenError::Exists { .. })));
}

/// An opener is held up between opening and locking, while another one restores the pool, which is then in use.
#[test]
fn a_file_that_was_replaced_is_not_taken_for_the_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    PoolFile::create(&path).unwrap().publish().unwrap();
    let located = Located::new(&path).unwrap();
    let late = open_regular(&located, Access::Write).unwrap();
    let former = PoolFile::claim(&path).unwrap();
    let mut new = former.replacement().unwrap();
    new.publish_over().unwrap();
    drop(former);
    assert!(PoolFile::claimed_if_named(late, &located, Access::Write).unwrap().is_none());
    assert!(matches!(PoolFile::claim(&path), Err(OpenError::AlreadyOpen { .. })));
    drop(new);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    PoolFile::claim(&link).unwrap();
}

#[test]
fn the_second_of_two_creators_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let mut first = PoolFile::create(&path).unwrap();
    let mut second = PoolFile::create(&path).unwrap();
    first.publish().unwrap();
    assert!(matches!(second.publish(), Err(OpenError::Exists { .. })));
}

/// The outcomes of threads that create one file at once: exactly one may name it, and to the others it
/// is one that exists, whichever way it is made.
fn outcomes(create: fn(&Path) -> Result<PoolFile, OpenError>) {
    const THREADS: usize = 4;
    let directory = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = directory.path().join(round.to_string());
        let barrier = std::sync::Barrier::new(THREADS);
        let race = || {
            barrier.wait();
            let created = create(&path).and_then(|mut file| file.publish().map(|()| file));
            barrier.wait();
            created.map(drop)
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(race)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        for error in outcomes.into_iter().filter_map(Result::err) {
            assert!(matches!(error, OpenError::Exists { .. }), "{error:?}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), round + 1);
    }
}

#[test]
fn threads_that_create_one_file_at_once() {
    outcomes(PoolFile::create);
    outcomes(PoolFile::create_temporary);
}

/// The next file may get the inode of one that is just being given up.
#[test]
fn files_that_are_given_up_stand_in_nobody_s_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let create_and_give_up = || {
        for _ in 0..2000 {
            drop(PoolFile::create(&path).unwrap());
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(create_and_give_up)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_leftover_of_a_dead_creator_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let leftover = format!("pool.creating-{}", std::process::id());
    std::fs::write(directory.path().join(leftover), "").unwrap();
    PoolFile::create_temporary(&path).unwrap().publish().unwrap();
    assert!(path.is_file());
}

#[test]
fn what_is_not_a_pool_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let open = |path: &Path| PoolFile::open(path, Access::Write).unwrap_err();
    assert!(matches!(open(&path), OpenError::Missing { .. }));
    assert!(matches!(open(directory.path()), OpenError::NotAFile { .. }));
    assert!(matches!(open(Path::new("/dev/null")), OpenError::NotAFile { .. }));
    let nowhere = directory.path().join("no/such/pool");
    assert!(matches!(PoolFile::create(&nowhere), Err(OpenError::NoDirectory { .. })));
    std::fs::write(&path, b"").unwrap();
    assert!(open(&path).to_string().contains("empty"));
    std::fs::write(&path, b"hello").unwrap();
    assert!(matches!(open(&path), OpenError::NotAPool { .. }));
    std::fs::write(&path, vec![1; 100_000]).unwrap();
    assert!(matches!(open(&path), OpenError::NotAPool { .. }));
}

#[test]
fn readers_share_and_writers_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    std::fs::write(&path, b"").unwrap();
    let claim_as = |access| {
        let located = Located::new(&path).unwrap();
        let file = open_regular(&located, access).unwrap();
        claim(&file, &located, access).map(|(_, registration)| (file, registration))
    };
    let readers = (claim_as(Access::Read).unwrap(), claim_as(Access::Read).unwrap());
    assert!(matches!(claim_as(Access::Write), Err(OpenError::AlreadyOpen { .. })));
    drop(readers.0);
    assert!(matches!(claim_as(Access::Write), Err(OpenError::AlreadyOpen { .. })));
    drop(readers.1);
    let writer = claim_as(Access::Write).unwrap();
    assert!(matches!(claim_as(Access::Read), Err(OpenError::AlreadyOpen { .. })));
    drop(writer);
    claim_as(Access::Write).unwrap();
}
