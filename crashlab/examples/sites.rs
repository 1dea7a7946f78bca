//! Try the trial.
use crashlab::*;
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let which = std::env::args().nth(1);
    for e in trial::Engine::ALL {
        if which.as_deref().is_some_and(|w| w != e.name()) {
            continue;
        }
        let t = std::time::Instant::now();
        match trial::trial(&e.directed(), 2) {
            Ok(trial) => {
                println!(
                    "{}: {} sites, {} unnoticed, {:?} {:.1}s",
                    e.name(),
                    trial.sites.len(),
                    trial.unnoticed.len(),
                    trial.counters,
                    t.elapsed().as_secs_f64()
                );
                for s in trial.unnoticed {
                    println!(
                        "  {:?} {}:{}:{}",
                        s.kind,
                        s.file.rsplit("../").next().unwrap(),
                        s.line,
                        s.column
                    );
                }
            }
            Err(f) => println!("FAIL {f}"),
        }
    }
}
