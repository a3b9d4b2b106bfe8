//! `tenure health`: the figures of every queue, and what needs attention.

use clap::Args;
use tenure_client::Client;
use tenure_client::proto::{GetQueueHealthResponse, KindHealth, QueueSignal};

use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Field, Output, Table, Tone, note};

/// Arguments of `health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Only this kind.
    kind: Option<String>,
}

/// Prints the figures.
pub(crate) async fn run(args: HealthArgs, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let health = client.queue_health(args.kind.as_deref()).await?;
    output.show(&health, health.kinds.iter().map(|kind| kind.kind.as_str()), || {
        if health.kinds.is_empty() {
            note("no kinds; `tenure apply FILE` declares them");
        } else {
            output.table(&figures(&health))?;
        }
        remarks(&health).iter().try_for_each(|line| output.line(line))
    })?;
    Ok(Exit::Ok)
}

fn figures(health: &GetQueueHealthResponse) -> Table {
    let mut table = Table::new([
        "KIND",
        "DEPTH",
        "OLDEST",
        "RUNNING",
        "SCHEDULED",
        "DEAD TODAY",
        "NODES ABLE",
        "SIGNAL",
        "WHY THE HEAD WAITS",
    ]);
    for kind in &health.kinds {
        table.row([
            kind.kind.as_str().into(),
            Field::figure(kind.depth),
            if kind.depth == 0 { "-".into() } else { human::wire_length(kind.oldest_age.as_ref()).into() },
            Field::figure(kind.running),
            Field::figure(kind.scheduled),
            if kind.dead_today > 0 {
                Field::toned_figure(kind.dead_today, Tone::Bad)
            } else {
                Field::figure(0)
            },
            if kind.nodes_able == 0 {
                Field::toned_figure(0, Tone::Bad)
            } else {
                Field::figure(kind.nodes_able)
            },
            signal(kind),
            if kind.head_reason.is_empty() { "-".into() } else { kind.head_reason.as_str().into() },
        ]);
    }
    table
}

fn signal(kind: &KindHealth) -> Field {
    let (word, tone) = match kind.signal() {
        QueueSignal::Idle => ("idle", Tone::Plain),
        QueueSignal::Moving => ("moving", Tone::Good),
        QueueSignal::Burst => ("burst", Tone::Notice),
        QueueSignal::Stuck => ("stuck", Tone::Bad),
        QueueSignal::Unspecified => ("unknown", Tone::Plain),
    };
    if kind.paused { Field::toned(format!("{word}, paused"), Tone::Notice) } else { Field::toned(word, tone) }
}

/// What stands below the table: nodes, closed groups, what needs attention.
pub(crate) fn remarks(health: &GetQueueHealthResponse) -> Vec<String> {
    let mut lines = Vec::new();
    let mut nodes = format!("{} live", human::count(health.nodes_live, "node"));
    if health.nodes_silent > 0 {
        nodes.push_str(&format!(", {} silent", health.nodes_silent));
    }
    lines.push(nodes);
    for node in &health.pressure {
        for group in &node.closed_groups {
            lines.push(format!(
                "pressure: {} refuses {} by rule {} ({} is {:.1}, the limit is {:.1}) for {}",
                human::clean(&node.node),
                human::clean(&group.refuse),
                human::clean(&group.rule),
                human::clean(&group.signal),
                group.observed,
                group.threshold,
                human::wire_length(group.closed_for.as_ref()),
            ));
        }
    }
    lines.extend(health.attention.iter().map(|line| format!("attention: {}", human::clean(line))));
    lines
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::{ClosedGroup, NodePressure};

    use super::*;

    #[test]
    fn closed_groups_and_attention_stand_below_the_figures() {
        let health = GetQueueHealthResponse {
            nodes_live: 1,
            nodes_silent: 2,
            attention: vec!["kind digest.daily is stuck".to_owned()],
            pressure: vec![NodePressure {
                node: "mini-1".to_owned(),
                closed_groups: vec![ClosedGroup {
                    refuse: "*".to_owned(),
                    rule: "uid_procs".to_owned(),
                    signal: "procs.used".to_owned(),
                    observed: 561.0,
                    threshold: 550.0,
                    closed_for: Some(prost_types::Duration { seconds: 12, nanos: 0 }),
                }],
            }],
            ..GetQueueHealthResponse::default()
        };
        expect_test::expect![[r"
            1 node live, 2 silent
            pressure: mini-1 refuses * by rule uid_procs (procs.used is 561.0, the limit is 550.0) for 12s
            attention: kind digest.daily is stuck"]]
        .assert_eq(&remarks(&health).join("\n"));
    }
}
