//! Figures as Prometheus reads them.

use tenure_scheduler::{
    Count, Epoch, FencingToken, JobId, LostCause, NodeName, Ordinal, ReportKind, SessionId, SlotName, Stored,
    Tenant, TenantView,
};
use uuid::Uuid;

use super::*;

fn empty_scrape() -> Scrape {
    Scrape {
        snapshot: Arc::default(),
        snapshot_age: Some(Duration::ZERO),
        now: Wall(0),
        epoch: 3,
        leader: true,
        reloads: 2,
        terms: 1,
        renewed_ago: Some(Duration::from_millis(500)),
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
        partial: false,
        checkpoint: None,
        usage: Default::default(),
        lease: None,
        detached: None,
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
        "tenure_terms_total 1",
        "tenure_renewal_age_seconds 0.5",
        "# TYPE tenure_reloads_total counter",
        "tenure_commands_total 0",
        "tenure_nodes{state=\"live\"} 0",
        "tenure_attempts_total{outcome=\"lost\"} 0",
    ] {
        assert_line(&text, line);
    }
}

#[test]
fn what_the_views_over_leases_show_is_counted_by_view_and_forgotten_when_it_is_gone() {
    let metrics = Metrics::new().unwrap();
    let row = |invariant: &str| Violation {
        invariant: invariant.to_owned(),
        subject: "s".to_owned(),
        detail: "d".to_owned(),
    };
    let found = ["inv_all_or_nothing", "inv_slots_within_capacity", "inv_all_or_nothing", "inv_of_later"];
    metrics.observe_violations(&found.map(row));
    let text = metrics.text(&empty_scrape()).unwrap();
    for (name, rows) in
        [("inv_slots_within_capacity", 1), ("inv_leases_have_owners", 0), ("inv_all_or_nothing", 2)]
    {
        assert_line(&text, &format!("tenure_invariant_violations{{invariant=\"{name}\"}} {rows}"));
    }
    assert!(!text.contains("inv_of_later"));
    metrics.observe_violations(&[]);
    let text = metrics.text(&empty_scrape()).unwrap();
    assert_line(&text, "tenure_invariant_violations{invariant=\"inv_all_or_nothing\"} 0");
}

#[test]
fn tenants_that_nobody_declared_are_one() {
    let view = |name: &str, declared, queued, used| TenantView {
        tenant: Tenant::new(name),
        declared,
        weight: 1,
        share_permille: 0,
        dominant: None,
        used: vec![(SlotName::new("gpu"), Count { capacity: 9, used })],
        queued,
        leases: 1,
    };
    let tenants = vec![view("a", true, 3, 1), view("made-up", false, 4, 2), view("too", false, 5, 4)];
    let snapshot = Arc::new(Snapshot { tenants, ..Snapshot::default() });
    let text = Metrics::new().unwrap().text(&Scrape { snapshot, ..empty_scrape() }).unwrap();
    for line in [
        "tenure_tenant_used{slot=\"gpu\",tenant=\"a\"} 1",
        "tenure_tenant_used{slot=\"gpu\",tenant=\"other\"} 6",
        "tenure_tenant_queued_jobs{tenant=\"a\"} 3",
        "tenure_tenant_queued_jobs{tenant=\"other\"} 9",
    ] {
        assert_line(&text, line);
    }
    assert!(!text.contains("made-up"));
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
    let turn = TurnFigures {
        commands: 4,
        evaluations: 7,
        turn: Duration::from_millis(2),
        commit: Some(Duration::from_millis(1)),
    };
    metrics.observe_turn(&turn, &events, &effects);
    metrics.observe_refusal("QUEUE_FULL");
    let text = metrics.text(&empty_scrape()).unwrap();
    for line in [
        "tenure_commands_total 4",
        "tenure_evaluations_total 7",
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

#[test]
fn every_family_of_the_page_has_its_help_and_its_shape() {
    let text = Metrics::new().unwrap().text(&empty_scrape()).unwrap();
    let said = |keyword: &str| -> std::collections::BTreeMap<&str, &str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(keyword)?.trim_start().split_once(' '));
        lines.collect()
    };
    let (helps, types) = (said("# HELP"), said("# TYPE"));
    let table = Figure::ALL.map(Figure::spec);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.split(['{', ' ']).next().unwrap();
        let spec = table.iter().find(|spec| {
            let histogram = matches!(spec.shape, Shape::Histogram(_));
            let rest = series.strip_prefix(spec.name);
            rest == Some("") || (histogram && matches!(rest, Some("_bucket" | "_sum" | "_count")))
        });
        let spec = spec.unwrap_or_else(|| panic!("{series} is not in the table"));
        assert_eq!(helps.get(spec.name), Some(&spec.help), "{series}");
        let shape = match spec.shape {
            Shape::Counter => "counter",
            Shape::Gauge => "gauge",
            Shape::Histogram(_) => "histogram",
        };
        assert_eq!(types.get(spec.name), Some(&shape), "{series}");
    }
}
