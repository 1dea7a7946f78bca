//! The binary as a user runs it: what it prints where, its exit status, and what is left behind.

mod access;
mod bench;
mod copies;
mod demo;
mod dump;
mod durability;
mod foreign;
mod guide;
mod help;
mod load;
mod look;
mod pairs;
mod shrink;
mod signals;
mod sizes;
mod streams;
mod torture;
mod typed;
mod workspace;
