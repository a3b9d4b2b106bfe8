//! `tenure certs`: an authority of one's own, and what it signs.
//!
//! Not responsible for how certificates look (`tenure_tls::issue`), nor for carrying them to other hosts.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::json;
use tenure_server::config::TRUST_DOMAIN;
use tenure_tls::Role;
use tenure_tls::issue::{self, LEAF_DAYS, Leaf, Made};

use crate::exit::{Exit, Failure};
use crate::output::{Output, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Makes an authority: ca.pem, which everybody gets, and ca-key.pem, which stays where it is.
    Init {
        #[command(flatten)]
        place: Place,
        /// Whose names the certificates carry; the server file names the same.
        #[arg(long, default_value = TRUST_DOMAIN)]
        trust_domain: String,
    },
    /// Makes a certificate for a server.
    Server {
        #[command(flatten)]
        place: Place,
        /// The server's name.
        #[arg(default_value = "server")]
        name: String,
        /// A name or an address under which the server is reached; once for each.
        #[arg(long, required = true, value_name = "HOST")]
        host: Vec<String>,
        #[command(flatten)]
        life: Life,
    },
    /// Makes a certificate for a node.
    Node {
        #[command(flatten)]
        place: Place,
        /// The node's name, as in its node file.
        name: String,
        #[command(flatten)]
        life: Life,
    },
    /// Makes a certificate for a person or a program.
    Client {
        #[command(flatten)]
        place: Place,
        /// Its name.
        name: String,
        /// What it may do.
        #[arg(long, value_parser = PossibleValuesParser::new(["producer", "viewer", "operator", "admin"]))]
        role: String,
        #[command(flatten)]
        life: Life,
    },
}

/// Where certificates are.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The directory of the authority; what is made goes there, too.
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
}

/// How long a certificate lives.
#[derive(Debug, Args)]
pub(crate) struct Life {
    /// In days.
    #[arg(long, default_value_t = LEAF_DAYS, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Takes the place of an older one of the same name.
    #[arg(long)]
    replace: bool,
}

/// Runs one verb.
pub(crate) fn run(command: CertsCommand, output: &Output) -> Result<Exit, Failure> {
    let made = match command {
        CertsCommand::Init { place, trust_domain } => issue::init(&place.dir, &trust_domain),
        CertsCommand::Server { place, name, host, life } => {
            issued(&place, Leaf { role: Role::Server, name, hosts: host, days: life.days }, life.replace)
        }
        CertsCommand::Node { place, name, life } => {
            issued(&place, Leaf { role: Role::Node, name, hosts: Vec::new(), days: life.days }, life.replace)
        }
        CertsCommand::Client { place, name, role, life } => {
            let role = Role::parse(&role)
                .ok_or_else(|| Failure::Usage(format!("{role:?} is no role of a client")))?;
            issued(&place, Leaf { role, name, hosts: Vec::new(), days: life.days }, life.replace)
        }
    };
    let made =
        made.map_err(|source| Failure::Component { what: "no certificate was made", source: source.into() })?;
    if output.is_data() {
        output.value(
            &json!({"cert": made.cert.display().to_string(), "key": made.key.display().to_string()}),
        )?;
    } else {
        note(format!("made {} and its key {}", made.cert.display(), made.key.display()));
    }
    Ok(Exit::Ok)
}

fn issued(place: &Place, leaf: Leaf, replace: bool) -> Result<Made, issue::Error> {
    issue::issue(&place.dir, &leaf, replace)
}
