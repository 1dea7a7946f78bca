use crashlab::lab::*;
use crashlab::subject::*;
use crashlab::*;
fn go<S: Subject>(setups: Vec<Setup>, len: usize) {
    for setup in setups {
        let t = std::time::Instant::now();
        let name = setup.name;
        let bounds =
            Bounds { images: 512, images_nested: 24, nested_one_in: 16, depth: 2, kills: true };
        let mut lab = match Lab::<S>::new(setup, bounds, 1) {
            Ok(l) => l,
            Err(f) => {
                println!("{f}");
                continue;
            }
        };
        if let Err(f) = explore::exhaustive(&mut lab, len) {
            println!("FAIL {f}");
        }
        let s = t.elapsed().as_secs_f64();
        println!(
            "{} {name}: {:?} {:.2}s {:.0} images/s {:.0} rec/s",
            S::NAME,
            lab.counters,
            s,
            lab.counters.images as f64 / s,
            lab.counters.recoveries as f64 / s
        );
    }
}
fn many<S: Subject>(setups: Vec<Setup>, n: u64, threads: usize, ops: usize) {
    for setup in setups {
        let t = std::time::Instant::now();
        let name = setup.name;
        let bounds =
            Bounds { images: 64, images_nested: 8, nested_one_in: 64, depth: 2, kills: false };
        let mut lab = match Lab::<S>::new(setup, bounds, 1) {
            Ok(l) => l,
            Err(f) => {
                println!("{f}");
                continue;
            }
        };
        for seed in 0..n {
            if let Err(f) = explore::sample(&mut lab, threads, ops, seed) {
                println!("FAIL seed {seed} {f}");
                break;
            }
        }
        let s = t.elapsed().as_secs_f64();
        println!(
            "{} {name}: {:?} {:.2}s {:.0} images/s {:.0} rec/s",
            S::NAME,
            lab.counters,
            s,
            lab.counters.images as f64 / s,
            lab.counters.recoveries as f64 / s
        );
    }
}
fn main() {
    if let Some(n) = std::env::args().nth(3).and_then(|s| s.parse().ok()) {
        for threads in [2, 3] {
            many::<PoolSubject>(setups::pool(), n, threads, 3);
            many::<HeapSubject>(setups::heap(), n, threads, 3);
            many::<TableSubject>(setups::iceberg(), n, threads, 3);
            many::<StoreSubject>(setups::store(), n, threads, 3);
        }
        return;
    }
    for setup in setups::iceberg() {
        let t = execution::prepare::<TableSubject>(&setup, 1).unwrap();
        let o = machine::alone(1, None, || t.occupancy());
        println!(
            "{}: {:?} resizing {} {}",
            setup.name,
            o.levels.iter().map(|l| (l.pairs, l.slots)).collect::<Vec<_>>(),
            o.resizing,
            o.resizes
        );
    }
    if std::env::args().nth(2).is_some() {
        return;
    }
    let len = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(2);
    go::<PoolSubject>(setups::pool(), len);
    go::<HeapSubject>(setups::heap(), len);
    go::<TableSubject>(setups::iceberg(), len);
    go::<StoreSubject>(setups::store(), len);
}
