//! Rows with every column filled, and rows with the least that a row has.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_scheduler::{
    Allowance, Attempt, Budget, Capacity, Child, ChildEnd, ChildWait, Chord, ClassEntry, ClassRow,
    Concurrency, ConcurrencyKey, CounterName, CronEntry, CronJob, CronName, CronPause, CronPolicy, DedupeKey,
    DedupePolicy, Detached, Epoch, FencingToken, Fingerprint, Fired, Host, Job, JobId, JobState, Kind,
    KindName, KindPolicy, Lease, MOST_WEIGHT, MemberOf, MissedFiring, MissedPolicy, Needs, Node, NodeName,
    OnDeadline, OnExhausted, OnParent, Opened, Outcome, Parked, Part, Pause, PausePolicy, Placement,
    Preferences, Producer, RateLimit, Requirement, Reservation, RetryPolicy, Rule, ScheduledCause, Scope,
    Selector, Sequence, Shape, Slot, SlotName, Spent, Stage, SynthesisPolicy, Tenant, TenantPolicy,
    TraceContext, Usage, Wait, WaitPolicy, WaitVerdict, Wall, Window, Workflow, WorkflowId, WorkflowState,
};

pub(crate) fn id(n: u64) -> JobId {
    // Version and variant of a UUID v7, so that it is a valid one.
    JobId(uuid::Uuid::from_u64_pair(0x0190_0000_0000_7000 | n >> 48, 0x8000_0000_0000_0000 | n))
}

pub(crate) fn token(n: u64) -> FencingToken {
    FencingToken::mint(Epoch(1), n)
}

/// A queued job with the least that a job has.
pub(crate) fn job(n: u64) -> Job {
    Job {
        id: id(n),
        sequence: Sequence::mint(Epoch(1), n),
        tenant: Tenant::new("default"),
        producer: Producer::new("local"),
        kind: KindName::new("site.qa"),
        state: JobState::Queued { since: Wall(1_000) },
        version: 1,
        priority: 0,
        needs: None,
        selector: Selector::default(),
        prefer: Preferences::default(),
        labels: BTreeMap::new(),
        dedupe_key: None,
        dedupe_held: false,
        concurrency_key: None,
        fingerprint: Fingerprint([7; 32]),
        hard_time_limit: None,
        soft_time_limit: None,
        parent: None,
        root: id(n),
        depth: 0,
        children: 0,
        trace: None,
        payload_size: 0,
        round: 1,
        failures: 0,
        losses: 0,
        returns: 0,
        returns_in_row: 0,
        token: FencingToken::NONE,
        last_outcome: None,
        left_result: None,
        last_node: None,
        granted_at: None,
        started_at: None,
        cancel_requested: false,
        created_at: Wall(1_000),
        stale_at: None,
        reason: None,
        waits: Vec::new(),
        on_parent_cancel: OnParent::Cancel,
        on_parent_lost: OnParent::Keep,
        detached: None,
        workflow: None,
    }
}

pub(crate) fn keyed(n: u64, key: &str) -> Job {
    Job { dedupe_key: Some(DedupeKey::new(key)), dedupe_held: true, ..job(n) }
}

/// The job as it runs under a token.
pub(crate) fn running(job: &Job, token: FencingToken) -> Job {
    Job {
        state: JobState::Running,
        version: job.version + 1,
        token,
        last_outcome: None,
        left_result: None,
        last_node: Some(NodeName::new("mini-1")),
        granted_at: Some(Wall(2_000)),
        ..job.clone()
    }
}

/// The job as it ended under its token.
pub(crate) fn ended(job: &Job, state: JobState, outcome: Outcome) -> Job {
    let left_result = (outcome == Outcome::Succeeded).then_some(true);
    Job { state, version: job.version + 1, last_outcome: Some(outcome), left_result, ..job.clone() }
}

/// A job with every column filled, and texts that break naive quoting.
pub(crate) fn rich_job(n: u64) -> Job {
    Job {
        tenant: Tenant::new("büro \"x\" 'y'"),
        state: JobState::Scheduled { until: Wall(i64::MAX), cause: ScheduledCause::Backoff },
        version: u64::try_from(i64::MAX).unwrap(),
        priority: -100,
        needs: Some(needs(&[("anthropic", 2), ("browser", u32::MAX)])),
        selector: Selector::new([
            Requirement::equals("os", "linux"),
            Requirement::one_of("zone", ["a\"b\\c", "ä"]),
            Requirement::none_of("room", ["attic"]),
            Requirement::has("gpu", true),
            Requirement::has("spot", false),
        ]),
        prefer: Preferences::new([Requirement::has("ssd", true), Requirement::equals("os", "linux")]),
        labels: texts(&[("sätze", "line\nbreak\u{1}\u{2028}"), ("empty", "")]),
        dedupe_key: Some(DedupeKey::new("digest.daily:2026-09-30 'ä' null {}")),
        dedupe_held: true,
        concurrency_key: Some(ConcurrencyKey::new("a \"key\" 'of' mine")),
        fingerprint: Fingerprint(std::array::from_fn(|i| u8::try_from(i * 8).unwrap())),
        hard_time_limit: Some(Duration::from_micros(1_500_001)),
        soft_time_limit: Some(Duration::from_micros(1_400_001)),
        parent: Some(id(n + 1)),
        root: id(n + 2),
        depth: 16,
        children: 1_000,
        trace: Some(Arc::new(TraceContext {
            parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            state: Some("rojo=00f067aa0ba902b7, 0t@congo=\"'{}".into()),
        })),
        payload_size: 300,
        round: 3,
        failures: 2,
        losses: 1,
        returns: 40,
        returns_in_row: 5,
        token: FencingToken::mint(Epoch(8_388_607), (1 << 40) - 1),
        last_outcome: Some(Outcome::FailedPermanent),
        last_node: Some(NodeName::new("mini-1")),
        granted_at: Some(Wall(-5)),
        started_at: Some(Wall(0)),
        cancel_requested: true,
        created_at: Wall(1_780_000_000_000_001),
        stale_at: Some(Wall(1_790_000_000_000_002)),
        reason: Some("exit 7: \"boom\"".into()),
        waits: vec![Wait {
            reason: "slot_busy".into(),
            message: "slot anthropic 6/6".into(),
            count: 38,
            duration: Duration::from_micros(25 * 60 * 1_000_000 + 1),
        }],
        on_parent_cancel: OnParent::Keep,
        on_parent_lost: OnParent::Cancel,
        detached: Some(Box::new(detached(WaitPolicy::AtLeast(2)))),
        workflow: Some(MemberOf { workflow: WorkflowId(id(7).0), place: u32::try_from(n).unwrap() }),
        ..job(n)
    }
}

/// A wait with every end that there is, and one that is to come.
pub(crate) fn detached(policy: WaitPolicy) -> Detached {
    let ends = ChildEnd::ALL.into_iter().map(Some).chain([None]);
    let children = (70..).zip(ends).map(|(n, end)| Child { job: id(n), end }).collect();
    let wait = ChildWait { children, policy, until: Some(Wall(1_790_000_000_000_003)) };
    Detached { wait, token: token(4), has_state: true, same_node: true }
}

/// The job as it waits for children, for which it detached.
pub(crate) fn waiting(n: u64, policy: WaitPolicy) -> Job {
    let detached = Some(Box::new(detached(policy)));
    Job { state: JobState::Waiting { since: Wall(1_000) }, detached, ..job(n) }
}

pub(crate) fn lease(n: u64, token: FencingToken, stage: Stage) -> Lease {
    Lease {
        token,
        job: id(n),
        kind: KindName::new("site.qa"),
        tenant: Tenant::new("site"),
        concurrency_key: None,
        node: NodeName::new("mini-1"),
        length: Duration::from_secs(600),
        reservation: Reservation::default(),
        attempt: 1,
        round: 1,
        granted_at: Wall(2_000),
        stage,
        parked: None,
        orphaned: false,
    }
}

pub(crate) fn rich_lease(n: u64, token: FencingToken) -> Lease {
    Lease {
        length: Duration::from_micros(10_000_001),
        reservation: Reservation {
            node: needs(&[("browser", 1)]),
            fleet: needs(&[("anthropic", 1), ("gpu", 3)]),
        },
        attempt: 3,
        round: 2,
        orphaned: true,
        concurrency_key: Some(ConcurrencyKey::new("a \"key\"")),
        ..lease(n, token, Stage::Granted)
    }
}

/// A lease whose process waits for children, or was told how that ended.
pub(crate) fn parked_lease(n: u64, token: FencingToken, verdict: Option<WaitVerdict>) -> Lease {
    let yielded =
        Reservation { node: needs(&[("browser", 1)]), fleet: needs(&[("anthropic", 1), ("gpu", 3)]) };
    let parked = Parked { epoch: 1 << 62, wait: detached(WaitPolicy::Any).wait, yielded, verdict };
    Lease { parked: Some(Box::new(parked)), ..lease(n, token, Stage::Granted) }
}

pub(crate) fn attempt(n: u64, token: FencingToken, outcome: Outcome) -> Attempt {
    Attempt {
        job: id(n),
        token,
        attempt: 2,
        round: 1,
        node: NodeName::new("mini-1"),
        outcome,
        cause: "exit".into(),
        error: "exit code 7: \"boom\"\n".into(),
        exit_code: Some(-7),
        granted_at: Wall(2_000),
        started_at: Some(Wall(2_001)),
        ended_at: Wall(2_002),
        usage: Usage::from([(CounterName::new("tokens"), 1 << 53), (CounterName::new("pages"), 0)]),
        partial: false,
        checkpoint_size: None,
    }
}

/// A tenant of the least weight, and one of the most.
pub(crate) fn tenants() -> [(Tenant, TenantPolicy); 2] {
    [("site", 1), ("büro \"x\" 'y'", MOST_WEIGHT)]
        .map(|(name, weight)| (Tenant::new(name), TenantPolicy { weight }))
}

/// A cron entry that says little and has done nothing, and one that says and has done all.
pub(crate) fn crons() -> [CronEntry; 2] {
    let job = CronJob {
        payload: "".into(),
        content_type: "".into(),
        tenant: Tenant::new("default"),
        priority: None,
        labels: BTreeMap::new(),
        needs: None,
        selector: Selector::default(),
        stale_after: None,
        hard_time_limit: None,
        concurrency_key: None,
    };
    let policy = CronPolicy {
        kind: KindName::new("site.qa"),
        when: "0 8 * * *".into(),
        zone: "Europe/Berlin".into(),
        missed: MissedPolicy::Skip,
        jitter: Duration::ZERO,
        singleton: false,
        job,
    };
    let plain = CronEntry::new(CronName::new("plain"), policy.clone(), Wall(5));
    let rich = CronPolicy {
        when: "*/10 * * * * *".into(),
        zone: "Asia/Kathmandu".into(),
        missed: MissedPolicy::CatchUp(100),
        jitter: Duration::from_micros(1_500_001),
        singleton: true,
        job: CronJob {
            payload: "{\"ü\": \"'\\\\\"}".into(),
            content_type: "application/json".into(),
            tenant: Tenant::new("büro"),
            priority: Some(-100),
            labels: [("a".into(), "b \"c\"".into())].into(),
            needs: Some(Needs::new([(SlotName::new("gpu"), 2)])),
            selector: Selector::new([Requirement::none_of("os", ["plan9"])]),
            stale_after: Some(Duration::from_secs(60)),
            hard_time_limit: Some(Duration::from_micros(1)),
            concurrency_key: Some(ConcurrencyKey::new("k")),
        },
        ..policy
    };
    let missed = |n, reason: &str| MissedFiring {
        first: Wall(n),
        last: Wall(n + 1),
        count: 2,
        reason: reason.into(),
        message: "the queue is \"full\"".into(),
        at: Wall(n + 2),
    };
    let rich = CronEntry {
        paused: Some(CronPause { by: "operator ann".into(), since: Wall(77) }),
        fired: 1 << 40,
        missed: 4,
        last_fired: Some(Fired { instant: Some(Wall(70)), at: Wall(71), job: id(1) }),
        recent: vec![missed(60, "QUEUE_FULL"), missed(50, "LATE")],
        ..CronEntry::new(CronName::new("rich"), rich, Wall(75))
    };
    [plain, rich]
}

/// A kind without policies of its own, and one with all of them.
pub(crate) fn kinds() -> [Kind; 2] {
    let plain = Kind {
        name: KindName::new("site.qa"),
        policy: KindPolicy::default(),
        paused: None,
        dead_by_day: BTreeMap::new(),
        spent: BTreeMap::new(),
    };
    let rich = Kind {
        name: KindName::new("digest.daily"),
        policy: KindPolicy {
            needs: needs(&[("anthropic", 1)]),
            selector: Selector::new([Requirement::equals("os", "linux"), Requirement::has("spot", false)]),
            prefer: Preferences::new([Requirement::one_of("zone", ["b", "a"]), Requirement::has("a", true)]),
            node_backoff: false,
            lease: Duration::from_micros(10_000_001),
            max_failures: 7,
            max_losses: 8,
            retry: RetryPolicy::Intervals(vec![Duration::from_secs(10), Duration::from_micros(1)]),
            permanent_exit_codes: vec![-1, 64],
            hard_time_limit: Duration::from_secs(9),
            soft_time_limit: Some(Duration::from_micros(8_000_001)),
            progress_timeout: Some(Duration::from_micros(7_000_001)),
            queue_cap: Some(20),
            max_running: Some(7),
            budget: Some(Budget {
                allowances: Window::ALL
                    .map(|(window, name)| (CounterName::new(name), Allowance { amount: 1 << 53, window }))
                    .into(),
                on_exhausted: OnExhausted::Refuse,
            }),
            concurrency: Some(Concurrency { key: "conversation".into(), limit: 3 }),
            fifo: true,
            reserve_after: Duration::from_secs(11),
            stale_after: Some(Duration::from_secs(4 * 3600)),
            dedupe: DedupePolicy::Live,
            placement: Placement::Spread,
            priority: -3,
            result_ttl: Duration::ZERO,
            retention: Duration::from_secs(1),
            keep_on_wait: [SlotName::new("anthropic"), SlotName::new("gpu")].into(),
            reacquire_timeout: Duration::from_micros(1_000_001),
        },
        paused: Some(PausePolicy::Reject),
        dead_by_day: BTreeMap::from([(-1, 2), (20_000, 3)]),
        spent: BTreeMap::from([(CounterName::new("tokens"), Spent { since: Wall(-3), amount: 1 << 53 })]),
    };
    [plain, rich]
}

/// A node slot, a fleet slot, and both kinds of pause.
pub(crate) fn slots() -> [Slot; 3] {
    let slot = |name, scope, paused| Slot {
        name: SlotName::new(name),
        scope,
        paused,
        capacity_since: token(3),
        throttled_until: None,
        rate: None,
        full_at: None,
    };
    let rate = RateLimit { tokens: 50, per: Duration::from_secs(60), burst: 10 };
    let anthropic = slot("anthropic", Scope::Fleet { capacity: 6 }, Some(Pause { until: None }));
    [
        slot("browser", Scope::Node, None),
        Slot { rate: Some(rate), full_at: Some(Wall(12)), throttled_until: Some(Wall(13)), ..anthropic },
        slot("gpu", Scope::Fleet { capacity: 0 }, Some(Pause { until: Some(Wall(9)) })),
    ]
}

pub(crate) fn node() -> Node {
    Node {
        name: NodeName::new("mini-1"),
        instance: "5b0e".into(),
        boot_id: "b".into(),
        incarnation: 4,
        stream: 2,
        labels: texts(&[("os", "linux")]),
        slots: BTreeMap::from([(SlotName::new("browser"), Capacity { units: 2, since: token(5) })]),
        kinds: vec![KindName::new("site.qa"), KindName::new("digest.daily")],
        host: Host {
            cpus: 8,
            memory_bytes: 1 << 40,
            disk_free_bytes: 12,
            os: "linux".into(),
            arch: "x86_64".into(),
            containment: "weak".into(),
        },
        agent_version: "0.1.0".into(),
        cordoned: true,
        draining: Some(Duration::from_secs(60)),
        last_seen: Wall(3_000),
    }
}

/// A node with the least that a node has.
pub(crate) fn bare_node(name: &str) -> Node {
    Node {
        name: NodeName::new(name),
        slots: BTreeMap::new(),
        labels: BTreeMap::new(),
        kinds: Vec::new(),
        host: Host::default(),
        cordoned: false,
        draining: None,
        ..node()
    }
}

pub(crate) fn class() -> ClassRow {
    ClassRow {
        class: "site.qa|anthropic:1|os=linux|default".into(),
        timeline: vec![ClassEntry {
            since: Wall(5),
            reason: "slot_busy".into(),
            message: "slot anthropic 6/6".into(),
            tries: 3,
            duration: Duration::from_micros(7),
        }],
    }
}

pub(crate) fn needs(amounts: &[(&'static str, u32)]) -> Needs {
    Needs::new(amounts.iter().map(|&(slot, amount)| (SlotName::new(slot), amount)))
}

pub(crate) fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect()
}

/// A workflow with every form of a part, as it is submitted; its members are not.
pub(crate) fn workflow(n: u64) -> Workflow {
    let rule = |policy, deadline| Rule { policy, deadline, on_deadline: OnDeadline::Leave };
    let chord = |members, rule| Part::Chord(Box::new(Chord { members, rule }));
    let late = Some(Duration::from_micros(90_000_001));
    let part = Part::Chain(vec![
        Part::Group(vec![Part::Job, chord(vec![Part::Job], rule(SynthesisPolicy::Any, None))]),
        chord(vec![Part::Job, Part::Job], rule(SynthesisPolicy::AtLeast(2), late)),
        chord(vec![Part::Job], rule(SynthesisPolicy::Always, late)),
        chord(vec![Part::Job], Rule::CHAIN),
    ]);
    let shape = Shape::of(part).unwrap();
    Workflow {
        id: WorkflowId(id(n).0),
        producer: Producer::new("operator:ada"),
        name: Some("the \"daily\"".into()),
        fingerprint: Fingerprint([3; 32]),
        ends: vec![None; shape.places().len()],
        shape: Arc::new(shape),
        state: WorkflowState::Running,
        version: 4,
        round: 2,
        cancel_requested: true,
        created_at: Wall(1_780_000_000_000_001),
        began_at: Wall(1_780_000_000_000_002),
        reason: Some("cancelled by request".into()),
        opened: [(2, Opened { partial: true, missing: vec![3, 4], requeued: true })].into(),
    }
}
