//! The command `firndex`.

fn main() -> std::process::ExitCode {
    cli::program::main(cli::NAME, cli::run)
}
