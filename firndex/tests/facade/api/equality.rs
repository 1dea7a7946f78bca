//! Types that call equal what differs in bytes, or different what does not.

use firndex::{Engine, Fixed, Options};

macro_rules! byte_types {
    ($($(#[$doc:meta])* $name:ident: $equal:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name<const N: usize>(pub(crate) [u8; N]);

        impl<const N: usize> PartialEq for $name<N> {
            fn eq(&self, _: &Self) -> bool {
                $equal
            }
        }

        impl<const N: usize> Fixed for $name<N> {
            const BYTES: usize = N;

            fn word(self, index: usize) -> u64 {
                self.0.word(index)
            }

            fn of_words(word: impl Fn(usize) -> u64) -> Self {
                $name(Fixed::of_words(word))
            }
        }
    )+};
}
byte_types! {
    /// Equal to nothing, not even to itself.
    Never: false;
    /// Equal to everything.
    Alike: true;
}

macro_rules! floats {
    ($($name:ident: $float:ty;)+) => {$(
        /// A float as it is most simply made a value.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) struct $name($float);

        impl Fixed for $name {
            const BYTES: usize = size_of::<$float>();

            fn word(self, index: usize) -> u64 {
                self.0.to_bits().word(index)
            }

            fn of_words(word: impl Fn(usize) -> u64) -> Self {
                $name(<$float>::from_bits(Fixed::of_words(word)))
            }
        }

        impl From<f32> for $name {
            fn from(float: f32) -> Self {
                $name(float.into())
            }
        }
    )+};
}
floats! {
    Single: f32;
    Double: f64;
}

/// A NaN differs from every value.
fn is_nan<F: PartialEq + Copy>(float: F) -> bool {
    let same = float;
    float != same
}

pub(crate) fn keeps_floats<F: Fixed + PartialEq + From<f32>>(engine: Engine) {
    let [nan, zero, negative_zero, one] = [f32::NAN, 0.0, -0.0, 1.0].map(F::from);
    let table = Options::new().engine(engine).in_memory_table_of::<F, F>().unwrap();
    for key in [zero, nan] {
        table.put(key, nan).unwrap();
        let found = table.get(key).unwrap();
        assert!(found.is_some_and(is_nan), "{engine}: no NaN is there");
        let done = table.compare_exchange(key, found, Some(zero)).unwrap();
        assert!(done.is_ok(), "{engine}: a NaN was not exchanged");
        let done = table.compare_exchange(key, Some(negative_zero), None).unwrap();
        assert!(done.is_err(), "{engine}: 0.0 was exchanged as if it were -0.0");

        table.put(key, nan).unwrap();
        let mut calls = 0;
        let before = table.modify(key, |found| {
            calls += 1;
            assert!(calls == 1, "{engine}: alone, and yet not the first time");
            found.map(|_| one)
        });
        assert!(before.unwrap().is_some_and(is_nan));
        assert!(table.get(key).unwrap() == Some(one));
    }
    assert!(table.get(negative_zero).unwrap().is_none(), "{engine}: -0.0 was found as 0.0");
    assert!(table.remove(nan).unwrap() == Some(one));
    assert_eq!(table.len(), 1);
}

#[test]
fn floats_are_compared_by_their_bytes() {
    Engine::ALL.iter().for_each(|&engine| keeps_floats::<Double>(engine));
}
