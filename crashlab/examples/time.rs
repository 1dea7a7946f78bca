//! Time directed histories.
use crashlab::*;
fn main() {
    let t0 = std::time::Instant::now();
    for e in trial::Engine::ALL {
        for d in e.directed() {
            let t = std::time::Instant::now();
            let r = d.run(trial::BOUNDS);
            println!(
                "{:.3}s {} {:?}",
                t.elapsed().as_secs_f64(),
                d.name,
                r.map_err(|f| f.to_string())
            );
        }
        println!("{:?}", t0.elapsed());
    }
}
