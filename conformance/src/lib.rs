//! The conformance suite: what every engine owes on every medium. All of it is tests, in `suite`:
//! `cargo test -p firndex-conformance`.
