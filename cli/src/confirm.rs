//! Asking before many things change at once.
//!
//! Invariant: without a terminal nobody is asked and nothing changes, unless `--yes` says so.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::Failure;

/// Asks on stderr; `yes` answers for a script.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("{question} Nobody can be asked here; --yes answers")));
    }
    write!(io::stderr(), "{question} [y/N] ").unwrap_or_default();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|_| Failure::Declined)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Declined),
    }
}
