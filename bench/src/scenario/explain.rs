//! `explain`: why one of a million jobs does not run on any of ten thousand nodes, asked of a server; and for how long each
//! piece of the answer holds up its writer.

use anyhow::ensure;
use tenure_client::proto::ListJobsRequest;
use tenure_tests::clock::Moment;

use super::Found;
use super::backlog::{self, MANY};
use super::fleet::GATHER;
use crate::args::{Args, Store};
use crate::bed::Bed;
use crate::figure::{Figure, percentile_ms};
use crate::report::say;
use crate::rig::{KIND, Setup};
use crate::sitters::{Offer, Sitters};

/// Questions of one repetition.
const QUESTIONS: usize = 50;
/// The longest that the writer may be held, as it stands in the figures of the server.
const HELD: &str = "0.001";

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let setup = Setup { sessions: args.sessions, ..Setup::default() };
    let full = Box::pin(backlog::fill(bed, store, args, &setup, args.queued(MANY))).await?;
    let (rig, waiting) = (full.rig, full.waiting);
    say(&format!("{} sessions …", args.sessions));
    // Each of them might run the kind, and none is open: every node has to be looked at, and has its reason.
    let sitters = Sitters::start(rig.endpoint(), args.sessions, Offer::Closed, GATHER).await?;
    let client = rig.client()?;
    let filter = ListJobsRequest { kind: KIND.to_owned(), ..ListJobsRequest::default() };
    let jobs = client.list(filter).take(QUESTIONS).await?;
    ensure!(!jobs.is_empty(), "no job waits");
    let (mut half, mut most, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        let before = rig.scrape().await?;
        let mut lengths = Vec::new();
        for job in &jobs {
            let began = Moment::now();
            let answer = client.explain(&job.id).await?;
            lengths.push(began.elapsed());
            // Each in a group; of a small fleet each by itself, too.
            let grouped = answer.node_groups.iter().map(|group| group.nodes).sum::<u64>();
            let nodes = grouped + answer.nodes_omitted;
            ensure!(nodes == u64::from(args.sessions), "{nodes} nodes are explained of {}", args.sessions);
        }
        half.push(percentile_ms(&mut lengths, 0.5));
        most.push(percentile_ms(&mut lengths, 0.99));
        let after = rig.scrape().await?;
        let above = |scrape: &crate::metrics::Scrape| scrape.above("tenure_query_seconds", HELD);
        held.push(above(&after) - above(&before));
    }
    let name = format!("explain, {} nodes, {waiting} queued", args.sessions);
    let figure =
        |what: &str, unit, values| Figure::new("explain", Some(store), format!("{name}{what}"), unit, values);
    found.figures.extend([
        figure(": answered, p50", "ms", half).below(50.0, "< 50 ms"),
        figure(": answered, p99", "ms", most),
        figure(": times the writer was held over 1 ms", "", held).below(0.5, "none"),
    ]);
    drop(sitters);
    found.checked(rig.finish("explain", waiting, 0).await?);
    Ok(())
}
