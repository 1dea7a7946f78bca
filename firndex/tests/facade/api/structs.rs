//! Structs as keys and values: where their fields lie, and that they come back on each engine.

use crate::places;
use firndex::{Engine, Fixed, Options, Table};
use workload::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Fixed)]
struct Uneven {
    small: u8,
    large: u64,
    odd: [u8; 11],
    signed: i16,
}

#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Nested(Uneven, u128, Nothing);

#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Nothing;

/// Of one word: it takes the way of words.
#[derive(Clone, Copy, Debug, PartialEq, Fixed)]
struct Id(u64);

fn bytes_of<T: Fixed>(value: T) -> Vec<u8> {
    let words = (0..T::BYTES.div_ceil(8)).flat_map(|index| value.word(index).to_le_bytes());
    let (bytes, beyond) = (words.clone().take(T::BYTES).collect(), words.skip(T::BYTES));
    assert!(beyond.into_iter().all(|byte| byte == 0), "zeros beyond the end");
    assert_eq!(value.word(T::BYTES.div_ceil(8)), 0);
    bytes
}

fn of_bytes<T: Fixed>(bytes: &[u8]) -> T {
    // It must not ask for words that there are not, nor take what is beyond the end for its own.
    T::of_words(|index| {
        assert!(8 * index < T::BYTES, "word {index} of {} bytes", T::BYTES);
        let mut word = [0xff; 8];
        let rest = &bytes[8 * index..bytes.len().min(8 * index + 8)];
        word[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(word)
    })
}

fn uneven(random: &mut Random) -> Uneven {
    let mut odd = [0; 11];
    odd.fill_with(|| random.word() as u8);
    Uneven { small: random.word() as u8, large: random.word(), odd, signed: random.word() as i16 }
}

#[test]
fn fields_lie_one_behind_another_in_their_order() {
    assert_eq!((Uneven::BYTES, Nested::BYTES, Nothing::BYTES, Id::BYTES), (22, 38, 0, 8));
    let mut random = Random::new(1);
    for _ in 0..1000 {
        let one = uneven(&mut random);
        let expected =
            [&[one.small][..], &one.large.to_le_bytes(), &one.odd, &one.signed.to_le_bytes()]
                .concat();
        assert_eq!(bytes_of(one), expected);
        assert_eq!(of_bytes::<Uneven>(&expected), one);
        let nested = Nested(one, u128::from(random.word()) << 50, Nothing);
        let expected = [expected, nested.1.to_le_bytes().to_vec()].concat();
        assert_eq!(bytes_of(nested), expected);
        assert_eq!(of_bytes::<Nested>(&expected), nested);
    }
}

#[test]
fn structs_are_kept_over_an_opening_on_each_engine_that_takes_them() {
    let directory = places::in_ram();
    let mut random = Random::new(2);
    let pairs: Vec<(Uneven, Nested)> =
        (0..500).map(|_| (uneven(&mut random), Nested(uneven(&mut random), 7, Nothing))).collect();
    let mut taken = 0;
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let options = Options::new().engine(engine);
        let Ok(table) = options.create_table_of::<Uneven, Nested>(&path) else { continue };
        table.extend(pairs.iter().copied()).unwrap();
        table.close().unwrap();
        let table = Table::<Uneven, Nested>::open(&path).unwrap();
        for &(key, value) in &pairs {
            assert_eq!(table.get(key).unwrap(), Some(value), "{engine}");
        }
        taken += 1;
    }
    assert!(taken > 0, "some engine takes them");
    let words = Table::<Id, Id>::in_memory().unwrap();
    words.put(Id(1), Id(2)).unwrap();
    assert_eq!(words.get(Id(1)).unwrap(), Some(Id(2)));
    assert_eq!(words.stats().unwrap().engine, Engine::ALL[0]);
}
