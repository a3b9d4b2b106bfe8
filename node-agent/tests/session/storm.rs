//! A stream that is cut again and again under load: every job ends once, and nothing of it runs twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tenure_proto::node::v1::{Grant, Hello, Report, node_message, report::Event};

use crate::fake::{Fake, Stream, grant};
use crate::{NODE, start_with, token};
use tenure_node_agent::Stop;

/// Jobs that have to end.
const JOBS: u64 = 60;
/// Granted and not over, at any time.
const OUTSTANDING: usize = 8;

/// What this scheduler knows of a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lease {
    job: u64,
    started: bool,
    recorded: bool,
}

#[derive(Default)]
struct Scheduler {
    /// Jobs to grant.
    queue: Vec<u64>,
    live: BTreeMap<u64, Lease>,
    /// Outcomes by job.
    ended: BTreeMap<u64, u32>,
    tokens: u64,
}

impl Scheduler {
    fn over(&mut self, token: u64) {
        let Some(lease) = self.live.remove(&token) else { return };
        if !lease.recorded {
            self.queue.push(lease.job);
        }
    }

    /// Rule 6: what is in neither list is over.
    fn hello(&mut self, hello: &Hello) {
        for (token, lease) in self.live.clone() {
            let held = hello.held.iter().any(|held| held.token == token);
            if !held && !hello.unstored.iter().any(|end| end.token == token) {
                assert!(lease.recorded || !lease.started, "{lease:?} of {token} was lost");
                self.over(token);
            }
        }
    }

    fn report(&mut self, report: &Report) {
        let Some(lease) = self.live.get_mut(&report.token) else { return };
        match report.event.as_ref().unwrap() {
            Event::Accepted(_) | Event::Progress(_) | Event::Checkpoint(_) => {}
            Event::Started(_) => lease.started = true,
            Event::Finished(_) if lease.recorded => {} // A replay.
            Event::Finished(finished) => {
                assert_eq!(finished.exit_code, Some(0), "{finished:?}");
                lease.recorded = true;
                *self.ended.entry(lease.job).or_default() += 1;
            }
            Event::Reaped(_) | Event::Returned(_) => self.over(report.token),
        }
    }

    async fn grant(&mut self, stream: &mut Stream, log: &Path) {
        while self.live.len() < OUTSTANDING
            && let Some(job) = self.queue.pop()
        {
            self.tokens += 1;
            let lease = Lease { job, ..Lease::default() };
            self.live.insert(token(self.tokens), lease);
            let payload = format!("{}\n", log.display()).into();
            let slots = [("shell".to_owned(), 1)].into();
            stream.grant(Grant { payload, slots, ..grant(&format!("job-{job}"), self.tokens, "log") }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_storm_of_cuts_every_job_ends_once() {
    let seed = std::env::var("TENURE_SEED")
        .map_or_else(|_| u64::from(std::process::id()), |seed| seed.parse().unwrap());
    println!("TENURE_SEED={seed}");
    let mut dice = seed;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut server = Fake::start().await;
    let kind = r#"
[kinds.log]
command = ["sh", "-c", """read log; echo start $TENURE_JOB_ID $TENURE_FENCE >> $log; sleep 0.1; \
    echo end $TENURE_JOB_ID $TENURE_FENCE >> $log"""]
"#;
    let node = start_with(tempfile::tempdir().unwrap(), &server, &format!("{NODE}{kind}")).await;
    let log = node.home.path().join("log");
    let mut scheduler = Scheduler { queue: (1..=JOBS).collect(), ..Scheduler::default() };
    while u64::try_from(scheduler.ended.len()).unwrap() < JOBS {
        let (mut stream, hello) = server.stream().await;
        scheduler.hello(&hello);
        if roll(6) == 0 {
            continue; // It is cut before Welcome.
        }
        stream.welcome(&hello).await;
        for _ in 0..4 + roll(24) {
            scheduler.grant(&mut stream, &log).await;
            let message = stream.read().await;
            if let Some(node_message::Body::Reports(reports)) = &message.body {
                reports.reports.iter().for_each(|report| scheduler.report(report));
            }
            if roll(8) > 0 {
                stream.handle(message).await;
            }
        }
    }
    assert!(scheduler.ended.values().all(|&times| times == 1), "{:?}", scheduler.ended);
    let text = fs::read_to_string(&log).unwrap();
    node.stop(Stop::AtOnce).await;
    for job in 1..=JOBS {
        let name = format!("job-{job}");
        let words: Vec<&str> = text
            .lines()
            .filter(|line| line.split(' ').nth(1) == Some(&name))
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(words, ["start", "end"], "{name} ran otherwise than once");
    }
}
