//! Compiles the shims of those C and C++ maps that are there, and notes every peer's version.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// What follows `marker` in `text`, up to a character that no version has.
fn version_after(text: &str, marker: &str) -> Option<String> {
    let rest = &text[text.find(marker)? + marker.len()..];
    let rest = rest.trim_start_matches([' ', '"']);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)))?;
    Some(rest[..end].to_owned())
}

fn boost_version(include: &Path) -> Option<String> {
    let text = fs::read_to_string(include.join("boost/version.hpp")).ok()?;
    Some(version_after(&text, "#define BOOST_LIB_VERSION")?.replace('_', "."))
}

fn tbb_version(include: &Path) -> Option<String> {
    let text = fs::read_to_string(include.join("oneapi/tbb/version.h")).ok()?;
    let part = |name: &str| version_after(&text, &format!("#define TBB_VERSION_{name}"));
    Some(format!("{}.{}", part("MAJOR")?, part("MINOR")?))
}

fn libcuckoo_version(include: &Path) -> Option<String> {
    let config = include.join("../share/cmake/libcuckoo/libcuckoo-config-version.cmake");
    version_after(&fs::read_to_string(config).ok()?, "set(PACKAGE_VERSION")
}

/// A C++ map: its name, a header that only a fitting version has, and how to tell the version.
type Foreign = (&'static str, &'static str, fn(&Path) -> Option<String>);

const FOREIGN: [Foreign; 3] = [
    ("libcuckoo", "libcuckoo/cuckoohash_map.hh", libcuckoo_version),
    ("tbb", "oneapi/tbb/concurrent_hash_map.h", tbb_version),
    ("boost", "boost/unordered/concurrent_flat_map.hpp", boost_version),
];

/// Names a checkout of the authors' IcebergHT.
const ICEBERGHT: &str = "PEERS_ICEBERGHT";

fn iceberght() {
    println!("cargo::rustc-check-cfg=cfg(has_iceberght)");
    println!("cargo::rerun-if-env-changed={ICEBERGHT}");
    let Some(checkout) = env::var_os(ICEBERGHT).filter(|name| !name.is_empty()) else {
        println!("cargo::warning=iceberght-c is left out: {ICEBERGHT} names no checkout");
        return;
    };
    let checkout = PathBuf::from(checkout);
    let [sources, headers] = ["src", "include"].map(|name| checkout.join(name));
    let main = sources.join("iceberg_table.c");
    assert!(main.exists(), "{ICEBERGHT}: there is no {}", main.display());
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed={}", headers.display());

    // Of their Makefile's flags, those of `make NORESIZE=1`. They use the instructions of AVX2 and
    // BMI2 without looking whether there are any, so there is no build for every processor.
    let mut build = cc::Build::new();
    build.std("gnu11").opt_level(3).flag("-march=native").define("ENABLE_BLOCK_LOCKING", None);
    // What a shared library exports can be replaced when it is loaded, so it is not inlined.
    build.flag("-fvisibility=hidden");
    // They pass the address of an array where its elements' is due; newer compilers refuse that.
    build.flag_if_supported("-Wno-incompatible-pointer-types");
    for directory in [&sources, &headers] {
        build.flag("-isystem").flag(directory);
    }
    build.file("shims/iceberght.c").compile("shim_iceberght");
    println!("cargo::rustc-link-lib=m");
    println!("cargo::rustc-cfg=has_iceberght");

    let head = std::process::Command::new("git")
        .arg("--git-dir")
        .arg(checkout.join(".git"))
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    let head = head.ok().filter(|output| output.status.success());
    let head = head.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=VERSION_ICEBERGHT={}", head.unwrap_or_else(|| "without-git".into()));
}

/// RocksDB has a C interface, so it needs no shim.
const ROCKSDB: &str = "/usr/include/rocksdb/version.h";

const CRATES: [&str; 13] = [
    "candystore",
    "dashmap",
    "feoxdb",
    "fjall",
    "foyer",
    "foyer-memory",
    "heed",
    "moka",
    "papaya",
    "quick_cache",
    "redb",
    "scc",
    "sled",
];

/// The version of a crate that this package depends on. The lock file names it with the dependency if a peer depends on
/// another version of it.
fn locked_version(lock: &str, name: &str) -> Option<String> {
    let own = &lock[lock.find("name = \"firndex-peers\"")?..];
    let own = &own[..own.find("\n\n").unwrap_or(own.len())];
    version_after(own, &format!("\"{name} "))
        .or_else(|| version_after(lock, &format!("name = \"{name}\"\nversion =")))
}

fn rocksdb() {
    println!("cargo::rustc-check-cfg=cfg(has_rocksdb)");
    println!("cargo::rerun-if-changed={ROCKSDB}");
    let Ok(text) = fs::read_to_string(ROCKSDB) else {
        println!("cargo::warning=rocksdb is left out: there is no {ROCKSDB}");
        return;
    };
    let part = |name: &str| version_after(&text, &format!("#define ROCKSDB_{name}"));
    let version = part("MAJOR").zip(part("MINOR")).map(|(major, minor)| format!("{major}.{minor}"));
    println!("cargo::rustc-cfg=has_rocksdb");
    println!("cargo::rustc-link-lib=rocksdb");
    println!("cargo::rustc-env=VERSION_ROCKSDB={}", version.unwrap_or_else(|| "unknown".into()));
}

fn main() {
    println!("cargo::rerun-if-changed=shims");
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=PEERS_INCLUDE");

    let mut includes: Vec<PathBuf> = env::var_os("PEERS_INCLUDE")
        .map(|paths| env::split_paths(&paths).collect())
        .unwrap_or_default();
    includes.extend(["/usr/local/include".into(), "/usr/include".into()]);

    // g++ takes no include path of the system's own: it would reorder its search.
    let compile = |name: &str, include: Option<&Path>| {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(3).define("NDEBUG", None);
        if let Some(include) = include.filter(|include| *include != Path::new("/usr/include")) {
            build.flag("-isystem").flag(include);
        }
        build.file(format!("shims/{name}.cpp")).compile(&format!("shim_{name}"));
    };
    compile("hash", None);
    for (name, header, version) in FOREIGN {
        println!("cargo::rustc-check-cfg=cfg(has_{name})");
        // Looked for again when it is not there yet, so that installing it is enough.
        let found = includes.iter().find(|include| include.join(header).exists());
        let Some(include) = found else {
            println!("cargo::rerun-if-changed=/usr/include/{header}");
            println!("cargo::warning={name} is left out: there is no {header}");
            continue;
        };
        compile(name, Some(include));
        println!("cargo::rustc-cfg=has_{name}");
        let version = version(include).unwrap_or_else(|| "unknown".into());
        println!("cargo::rustc-env=VERSION_{}={version}", name.to_uppercase());
        if name == "tbb" {
            println!("cargo::rustc-link-lib=tbb");
        }
    }

    iceberght();
    rocksdb();

    let lock = fs::read_to_string("Cargo.lock").unwrap_or_default();
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let rustc = std::process::Command::new(rustc).arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let rustc = rustc.ok().and_then(|text| version_after(&text, "rustc"));
    println!("cargo::rustc-env=RUSTC_VERSION={}", rustc.unwrap_or_else(|| "unknown".into()));
    for name in CRATES {
        let version = locked_version(&lock, name).unwrap_or_else(|| "unknown".into());
        let variable = name.to_uppercase().replace('-', "_");
        println!("cargo::rustc-env=VERSION_{variable}={version}");
    }
}
