//! `tenure workflow`: jobs behind and beside each other.
//!
//! Reading order: the verbs here, `workflow/file.rs` (what a person writes), `workflow/draw.rs` (how it stands).

mod draw;
mod file;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use tenure_client::Client;
use tenure_client::proto::{ListWorkflowsResponse, WatchWorkflowResponse, Workflow, WorkflowState};

use crate::exit::{Exit, Failure};
use crate::output::{Field, Output, Table, Tone, note};
use crate::{args, clock, human};

/// Workflows shown by `list` unless the caller asks for more.
const LIST_LIMIT: usize = 50;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Stores a workflow with all of its jobs, or refuses it whole, and prints its id.
    Submit {
        /// TOML or JSON; `-` is stdin. docs/workflows.md has examples.
        file: PathBuf,
        /// Its id, a UUID v7. The same file under the same id is the same workflow. Default: that of the file, else a new one.
        #[arg(long, value_name = "UUID")]
        id: Option<String>,
        /// Judges it and stores nothing.
        #[arg(long)]
        dry_run: bool,
        /// Waits until it is final; exits 1 if it did not succeed.
        #[arg(long, conflicts_with = "dry_run")]
        wait: bool,
    },
    /// Workflows, newest first.
    List {
        /// Only those in this state. May be given several times.
        #[arg(long, value_enum)]
        state: Vec<State>,
        /// Shows at most this many.
        #[arg(long, default_value_t = LIST_LIMIT)]
        limit: usize,
    },
    /// One workflow: a drawing of its members as they stand.
    Show {
        /// Its id.
        workflow: String,
    },
    /// Prints a workflow as it stands, and again when it has changed, until it is final; exits 1 if it did not succeed.
    Watch {
        /// Its id.
        workflow: String,
        /// Watches no longer than this; exits 124 then. Default: as long as it takes.
        #[arg(long, value_name = "DURATION", value_parser = args::duration)]
        timeout: Option<Duration>,
    },
    /// Cancels all members that have not ended.
    Cancel {
        /// Its id.
        workflow: String,
        /// Kept with the workflow.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Takes a dead or cancelled member back, with everything behind it that did not succeed.
    Requeue {
        /// Its id.
        workflow: String,
        /// The place of the member, as `show` numbers them.
        #[arg(value_parser = place)]
        place: u32,
    },
}

fn place(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it is the number before the member in `tenure workflow show`".to_owned())
}

/// The states of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Running,
    Succeeded,
    Dead,
    Cancelled,
}

impl From<State> for WorkflowState {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Succeeded => Self::Succeeded,
            State::Dead => Self::Dead,
            State::Cancelled => Self::Cancelled,
        }
    }
}

impl WorkflowCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Submit { dry_run, .. } => !dry_run,
            Self::List { .. } | Self::Show { .. } | Self::Watch { .. } => false,
            Self::Cancel { .. } | Self::Requeue { .. } => true,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: WorkflowCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        WorkflowCommand::Submit { file, id, dry_run, wait } => {
            submit((file, id), dry_run, wait, client, output).await
        }
        WorkflowCommand::List { state, limit } => {
            let states: Vec<WorkflowState> = state.into_iter().map(WorkflowState::from).collect();
            let workflows = client.workflows(&states, limit).await?;
            let answer = ListWorkflowsResponse { workflows, ..ListWorkflowsResponse::default() };
            output.show(&answer, answer.workflows.iter().map(|workflow| workflow.id.as_str()), || {
                if answer.workflows.is_empty() {
                    note("no workflows");
                    return Ok(());
                }
                output.table(&list(&answer.workflows, output))
            })?;
            Ok(Exit::Ok)
        }
        WorkflowCommand::Show { workflow } => {
            let answer = client.workflow(&workflow).await?;
            output.show(&answer, [workflow.as_str()], || {
                draw::lines(&answer, output).iter().try_for_each(|line| output.line(line))
            })?;
            Ok(Exit::Ok)
        }
        WorkflowCommand::Watch { workflow, timeout } => watch(&workflow, timeout, client, output).await,
        WorkflowCommand::Cancel { workflow, reason } => {
            let answer = client.cancel_workflow(&workflow, &reason).await?;
            let verb = if answer.changed { "is being cancelled" } else { "was cancelled already" };
            output.did(&answer, &workflow, format!("{workflow} {verb}"))?;
            Ok(Exit::Ok)
        }
        WorkflowCommand::Requeue { workflow, place } => {
            let answer = client.requeue_member(&workflow, place).await?;
            let verb = if answer.changed { "is back" } else { "was not final" };
            output.did(&answer, &workflow, format!("member {place} of {workflow} {verb}"))?;
            Ok(Exit::Ok)
        }
    }
}

async fn submit(
    (file, id): (PathBuf, Option<String>),
    dry_run: bool,
    wait: bool,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let mut workflow = file::read(&file)?;
    if let Some(id) = id {
        workflow = workflow.with_id(id);
    }
    if dry_run {
        let answer = client.check_workflow(&workflow).await?;
        let total = answer.workflow.as_ref().map_or(0, |workflow| workflow.total);
        output.did(&answer, workflow.id(), format!("{} would be stored", human::count(total, "job")))?;
        return Ok(Exit::Ok);
    }
    let answer = client.submit_workflow(&workflow).await?;
    if !output.is_data() {
        output.line(workflow.id())?;
        if answer.deduplicated && !output.is_name() {
            let stands = answer.workflow.as_ref().map(state_word).unwrap_or_default();
            note(format!("deduplicated: this workflow was there already and is {stands}"));
        }
    }
    if !wait {
        if output.is_data() {
            output.message(&answer)?;
        }
        return Ok(Exit::Ok);
    }
    let mut last = answer;
    let mut changes = client.watch_workflow(workflow.id());
    while let Some(now) = changes.next().await? {
        last.workflow = Some(now);
    }
    if output.is_data() {
        output.message(&last)?;
    } else if let Some(now) = &last.workflow {
        note(sentence(now));
    }
    Ok(of_end(last.workflow.as_ref().map_or(WorkflowState::Running, Workflow::state)))
}

async fn watch(
    id: &str,
    timeout: Option<Duration>,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let give_up = timeout.map(clock::after);
    let mut watch = client.watch_workflow(id);
    let mut exit = Exit::Failed;
    loop {
        let change = match give_up {
            None => watch.next().await?,
            Some(at) => match tokio::time::timeout_at(at.into(), watch.next()).await {
                Ok(change) => change?,
                Err(_) => return Ok(Exit::WaitRanOut),
            },
        };
        let Some(workflow) = change else { return Ok(exit) };
        exit = of_end(workflow.state());
        if output.is_data() {
            output.message_line(&WatchWorkflowResponse { workflow: Some(workflow) })?;
        } else if output.is_name() {
            output.line(&workflow.id)?;
        } else {
            output.line(&format!("{}  {}", human::absolute(clock::wall()), sentence(&workflow)))?;
        }
    }
}

fn of_end(state: WorkflowState) -> Exit {
    match state {
        WorkflowState::Succeeded => Exit::Ok,
        WorkflowState::Unspecified
        | WorkflowState::Running
        | WorkflowState::Dead
        | WorkflowState::Cancelled => Exit::Failed,
    }
}

/// `running 3/5: 1 dead, 1 running, 2 succeeded`.
fn sentence(workflow: &Workflow) -> String {
    let mut text = format!("{:<9} {}/{}", state_word(workflow), workflow.done, workflow.total);
    let states: Vec<String> = workflow
        .members_by_state
        .iter()
        .map(|(state, count)| format!("{count} {}", human::clean(state)))
        .collect();
    if !states.is_empty() {
        text = format!("{text}: {}", states.join(", "));
    }
    if workflow.partial {
        text.push_str(", partial");
    }
    if !workflow.reason.is_empty() {
        text = format!("{text} ({})", human::brief(&workflow.reason, 120));
    }
    text
}

pub(crate) fn state_word(workflow: &Workflow) -> String {
    human::word(workflow.state().as_str_name(), "WORKFLOW_STATE_")
}

fn list(workflows: &[Workflow], output: &Output) -> Table {
    let headers = ["WORKFLOW", "NAME", "STATE", "DONE", "FAILED", "AGE"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["PRODUCER", "REASON"])));
    for workflow in workflows {
        let tone = match workflow.state() {
            WorkflowState::Succeeded if !workflow.partial => Tone::Good,
            WorkflowState::Succeeded | WorkflowState::Cancelled => Tone::Notice,
            WorkflowState::Dead => Tone::Bad,
            WorkflowState::Running | WorkflowState::Unspecified => Tone::Plain,
        };
        let partial = if workflow.partial { " (partial)" } else { "" };
        // What is cancelled for those has not failed.
        let bad = ["dead", "expired"];
        let failed: u32 = bad.iter().filter_map(|state| workflow.members_by_state.get(*state)).sum();
        let fields = [
            workflow.id.as_str().into(),
            if workflow.name.is_empty() { "-".into() } else { workflow.name.as_str().into() },
            Field::toned(format!("{}{partial}", state_word(workflow)), tone),
            Field::figure(format!("{}/{}", workflow.done, workflow.total)),
            if failed > 0 { Field::toned_figure(failed, Tone::Notice) } else { Field::figure(failed) },
            output.age(workflow.create_time.as_ref()).as_str().into(),
        ];
        let more = output
            .wide(|| [workflow.producer.as_str().into(), human::brief(&workflow.reason, 60).as_str().into()]);
        table.row(fields.into_iter().chain(more));
    }
    table
}
