//! The binary as a user runs it: what it prints where, its exit status, and what is left behind.

mod access;
mod bench;
mod copies;
mod demo;
mod dump;
mod durability;
mod guide;
mod help;
mod load;
mod look;
mod pairs;
mod shrink;
mod sizes;
mod torture;
mod typed;
mod workspace;
