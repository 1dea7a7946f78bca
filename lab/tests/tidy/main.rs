//! What pages, comments, manifests and CI say of the repository holds.

mod ci;
mod circles;
mod engines;
mod links;
mod manifests;
mod names;
mod pages;
