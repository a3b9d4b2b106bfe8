//! Hosts for agents: a network namespace for each, where this process may make them, else addresses of loopback.
//!
//! Responsible for making and removing them, and for the address under which each reaches the server. Not for starting
//! anything in them (`fleet.rs`).
//! Invariant: what was made is removed with the fleet; what a killed test left behind, by the next one.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// What the names of ours begin with; the pid of the test follows.
const PREFIX: &str = "tenure-test-";

/// Hosts, one for each node of a plan.
#[derive(Debug)]
pub struct Hosts(Vec<Host>);

/// One host.
#[derive(Debug)]
pub(crate) struct Host {
    /// None: it is this host.
    namespace: Option<String>,
    /// Of the server, as seen from there.
    pub(crate) server: Ipv4Addr,
}

impl Hosts {
    /// Makes so many.
    pub(crate) fn new(count: u8) -> Self {
        sweep();
        let mut hosts = Self(Vec::new());
        for number in 0..count {
            match namespace(number) {
                Ok(host) => hosts.0.push(host),
                Err(error) => {
                    eprintln!(
                        "no network namespaces, so addresses of loopback stand in for hosts: {error:#}"
                    );
                    drop(hosts);
                    let address = |number: u8| Ipv4Addr::new(127, 0, 0, 2 + number);
                    let loopback = |number| Host { namespace: None, server: address(number) };
                    return Self((0..count).map(loopback).collect());
                }
            }
        }
        hosts
    }

    /// Whether they are more than addresses.
    pub fn are_namespaces(&self) -> bool {
        self.0.iter().all(|host| host.namespace.is_some())
    }

    pub(crate) fn get(&self, number: usize) -> anyhow::Result<&Host> {
        self.0.get(number).context("no such host")
    }

    /// Every address of the server that its certificate must name.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.0.iter().map(|host| host.server)
    }
}

impl Host {
    /// What comes before a command, so that it runs there. Only the network differs from here.
    pub(crate) fn entrance(&self) -> Vec<String> {
        let enter = |name: &String| vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}")];
        self.namespace.as_ref().map(enter).unwrap_or_default()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.0.iter().filter_map(|host| host.namespace.as_deref()) {
            remove(name);
        }
    }
}

/// A namespace with a cable to this one.
fn namespace(number: u8) -> anyhow::Result<Host> {
    let pid = std::process::id();
    let name = format!("{PREFIX}{pid}-{number}");
    // A network of four addresses in the range that is set aside for tests, by the pid: tests run beside each other.
    let [.., high, low] = (pid << 2).to_be_bytes();
    let [here, there] = [1, 2].map(|last| Ipv4Addr::new(198, 18 + number % 2, high, low | last));
    let (ours, theirs) = (format!("tn{pid}h{number}"), format!("tn{pid}p{number}"));
    ip(&["netns", "add", &name])?;
    let cabled = [
        &["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", &name][..],
        &["address", "add", &format!("{here}/30"), "dev", &ours],
        &["link", "set", &ours, "up"],
        &["-n", &name, "address", "add", &format!("{there}/30"), "dev", &theirs],
        &["-n", &name, "link", "set", &theirs, "up"],
        &["-n", &name, "link", "set", "lo", "up"],
    ];
    let cabled = cabled.into_iter().try_for_each(ip).and_then(|()| enters(&name));
    if let Err(error) = cabled {
        remove(&name);
        return Err(error);
    }
    Ok(Host { namespace: Some(name), server: here })
}

/// The program that enters it is there and may.
fn enters(name: &str) -> anyhow::Result<()> {
    run(Command::new("nsenter").arg(format!("--net=/run/netns/{name}")).arg("true"))
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(args))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Its end of the cable goes with it, and the other end with that. In a clean-up nobody can do more than try.
fn remove(name: &str) {
    if let Err(error) = ip(&["netns", "delete", name]) {
        eprintln!("{error:#}");
    }
}

/// Removes what tests left behind that were killed.
fn sweep() {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}
