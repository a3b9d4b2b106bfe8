//! `tenure node`: the machines that run jobs.

use std::time::Duration;

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{
    DrainNodeResponse, Earmark, GetNodeResponse, ListNodesResponse, Node, NodeBackoff, NodeState,
};

use crate::exit::{Exit, Failure};
use crate::output::{Field, Output, Table, Tone, note};
use crate::{args, clock, human};

/// How often `drain --wait` looks.
const DRAIN_POLL: Duration = Duration::from_millis(500);
/// Beyond its deadline a drain needs the grace of the last jobs; then `--wait` gives up.
const DRAIN_EXTRA: Duration = Duration::from_secs(30);
/// The deadline that the server uses if none is given.
const DRAIN_DEFAULT: Duration = Duration::from_secs(60);

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// All nodes ever heard of and not forgotten.
    List,
    /// One node: host, slots, labels, pressure, kinds that it backs off from, units kept there for jobs that wait.
    Get {
        /// Its name.
        node: String,
    },
    /// Takes no new grants; what runs there, runs on.
    Cordon {
        /// Its name.
        node: String,
    },
    /// Ends cordon and drain.
    Uncordon {
        /// Its name.
        node: String,
    },
    /// Takes no new grants; what runs there finishes within the deadline or is returned.
    Drain {
        /// Its name.
        node: String,
        /// How long jobs may go on. Default: 60s.
        #[arg(long, value_name = "DURATION", value_parser = args::duration)]
        deadline: Option<Duration>,
        /// Waits until nothing runs there; exits 124 if something still does well after the deadline.
        #[arg(long)]
        wait: bool,
    },
    /// Removes a node that will not come back. Refused while leases of it live.
    Forget {
        /// Its name.
        node: String,
        /// Asserts that its host is dead: its leases end as losses. On a live host this runs jobs twice.
        #[arg(long)]
        lost: bool,
        /// Checks only.
        #[arg(long)]
        dry_run: bool,
    },
}

impl NodeCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List | Self::Get { .. } => false,
            Self::Cordon { .. } | Self::Uncordon { .. } | Self::Drain { .. } => true,
            Self::Forget { dry_run, .. } => !dry_run,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: NodeCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        NodeCommand::List => {
            let nodes = client.nodes().await?;
            let answer = ListNodesResponse { nodes, next_page_token: String::new() };
            output.show(&answer, answer.nodes.iter().map(|node| node.name.as_str()), || {
                if answer.nodes.is_empty() {
                    note("no nodes; `tenure agent --config FILE` starts one");
                    return Ok(());
                }
                output.table(&list(&answer.nodes, output))
            })?;
        }
        NodeCommand::Get { node } => {
            let node = client.node(&node).await?;
            let answer = GetNodeResponse { node: Some(node.clone()) };
            output.show(&answer, [node.name.as_str()], || output.table(&details(&node, output)))?;
        }
        NodeCommand::Cordon { node } => {
            let answer = client.cordon(&node).await?;
            let verb = if answer.changed { "is cordoned" } else { "was cordoned already" };
            let there = running(answer.node.as_ref());
            output.did(&answer, &node, format!("{node} {verb}; {there} there"))?;
        }
        NodeCommand::Uncordon { node } => {
            let answer = client.uncordon(&node).await?;
            let verb = if answer.changed { "takes grants again" } else { "was not cordoned" };
            output.did(&answer, &node, format!("{node} {verb}"))?;
        }
        NodeCommand::Drain { node, deadline, wait } => {
            return drain(&node, deadline, wait, client, output).await;
        }
        NodeCommand::Forget { node, lost, dry_run } => {
            let answer = client.forget(&node, lost, dry_run).await?;
            let ended = human::count(answer.ended_leases, "lease");
            let sentence = match (dry_run, lost) {
                (true, _) => format!("{node} would be forgotten, {ended} would end (--dry-run)"),
                (false, true) => format!("{node} is forgotten; {ended} ended as losses"),
                (false, false) => format!("{node} is forgotten"),
            };
            output.did(&answer, &node, sentence)?;
        }
    }
    Ok(Exit::Ok)
}

async fn drain(
    name: &str,
    deadline: Option<Duration>,
    wait: bool,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let mut answer = client.drain(name, deadline).await?;
    let mut exit = Exit::Ok;
    if wait {
        let give_up = clock::after(deadline.unwrap_or(DRAIN_DEFAULT).saturating_add(DRAIN_EXTRA));
        let mut told = None;
        while let Some(node) = answer.node.as_ref().filter(|node| node.running + node.unreaped > 0) {
            if clock::mono() >= give_up {
                exit = Exit::WaitRanOut;
                break;
            }
            if told != Some(node.running) {
                note(format!("{name}: {}", running(Some(node))));
                told = Some(node.running);
            }
            tokio::time::sleep(DRAIN_POLL).await;
            answer.node = Some(client.node(name).await?);
        }
    }
    let verb = if answer.changed { "drains" } else { "was draining already" };
    let there = running(answer.node.as_ref());
    output.did::<DrainNodeResponse>(&answer, name, format!("{name} {verb}; {there} there"))?;
    Ok(exit)
}

fn running(node: Option<&Node>) -> String {
    let running = node.map_or(0, |node| node.running);
    let jobs = human::count(running, "job");
    format!("{jobs} {}", if running == 1 { "runs" } else { "run" })
}

fn list(nodes: &[Node], output: &Output) -> Table {
    let headers = ["NODE", "STATE", "HEARD", "RUNNING", "SLOTS", "KINDS", "CLOSED"];
    let more = output.wide(|| ["UNREAPED", "AGENT", "HOST", "CPUS", "MEMORY", "LABELS"]);
    let mut table = Table::new(headers.into_iter().chain(more));
    for node in nodes {
        let slots: Vec<String> =
            node.slots.iter().map(|slot| format!("{}={}/{}", slot.slot, slot.used, slot.capacity)).collect();
        let closed: Vec<String> =
            node.closed_groups.iter().map(|group| format!("{} ({})", group.refuse, group.rule)).collect();
        let fields = [
            node.name.as_str().into(),
            state(node),
            format!("{} ago", human::wire_length(node.silent_for.as_ref())).into(),
            Field::figure(node.running),
            dash(&slots).into(),
            dash(&node.kinds).into(),
            if closed.is_empty() { "-".into() } else { Field::toned(closed.join(" "), Tone::Notice) },
        ];
        let more = output.wide(|| {
            let host = node.host.clone().unwrap_or_default();
            [
                Field::figure(node.unreaped),
                node.agent_version.as_str().into(),
                format!("{} {}", host.os, host.arch).into(),
                Field::figure(host.cpus),
                human::bytes(host.memory_bytes).into(),
                human::pairs(&node.labels).into(),
            ]
        });
        table.row(fields.into_iter().chain(more));
    }
    table
}

fn dash(words: &[String]) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

fn state(node: &Node) -> Field {
    let (word, tone) = match node.state() {
        NodeState::Live => ("live", Tone::Good),
        NodeState::Suspect => ("suspect", Tone::Notice),
        NodeState::Away => ("away", Tone::Bad),
        NodeState::Unspecified => ("unknown", Tone::Notice),
    };
    match (node.draining, node.cordoned) {
        (true, _) => Field::toned(format!("{word}, draining"), Tone::Notice),
        (false, true) => Field::toned(format!("{word}, cordoned"), Tone::Notice),
        (false, false) => Field::toned(word, tone),
    }
}

fn details(node: &Node, output: &Output) -> Table {
    let mut table = Table::default();
    let mut row = |name: &str, value: Field| table.row([name.into(), value]);
    let host = node.host.clone().unwrap_or_default();
    row("node", node.name.as_str().into());
    row("state", state(node));
    row("heard", format!("{} ago", human::wire_length(node.silent_for.as_ref())).into());
    row("agent", format!("{}, start {}", node.agent_version, node.incarnation).into());
    row(
        "host",
        format!(
            "{} {}, {} cpus, {} memory, {} disk free, containment {}",
            host.os,
            host.arch,
            host.cpus,
            human::bytes(host.memory_bytes),
            human::bytes(host.disk_free_bytes),
            host.containment,
        )
        .into(),
    );
    row("labels", human::pairs(&node.labels).into());
    row("kinds", dash(&node.kinds).into());
    row("running", node.running.to_string().into());
    if node.unreaped > 0 {
        row("unreaped", Field::toned(node.unreaped.to_string(), Tone::Bad));
    }
    for slot in &node.slots {
        row("slot", format!("{} {}/{}", slot.slot, slot.used, slot.capacity).into());
    }
    for group in &node.closed_groups {
        let text = format!(
            "{} by {}: {} is {:.1}, the limit is {:.1}, for {}",
            group.refuse,
            group.rule,
            group.signal,
            group.observed,
            group.threshold,
            human::wire_length(group.closed_for.as_ref()),
        );
        row("closed", Field::toned(text, Tone::Notice));
    }
    for backoff in &node.backoffs {
        let text = backs_off(backoff, &output.when(backoff.until.as_ref()));
        row("backs off", Field::toned(text, Tone::Notice));
    }
    for earmark in &node.earmarks {
        row("kept", kept(earmark, &output.when(earmark.by.as_ref())).into());
    }
    for warning in &node.warnings {
        row("warning", Field::toned(warning, Tone::Notice));
    }
    table
}

fn backs_off(backoff: &NodeBackoff, until: &str) -> String {
    let jobs = human::count(backoff.failed, "job");
    format!("kind {}: {jobs} failed here one after the other; it is offered one again {until}", backoff.kind)
}

fn kept(earmark: &Earmark, by: &str) -> String {
    format!("{} for job {}, full {by} at the latest", human::needs(earmark.slots.as_ref()), earmark.job_id)
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::{Needs, SlotAmount};

    use super::*;

    #[test]
    fn what_a_node_is_not_offered_and_what_is_kept_on_it_are_sentences() {
        let backoff = NodeBackoff { kind: "site.qa".to_owned(), failed: 4, until: None };
        let slots = Needs { slots: vec![SlotAmount { slot: "gpu".to_owned(), amount: 2 }] };
        let earmark = Earmark { job_id: "0199-a".to_owned(), slots: Some(slots), ..Earmark::default() };
        expect_test::expect![[r"
            kind site.qa: 4 jobs failed here one after the other; it is offered one again in 20s
            gpu=2 for job 0199-a, full in 40s at the latest"]]
        .assert_eq(&[backs_off(&backoff, "in 20s"), kept(&earmark, "in 40s")].join("\n"));
    }
}
