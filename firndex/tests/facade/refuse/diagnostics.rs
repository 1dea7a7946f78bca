//! What the compiler says of types that cannot be keys or values.

use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

/// The compiled library beside this test: of several, built with other options, the last one.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = |path: &PathBuf| {
        path.metadata().and_then(|of| of.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let files = std::fs::read_dir(test.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libfirndex-") && name.ends_with(".rlib")
    };
    files.filter(is_library).max_by_key(built).expect("the library is beside its test")
}

/// What the compiler says of a program; empty if it takes it.
fn said_of(program: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("program.rs");
    std::fs::write(&source, program).unwrap();
    let library = library();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "--emit", "metadata", "--out-dir"]).arg(directory.path());
    command.arg("-L").arg(library.parent().unwrap());
    command.arg("--extern").arg(format!("firndex={}", library.display())).arg(&source);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), !said.contains("error"), "{said}");
    said
}

#[test]
fn a_type_that_cannot_be_a_key_gets_a_line_that_says_what_to_do() {
    assert_eq!(
        said_of("fn main() { let _ = firndex::Table::<u64, (char, [f64; 2])>::in_memory(); }"),
        ""
    );
    for (program, type_name) in [
        ("fn main() { let _ = firndex::Table::<String, u64>::in_memory(); }", "String"),
        ("fn main() { let _ = firndex::Table::<u64, usize>::in_memory(); }", "usize"),
        (
            "#[derive(Clone, Copy, firndex::Fixed)] struct Visit { page: &'static str } fn main() {}",
            "&'static str",
        ),
        (
            "#[derive(Clone, Copy)] struct Plain(u64); \
             fn main() { let _ = firndex::Table::<Plain, u64>::in_memory(); }",
            "Plain",
        ),
    ] {
        let said = said_of(program);
        let line = format!(
            "`{type_name}` cannot be a key or a value of a `Table`: derive `firndex::Fixed` if it is a"
        );
        assert!(said.contains(&line), "{said}");
        assert!(said.contains("or keep it in a `Store`"), "{said}");
    }
}
