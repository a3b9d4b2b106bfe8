//! Fifty jobs of one workflow, in commands and in workers, while server, agent and worker are killed at its steps: each job is
//! handed what came before it, in order, and a synthesis runs once.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_client::NewWorkflow;
use tenure_client::proto::{JobState, Outcome, WorkflowState};
use tenure_tests::process::Process;
use tenure_tests::random::Random;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, scenario};

use super::tree::{By, Member, fifty};
use crate::workers::{CALM, worker};

/// Attempts that the one worker runs at once: no more members for it are ever ready.
const CONCURRENCY: u32 = 4;

/// Each kind of victim is killed so often; in the long form all of them at every step.
const KILLS: usize = 2;

/// The first of the 13 waves from which on somebody is killed in each, while there are victims left.
const SURELY: usize = 4;

/// Of agents that die one after the other at most so many: the next one would end what runs as what kills them.
const AGENTS: usize = 4;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server,
    Agent,
    Worker,
}

/// A run of the workflow.
struct Course<'a> {
    fleet: &'a mut Fleet,
    worker: Process,
    random: Random,
    members: Vec<Member>,
    /// Their ids.
    ids: Vec<String>,
    /// Members whose gates are open.
    let_go: BTreeSet<usize>,
    kills: usize,
    /// Agents that were killed since one ended in good order.
    agents: usize,
}

#[tokio::test]
async fn fifty_jobs_end_in_order_and_each_synthesis_runs_once_whoever_is_killed() -> anyhow::Result<()> {
    let long = std::env::var_os("TENURE_TORTURE").is_some();
    let random = Random::from_environment();
    eprintln!("{random}");
    // No lease ends here, however slow the machine: every second execution has a kill for its reason.
    let again = |kind: KindPlan| kind.lease("120s").line("retry = { intervals = [\"100ms\"] }");
    let lost =
        again(KindPlan::new("py.task").worker()).line("max_losses = 1000").line("node_backoff = false");
    let plan = Plan::new()
        .kind(again(KindPlan::new("shell.task")))
        .kind(lost)
        .kind(KindPlan::new("py.async").worker()) // The worker of the scenarios has it, too.
        .node(NodePlan::new("n1").tables(CALM));
    scenario(plan, async |fleet| {
        let (part, members) = fifty();
        ensure!(members.len() == 50, "{} members", members.len());
        let workflow = NewWorkflow::new(part);
        fleet.client().submit_workflow(&workflow).await?;
        let shown = fleet.client().workflow(workflow.id()).await?;
        let ids: Vec<String> = shown.members.into_iter().map(|member| member.job_id).collect();
        ensure!(ids.len() == 50, "{} places", ids.len());
        let worker = worker(fleet, "n1", CONCURRENCY).await?;
        let let_go = BTreeSet::new();
        let mut course = Course { fleet, worker, random, members, ids, let_go, kills: 0, agents: 0 };
        if long {
            course.step_by_step(workflow.id()).await?
        } else {
            course.in_waves(workflow.id()).await?
        }
        let ended = super::ends(course.fleet, workflow.id()).await?;
        ensure!(ended.state() == WorkflowState::Succeeded && ended.done == 50, "{ended:?}");
        course.check().await?;
        eprintln!("{} kills", course.kills);
        // It may just have begun, and have no ear for anything less.
        course.kill(Victim::Worker).await
    })
    .await
}

impl Course<'_> {
    /// One member after the other, and at each all three are killed.
    async fn step_by_step(&mut self, workflow: &str) -> anyhow::Result<()> {
        while self.let_go.len() < self.ids.len() {
            let ready = self.all_that_may_run(workflow).await?;
            let one = *self.one_of(&ready).context("somebody may run")?;
            let mut victims = vec![Victim::Server, Victim::Agent, Victim::Worker];
            let turns = usize::try_from(self.random.below(3))?;
            victims.rotate_left(turns);
            if self.random.below(2) == 0 {
                victims.swap(1, 2);
            }
            self.step(&[one], &victims).await?;
        }
        Ok(())
    }

    /// All that may run at once, and at some of these waves one is killed.
    async fn in_waves(&mut self, workflow: &str) -> anyhow::Result<()> {
        let mut victims = [Victim::Server, Victim::Agent, Victim::Worker].repeat(KILLS);
        for wave in 0.. {
            if self.let_go.len() == self.ids.len() {
                break;
            }
            let ready = self.all_that_may_run(workflow).await?;
            // The seed says who comes next, and when.
            let turn = usize::try_from(self.random.below(victims.len().try_into()?))?;
            let now = !victims.is_empty() && (wave >= SURELY || self.random.below(2) == 0);
            let victim = now.then(|| victims.swap_remove(turn));
            self.step(&ready, victim.as_slice()).await?;
        }
        ensure!(victims.is_empty(), "nobody killed {victims:?}");
        Ok(())
    }

    fn one_of<'b, T>(&mut self, all: &'b [T]) -> Option<&'b T> {
        all.get(usize::try_from(self.random.below(all.len() as u64)).unwrap_or(0))
    }

    /// Waits until whoever was let go has ended, and all runs that may: those, by their places.
    async fn all_that_may_run(&mut self, workflow: &str) -> anyhow::Result<Vec<usize>> {
        let Self { fleet, worker: process, members, ids, let_go, .. } = self;
        until("all runs that may", PATIENCE * 2, async || {
            let text = |error: anyhow::Error| format!("{error:#}");
            // The next agent kills a worker that has not yet ended what an agent before it gave it.
            if process.alive().is_err() {
                *process = worker(fleet, "n1", CONCURRENCY).await.map_err(text)?;
            }
            let shown = fleet.client().workflow(workflow).await.map_err(|error| error.to_string())?;
            let state = |place: usize| shown.members.get(place).map(|member| member.state());
            let ended = |place: &usize| state(*place) == Some(JobState::Succeeded);
            let open: Vec<_> = let_go.iter().filter(|place| !ended(place)).collect();
            level(open.is_empty(), || format!("{open:?} have not ended: {shown:?}"))?;
            let may = |(place, member): &(usize, &Member)| {
                !let_go.contains(place) && member.inputs.iter().all(ended)
            };
            let ready: Vec<usize> = members.iter().enumerate().filter(may).map(|(place, _)| place).collect();
            let log = fleet.log().map_err(text)?;
            let runs = |place: &usize| {
                let last = ids.get(*place).and_then(|id| log.of(id).last());
                state(*place) == Some(JobState::Running) && last.is_some_and(|run| run.end.is_none())
            };
            level(ready.iter().all(runs), || format!("of {ready:?} not all run: {shown:?}"))?;
            Ok(ready)
        })
        .await
    }

    /// Lets some go: just before somebody is killed, or while he is away.
    async fn step(&mut self, ready: &[usize], victims: &[Victim]) -> anyhow::Result<()> {
        let before = victims.is_empty() || self.random.below(2) == 0;
        if before {
            self.open(ready)?;
            // The moment of the kill is the point of this test.
            tokio::time::sleep(self.random.between(Duration::ZERO, Duration::from_millis(60))).await;
        }
        for (victim, number) in victims.iter().zip(0..) {
            self.kill(*victim).await?;
            if !before && number == 0 {
                self.open(ready)?;
            }
            self.bring_back(*victim).await?;
            self.kills += 1;
        }
        Ok(())
    }

    fn open(&mut self, places: &[usize]) -> anyhow::Result<()> {
        for place in places {
            self.fleet.open(&self.members.get(*place).context("a member")?.gate)?;
            self.let_go.insert(*place);
        }
        Ok(())
    }

    async fn kill(&mut self, victim: Victim) -> anyhow::Result<()> {
        match victim {
            Victim::Server => self.fleet.kill_server().await,
            Victim::Agent => self.fleet.kill_agent("n1").await,
            Victim::Worker if self.worker.alive().is_ok() => self.worker.kill().await,
            Victim::Worker => Ok(()),
        }
    }

    async fn bring_back(&mut self, victim: Victim) -> anyhow::Result<()> {
        match victim {
            Victim::Server => {
                self.fleet.start_server().await?;
                // On Postgres one that starts follows the dead one for a while: each kill is to meet a leader.
                until("the server leads", PATIENCE, async || {
                    let info = self.fleet.client().server_info().await.map_err(|error| error.to_string())?;
                    level(info.leader, || format!("{info:?}"))
                })
                .await
            }
            Victim::Agent => {
                self.start_agent().await?;
                self.agents += 1;
                if self.agents < AGENTS {
                    return Ok(());
                }
                self.agents = 0;
                let mut agent = self.fleet.take_agent("n1")?;
                agent.signal(Signal::TERM)?;
                let status = agent.ended(PATIENCE).await?;
                ensure!(status.success(), "the agent ended with {status}\n{}", agent.tail());
                self.start_agent().await
            }
            Victim::Worker => {
                self.worker = worker(self.fleet, "n1", CONCURRENCY).await?;
                Ok(())
            }
        }
    }

    /// Starts the agent, and waits until it has said Hello itself: the server may still count the one before as live.
    async fn start_agent(&mut self) -> anyhow::Result<()> {
        let welcomes = |log: &str| log.matches("the server said Welcome").count();
        let before = welcomes(&std::fs::read_to_string(self.fleet.directory().join("logs/n1"))?);
        self.fleet.start_agent("n1")?;
        let agent = self.fleet.agent("n1")?;
        until("the agent has said Hello", PATIENCE, async || {
            level(welcomes(&agent.log()) > before, || agent.tail())
        })
        .await
    }

    /// What must have come of it.
    async fn check(&self) -> anyhow::Result<()> {
        let log = self.fleet.log()?;
        let ended_well =
            |id: &str| log.of(id).filter(|run| run.exit == Some(0)).filter_map(|run| run.end).max();
        for ((member, id), place) in self.members.iter().zip(&self.ids).zip(0..) {
            let result = self.fleet.client().result(id).await?;
            let told = String::from_utf8_lossy(&result.data).into_owned();
            ensure!(told == member.says, "member {place} says {told}, not {}", member.says);
            let runs: Vec<_> = log.of(id).collect();
            let attempts = self.fleet.client().attempts(id).await?;
            let well = attempts.iter().filter(|attempt| attempt.outcome() == Outcome::Succeeded).count();
            ensure!(well == 1, "member {place} has succeeded {well} times: {attempts:?}");
            // What a worker runs dies with it; a command notices nothing of whoever is killed here.
            ensure!(member.by == By::Worker || runs.len() == 1, "member {place} ran so: {runs:#?}");
            let first = runs.first().map(|run| run.start.at).context("it ran")?;
            for input in &member.inputs {
                let end = self.ids.get(*input).and_then(|id| ended_well(id));
                let end = end.with_context(|| format!("member {input} has ended well"))?;
                ensure!(end <= first, "member {place} began before member {input} had ended");
            }
        }
        Ok(())
    }
}
