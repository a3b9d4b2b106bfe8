//! Figures as Prometheus reads them.

use tenure_scheduler::{
    Epoch, FencingToken, JobId, LostCause, NodeName, Ordinal, ReportKind, SessionId, Stored,
};
use uuid::Uuid;

use super::*;

fn empty_scrape() -> Scrape {
    Scrape {
        snapshot: Arc::default(),
        snapshot_age: Duration::ZERO,
        now: Wall(0),
        epoch: 3,
        leader: true,
        reloads: 2,
        sessions: 0,
        uptime: Duration::from_secs(5),
    }
}

fn ended(outcome: Outcome, cause: &str, next: JobState) -> Event {
    Event::AttemptEnded(Box::new(AttemptEnd {
        token: FencingToken::mint(Epoch(1), 1),
        job: JobId(Uuid::nil()),
        outcome,
        cause: cause.into(),
        error: "".into(),
        exit_code: None,
        started_at: None,
        next,
        reason: None,
        keep_row: true,
        keep_result: false,
        lease: None,
    }))
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|have| have == line), "{line} in:\n{text}");
}

#[test]
fn a_server_without_kinds_nodes_and_slots_has_figures_too() {
    let text = Metrics::new().unwrap().text(&empty_scrape()).unwrap();
    for line in [
        "tenure_epoch 3",
        "tenure_reloads_total 2",
        "# TYPE tenure_reloads_total counter",
        "tenure_commands_total 0",
        "tenure_nodes{state=\"live\"} 0",
        "tenure_attempts_total{outcome=\"lost\"} 0",
    ] {
        assert_line(&text, line);
    }
}

#[test]
fn a_turn_is_counted_by_what_happened_in_it() {
    let metrics = Metrics::new().unwrap();
    let lost = Stored {
        token: FencingToken::NONE,
        report: ReportKind::Finished,
        verdict: Verdict::LeaseLost(LostCause::Expired),
        job_state: None,
    };
    let effects = [Effect::Send {
        node: NodeName::new("n1"),
        session: SessionId(1),
        ordinal: Ordinal(1),
        applied: 1,
        message: Message::Stored(lost),
    }];
    let events = [
        ended(Outcome::Returned, "uid_procs", JobState::Queued { since: Wall(0) }),
        ended(Outcome::Failed, "exit", JobState::Dead { at: Wall(0) }),
    ];
    let turn =
        TurnFigures { commands: 4, turn: Duration::from_millis(2), commit: Some(Duration::from_millis(1)) };
    metrics.observe_turn(&turn, &events, &effects);
    metrics.observe_refusal("QUEUE_FULL");
    let text = metrics.text(&empty_scrape()).unwrap();
    for line in [
        "tenure_commands_total 4",
        "tenure_returns_total{rule=\"uid_procs\"} 1",
        "tenure_attempts_total{outcome=\"failed_retryable\"} 1",
        "tenure_final_jobs_total{state=\"dead\"} 1",
        "tenure_stale_reports_total{cause=\"EXPIRED\"} 1",
        "tenure_refusals_total{reason=\"QUEUE_FULL\"} 1",
        "tenure_commit_seconds_count 1",
        "tenure_turn_seconds_bucket{le=\"0.0025\"} 1",
    ] {
        assert_line(&text, line);
    }
}

#[test]
fn rules_that_nodes_name_are_capped() {
    let metrics = Metrics::new().unwrap();
    let events: Vec<Event> = (0..1000)
        .map(|n| ended(Outcome::Returned, &format!("rule{n}"), JobState::Queued { since: Wall(0) }))
        .collect();
    metrics.observe_turn(&TurnFigures::default(), &events, &[]);
    let text = metrics.text(&empty_scrape()).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("tenure_returns_total{")).count(), MOST_RULES + 1);
    assert_line(&text, &format!("tenure_returns_total{{rule=\"other\"}} {}", 1000 - MOST_RULES));
}
