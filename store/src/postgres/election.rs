//! Who leads among the servers of one database: the row of `leader_fence`, renewed by whoever holds it, and watched by
//! the others.
//!
//! Responsible for renewals on a connection of their own, so that neither a slow commit nor an exhausted pool deposes
//! anybody; for telling a journal whom it may depose; and for resigning. Not for the takeover itself, which is the
//! journal's (`journal.rs`), nor for what a server does when it leads or follows.
//!
//! Invariants: the row names us only while a takeover of ours was the newest; a renewal is good only if the row named
//! us when it was made; what a follower may depose is a renewal that it saw unchanged for [`PATIENCE`], or nobody.
//!
//! [`PATIENCE`]: crate::election::PATIENCE

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sqlx::{PgConnection, Row};
use tenure_scheduler::Epoch;
use tokio::{sync::watch, time::timeout};
use uuid::Uuid;

use super::{Address, PostgresJournal, connect};
use crate::{
    election::{Beat, PATIENCE, Patience, Steady, Trust},
    journal::Error,
};

/// Between two renewals of a leader, from send to send.
const RENEW_EVERY: Duration = Duration::from_millis(800);

/// Between two looks of a follower.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// After a renewal or look that failed.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How long a renewal or a look may take, and how long connecting for it may.
const LIMIT: Duration = Duration::from_millis(700);

/// Without a good look for so long, nobody is believed to hold the seat who held it then. One look may well be slow.
const BELIEF: Duration = PATIENCE;

/// How long a resignation may take. If it fails, the others wait as for a dead leader.
const RESIGN_LIMIT: Duration = Duration::from_secs(2);

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 3] = [RENEW, LOOK, RESIGN];

// Nobody but us writes our id: while it stands there, no takeover came after ours.
const RENEW: &str = "
update leader_fence
set hb = hb + 1, seen_at = clock_timestamp()
where holder = $1";

const LOOK: &str = "select epoch, hb, holder, holder_addr, holder_peer_addr from leader_fence";

const RESIGN: &str = "
update leader_fence
set holder = null, holder_addr = null, holder_peer_addr = null, hb = hb + 1, seen_at = clock_timestamp()
where holder = $1";

/// A server, as the row names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Random for each start of its process.
    pub id: Uuid,
    /// Where it serves clients and agents, as `host:port`.
    pub addr: Option<String>,
    /// Where it serves other servers, as `host:port`.
    pub peer_addr: Option<String>,
}

/// How the row stands towards this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seat {
    /// Nothing is known: before the first look, or since the database went away, a few seconds ago if the seat was taken
    /// then.
    Unknown,
    /// Another server holds it.
    Taken(Holder),
    /// Nobody holds it, or nobody who lives, or we do without leading: a takeover may go well.
    Free,
    /// We took it over.
    Ours {
        /// In which epoch.
        epoch: Epoch,
    },
}

/// What a journal may depose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim(pub(super) Beat);

/// One server's part in the election: what its journals and its renewals share. Clones are the same part.
#[derive(Debug, Clone)]
pub struct Candidate {
    address: Address,
    commit_limit: Duration,
    /// Under which id and addresses we lead.
    us: Arc<Holder>,
    steady: Steady,
    trust: Trust,
    /// Its lock is held while claim or trust change with it.
    seat: watch::Sender<Seat>,
    claim: Arc<Mutex<Option<Claim>>>,
    /// The highest epoch that was led or seen: a database that lost its tail must not make us repeat one.
    highest: Arc<AtomicU64>,
}

impl PostgresJournal {
    /// Stands for election as this journal's server, at these addresses. Its journals depose nobody who lives. The trust
    /// is kept by this clock, and told of each good renewal.
    #[must_use]
    pub fn stand(
        self,
        (steady, trust): (Steady, Trust),
        addr: Option<String>,
        peer_addr: Option<String>,
    ) -> Candidate {
        let us = Arc::new(Holder { id: self.me, addr, peer_addr });
        let (address, commit_limit) = (self.address, self.commit_limit);
        let (seat, claim, highest) = (watch::Sender::new(Seat::Unknown), Arc::default(), Arc::default());
        Candidate { address, commit_limit, us, steady, trust, seat, claim, highest }
    }
}

impl Candidate {
    /// A journal for one term of this server. Its takeover is refused with [`Deposed`] unless the seat is free or ours.
    ///
    /// [`Deposed`]: crate::journal::Error::Deposed
    #[must_use]
    pub fn journal(&self) -> PostgresJournal {
        PostgresJournal::of(self.clone(), self.address.clone(), self.commit_limit)
    }

    /// How the seat stands, as a level.
    #[must_use]
    pub fn seat(&self) -> watch::Receiver<Seat> {
        self.seat.subscribe()
    }

    /// Whether this server may act as the leader without a commit.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Renews while the seat is ours, else watches it. It ends only by being dropped.
    pub async fn run(self) {
        let mut seat = self.seat.subscribe();
        let mut line = Line { candidate: self, connection: None, patience: Patience::default(), seen: None };
        loop {
            let ours = matches!(*seat.borrow_and_update(), Seat::Ours { .. });
            let begun = line.candidate.steady.now();
            let good = if ours { line.renew().await } else { line.look().await };
            let every = if !good {
                AGAIN_AFTER
            } else if ours {
                RENEW_EVERY
            } else {
                LOOK_EVERY
            };
            let took = line.candidate.steady.now().saturating_sub(begun);
            // Cancel-safe: both only wait. A seat that was won or lost by a journal is renewed or looked at at once.
            tokio::select! {
                () = tokio::time::sleep(every.saturating_sub(took)) => {}
                changed = seat.wait_for(|seat| matches!(seat, Seat::Ours { .. }) != ours) => drop(changed),
            }
        }
    }

    /// Gives the seat up, if it is ours: another server then leads at once. Ask when nothing of ours leads any more.
    ///
    /// # Errors
    /// If the database does not say so in time. It may have happened all the same.
    pub async fn resign(&self) -> Result<(), super::Error> {
        self.lost();
        let resign = async {
            let mut connection = connect::operator(&self.address).await?;
            let resigned = sqlx::query(RESIGN).bind(self.us.id).execute(&mut connection).await;
            resigned.map_err(|error| super::Error::Open(error.into()))?;
            connect::end(connection).await;
            Ok(())
        };
        let slow = || Err(super::Error::Open("it took too long".into()));
        timeout(RESIGN_LIMIT, resign).await.unwrap_or_else(|_| slow())
    }

    /// Who we are.
    pub(super) fn us(&self) -> &Holder {
        &self.us
    }

    /// The present.
    pub(super) fn now(&self) -> Duration {
        self.steady.now()
    }

    /// Whether a takeover may go well, by a journal that led in this epoch.
    ///
    /// # Errors
    /// [`Error::Deposed`] if another leads, and [`Error::Unavailable`] while our renewals fail: whoever cannot renew must
    /// not hold the seat by one takeover after the other, since it could do nothing else.
    pub(super) fn may_take_over(&self, led: Option<Epoch>) -> Result<(), Error> {
        let ours = matches!(*self.seat.borrow(), Seat::Ours { .. });
        if ours && !self.trust.holds() {
            return Err(Error::Unavailable {
                doing: "waiting for a renewal of our leadership",
                source: None,
            });
        }
        match led {
            Some(epoch) if !ours => Err(Error::Deposed { epoch }),
            Some(_) | None => Ok(()),
        }
    }

    /// What may be deposed, if the seat is not ours.
    pub(super) fn claim(&self) -> Option<Claim> {
        *self.lock()
    }

    /// The highest epoch that was led or seen.
    pub(super) fn highest(&self) -> Epoch {
        Epoch(self.highest.load(Ordering::SeqCst))
    }

    /// A takeover went well whose commit was sent then.
    pub(super) fn won(&self, epoch: Epoch, sent: Duration) {
        self.highest.fetch_max(epoch.0, Ordering::SeqCst);
        self.seat.send_modify(|seat| {
            *self.lock() = None;
            self.trust.renewed(sent);
            *seat = Seat::Ours { epoch };
        });
    }

    /// A renewal went well that was sent then. It counts only while the seat is ours: its answer may come late.
    pub(super) fn renewed(&self, sent: Duration) {
        let seat = self.seat.borrow(); // held, so that nothing is lost meanwhile
        if let Seat::Ours { .. } = *seat {
            self.trust.renewed(sent);
        }
    }

    /// The row names another, or a takeover of ours changed nothing.
    pub(super) fn lost(&self) {
        self.seat.send_modify(|seat| {
            *self.lock() = None;
            self.trust.lose();
            *seat = Seat::Unknown;
        });
    }

    /// A look failed. Nothing may be deposed by an older one; who was seen by it may still be believed to lead.
    fn missed(&self, believed: bool) {
        let seat = self.seat.borrow().clone();
        match seat {
            Seat::Taken(_) if believed => self.tell(seat, None),
            Seat::Taken(_) | Seat::Free | Seat::Unknown | Seat::Ours { .. } => self.tell(Seat::Unknown, None),
        }
    }

    /// What a look saw, and what may be deposed by that.
    pub(super) fn tell(&self, seat: Seat, claim: Option<Claim>) {
        self.seat.send_if_modified(|told| {
            // A journal may have won it since the look was asked.
            if let Seat::Ours { .. } = told {
                return false;
            }
            *self.lock() = claim;
            let new = *told != seat;
            *told = seat;
            new
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Claim>> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection of the election, with what was seen on it.
struct Line {
    candidate: Candidate,
    connection: Option<PgConnection>,
    patience: Patience,
    /// When the newest good look was asked.
    seen: Option<Duration>,
}

impl Line {
    /// One renewal. False: it did not go well.
    async fn renew(&mut self) -> bool {
        // It is sent to nobody, and this server believes that it went well.
        #[cfg(feature = "failpoints")]
        fail::fail_point!("election::renew", |_| true);
        self.patience.missed();
        let me = self.candidate.us.id;
        let sent = self.candidate.steady.now();
        let renewed = self
            .on_line(async |connection| {
                // If it was connected first, this is sent later than that: the limit errs on the safe side.
                Ok(sqlx::query(RENEW).bind(me).execute(connection).await?.rows_affected())
            })
            .await;
        match renewed {
            Some(0) => {
                self.candidate.lost();
                true
            }
            Some(_) => {
                self.candidate.renewed(sent);
                true
            }
            None => false,
        }
    }

    /// One look. False: it did not go well.
    async fn look(&mut self) -> bool {
        let mut asked = self.candidate.steady.now();
        let steady = self.candidate.steady.clone();
        let seen = self
            .on_line(async |connection| {
                asked = steady.now();
                sqlx::query(LOOK).fetch_one(connection).await
            })
            .await;
        let Some((beat, holder)) = seen.and_then(|row| read(&row).ok()) else {
            self.patience.missed();
            let believed = self.seen.filter(|seen| self.candidate.now().saturating_sub(*seen) < BELIEF);
            self.candidate.missed(believed.is_some());
            return false;
        };
        self.seen = Some(asked);
        self.candidate.highest.fetch_max(beat.epoch, Ordering::SeqCst);
        let over = self.patience.saw(beat, (asked, self.candidate.steady.now()));
        let me = self.candidate.us.id;
        match holder {
            Some(holder) if holder.id != me && !over => self.candidate.tell(Seat::Taken(holder), None),
            // Nobody, nobody who lives, or ourselves by a takeover whose outcome was not known.
            Some(_) | None => self.candidate.tell(Seat::Free, Some(Claim(beat))),
        }
        true
    }

    /// Runs a call on the connection, which is made if there is none, and dropped if the call fails or is slow.
    async fn on_line<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Option<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                timeout(LIMIT, connect::open(&self.candidate.address, connect::ELECTION)).await.ok()?.ok()?
            }
        };
        let answer = timeout(LIMIT, call(&mut connection)).await.ok()?.ok()?;
        self.connection = Some(connection);
        Some(answer)
    }
}

fn read(row: &sqlx::postgres::PgRow) -> Result<(Beat, Option<Holder>), sqlx::Error> {
    let number = |index| row.try_get::<i64, _>(index).map(|number| u64::try_from(number).unwrap_or(0));
    let beat = Beat { epoch: number(0)?, hb: number(1)? };
    let (addr, peer_addr) = (row.try_get(3)?, row.try_get(4)?);
    let holder = row.try_get::<Option<Uuid>, _>(2)?.map(|id| Holder { id, addr, peer_addr });
    Ok((beat, holder))
}
