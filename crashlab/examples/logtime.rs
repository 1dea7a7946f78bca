//! time
use crashlab::target::Target;
use crashlab::trial::BOUNDS;
fn main() {
    crashlab::machine::silence_panics();
    let word = std::env::args().nth(1).unwrap_or_default();
    for d in Target::Log.directed() {
        if !d.name.contains(&word) {
            continue;
        }
        let t = std::time::Instant::now();
        match d.run(BOUNDS) {
            Ok(c) => println!(
                "{:.2}s {} h {} i {} r  {}",
                t.elapsed().as_secs_f64(),
                c.histories,
                c.images,
                c.recoveries,
                d.name
            ),
            Err(f) => println!("FAIL {} {f}", d.name),
        }
    }
}
