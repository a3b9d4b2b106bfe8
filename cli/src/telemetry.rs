//! Logs: to stderr, for people on a terminal, as JSON otherwise. Spans and figures leave by `otlp`.
//!
//! Invariant: stdout is never written to; a log line carries no payload.

pub(crate) mod otlp;

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// What a process that stays logs by default.
const DAEMON: &str = "info,h2=warn,hyper=warn,tonic=warn,tower=warn,sqlx=warn";
/// What a command logs by default.
const COMMAND: &str = "warn,h2=error,hyper=error,tonic=error,tower=error";

/// Logs of a process that stays: server, agent, both.
pub(crate) fn daemon() -> Result<(), Failure> {
    let filter = filter(DAEMON)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = if io::stderr().is_terminal() {
        builder.with_ansi(crate::output::colour_is_welcome()).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
    installed.map_err(|source| Failure::Component { what: "logging did not start", source })
}

/// What a command has to say beside its output: that it tries again, for one.
pub(crate) fn command() -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(filter(COMMAND)?)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && crate::output::colour_is_welcome())
        .without_time()
        .with_target(false)
        .compact()
        .try_init()
        .map_err(|source| Failure::Component { what: "logging did not start", source })
}

/// `TENURE_LOG` before `RUST_LOG` before the default.
fn filter(default: &str) -> Result<EnvFilter, Failure> {
    let named = ["TENURE_LOG", "RUST_LOG"].into_iter().find_map(|name| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| (name, value))
    });
    match named {
        None => Ok(EnvFilter::new(default)),
        Some((name, value)) => EnvFilter::try_new(value)
            .map_err(|source| Failure::Config { what: format!("log filter {name}"), source: source.into() }),
    }
}
