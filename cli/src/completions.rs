//! `tenure completions`: a script for a shell.

use clap::Args;
use clap_complete::Shell;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell.
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "tenure", &mut script);
    output.bytes(&script)?;
    Ok(Exit::Ok)
}
