//! Heartbeats: they renew what they list, and say what the node does not hold.

use std::time::Duration;

use crate::{
    command::{Heartbeat, Held},
    effect::Message,
    event::Event,
    family::WaitVerdict,
    ids::{FencingToken, NodeName, Ordinal, SessionId},
    job::Outcome,
    lease::{Phase, RevokeReason, Stage, expiry, first_lease},
    node::{Node, Pressure},
    refusal::Refusal,
    step::{
        Step,
        hello::{Listing, by_token},
        outcome::{End, How},
        text,
    },
};

/// `nodes.last_seen` is saved this often, for people.
const SAVE_SEEN_EVERY: Duration = Duration::from_secs(60);

impl Step<'_> {
    /// A message by a stream that is not the node's newest changes nothing.
    pub(super) fn check_session(&self, node: &NodeName, session: SessionId) -> Result<(), Refusal> {
        let live = self.state.nodes.get(node).and_then(|entry| entry.live.as_ref());
        if live.is_some_and(|live| live.session == session) {
            Ok(())
        } else {
            Err(Refusal::SupersededSession)
        }
    }

    pub(super) fn heartbeat(&mut self, beat: &Heartbeat) -> Result<(), Refusal> {
        self.check_session(&beat.node, beat.session)?;
        self.emit(Event::NodeHeard { node: beat.node.clone(), seq: Some(beat.seq), seen: beat.seen });
        self.press(&beat.node, &beat.pressure);
        let listing = self.listed(beat.node.clone(), &beat.held);
        self.not_listed(&beat.node, &beat.held, beat.seen);
        self.send(&beat.node, Message::Renewed { anchor: beat.seq, leases: listing.renewed });
        if !listing.revoke.is_empty() {
            self.send(&beat.node, Message::Revoke { leases: listing.revoke });
        }
        self.resume(&beat.node, &listing.resume);
        self.save_seen(&beat.node);
        Ok(())
    }

    /// Takes over a pressure reading; a newer generation lifts the masks of older ones.
    fn press(&mut self, node: &NodeName, pressure: &Pressure) {
        self.emit(Event::NodePressed { node: node.clone(), pressure: pressure.clone() });
        let Some(entry) = self.state.nodes.get(node) else { return };
        let lifted = entry.masks.iter().filter(|(_, mask)| mask.generation < pressure.generation);
        let lifted: Vec<_> = lifted.map(|(class, _)| *class).collect();
        for class in lifted {
            self.emit(Event::Unmasked { node: node.clone(), class });
        }
    }

    /// Takes over a list of held leases: phases, renewals, and what is to be stopped.
    pub(super) fn listed(&mut self, node: NodeName, held: &[Held]) -> Listing {
        let mut listing = Listing::default();
        for held in by_token(held).into_values() {
            if !self.is_held(&node, &held) {
                listing.revoke.push((held.token, RevokeReason::NotLive));
                continue;
            }
            self.phase(held.token, held.phase, held.elapsed);
            if let Some(wait_epoch) = held.wait_epoch.filter(|_| held.phase == Phase::Parked)
                && let Some(verdict) = self.verdict_on(held.token, wait_epoch)
            {
                listing.resume.push((held.token, wait_epoch, verdict));
            }
            self.renew(held.token);
            let Some(entry) = self.state.leases.get(&held.token) else { continue };
            match entry.watch.revoked {
                Some(reason) => listing.revoke.push((held.token, reason)),
                None => {
                    let length = entry.lease.length;
                    let counts = if entry.watch.is_first() { first_lease(length) } else { length };
                    listing.renewed.push((held.token, counts));
                }
            }
        }
        listing
    }

    /// Orders are level-triggered: said again for as long as a node lists what is over as going on.
    pub(super) fn resume(&mut self, node: &NodeName, over: &[(FencingToken, u64, WaitVerdict)]) {
        for &(token, wait_epoch, verdict) in over {
            self.send(node, Message::Resume { token, wait_epoch, verdict });
        }
    }

    /// Whether a node may hold what it lists: a live lease of its own, for that job.
    fn is_held(&self, node: &NodeName, held: &Held) -> bool {
        self.state.leases.get(&held.token).is_some_and(|entry| {
            let own = entry.lease.node == *node && entry.lease.job == held.job;
            own && entry.lease.stage.is_live() && !entry.lease.orphaned
        })
    }

    /// A node says how far a lease is. From `accepted` on the whole lease counts.
    pub(super) fn phase(&mut self, token: FencingToken, phase: Phase, elapsed: Duration) {
        // Whether it is parked is no matter of how far it is: it comes back from there.
        let phase = if phase == Phase::Parked { Phase::Started } else { phase };
        let Some(entry) = self.state.leases.get(&token) else { return };
        let started = matches!(phase, Phase::Started | Phase::Stopping | Phase::Finished | Phase::Unkillable)
            && (phase == Phase::Started || elapsed > Duration::ZERO);
        let started_at = if started && entry.watch.started_at.is_none() {
            let elapsed = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
            Some(crate::time::Wall(self.now.wall.0.saturating_sub(elapsed)).max(entry.lease.granted_at))
        } else {
            None
        };
        let watch = &entry.watch;
        let news = phase > watch.phase || !watch.answered || watch.ordinal.is_none() || started_at.is_some();
        if news {
            let accepted = entry.watch.is_first() && phase >= Phase::Accepted;
            self.emit(Event::Phased { token, phase, started_at });
            if accepted {
                self.renew(token);
            }
        }
    }

    /// Gives a lease its length from now; one that was revoked for want of an answer gets no more than it has.
    fn renew(&mut self, token: FencingToken) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        if entry.watch.revoked == Some(RevokeReason::Unanswered) {
            return;
        }
        let length = entry.lease.length;
        let counts = if entry.watch.is_first() { first_lease(length) } else { length };
        let expires = expiry(self.now.mono, counts);
        if expires > entry.watch.expires {
            self.emit(Event::Renewed { token, expires });
        }
    }

    /// Leases whose grant the node has surely read and that it does not list.
    fn not_listed(&mut self, node: &NodeName, held: &[Held], seen: Ordinal) {
        let held = by_token(held);
        let Some(entry) = self.state.nodes.get(node) else { return };
        let missing = entry.leases.iter().filter(|token| !held.contains_key(token));
        let seen = entry.live.as_ref().map_or(seen, |live| seen.min(Ordinal(live.sent)));
        let covered = |token: &&FencingToken| {
            let ordinal = self.state.leases.get(token).and_then(|entry| entry.watch.ordinal);
            ordinal.is_some_and(|ordinal| ordinal <= seen)
        };
        let missing: Vec<FencingToken> = missing.filter(covered).copied().collect();
        for token in missing {
            let Some(entry) = self.state.leases.get(&token) else { continue };
            match entry.lease.stage {
                Stage::Unreaped | Stage::Finished => self.emit(Event::LeaseGone(token)),
                Stage::Granted if entry.watch.answered => {} // Its report is on the way, or it runs out.
                Stage::Granted => self.end(
                    token,
                    End {
                        cause: text("undelivered"),
                        error: text("its node had seen the grant and did not hold it"),
                        ..End::new(Outcome::Returned, How::Gone)
                    },
                ),
            }
        }
    }

    fn save_seen(&mut self, name: &NodeName) {
        let Some(entry) = self.state.nodes.get(name) else { return };
        if self.now.wall.since(entry.node.last_seen) >= SAVE_SEEN_EVERY {
            let node = Node { last_seen: self.now.wall, ..entry.node.clone() };
            self.emit(Event::NodePut(Box::new(node)));
        }
    }
}
