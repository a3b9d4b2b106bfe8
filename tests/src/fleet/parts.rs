//! What a scenario does to the processes of a fleet.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_client::proto::NodeState;

use super::{Fleet, certificates};
use crate::process::Process;
use crate::proxy::Proxy;
use crate::wait::{PATIENCE, until};
use crate::{binary, wall};

impl Fleet {
    /// Starts the server: the first time on free ports, later on the same ones and over what it stored.
    ///
    /// # Errors
    /// If it is not ready in time.
    pub async fn start_server(&mut self) -> anyhow::Result<()> {
        ensure!(self.server.is_none(), "the server runs");
        let ready = self.path("ready");
        if ready.exists() {
            fs::remove_file(&ready)?;
        }
        let data = text(&self.path("data"))?;
        let mut listen = self.grpc;
        if self.hosts.is_some() {
            listen.set_ip(Ipv4Addr::UNSPECIFIED.into());
        }
        let (grpc, http) = (listen.to_string(), self.http.to_string());
        let ready_file = text(&ready)?;
        let (first, second) = (text(&self.path("server.toml"))?, text(&self.path("node.toml"))?);
        let mut args = if self.plan.up {
            let node = self.plan.nodes.first().context("tenure up has one node")?;
            fs::write(
                &second,
                self.plan.node_file(node, &binary::test_job()?, self.directory(), &self.mark),
            )?;
            vec!["up", "--node", &second]
        } else {
            vec!["server", "--config", &first]
        };
        let place = if self.postgres.is_some() { ["--migrate"].as_slice() } else { &["--data", &data] };
        args.extend(place);
        args.extend(["--listen", &grpc, "--http", &http, "--ready-file", &ready_file]);
        let mut server = Process::start(
            "the server",
            binary::tenure()?,
            &args,
            &self.path("logs/server"),
            &self.mark,
            None,
            &self.environment("server")?,
        )?;
        let announced = server.ready(&ready).await?;
        self.server = Some(server);
        self.grpc = address(&announced, "TENURE_SERVER")?;
        if self.hosts.is_some() {
            self.grpc.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        self.http = address(&announced, "TENURE_HTTP")?;
        Ok(())
    }

    /// SIGKILL to the server.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn kill_server(&mut self) -> anyhow::Result<()> {
        self.server.take().context("the server does not run")?.kill().await
    }

    /// SIGTERM to the server, and waits for its end.
    ///
    /// # Errors
    /// If it does not end well in time.
    pub async fn stop_server(&mut self) -> anyhow::Result<()> {
        let mut server = self.server.take().context("the server does not run")?;
        server.signal(Signal::TERM)?;
        let status = server.ended(PATIENCE).await?;
        ensure!(status.success(), "the server ended with {status}\n{}", server.tail());
        Ok(())
    }

    /// The server's process.
    ///
    /// # Errors
    /// If it does not run.
    pub fn server(&self) -> anyhow::Result<&Process> {
        self.server.as_ref().context("the server does not run")
    }

    /// Starts the agent of a node of the plan, on its own state directory.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_agent(&mut self, node: &str) -> anyhow::Result<()> {
        self.start_agent_by(node, &[])
    }

    /// As [`Fleet::start_agent`], on what looks like another boot of the host: in a mount namespace in which the kernel's
    /// boot id is another one. Needs root.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_agent_on_another_boot(&mut self, node: &str) -> anyhow::Result<()> {
        let file = self.path(&format!("boot-{node}"));
        fs::write(&file, format!("{}\n", uuid::Uuid::now_v7()))?;
        let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        self.start_agent_by(node, &["unshare", "--mount", "sh", "-c", script, &text(&file)?])
    }

    /// Starts a process of `tenure` beside those of the plan, in their environment, with its log beside theirs. The scenario
    /// ends it.
    ///
    /// # Errors
    /// If it does not start.
    pub fn process(&self, name: &str, args: &[&str]) -> anyhow::Result<Process> {
        let log = self.path(&format!("logs/{name}"));
        Process::start(name, binary::tenure()?, args, &log, &self.mark, None, &self.environment(name)?)
    }

    /// The variables of a process.
    fn environment(&self, name: &str) -> anyhow::Result<Vec<(String, String)>> {
        let mut all = self.plan.environment.clone();
        if self.plan.own_wall {
            all.extend(wall::environment(&self.path(&format!("wall-{name}")))?);
        }
        Ok(all)
    }

    /// From now on the wall clock of the server (`server`) or of an agent (its node) is this much off, in seconds. It stays so
    /// over a restart.
    ///
    /// # Errors
    /// If the plan does not give it one of its own.
    pub fn step_wall_clock(&self, name: &str, seconds: i64) -> anyhow::Result<()> {
        let offset = self.path(&format!("wall-{name}"));
        ensure!(offset.exists(), "{name} has no wall clock of its own");
        wall::step(&offset, seconds)
    }

    /// Gives processes that are started from now on this value of a variable in their environment, in place of any other.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.plan.environment.retain(|(known, _)| known != name);
        self.plan.environment.push((name.to_owned(), value.to_owned()));
    }

    fn start_agent_by(&mut self, node: &str, before: &[&str]) -> anyhow::Result<()> {
        let plan =
            self.plan.nodes.iter().find(|plan| plan.name == node).context("no such node in the plan")?;
        let file = self.path(&format!("nodes/{node}.toml"));
        let data = self.path(&format!("nodes/{node}"));
        fs::create_dir_all(&data)?;
        if let Some(uid) = plan.uid {
            chown(&data, Some(uid), Some(uid))?;
        }
        let other = self.plan.has_other_users();
        let job = if other { self.path("test-job") } else { binary::test_job()? };
        let mut settings = self.plan.node_file(plan, &job, self.directory(), &self.mark);
        let mut server = format!("http://{}", self.proxies.get(node).map_or(self.door(), Proxy::address));
        let program = match plan.uid {
            Some(_) => self.path("tenure"),
            None => binary::tenure()?.to_owned(),
        };
        let mut words: Vec<String> = before.iter().map(|&word| word.to_owned()).collect();
        if let Some(hosts) = &self.hosts {
            let number = self.plan.nodes.iter().position(|other| other.name == node).unwrap_or_default();
            let host = hosts.get(number)?;
            settings.push_str(&certificates::of_node(self.directory(), node));
            server = format!("https://{}:{}", host.server, self.grpc.port());
            words.splice(0..0, host.entrance());
        }
        fs::write(&file, settings)?;
        words.push(text(&program)?);
        words.extend(["agent", "--config", &text(&file)?, "--data", &text(&data)?].map(str::to_owned));
        words.extend(["--server".to_owned(), server]);
        let log = self.path(&format!("logs/{node}"));
        let (program, args) = words.split_first().context("no program")?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let agent = Process::start(
            node,
            Path::new(program),
            &args,
            &log,
            &self.mark,
            plan.uid,
            &self.environment(node)?,
        )?;
        ensure!(self.agents.insert(node.to_owned(), agent).is_none(), "the agent of {node} runs");
        Ok(())
    }

    /// Waits until the server hears a node.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn node_live(&mut self, node: &str) -> anyhow::Result<()> {
        let client = self.client.clone();
        let agent = if self.plan.up { self.server.as_mut() } else { self.agents.get_mut(node) };
        let agent = agent.context("no such agent")?;
        until(&format!("{node} is live"), PATIENCE, async || {
            agent.alive().map_err(|error| error.to_string())?;
            match client.node(node).await {
                Ok(found) if found.state() == NodeState::Live => Ok(()),
                Ok(found) => Err(format!("it is {:?}\n{}", found.state(), agent.tail())),
                Err(error) => Err(format!("{error}\n{}", agent.tail())),
            }
        })
        .await
    }

    /// SIGKILL to an agent; its shims and jobs are left to themselves.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn kill_agent(&mut self, node: &str) -> anyhow::Result<()> {
        self.agents.remove(node).context("no such agent")?.kill().await
    }

    /// The arguments with which the `tenure` binary is the agent of a node, once it was started: also that in
    /// `tenure up`.
    ///
    /// # Errors
    /// If a path is no UTF-8.
    pub fn agent_args(&self, node: &str) -> anyhow::Result<Vec<String>> {
        let (file, data) = if self.plan.up {
            (self.path("node.toml"), self.path("data/agent"))
        } else {
            (self.path(&format!("nodes/{node}.toml")), self.path(&format!("nodes/{node}")))
        };
        let args =
            ["agent", "--config", &text(&file)?, "--data", &text(&data)?, "--server", &self.endpoint()];
        Ok(args.map(str::to_owned).to_vec())
    }

    /// Whether an agent has ended by itself; then it is taken out of the fleet.
    ///
    /// # Errors
    /// If it does not run.
    pub fn agent_has_ended(&mut self, node: &str) -> anyhow::Result<bool> {
        let ended = self.agents.get_mut(node).context("no such agent")?.alive().is_err();
        if ended {
            self.agents.remove(node);
        }
        Ok(ended)
    }

    /// The process of an agent.
    ///
    /// # Errors
    /// If it does not run.
    pub fn agent(&self, node: &str) -> anyhow::Result<&Process> {
        self.agents.get(node).context("no such agent")
    }

    /// Takes an agent's process out of the fleet: the scenario ends it.
    ///
    /// # Errors
    /// If it does not run.
    pub fn take_agent(&mut self, node: &str) -> anyhow::Result<Process> {
        self.agents.remove(node).context("no such agent")
    }

    /// The same for the server, and for `tenure up`.
    ///
    /// # Errors
    /// If it does not run.
    pub fn take_server(&mut self) -> anyhow::Result<Process> {
        self.server.take().context("the server does not run")
    }

    /// The proxy in front of a node's session.
    ///
    /// # Errors
    /// If the plan gives it none.
    pub fn proxy(&self, node: &str) -> anyhow::Result<&Proxy> {
        self.proxies.get(node).context("no proxy for this node")
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("a path that is no UTF-8")?.to_owned())
}

/// The address behind `NAME=http://` or `NAME=https://` in a ready file.
fn address(announced: &str, name: &str) -> anyhow::Result<SocketAddr> {
    let line = announced.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix('=')?;
        value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"))
    });
    line.with_context(|| format!("no {name} in {announced:?}"))?
        .parse()
        .context("no address in the ready file")
}
