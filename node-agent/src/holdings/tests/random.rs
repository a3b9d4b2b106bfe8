//! Random lives of a node, with a printed seed. After every step the invariants of `holdings.rs` are compared with a
//! plain record of what was ordered and said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{options, terms};
use crate::clock::Mono;
use crate::holdings::*;

/// A small generator (xorshift64*): a seed gives one life.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }
}

/// What an observer of the machine knows of one lease.
#[derive(Default)]
struct Seen {
    accepted_said: bool,
    started: bool,
    ended: bool,
    gone: bool,
    gone_by: Mono,
    slots: BTreeMap<String, u32>,
}

struct World {
    machine: Holdings,
    now: Mono,
    seen: BTreeMap<FencingToken, Seen>,
    /// Leases whose `reaped` or `returned` was said.
    over: BTreeSet<FencingToken>,
    sent: u64,
    up: bool,
    next_token: u64,
}

#[test]
fn a_random_life_keeps_the_invariants() {
    let first: u64 = std::env::var("TENURE_SEED").ok().map_or(1, |text| text.parse().unwrap());
    for seed in first..first + 200 {
        println!("seed {seed}");
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut world = World::new();
        for _ in 0..400 {
            world.step(&mut dice);
        }
    }
}

impl World {
    fn new() -> Self {
        let starts =
            BTreeMap::from([("shell".to_owned(), StartRate { count: 1, per: Duration::from_secs(2) })]);
        let machine = Holdings::new(Options { starts, ..options() }, BTreeMap::new(), 0);
        let (now, seen, over) = (Mono::from_micros(1_000_000), BTreeMap::new(), BTreeSet::new());
        Self { machine, now, seen, over, sent: 0, up: false, next_token: 1 }
    }

    fn step(&mut self, dice: &mut Dice) {
        self.now = self.now + Duration::from_millis(dice.roll(700));
        let listed: Vec<_> = self.machine.heartbeat(self.now);
        let any = listed.get(usize::try_from(dice.roll(4)).unwrap()).map(|lease| lease.token);
        match (dice.roll(17), any) {
            (0, _) => self.reconnect(),
            (16, _) if dice.roll(3) == 0 => self.another_agent(dice),
            (16, _) if dice.roll(6) == 0 => self.machine.hand_over(self.now),
            (1, _) => self.cut(),
            (2..=5, _) if self.up => self.grant(dice),
            (6 | 7, _) if self.up => self.renew(dice),
            (8, Some(token)) => self.machine.revoked(token, StopReason::Cancelled),
            (9..=13, Some(token)) => self.run(dice, token),
            (14, _) if dice.roll(8) == 0 => self.machine.drain(self.now, self.now + Duration::from_secs(3)),
            (14, _) if dice.roll(4) == 0 => self.machine.drain_over(),
            (15, Some(token)) => self.machine.answered(token, End::Finished, Verdict::Done),
            _ => {}
        }
        self.settle();
        self.compare();
    }

    fn reconnect(&mut self) {
        self.machine.disconnected();
        let (held, unstored) = self.machine.hello(self.now);
        let known: BTreeSet<_> =
            held.iter().map(|lease| lease.token).chain(unstored.iter().map(|end| end.0)).collect();
        for (token, seen) in &self.seen {
            assert!(known.contains(token) || self.over.contains(token), "{token} is forgotten by a Hello");
            assert!(
                seen.gone || held.iter().any(|lease| lease.token == *token),
                "{token} lives and is not listed"
            );
        }
        self.sent = self.machine.next_seq(self.now);
        let renewed: Vec<_> = held.iter().map(|lease| (lease.token, Duration::from_secs(60))).collect();
        self.machine.welcomed(1, 1, &renewed).unwrap();
        self.up = true;
    }

    /// The agent is gone, by a crash or in good order, and another one takes over what its shims hold. What had not started
    /// is forgotten by both: the next Hello does not list it, which is a return.
    fn another_agent(&mut self, dice: &mut Dice) {
        let unstored = std::mem::take(&mut self.machine.unstored);
        let mut machine = Holdings::new(options(), unstored, 0);
        for (&token, seen) in &mut self.seen {
            if self.over.contains(&token) {
                continue;
            }
            if !seen.started || seen.gone {
                seen.gone = true;
                self.over.insert(token);
                continue;
            }
            let job = self.machine.leases[&token].job.clone();
            if dice.roll(5) == 0 {
                // Its shim died with the agent.
                machine.left_over(token, &job, seen.slots.clone());
                continue;
            }
            let started = (dice.roll(4) > 0).then_some(self.now - Duration::from_millis(dice.roll(500)));
            let adopted = Adopted {
                slots: seen.slots.clone(),
                lease: Duration::from_secs(60),
                grace: Duration::from_secs(2),
                gone_by: seen.gone_by,
                started,
                stopping: dice.roll(6) == 0,
                waiting: None,
            };
            machine.adopted(token, &job, adopted);
        }
        self.machine = machine;
        self.up = false;
    }

    fn cut(&mut self) {
        self.machine.disconnected();
        self.up = false;
    }

    fn grant(&mut self, dice: &mut Dice) {
        let token = FencingToken(self.next_token);
        self.next_token += 1;
        let slots = ["", "browser:1", "shell:1", "shell:2", "shell:1,browser:1"]
            [usize::try_from(dice.roll(5)).unwrap()];
        let job = format!("job-{}", dice.roll(6));
        let anchor = self.sent - dice.roll(self.sent.min(3));
        let terms = terms(&job, token.0, "sh", slots);
        let taken = self.machine.granted(self.now, anchor, &terms).unwrap();
        let seen = Seen { slots: terms.slots, gone: !taken, ..Seen::default() };
        self.seen.insert(token, seen);
    }

    fn renew(&mut self, dice: &mut Dice) {
        self.sent = self.machine.next_seq(self.now);
        let listed = self.machine.heartbeat(self.now);
        let renewed: Vec<_> =
            listed.iter().map(|lease| (lease.token, Duration::from_secs(20 + dice.roll(50)))).collect();
        self.now = self.now + Duration::from_millis(dice.roll(300));
        self.machine.renewed(self.sent, &renewed).unwrap();
    }

    /// The runner's next word about a lease, whatever is possible in its phase.
    fn run(&mut self, dice: &mut Dice, token: FencingToken) {
        let Some(seen) = self.seen.get_mut(&token).filter(|seen| !seen.gone) else { return };
        let job =
            self.machine.heartbeat(self.now).into_iter().find(|lease| lease.token == token).unwrap().job;
        if !seen.started {
            self.machine.prepared(token);
            return;
        }
        match dice.roll(4) {
            0 => self.machine.started(self.now, token),
            1 if !seen.ended => {
                seen.ended = true;
                self.machine.ended(token, &job, End::Finished);
            }
            2 if seen.ended => {
                seen.gone = true;
                self.machine.reaped(token);
            }
            3 if !seen.ended => {
                seen.gone = true;
                self.machine.ended(token, &job, End::Returned);
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        loop {
            self.machine.advance(self.now);
            let actions = self.machine.take_actions();
            let statements: Vec<_> = std::iter::from_fn(|| self.machine.next_statement(self.now)).collect();
            if actions.is_empty() && statements.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.carry_out(&action));
            statements.iter().for_each(|statement| self.hear(statement));
        }
    }

    fn carry_out(&mut self, action: &Action) {
        match *action {
            Action::Start { token, gone_by } => {
                let seen = self.seen.get_mut(&token).unwrap();
                assert!(self.up, "{token} starts while cut off");
                assert!(!self.machine.handing_over, "{token} starts for an agent that goes");
                assert!(seen.accepted_said && !seen.started && !seen.gone, "{token} must not start");
                assert!(gone_by > self.now + Duration::from_secs(1), "{token} starts too late");
                (seen.started, seen.gone_by) = (true, gone_by);
            }
            Action::Extend { token, gone_by } => {
                let seen = self.seen.get_mut(&token).unwrap();
                assert!(gone_by > seen.gone_by, "{token}: a deadline only grows");
                seen.gone_by = gone_by;
            }
            Action::Abandon { token } => {
                let seen = self.seen.get_mut(&token).unwrap();
                assert!(!seen.started, "{token} has started and cannot be given back");
                seen.gone = true;
            }
            Action::Stop { token, .. } => assert!(self.seen[&token].started, "{token} has nothing to stop"),
            Action::Prepare { .. }
            | Action::Resume { .. }
            | Action::Forget { .. }
            | Action::SetAside { .. } => {}
        }
    }

    fn hear(&mut self, statement: &Statement) {
        assert!(self.up, "said while cut off: {statement:?}");
        match *statement {
            Statement::Accepted { token, .. } => self.seen.get_mut(&token).unwrap().accepted_said = true,
            Statement::Started { token, .. } | Statement::Progress { token, .. } => {
                assert!(self.seen[&token].started)
            }
            Statement::Checkpoint { .. } => panic!("nothing here is saved"),
            Statement::Spooled { token } => {
                if self.seen[&token].gone && !self.seen[&token].ended {
                    self.over.insert(token);
                }
            }
            Statement::Returned { token, .. } | Statement::Reaped { token, .. } => {
                assert!(self.seen[&token].gone, "{token} is said to be gone and is not");
                assert!(self.over.insert(token), "{token} is over twice");
            }
        }
    }

    fn compare(&mut self) {
        // A listing stands for `accepted`.
        let listed = self.machine.heartbeat(self.now);
        for (slot, capacity) in options().slots {
            let live = self.seen.values().filter(|seen| !seen.gone);
            let used: u32 = live.filter_map(|seen| seen.slots.get(&slot)).sum();
            assert_eq!(used, self.machine.used(&slot));
            assert!(used <= capacity, "{slot} is over capacity");
        }
        let mut jobs = BTreeSet::new();
        for lease in listed {
            assert!(!self.over.contains(&lease.token), "{} is over and listed", lease.token);
            let seen = self.seen.get_mut(&lease.token).unwrap();
            assert!(seen.gone || jobs.insert(lease.job), "two trees of one job");
            seen.accepted_said |= lease.phase == Phase::Accepted;
        }
        for (token, seen) in &self.seen {
            let listed = self.machine.heartbeat(self.now).iter().any(|lease| lease.token == *token);
            assert!(
                listed || self.over.contains(token),
                "{token} is neither listed nor over (gone {})",
                seen.gone
            );
        }
    }
}
