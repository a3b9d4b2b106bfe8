//! The world: everything there is, and the loop that lets one thing happen after the other.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Command, DedupePolicy, Durable, Epoch, Fleet, KindName, KindPolicy, Limits, Mono, Needs, Now,
    RetryPolicy, Scope, SlotName, State, Wall,
};

use crate::{
    Counts, Options, Outcome,
    agenda::Agenda,
    clients::{Client, ClientInput},
    clock::{Clock, S, WALL},
    crons::ENTRIES,
    db::{Db, DbInput, Line, tables::Tables},
    faults::{Fault, Mix},
    flows::Flows,
    host::{AgentInput, Host, ShimInput},
    net::{Net, NetInput},
    oracle::Oracle,
    random::Random,
    server::{Server, ServerInput},
    trace::{Trace, say},
};

pub(crate) use crate::broken::Broken;

/// One kind of job.
#[derive(Debug)]
pub(crate) struct KindSpec {
    pub(crate) name: &'static str,
    pub(crate) lease: u64,
    pub(crate) cpu: u32,
    pub(crate) api: u32,
    pub(crate) grace: Duration,
    /// The longest that a job of it runs, in microseconds.
    pub(crate) longest: u64,
}

/// All kinds.
pub(crate) const KINDS: [KindSpec; 4] = [
    KindSpec { name: "short", lease: 10, cpu: 1, api: 0, grace: Duration::from_secs(1), longest: 6 * S },
    KindSpec { name: "long", lease: 40, cpu: 1, api: 1, grace: Duration::from_secs(5), longest: 110 * S },
    KindSpec { name: "big", lease: 15, cpu: 2, api: 0, grace: Duration::from_secs(2), longest: 25 * S },
    KindSpec { name: "steady", lease: 600, cpu: 0, api: 0, grace: Duration::from_secs(5), longest: 720 * S },
];

/// The first so many are those of a history with faults.
pub(crate) const SWARM: usize = 3;

/// The kind of the jobs of an outage.
pub(crate) const STEADY: usize = 3;

/// The kind whose jobs run longest.
pub(crate) const LONG: usize = 1;

/// The capacity of the fleet slot.
pub(crate) const API: u32 = 2;

/// Seeds that end in this digit are calm.
const CALM: u64 = 3;

/// After everything has healed, all must have ended by then. A back-off that was stored before the wall clock was set
/// back by an hour may last that much longer.
const ENDS_WITHIN: u64 = 4_500 * S;

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Happening {
    Server {
        server: usize,
        life: u64,
        input: ServerInput,
    },
    Agent {
        host: usize,
        life: u64,
        input: AgentInput,
    },
    Shim {
        host: usize,
        boot: u64,
        token: u64,
        input: ShimInput,
    },
    Db(DbInput),
    Net(NetInput),
    Client(ClientInput),
    Fault(FaultInput),
    /// Somebody looks whether everything has ended.
    Look,
}

/// What the master of faults does.
#[derive(Debug)]
pub(crate) enum FaultInput {
    Strike,
    ThawServer {
        server: usize,
        life: u64,
    },
    StartServer {
        server: usize,
    },
    ThawAgent {
        host: usize,
        life: u64,
    },
    StartAgent {
        host: usize,
    },
    Wake {
        host: usize,
    },
    Mend {
        host: usize,
        server: usize,
    },
    ReleaseDb {
        server: usize,
        line: Line,
    },
    EndCopy {
        host: usize,
    },
    /// Every server dies, and none is started for so long.
    Outage {
        length: u64,
    },
    Heal,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    agenda: Agenda<Happening>,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) mix: Mix,
    pub(crate) counts: Counts,
    pub(crate) broken: Broken,
    /// A history of few jobs that run long.
    pub(crate) calm: bool,
    /// For how long there is no server; in place of everything else.
    pub(crate) outage: Option<Duration>,
    pub(crate) healed: bool,
    pub(crate) healed_at: u64,
    pub(crate) db: Db,
    pub(crate) servers: Vec<Server>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) net: Net,
    pub(crate) clients: Vec<Client>,
    pub(crate) flows: Flows,
    pub(crate) oracle: Oracle,
    /// Instances made after the first ones.
    pub(crate) instances: u64,
    violation: Option<String>,
}

/// Which kind this is.
pub(crate) fn kind_of(name: &KindName) -> usize {
    KINDS.iter().position(|kind| kind.name == name.as_str()).unwrap_or(0)
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let mut random = Random::new(seed);
        let storm = seed.is_multiple_of(5);
        let calm = seed % 10 == CALM;
        let mix = match options.outage {
            None => Mix::new(&mut random, (storm, calm)),
            Some(_) => Mix::none(),
        };
        let lag = mix.has(Fault::DbFailedOver).then(|| random.between(0, 3 * S));
        let clock =
            |random: &mut Random| Clock::new(World::drift(random, &mix), random.between(S, 90_000 * S));
        let servers = (0..random.between(2, 4)).map(|_| Server::new(clock(&mut random))).collect();
        let named = random.between(2, 4);
        let mut hosts: Vec<Host> = (0..named)
            .map(|number| {
                Host::new(&format!("n{number}"), usize::try_from(number).unwrap_or(0), clock(&mut random))
            })
            .collect();
        hosts.push(World::spare_host(hosts.len(), clock(&mut random)));
        // By a source of its own: the rest is as it would be without.
        let mut other = Random::new(!seed);
        let alone = options.only_jobs || calm || options.outage.is_some();
        let (flows, timetables) = (!alone && other.percent(50), !alone && other.percent(40));
        let mut world = Self {
            now: 0,
            agenda: Agenda::default(),
            random,
            trace: Trace::new(options.tracing),
            mix,
            counts: Counts::default(),
            broken: options.broken,
            calm,
            outage: options.outage,
            healed: false,
            healed_at: 0,
            db: Db::new(genesis(timetables), lag),
            servers,
            hosts,
            net: Net::default(),
            clients: Vec::new(),
            flows: Flows::new(),
            oracle: Oracle::default(),
            instances: 0,
            violation: None,
        };
        let until = world.begin();
        if flows {
            world.plan_flows(&mut other, until);
        }
        if timetables {
            world.plan_pauses(until);
        }
        world
    }

    /// The answer is when all heals.
    fn begin(&mut self) -> u64 {
        let storm = self.random.between(60 * S, 200 * S);
        if self.mix.has(Fault::Drift) {
            self.counts.fault(Fault::Drift);
        }
        say!(
            self,
            ("world"),
            "{} servers, {} nodes, {:?}",
            self.servers.len(),
            self.hosts.len() - 1,
            self.mix
        );
        for server in 0..self.servers.len() {
            let at = self.random.between(0, S);
            self.plan(at, Happening::Fault(FaultInput::StartServer { server }));
        }
        for host in 0..self.hosts.len() - 1 {
            let at = self.random.between(0, 2 * S);
            self.plan(at, Happening::Fault(FaultInput::StartAgent { host }));
        }
        if let Some(length) = self.outage {
            self.plan_outage(length);
            return storm;
        }
        self.plan_clients(storm);
        self.plan(5 * S, Happening::Fault(FaultInput::Strike));
        self.plan(storm, Happening::Fault(FaultInput::Heal));
        self.healed_at = storm;
        self.plan(storm + S, Happening::Look);
        storm
    }

    pub(crate) fn plan(&mut self, at: u64, happening: Happening) {
        self.agenda.plan(at, happening);
    }

    /// One thing after the other, until all has ended or a rule is broken.
    pub(crate) fn run(mut self) -> Outcome {
        while self.violation.is_none()
            && let Some((at, happening)) = self.agenda.next()
        {
            self.now = self.now.max(at);
            self.counts.happenings += 1;
            if let Happening::Look = happening {
                if self.has_ended() {
                    self.oracle_ends();
                    self.outage_ends();
                    break;
                }
                self.plan(self.now + S, Happening::Look);
            } else {
                self.dispatch(happening);
            }
        }
        self.counts.commits = self.db.commits;
        self.counts.simulated = Duration::from_micros(self.now);
        self.counts.jobs = self.db.tables.jobs.len() as u64;
        self.counts.workflows = self.db.tables.workflows().count() as u64;
        Outcome {
            violation: self.violation,
            counts: self.counts,
            hash: self.trace.hash(),
            trace: self.trace.into_text(),
        }
    }

    pub(crate) fn dispatch(&mut self, happening: Happening) {
        match happening {
            Happening::Server { server, life, input } => self.reach_server(server, life, input),
            Happening::Agent { host, life, input } => self.reach_agent(host, life, input),
            Happening::Shim { host, boot, token, input } => self.reach_shim(host, boot, token, input),
            Happening::Db(input) => self.db_input(input),
            Happening::Net(input) => self.net_input(input),
            Happening::Client(input) => self.client_input(input),
            Happening::Fault(input) => self.fault_input(input),
            Happening::Look => {}
        }
    }

    /// A rule is broken: the history ends here.
    pub(crate) fn violated(&mut self, what: String) {
        say!(self, ("ORACLE"), "{what}");
        self.violation.get_or_insert(what);
    }

    fn has_ended(&mut self) -> bool {
        let open = self.what_is_open();
        if open.is_empty() {
            return true;
        }
        if self.now > self.healed_at + ENDS_WITHIN {
            self.violated(format!("I28: not everything ends: {open}"));
        }
        false
    }

    fn what_is_open(&self) -> String {
        let mut open = Vec::new();
        let calls = self.clients.iter().filter(|client| !client.done).count();
        if calls > 0 {
            open.push(format!("{calls} calls are not answered"));
        }
        for job in self.db.tables.jobs.values().filter(|job| !job.state.is_final()).take(3) {
            open.push(format!("{} is {}", job.id, job.state.name()));
        }
        for workflow in self.db.tables.workflows().filter(|workflow| !workflow.state.is_final()).take(3) {
            open.push(format!("workflow {} is running", workflow.id));
        }
        for lease in self.db.tables.leases.values().take(3) {
            open.push(format!("{} is {}", lease.token, lease.stage.name()));
        }
        for (number, _) in self.hosts.iter().enumerate().filter(|(_, host)| !host.is_idle()) {
            open.push(format!("h{number} is not idle"));
        }
        if self.oracle.processes() > 0 {
            open.push(format!("{} processes live", self.oracle.processes()));
        }
        open.join(", ")
    }
}

/// What is stored when a history begins: the fleet file.
fn genesis(timetables: bool) -> Tables {
    let policy = |kind: &KindSpec| KindPolicy {
        needs: Needs::new(
            [(SlotName::new("cpu"), kind.cpu), (SlotName::new("api"), kind.api)]
                .into_iter()
                .filter(|(_, units)| *units > 0),
        ),
        lease: Duration::from_secs(kind.lease),
        max_failures: 3,
        max_losses: 4,
        retry: RetryPolicy::Exponential {
            initial: Duration::from_secs(1),
            factor_permille: 2000,
            max: Duration::from_secs(8),
            jitter_permille: 200,
        },
        hard_time_limit: Duration::from_secs(if kind.lease > 100 { 3_600 } else { 100 }),
        dedupe: if kind.api > 0 { DedupePolicy::Live } else { DedupePolicy::Retained },
        ..KindPolicy::default()
    };
    let fleet = Fleet {
        slots: BTreeMap::from([
            (SlotName::new("cpu"), Scope::Node),
            (SlotName::new("api"), Scope::Fleet { capacity: API }),
        ]),
        kinds: KINDS.iter().map(|kind| (KindName::new(kind.name), policy(kind))).collect(),
        crons: ENTRIES.iter().filter(|_| timetables).map(|entry| entry.policy()).collect(),
        ..Fleet::default()
    };
    let now = Now { mono: Mono(0), wall: Wall(if timetables { WALL } else { 0 }) };
    let mut state = State::load(Epoch(0), Limits::default(), Durable::default(), now);
    let mut tables = Tables::default();
    let applied = state.apply(now, Command::Apply { fleet: Box::new(fleet), validate_only: false });
    debug_assert!(applied.is_ok(), "the fleet of the simulation is one");
    let stored = tables.commit(&state.take_changes());
    debug_assert!(stored.is_ok(), "its rows can be stored");
    tables
}
