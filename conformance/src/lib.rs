//! The conformance suite: what every engine must do on every medium. It consists of tests, in `suite`: `cargo test -p
//! firndex-conformance`.
