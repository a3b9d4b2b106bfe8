//! The certificates of a fleet on several hosts, made and named as a user does.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::ensure;
use tenure_client::{OwnCertificate, TlsFiles};

use crate::binary;
use crate::hosts::Hosts;
use crate::plan::Plan;
use crate::process::environment;

/// Makes an authority, a certificate for everybody, and the `[tls]` of the server file.
pub(super) fn make(directory: &Path, plan: &Plan, hosts: &Hosts) -> anyhow::Result<()> {
    issue(directory, &["init"])?;
    let mut names = vec!["server".to_owned(), "--host".to_owned(), "127.0.0.1".to_owned()];
    for address in hosts.servers() {
        names.extend(["--host".to_owned(), address.to_string()]);
    }
    issue(directory, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    issue(directory, &["client", "tests", "--role", "admin"])?;
    for node in &plan.nodes {
        issue(directory, &["node", &node.name])?;
    }
    let file = |name: &str| path(directory, name).display().to_string();
    let (cert, key, ca) = (file("server-server.pem"), file("server-server-key.pem"), file("ca.pem"));
    let table = format!("\n[tls]\ncert = {cert:?}\nkey = {key:?}\nclient_ca = {ca:?}\n");
    OpenOptions::new().append(true).open(directory.join("server.toml"))?.write_all(table.as_bytes())?;
    Ok(())
}

/// The `[tls]` of a node file.
pub(super) fn of_node(directory: &Path, node: &str) -> String {
    let file = |name: &str| path(directory, name).display().to_string();
    let (cert, key) = (file(&format!("node-{node}.pem")), file(&format!("node-{node}-key.pem")));
    format!("[tls]\nca = {:?}\ncert = {cert:?}\nkey = {key:?}\n", file("ca.pem"))
}

/// Who may do everything.
pub(super) fn of_operator(directory: &Path) -> TlsFiles {
    let own = OwnCertificate {
        cert: path(directory, "admin-tests.pem"),
        key: path(directory, "admin-tests-key.pem"),
    };
    TlsFiles { ca: path(directory, "ca.pem"), own: Some(own) }
}

fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join("certs").join(name)
}

fn issue(directory: &Path, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(binary::tenure()?);
    environment(&mut command, "certificates");
    command.arg("certs").args(args).arg("--dir").arg(directory.join("certs")).stdin(Stdio::null());
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tenure certs {args:?}: {said}");
    Ok(())
}
