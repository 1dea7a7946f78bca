use engines::{Settings, iceberg::{self, Iceberg, Shape}};
use index::Index;
use pmem::{Pool, medium::Memory, pool::Spec, superblock::{Place, PoolKind}};
use std::sync::Arc;
use std::time::Instant;
fn table(shape: Shape, settings: Settings) -> Iceberg<pmem::medium::Dram> {
    let spec = Spec { kind: PoolKind::Table, engine: iceberg::ENGINE_ID, key_bytes: 8, value_bytes: 8, hash_id: 1, hash_seed: 42, uuid: 1, segment_log2: 18, engine_params: iceberg::engine_params(&shape) };
    Iceberg::open(Arc::new(Pool::create(Memory::dram(1 << 40).unwrap(), &spec, Place::default()).unwrap()), settings).unwrap()
}
#[test]
fn smoke() {
    for helper in [false, true] {
    let t = table(Shape::default(), Settings { helper, ..Settings::default() });
    let n = 2_000_000u64;
    let s = Instant::now();
    for k in 0..n { assert_eq!(t.insert(k, k * 3).unwrap(), None, "{k}"); }
    eprintln!("insert {:?}", s.elapsed() / n as u32);
    let s = Instant::now();
    for k in 0..n { assert_eq!(t.get(k), Some(k * 3), "{k}"); }
    eprintln!("get {:?}", s.elapsed()/ n as u32);
    let s = Instant::now();
    for k in n..2*n { assert_eq!(t.get(k), None); }
    eprintln!("miss {:?}", s.elapsed()/ n as u32);
    eprintln!("{:?}", t.occupancy());
    let c = t.check(); assert!(c.is_sound(), "{:?}", &c.findings[..5]);
    let keys: Vec<u64> = (0..n).collect(); let mut out = vec![None; n as usize];
    let s = Instant::now();
    t.get_many(&keys, &mut out);
    eprintln!("get_many {:?}", s.elapsed()/ n as u32);
    for k in 0..n { assert_eq!(out[k as usize], Some(k*3)); }
    for k in 0..n { assert_eq!(t.remove(k).unwrap(), Some(k * 3)); }
    assert_eq!(t.len(), 0);
    let pairs: Vec<_> = (0..n).map(|k| (k, k+1)).collect();
    let s = Instant::now();
    t.insert_many(&pairs, &mut out).unwrap();
    eprintln!("insert_many {:?}", s.elapsed()/ n as u32);
    assert!(out.iter().all(|o| o.is_none()));
    assert_eq!(t.len(), n);
    let c = t.check(); assert!(c.is_sound(), "{:?}", &c.findings[..5]);
    }
}
#[test]
fn threads() {
    let t = table(Shape { initial_log2: 0, ..Shape::default() }, Settings::default());
    let n = 500_000u64;
    std::thread::scope(|s| { for th in 0..3 { let t = &t; s.spawn(move || for k in 0..n { let k = k * 3 + th; assert_eq!(t.insert(k, k).unwrap(), None); assert_eq!(t.get(k), Some(k)); }); } });
    assert_eq!(t.len(), 3 * n);
    let c = t.check(); assert!(c.is_sound(), "{:?}", &c.findings[..5]);
}
