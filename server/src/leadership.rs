//! Who leads: how this server stands towards the others on its store, as everything in the process sees it.
//!
//! Responsible for following and leading by turns: a term begins with a takeover, and whatever ends it, this server
//! follows then, in the same process. Not for who may take over (the store's election says), nor for what a leader does
//! (`term`, `driver`).
//! Invariants: a term has ended, or the process has, before another one begins; whoever reads [`Standing::Leading`] may hear a moment later that it is over; what needs certainty goes
//! through the driver, whose commits check the epoch.

use std::{fmt, sync::Arc, time::Duration};

use tenure_scheduler::Epoch;
use tenure_store::{
    journal,
    postgres::{Candidate, Holder, Seat},
};
use tokio::{sync::watch, task::JoinSet};
use uuid::Uuid;

use crate::{
    chain::{BoxError, Chain},
    driver, tasks,
    term::{Seed, Term},
};

/// After a takeover that failed, or a term that ended, by a fault of this server: doubled from the first to the last.
const HOLD_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// After a takeover that the store failed: the same, as between the attempts of a driver.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A term that lasted so long is no part of a row of faults.
const CALM: Duration = Duration::from_secs(60);

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody else can lead on this store: a SQLite file, or memory. It leads as long as it runs.
    Alone,
    /// This server leads.
    Leading {
        /// Under which number. Published again when a takeover from itself raised it.
        epoch: Epoch,
    },
    /// Another server leads, or none.
    Following {
        /// Who is believed to lead, by what the store says. None: nobody is known, such as after a resignation, before
        /// the first read, or while the store is away.
        leader: Option<Leader>,
    },
}

/// Another server, by what it has written into the store at its takeover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Random for each start of its process.
    pub holder: Uuid,
    /// Where it serves clients and agents, as `host:port`. None: it was given no address that others could use.
    pub addr: Option<Arc<str>>,
    /// Where it serves other servers, as `host:port`. None: it has no listener for them.
    pub peer_addr: Option<Arc<str>>,
}

/// Follows how a server stands: a level, never an edge.
pub type Standings = watch::Receiver<Standing>;

impl Standing {
    /// Whether this server leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        match self {
            Self::Alone | Self::Leading { .. } => true,
            Self::Following { .. } => false,
        }
    }

    /// The other server that is believed to lead, if one is.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Alone | Self::Leading { .. } => None,
            Self::Following { leader } => leader.as_ref(),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("alone"),
            Self::Leading { .. } => f.write_str("leading"),
            Self::Following { .. } => f.write_str("following"),
        }
    }
}

/// Leads where nobody else can, until the server ends.
///
/// # Errors
/// What ended the term otherwise: it ends the server.
pub(crate) async fn alone(term: Term) -> Result<(), BoxError> {
    Ok(term.run(std::future::pending()).await??)
}

/// Leads whenever this server may, and follows meanwhile, until the server ends. Then it resigns.
///
/// # Errors
/// If the election broke, by a bug of ours. What only ends a term is logged, and this server follows again.
pub(crate) async fn contend(seed: Seed, candidate: Candidate) -> Result<(), BoxError> {
    let mut renewing = JoinSet::new();
    renewing.spawn(candidate.clone().run());
    let mut contender = Contender { seat: candidate.seat(), seed, candidate, faults: 0, misses: 0 };
    // Cancel-safe: it ends by itself if the server does; else the process cannot go on.
    tokio::select! {
        biased;
        () = contender.run() => Ok(()),
        ended = renewing.join_next() => Err(match ended {
            Some(Err(panicked)) => tasks::Error::Panicked(panicked).into(),
            Some(Ok(())) | None => tasks::Error::EndedEarly("election").into(),
        }),
    }
}

/// One server among several on a database.
struct Contender {
    seed: Seed,
    candidate: Candidate,
    seat: watch::Receiver<Seat>,
    /// Takeovers and terms in a row that ended by a fault of this server.
    faults: u32,
    /// Takeovers in a row that the store failed.
    misses: u32,
}

impl Contender {
    async fn run(&mut self) {
        let shutdown = self.seed.shutdown.clone();
        while !shutdown.is_cancelled() {
            // Cancel-safe: a takeover that is dropped half-way is settled by the next one, or by the resignation.
            let begun = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                begun = self.begin() => begun,
            };
            match begun {
                Ok(term) => {
                    self.misses = 0;
                    self.lead(term).await;
                }
                Err(driver::Error::Deposed(_) | driver::Error::Takeover(journal::Error::Deposed { .. })) => {
                    self.misses = 0;
                    tracing::info!("another server was faster");
                }
                Err(error) => self.failed(&error, error_is_ours(&error)).await,
            }
        }
        // A row that names us after this is taken from us in 3 s, as from a dead leader.
        if let Err(error) = self.candidate.resign().await {
            tracing::warn!(error = %Chain(&error), "could not resign; another server waits until this one counts as dead");
        }
    }

    /// Follows until a takeover may go well, and takes over.
    async fn begin(&mut self) -> Result<Term, driver::Error> {
        loop {
            if let Seat::Free | Seat::Ours { .. } = self.follow_seat() {
                break;
            }
            // An error would mean that the sender is gone, which the candidate keeps.
            drop(self.seat.changed().await);
        }
        tracing::info!("taking over");
        Box::pin(Term::begin(&self.seed, self.candidate.journal())).await
    }

    /// Follows whoever holds the seat now.
    fn follow_seat(&mut self) -> Seat {
        let seat = self.seat.borrow_and_update().clone();
        match &seat {
            Seat::Taken(holder) => self.follow(Some(holder.clone().into())),
            // A leader that is gone is nobody to hand calls on to.
            Seat::Free | Seat::Unknown | Seat::Ours { .. } => self.follow(None),
        }
        seat
    }

    /// Follows for so long, whatever the seat says.
    async fn hold_off(&mut self, wait: Duration) {
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        loop {
            self.follow_seat();
            // Cancel-safe: both only wait.
            tokio::select! {
                () = &mut over => return,
                changed = self.seat.changed() => drop(changed),
            }
        }
    }

    fn follow(&self, leader: Option<Leader>) {
        let new = Standing::Following { leader };
        self.seed.standing.send_if_modified(|standing| {
            let changed = *standing != new;
            if changed {
                let leader = new.leader().and_then(|leader| leader.addr.as_deref()).unwrap_or("unknown");
                tracing::info!(leader, "following");
                *standing = new;
            }
            changed
        });
    }

    /// Leads to the end of the term, whatever ends it.
    async fn lead(&mut self, term: Term) {
        let (mut seat, standing) = (self.seat.clone(), self.seed.standing.clone());
        let begun = self.seed.clock.steady();
        let lost = async move {
            // Takeovers from oneself raise the epoch. An error of `changed` would mean that the sender is gone.
            loop {
                let Seat::Ours { epoch } = *seat.borrow_and_update() else { return };
                tracing::info!(%epoch, "leading");
                standing.send_replace(Standing::Leading { epoch });
                drop(seat.changed().await);
            }
        };
        let ended = match Box::pin(term.run(lost)).await {
            Ok(ended) => ended,
            Err(overdue) => {
                tracing::error!(error = %overdue, "two servers may lead now: this process is ended at once");
                std::process::abort();
            }
        };
        self.follow(None);
        let deposed = !matches!(*self.seat.borrow(), Seat::Ours { .. });
        match ended {
            Ok(()) if self.seed.shutdown.is_cancelled() => {}
            _ if deposed => {
                self.faults = 0;
                tracing::warn!("this server was deposed; it follows");
            }
            Ok(()) => {}
            Err(error) => {
                if self.seed.clock.steady().saturating_sub(begun) > CALM {
                    self.faults = 0;
                }
                self.failed(&error, true).await;
            }
        }
    }

    /// A takeover failed, or a term ended by a fault of this server: another one may do better, and has time to. The
    /// epoch may be raised by then, and renewed: whoever holds the seat and does not lead gives it up.
    async fn failed(&mut self, error: &(dyn std::error::Error + Send + Sync + 'static), ours: bool) {
        let (row, bounds) = if ours { (&mut self.faults, HOLD_OFF) } else { (&mut self.misses, BACKOFF) };
        let wait = doubled(*row, bounds);
        *row = row.saturating_add(1);
        if ours {
            tracing::error!(error = %Chain(error), wait_ms = wait.as_millis(), "this server cannot lead; it resigns");
        } else {
            tracing::warn!(error = %Chain(error), wait_ms = wait.as_millis(), "the store cannot be taken over");
        }
        let holds = matches!(*self.seat.borrow(), Seat::Ours { .. });
        let candidate = self.candidate.clone();
        let resign = async {
            if (ours || holds)
                && let Err(error) = candidate.resign().await
            {
                tracing::warn!(error = %Chain(&error), "could not resign");
            }
        };
        let shutdown = self.seed.shutdown.clone();
        // Cancel-safe: both only wait, and a resignation that is dropped is made again at the end.
        tokio::select! {
            () = shutdown.cancelled() => {}
            _ = async { tokio::join!(resign, self.hold_off(wait)) } => {}
        }
    }
}

/// The wait after so many in a row, between the first and the last.
fn doubled(row: u32, (first, last): (Duration, Duration)) -> Duration {
    first.saturating_mul(1 << row.min(8)).min(last)
}

fn error_is_ours(error: &driver::Error) -> bool {
    match error {
        driver::Error::Deposed(error) | driver::Error::Takeover(error) => {
            // Only a server of the later version leads on a newer schema.
            error.is_ours() || matches!(error, journal::Error::Newer { .. })
        }
    }
}

impl From<Holder> for Leader {
    fn from(holder: Holder) -> Self {
        let Holder { id, addr, peer_addr } = holder;
        Self { holder: id, addr: addr.map(Into::into), peer_addr: peer_addr.map(Into::into) }
    }
}

#[cfg(test)]
mod tests;
