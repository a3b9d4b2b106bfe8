//! `tenure config check`: the three files, checked without starting anything.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use tenure_node_agent::config::{NodeFile, Overrides};
use tenure_server::config::{Config, Problem, Retention, parse_fleet};

use crate::apply::read_text;
use crate::exit::{Exit, Failure};
use crate::output::{Output, note};

/// The address that stands in for the server of a node file that names none, as for `tenure up`.
const STAND_IN: &str = tenure_client::DEFAULT_ENDPOINT;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Names every mistake of a file with its line and key.
    Check {
        /// What kind of file it is.
        #[arg(value_enum)]
        what: What,
        /// The file.
        file: PathBuf,
    },
}

/// The three files.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    /// What the fleet may do: `tenure apply`. What it means for stored jobs only the server can tell.
    Fleet,
    /// What a machine offers and runs: `tenure agent --config`.
    Node,
    /// How a server serves: `tenure server --config`.
    Server,
}

/// Runs one verb.
pub(crate) fn run(command: ConfigCommand, output: &Output) -> Result<Exit, Failure> {
    let ConfigCommand::Check { what, file } = command;
    match what {
        What::Fleet => check_fleet(&file)?,
        What::Node => check_node(&file)?,
        What::Server => {
            Config::load(&file).map_err(|source| unusable("server file", source))?;
        }
    }
    if output.is_data() {
        output.value(&serde_json::json!({"file": file.display().to_string(), "ok": true}))?;
    } else {
        note(format!("{}: no mistakes", file.display()));
    }
    Ok(Exit::Ok)
}

fn check_fleet(file: &Path) -> Result<(), Failure> {
    let problems = match parse_fleet(&read_text(file)?, &Retention::default()) {
        Ok(_) => return Ok(()),
        Err(problems) => problems,
    };
    let lines: Vec<String> = problems.iter().map(|problem| problem_line(file, problem)).collect();
    Err(unusable("fleet file", lines.join("\n")))
}

fn problem_line(file: &Path, problem: &Problem) -> String {
    let Problem { line, key, text } = problem;
    let place = line.map(|line| format!(":{line}")).unwrap_or_default();
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    format!("{}{place}: {key}{text}", file.display())
}

fn check_node(file: &Path) -> Result<(), Failure> {
    let config = NodeFile::load(file)
        .and_then(|node| {
            // A file for `tenure up` may leave the server out.
            let server = if node.names_server() { None } else { Some(STAND_IN.to_owned()) };
            node.validate(Overrides { server, ..Overrides::default() })
        })
        .map_err(|source| unusable("node file", source))?;
    for (kind, why) in config.advertised().missing {
        note(format!("{}: kind {kind} would not be offered: {why}", file.display()));
    }
    Ok(())
}

/// A configuration that cannot be used, with every reason.
pub(crate) fn unusable(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::Config { what: what.to_owned(), source: source.into() }
}
