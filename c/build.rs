//! Names the shared library, so that programs ask for its interface by number, and not by the file they were linked
//! with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number grows when a program that was compiled with an older header could no longer run.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfirndex.so.0");
    // A pool has threads of its own, which `dlclose` would leave without their code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
