//! Tenants: who is owed how much, and faults of other schedulers in sharing.

use std::time::Duration;

use expect_test::expect;
use tenure_scheduler::{
    Command, Durable, Effect, Enqueue, Epoch, Event, Finish, FinishedHow, Fleet, JobId, KindName, KindPolicy,
    Lease, Limits, Mono, Needs, Now, Scope, SessionId, SlotName, State, Statement, Tenant, TenantPolicy,
    Wall,
};
use uuid::Uuid;

use crate::support::{Agent, Rng, check};

#[test]
fn a_freed_unit_goes_to_the_tenant_that_has_least_whoever_came_first() {
    check(
        "
        slot f 2
        kind k needs=f:1
        node n1
        enqueue a1 kind=k tenant=a
        enqueue a2 kind=k tenant=a
        enqueue a3 kind=k tenant=a
        enqueue a4 kind=k tenant=a priority=19
        tick
        run a1
        run a4
        enqueue b1 kind=k tenant=b priority=-19
        enqueue b2 kind=k tenant=b priority=-19
        done a1
        tick
        run b1
        done a4
        tick
        run a2
        done b1
        tick
        ",
        expect![[r#"
            granted a4 -> n1 token=1.1
            granted a1 -> n1 token=1.2
            deferred a2 slot_busy: slot f 2/2
            ended a1 token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted b1 -> n1 token=1.3
            deferred b2 slot_busy: slot f 2/2
            ended a4 token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted a2 -> n1 token=1.4
            deferred a3 slot_busy: slot f 2/2
            ended b1 token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            granted b2 -> n1 token=1.5
            deferred a3 slot_busy: slot f 2/2
        "#]],
    );
}

#[test]
fn a_tenant_with_twice_the_weight_gets_twice_as_much() {
    check(
        "
        slot f 6
        kind k needs=f:1
        tenant b weight=2
        node n1
        enqueue a1 kind=k tenant=a
        enqueue a2 kind=k tenant=a
        enqueue a3 kind=k tenant=a
        enqueue a4 kind=k tenant=a
        enqueue b1 kind=k tenant=b
        enqueue b2 kind=k tenant=b
        enqueue b3 kind=k tenant=b
        enqueue b4 kind=k tenant=b
        enqueue b5 kind=k tenant=b
        tick
        ",
        expect![[r#"
            granted b1 -> n1 token=1.1
            granted a1 -> n1 token=1.2
            granted b2 -> n1 token=1.3
            granted b3 -> n1 token=1.4
            granted a2 -> n1 token=1.5
            granted b4 -> n1 token=1.6
            deferred a3 slot_busy: slot f 6/6
            deferred b5 slot_busy: slot f 6/6
        "#]],
    );
}

#[test]
fn weights_change_live_and_an_apply_says_so() {
    check(
        "
        slot f 1
        kind k needs=f:1
        node n1
        enqueue a1 kind=k tenant=a
        enqueue b1 kind=k tenant=b
        tick
        run a1
        show applied
        tenant b weight=3
        tenant b weight=3
        tenant b weight=1000
        drop tenant b
        tenant a weight=2
        reload
        drop tenant a
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            deferred b1 slot_busy: slot f 1/1
            tenant b declared: weight 3
            tenant b: weight 3 -> 1000
            tenant b removed
            tenant a declared: weight 2
            tenant a removed
        "#]],
    );
}

/// The share counts all that a tenant has, not only what this job needs: its dominant slot.
#[test]
fn a_share_is_that_of_the_slot_of_which_a_tenant_has_the_largest_part() {
    check(
        "
        slot gpu node
        slot f 8
        kind gpu needs=gpu:1
        kind k needs=f:1
        node n1 slots=gpu:2
        enqueue a1 kind=gpu tenant=a
        tick
        enqueue a2 kind=k tenant=a
        enqueue b1 kind=k tenant=b
        enqueue b2 kind=k tenant=b
        enqueue b3 kind=k tenant=b
        enqueue b4 kind=k tenant=b
        enqueue b5 kind=k tenant=b
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted b1 -> n1 token=1.2
            granted b2 -> n1 token=1.3
            granted b3 -> n1 token=1.4
            granted a2 -> n1 token=1.5
            granted b4 -> n1 token=1.6
            granted b5 -> n1 token=1.7
        "#]],
    );
}

/// A band comes before every share: who is urgent is not held up by what its tenant has.
#[test]
fn shares_count_within_a_band_only() {
    check(
        "
        slot f 2
        kind k needs=f:1
        node n1
        enqueue a1 kind=k tenant=a
        tick
        run a1
        enqueue b1 kind=k tenant=b
        enqueue a2 kind=k tenant=a priority=20
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted a2 -> n1 token=1.2
            deferred b1 slot_busy: slot f 2/2
        "#]],
    );
}

/// What its jobs need is no matter among the jobs of one tenant.
#[test]
fn of_one_tenant_the_higher_priority_comes_first_however_much_it_needs() {
    check(
        "
        slot f 4
        kind small needs=f:1
        kind large needs=f:3
        node n1
        enqueue s1 kind=small
        enqueue s2 kind=small
        enqueue l1 kind=large priority=1
        tick
        ",
        expect![[r#"
            granted l1 -> n1 token=1.1
            granted s1 -> n1 token=1.2
            deferred s2 slot_busy: slot f 4/4
        "#]],
    );
}

/// A tenant is judged with a job that it could have now. Its large job, which fits nowhere, does not hold up its small
/// one behind the stream of another tenant.
#[test]
fn a_large_job_that_waits_does_not_make_its_tenant_look_rich() {
    check(
        "
        slot f 4
        kind small needs=f:1
        kind large needs=f:3
        node n1
        enqueue a1 kind=small tenant=a
        enqueue a2 kind=small tenant=a
        enqueue a3 kind=small tenant=a
        tick
        run a1
        enqueue a4 kind=small tenant=a
        enqueue a5 kind=small tenant=a
        enqueue b1 kind=large tenant=b priority=5
        enqueue b2 kind=small tenant=b
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted a2 -> n1 token=1.2
            granted a3 -> n1 token=1.3
            deferred b1 slot_busy: slot f 3/4
            granted b2 -> n1 token=1.4
            deferred a4 slot_busy: slot f 4/4
        "#]],
    );
}

/// kueue#3405: the share was judged without the workload itself, so that a tenant that had nothing was given one that
/// made it the richest by far. Here b has less before, and more than a after: a comes first.
#[test]
fn a_share_is_judged_with_the_job_that_asks() {
    check(
        "
        slot f 10
        kind small needs=f:1
        kind large needs=f:8
        node n1
        enqueue a1 kind=small tenant=a
        tick
        enqueue b1 kind=large tenant=b
        enqueue a2 kind=small tenant=a
        enqueue a3 kind=small tenant=a
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted a2 -> n1 token=1.2
            granted a3 -> n1 token=1.3
            deferred b1 slot_busy: slot f 3/10
        "#]],
    );
}

/// hyperqueue#848: a resource that only the first in line needed held up those that did not need it.
#[test]
fn a_job_of_low_priority_starts_while_a_high_one_waits_for_another_slot() {
    check(
        "
        slot gpu node
        slot shell node
        kind gpu needs=gpu:1,shell:1
        kind shell needs=shell:1
        node n1 slots=gpu:1,shell:4
        enqueue g1 kind=gpu priority=100
        tick
        run g1
        enqueue g2 kind=gpu priority=100
        enqueue s1 kind=shell priority=-100
        tick
        ",
        expect![[r#"
            granted g1 -> n1 token=1.1
            deferred g2 slot_busy: slot gpu on n1 1/1
            granted s1 -> n1 token=1.2
        "#]],
    );
}

/// dask, constrained heap: tasks with constraints were kept in one heap, and one that could not run hid those behind it.
#[test]
fn a_head_that_waits_for_a_browser_does_not_hide_one_that_needs_a_shell() {
    check(
        "
        slot browser node
        slot shell node
        kind k
        node n1 slots=browser:1,shell:1
        enqueue b1 kind=k needs=browser:1
        tick
        run b1
        enqueue b2 kind=k needs=browser:1
        enqueue s1 kind=k needs=shell:1
        tick
        ",
        expect![[r#"
            granted b1 -> n1 token=1.1
            deferred b2 slot_busy: slot browser on n1 1/1
            granted s1 -> n1 token=1.2
        "#]],
    );
}

/// What a lease charges after its job is gone is its tenant's still, under the next leader too.
#[test]
fn a_tenant_is_charged_until_its_leases_are_over() {
    check(
        "
        slot n node
        slot f 4
        kind k needs=n:1
        kind other needs=f:1
        node n1 slots=n:2
        enqueue a1 kind=k tenant=a
        tick
        run a1
        finish a1 ok
        reload
        hello n1
        enqueue a2 kind=other tenant=a
        enqueue b1 kind=other tenant=b
        enqueue b2 kind=other tenant=b
        tick
        reaped a1
        enqueue b3 kind=other tenant=b
        enqueue a3 kind=other tenant=a
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            ended a1 token=1.1 succeeded (exit) -> succeeded
            granted b1 -> n1 token=2.1
            granted a2 -> n1 token=2.2
            granted b2 -> n1 token=2.3
            lease 1.1 gone
            granted a3 -> n1 token=2.4
            deferred b3 slot_busy: slot f 4/4
        "#]],
    );
}

/// A fleet without a world around it: for many jobs, which a world would look at one by one after each command.
struct Bare {
    state: State,
    agent: Agent,
    jobs: u128,
    running: Vec<Lease>,
}

impl Bare {
    fn new(
        slots: &[(&str, Scope)],
        node: &[(&str, u32)],
        kinds: &[(&str, Needs)],
        weights: &[(&str, u32)],
    ) -> Self {
        let limits = Limits { placements_per_tick: 100_000, ..Limits::default() };
        let mut state = State::load(Epoch(1), limits, Durable::default(), Self::now());
        let policy = |needs: &Needs| KindPolicy { needs: needs.clone(), ..KindPolicy::default() };
        let fleet = Fleet {
            slots: slots.iter().map(|(name, scope)| (SlotName::new(*name), *scope)).collect(),
            kinds: kinds.iter().map(|(name, needs)| (KindName::new(*name), policy(needs))).collect(),
            tenants: weights
                .iter()
                .map(|&(name, weight)| (Tenant::new(name), TenantPolicy { weight }))
                .collect(),
            ..Fleet::default()
        };
        state.apply(Self::now(), Command::Apply { fleet: Box::new(fleet), validate_only: false }).unwrap();
        let mut agent = Agent::new("n1");
        agent.slots = node.iter().map(|(name, units)| (SlotName::new(*name), *units)).collect();
        agent.kinds = kinds.iter().map(|(name, _)| KindName::new(*name)).collect();
        agent.credits = 10_000;
        let mut bare = Self { state, agent, jobs: 0, running: Vec::new() };
        let hello = bare.agent.hello(SessionId(1), 0);
        bare.apply(hello);
        bare
    }

    fn now() -> Now {
        Now { mono: Mono(0), wall: Wall(1_790_769_600_000_000) }
    }

    /// Applies a command; the agent reads what it is sent. What was granted, in order.
    fn apply(&mut self, command: Command) -> Vec<Lease> {
        let applied = self.state.apply(Self::now(), command).unwrap();
        self.state.take_changes();
        self.state.committed();
        for effect in &applied.effects {
            if let Effect::Send { session, ordinal, applied, message, .. } = effect {
                self.agent.read(*session, *ordinal, *applied, message);
            }
        }
        let granted = applied.events.into_iter().filter_map(|event| {
            let Event::Granted { lease, .. } = event else { return None };
            Some(*lease)
        });
        let granted: Vec<Lease> = granted.collect();
        self.running.extend(granted.iter().cloned());
        granted
    }

    fn enqueue(&mut self, tenant: &str, kind: &str) -> JobId {
        self.jobs += 1;
        let job = JobId(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + self.jobs));
        let enqueue = Enqueue::new(job, KindName::new(kind), Tenant::new(tenant));
        self.apply(Command::Enqueue(Box::new(enqueue)));
        job
    }

    /// The `n`th of those that run ends, and its processes are gone.
    fn finish(&mut self, n: usize) {
        let lease = self.running.remove(n);
        let how = Finish { exit_code: Some(0), ..Finish::new(FinishedHow::Succeeded) };
        for said in [
            Statement::Accepted,
            Statement::Started { elapsed: Duration::ZERO },
            Statement::Finished(how),
            Statement::Reaped,
        ] {
            let report = self.agent.report(lease.job, lease.token, said, 0);
            self.apply(report);
        }
    }
}

fn needs(slots: &[(&str, u32)]) -> Needs {
    Needs::new(slots.iter().map(|(slot, amount)| (SlotName::new(*slot), *amount)))
}

#[test]
fn a_flood_of_one_tenant_does_not_hold_up_the_single_job_of_another() {
    let kinds = ["crawl", "shell", "ask"].into_iter().zip(["browser", "shell", "api"]);
    let kinds: Vec<_> = kinds.map(|(kind, slot)| (kind, needs(&[(slot, 1)]))).collect();
    let slots = [("browser", Scope::Node), ("shell", Scope::Node), ("api", Scope::Fleet { capacity: 3 })];
    let mut fleet = Bare::new(&slots, &[("browser", 4), ("shell", 6)], &kinds, &[]);
    for n in 0..100_000 {
        fleet.enqueue("flood", kinds[n % kinds.len()].0);
    }
    assert_eq!(fleet.apply(Command::Tick).len(), 13, "everything is taken");
    for (kind, _) in &kinds {
        let single = fleet.enqueue("other", kind);
        assert_eq!(fleet.apply(Command::Tick), [], "nothing is free");
        let of_kind = fleet.running.iter().position(|lease| lease.kind.as_str() == *kind).unwrap();
        fleet.finish(of_kind);
        let granted: Vec<JobId> = fleet.apply(Command::Tick).iter().map(|lease| lease.job).collect();
        assert_eq!(granted, [single], "the next unit of its slot is the other tenant's");
    }
}

/// S6: as long as both have work waiting that fits the same nodes, two tenants stay within the dominant size of one job
/// of each other, each over its weight.
#[test]
fn two_backlogged_tenants_differ_by_one_job_at_most() {
    for seed in 1..=40 {
        let mut rng = Rng::new(seed);
        let units = |rng: &mut Rng, most: u64| u32::try_from(1 + rng.below(most)).unwrap();
        let capacity = [10 + units(&mut rng, 20), 10 + units(&mut rng, 20)];
        let amounts = [units(&mut rng, 3), units(&mut rng, 3)];
        let weights = [units(&mut rng, 4), units(&mut rng, 4)];
        let slots = [("n", Scope::Node), ("f", Scope::Fleet { capacity: capacity[1] })];
        let kinds = [("k", needs(&[("n", amounts[0]), ("f", amounts[1])]))];
        let mut fleet =
            Bare::new(&slots, &[("n", capacity[0])], &kinds, &[("a", weights[0]), ("b", weights[1])]);
        for n in 0..80 {
            fleet.enqueue(if n % 2 == 0 { "a" } else { "b" }, "k");
        }
        fleet.apply(Command::Tick);
        for _ in 0..30 {
            let ending = rng.below(1 + fleet.running.len() as u64);
            for _ in 0..ending {
                let n = usize::try_from(rng.below(fleet.running.len() as u64)).unwrap();
                fleet.finish(n);
                fleet.enqueue("a", "k");
                fleet.enqueue("b", "k");
            }
            fleet.apply(Command::Tick);
            // The same needs, so one slot dominates, and jobs over weight are shares.
            let held = |tenant: &str| {
                fleet.running.iter().filter(|lease| lease.tenant.as_str() == tenant).count() as u64
            };
            let [a, b] = weights.map(u64::from);
            let difference = (held("a") * b).abs_diff(held("b") * a);
            assert!(difference <= a.max(b), "seed {seed}: {} over {a}, {} over {b}", held("a"), held("b"));
        }
    }
}
