//! `placement`: what a decision of the scheduler costs, with many nodes and many jobs that wait; without a server, a
//! database or a wire, which cost far more.
//!
//! The fleet is full. *Enqueue and place*: a job of a kind that has room is enqueued and granted in the next tick. *Finish
//! and place*: something that runs ends and is reaped, and what comes next is granted in the next tick. Between two
//! decisions changes are taken as a driver takes them, unmeasured.
//!
//! A decision is so short that whatever else the machine does meanwhile would be most of the slowest ones: its length is
//! the processor time of this thread.

mod fleet;

use std::{hint::black_box, time::Duration};

use anyhow::ensure;
use rustix::time::{ClockId, clock_gettime};
use tenure_scheduler::Command;

use self::fleet::{DRY, LIGHT, World};
use super::Found;
use crate::{
    args::Args,
    figure::{Figure, median, percentile_ms},
    machine::value_of,
    report::say,
};

/// Decisions of one repetition.
const DECISIONS: u32 = 2000;
/// Nodes, and jobs that wait: the smallest first.
const SIZES: [(u32, u64); 5] =
    [(1000, 10_000), (1000, 1_000_000), (10_000, 10_000), (10_000, 1_000_000), (10_000, 10_000_000)];
/// Tenants: with ten kinds each that makes 200 classes.
const TENANTS: u32 = 20;
/// Tenants of one more run: 2,000 classes.
const MANY_TENANTS: u32 = 200;
/// Jobs of a higher priority that wait for a fleet slot without units.
const BLOCKED: u32 = 100_000;

/// What the repetitions of one world took, in microseconds.
struct Took {
    enqueue: Quantiles,
    finish: Quantiles,
}

#[derive(Default)]
struct Quantiles {
    median: Vec<f64>,
    p99: Vec<f64>,
}

impl Quantiles {
    fn add(&mut self, lengths: &mut [Duration]) {
        self.median.push(percentile_ms(lengths, 0.5) * 1e3);
        self.p99.push(percentile_ms(lengths, 0.99) * 1e3);
    }
}

/// Measures.
///
/// # Errors
/// If the scheduler refuses what it should not, or one of its invariants does not hold.
pub(super) fn measure(args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let most = args.most_queued();
    let mut smallest: Option<Took> = None;
    // First of all, before this process has memory that it might use again.
    let queued = most.min(1_000_000);
    say("memory …");
    let bytes = memory(queued)?;
    let name = format!("memory of a job, {} queued", short(queued));
    found
        .figures
        .push(Figure::new("placement", None, name, "bytes", vec![bytes]).below(200.5, "≤ 200 bytes"));
    let at_start = resident();
    for (nodes, queued) in SIZES.into_iter().filter(|(_, queued)| *queued <= most) {
        let name = format!("{} nodes, {} queued", short(nodes.into()), short(queued));
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
        let wanted = bytes * queued as f64;
        if wanted > available() * 0.9 {
            say(&format!("{name}: left out, {:.0} MB are not free", wanted / 1e6));
            continue;
        }
        say(&format!("{name} …"));
        let mut world = World::new(nodes, TENANTS)?;
        world.fill(queued)?;
        if queued >= 10_000_000 {
            let text = format!("{name}: resident");
            let all = (resident() - at_start) / 1e6;
            found.figures.push(Figure::new("placement", None, text, "MB", vec![all]));
        }
        let took = decisions(&mut world, args.repetitions)?;
        found.push(&name, &took, smallest.as_ref());
        if (nodes, queued) == (10_000, 1_000_000) {
            found.figures.push(explain(&mut world, &name, args.repetitions)?);
            found.figures.push(blocked(&mut world, &name, &took, args.repetitions)?);
        }
        world.check(queued)?;
        smallest.get_or_insert(took);
    }
    let (nodes, queued) = (10_000, 100_000);
    if queued <= most {
        say("many classes …");
        let mut world = World::new(nodes, MANY_TENANTS)?;
        world.fill(queued)?;
        let took = decisions(&mut world, args.repetitions)?;
        found.push("10,000 nodes, 100,000 queued, 2,000 classes", &took, None);
        world.check(queued)?;
    }
    Ok(())
}

impl Found {
    fn push(&mut self, name: &str, took: &Took, smallest: Option<&Took>) {
        for (what, took, smallest) in [
            ("enqueue and place", &took.enqueue, smallest.map(|took| &took.enqueue)),
            ("finish and place", &took.finish, smallest.map(|took| &took.finish)),
        ] {
            for (which, values, least) in [
                ("median", &took.median, smallest.map(|least| &least.median)),
                ("p99", &took.p99, smallest.map(|least| &least.p99)),
            ] {
                let text = format!("{name}: {what}, {which}");
                self.figures.push(Figure::new("placement", None, text, "µs", values.clone()));
                if let Some(least) = least {
                    let growth = median(values) / median(least).max(f64::EPSILON);
                    let text = format!("{name}: {what}, {which}, growth");
                    let figure = Figure::new("placement", None, text, "times", vec![growth]);
                    self.figures.push(figure.below(2.005, "≤ 2 times"));
                }
            }
        }
    }
}

fn decisions(world: &mut World, repetitions: u32) -> anyhow::Result<Took> {
    let mut took = Took { enqueue: Quantiles::default(), finish: Quantiles::default() };
    for repetition in 0..=repetitions {
        let (mut enqueue, mut finish) = (Vec::new(), Vec::new());
        for n in 0..DECISIONS {
            enqueue.push(enqueue_and_place(world, n % TENANTS)?);
            finish.push(finish_and_place(world)?);
        }
        if repetition > 0 {
            took.enqueue.add(&mut enqueue);
            took.finish.add(&mut finish);
        }
    }
    Ok(took)
}

/// Enqueues a job that has room, and ends it again, unmeasured.
fn enqueue_and_place(world: &mut World, tenant: u32) -> anyhow::Result<Duration> {
    let command = world.enqueue(LIGHT, tenant, 0);
    let before = world.held.len();
    let begun = processor_time();
    world.apply(command)?;
    world.apply(Command::Tick)?;
    let length = processor_time() - begun;
    world.commit();
    let held = world.held.pop_back();
    let Some(held) = held.filter(|_| world.held.len() == before) else { anyhow::bail!("it was not placed") };
    for command in world.ends(&held)? {
        world.apply(command)?;
    }
    world.settle()?;
    Ok(length)
}

/// Ends the oldest of what runs; what comes next takes its place.
fn finish_and_place(world: &mut World) -> anyhow::Result<Duration> {
    let Some(held) = world.held.pop_front() else { anyhow::bail!("nothing runs") };
    let (commands, before) = (world.ends(&held)?, world.held.len());
    let begun = processor_time();
    for command in commands {
        world.apply(command)?;
    }
    world.apply(Command::Tick)?;
    let length = processor_time() - begun;
    ensure!(world.held.len() == before + 1, "nothing took its place");
    world.commit();
    world.enqueue_work()?;
    Ok(length)
}

/// Why the last of all jobs does not run yet.
fn explain(world: &mut World, name: &str, repetitions: u32) -> anyhow::Result<Figure> {
    let mut took = Vec::new();
    let (now, job) = (world.now(), world.last_job());
    // The very last is of the light kind and gone; one before it waits.
    let job =
        (0..100_000u128).map(|back| tenure_scheduler::JobId(uuid::Uuid::from_u128(job.0.as_u128() - back)));
    let waits = job
        .into_iter()
        .find(|job| world.state.live_view(now, *job).is_some_and(|view| view.deferral.is_some()));
    let Some(job) = waits else { anyhow::bail!("nothing waits") };
    for _ in 0..repetitions {
        let begun = processor_time();
        let explanation = black_box(world.state.explain(now, job));
        took.push((processor_time() - begun).as_secs_f64() * 1e3);
        ensure!(explanation.is_some_and(|explanation| explanation.ahead > 0), "it is not explained");
    }
    let figure = Figure::new("placement", None, format!("{name}: explain"), "ms", took);
    Ok(figure.below(50.0, "< 50 ms"))
}

/// How fast others are while many jobs of a higher priority wait for a fleet slot without units.
fn blocked(world: &mut World, name: &str, free: &Took, repetitions: u32) -> anyhow::Result<Figure> {
    for n in 0..BLOCKED {
        let command = world.enqueue(DRY, n % TENANTS, 50);
        world.apply(command)?;
        if n % 512 == 0 {
            world.commit();
        }
    }
    world.settle()?;
    let took = decisions(world, repetitions)?;
    let speed = |took: &Took| -> Vec<f64> {
        let both = took.enqueue.median.iter().zip(&took.finish.median);
        both.map(|(enqueue, finish)| 2e6 / (enqueue + finish)).collect()
    };
    let text = format!("{name}, 100,000 blocked before them: decisions");
    let figure = Figure::new("placement", None, text, "1/s", speed(&took));
    Ok(figure.beside("without them", &speed(free)).at_least_share(0.5, "≥ 50 %"))
}

/// What this thread has had of a processor so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// What each of so many jobs adds to what this process holds, in bytes.
fn memory(queued: u64) -> anyhow::Result<f64> {
    let mut world = World::new(1000, TENANTS)?;
    let before = resident();
    world.fill(queued)?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 jobs")]
    let each = (resident() - before) / queued as f64;
    Ok(each)
}

/// What this process holds, in bytes.
fn resident() -> f64 {
    kib("/proc/self/status", "RssAnon")
}

/// What this machine has left, in bytes.
fn available() -> f64 {
    kib("/proc/meminfo", "MemAvailable")
}

fn kib(file: &str, name: &str) -> f64 {
    let kib = value_of(file, name).and_then(|kib| kib.split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or_default() * 1024.0
}

/// With commas.
fn short(count: u64) -> String {
    match count {
        1_000_000.. => format!("{} M", count / 1_000_000),
        1000.. => format!("{},000", count / 1000),
        _ => count.to_string(),
    }
}
