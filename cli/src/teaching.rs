//! What a program says of itself to shells and to `man`.

use std::path::Path;

use anyhow::Result;
use clap::Command;
use clap_mangen::Man;

use crate::failure::{Failure, Status};
use crate::output;

pub use clap_complete::Shell;

/// Prints the completions of the program.
pub fn complete(mut program: Command, shell: Shell) -> Result<Status> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    output::data(&script)?;
    Ok(Status::Done)
}

/// Prints the program's manual page, or writes those of all commands to a directory.
pub fn describe(program: Command, dir: Option<&Path>) -> Result<Status> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        Man::new(program).render(&mut page)?;
        output::data(&page)?;
        return Ok(Status::Done);
    };
    clap_mangen::generate_to(program, dir).map_err(|error| {
        let hint = "name an existing directory that can be written";
        Failure::new(format!("writing manual pages to {}", dir.display()), hint).caused_by(error)
    })?;
    Ok(Status::Done)
}
