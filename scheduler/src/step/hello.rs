//! Hello: which stream of a node wins (rule 6 of the session), and what becomes of the leases that it lists or not.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    command::{Held, Hello},
    effect::{Effect, Message},
    event::Event,
    family::WaitVerdict,
    ids::{FencingToken, NodeName, SessionId},
    job::Outcome,
    lease::{RevokeReason, Stage, expiry},
    node::{Capacity, Node},
    refusal::Refusal,
    state::{NodeEntry, nodes::undeclared, silence},
    step::{
        Step,
        fleet::newest,
        outcome::{End, How},
        text,
    },
    time::Now,
};

/// A node that claims to have seen an epoch this far ahead is not believed.
const MOST_EPOCHS_AHEAD: u64 = 1000;

/// What a Hello is to the node that is known by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Nobody is known by this name.
    New,
    /// The same agent's state directory on the same boot: what it lists, or does not, is the truth.
    Same,
    /// The same state directory after a reboot: nothing that ran before runs any more.
    Rebooted,
    /// Another state directory: nothing is known of what the old one runs.
    Other,
}

impl Step<'_> {
    pub(super) fn hello(&mut self, hello: Hello) -> Result<(), Refusal> {
        let epoch = self.state.epoch.0;
        if hello.max_epoch_seen > epoch.saturating_add(MOST_EPOCHS_AHEAD) {
            return Err(Refusal::EpochAhead { seen: hello.max_epoch_seen, epoch });
        }
        let claim = claim(self.state.nodes.get(&hello.node), &hello, self.now)?;
        if let Some(older) = self.session_of(&hello) {
            let node = hello.node.clone();
            self.effect(Effect::CloseSession { node, session: older, reason: "SUPERSEDED_SESSION" });
        }
        let node = self.row(&hello);
        let warnings = undeclared(self.state, &node);
        self.emit(Event::NodePut(Box::new(node)));
        self.emit(Event::SessionOpened {
            node: hello.node.clone(),
            session: hello.session,
            seq: hello.seq,
            credits: hello.credits.max(1),
            pressure: hello.pressure.clone(),
            inputs: hello.inputs,
        });
        let listing = match claim {
            Claim::New | Claim::Same => self.reconcile(&hello),
            Claim::Rebooted | Claim::Other => self.orphan(&hello, claim),
        };
        self.welcome(&hello, listing, warnings);
        Ok(())
    }

    fn session_of(&self, hello: &Hello) -> Option<SessionId> {
        let live = self.state.nodes.get(&hello.node)?.live.as_ref()?;
        Some(live.session)
    }

    /// The node as it says it is, with what operators said of it.
    fn row(&self, hello: &Hello) -> Node {
        let known = self.state.nodes.get(&hello.node).map(|entry| &entry.node);
        let since = newest(self.state);
        let capacity = |(slot, units): (&crate::ids::SlotName, &u32)| {
            let before = known.and_then(|node| node.slots.get(slot)).filter(|before| before.units == *units);
            (slot.clone(), before.copied().unwrap_or(Capacity { units: *units, since }))
        };
        Node {
            name: hello.node.clone(),
            instance: hello.instance.clone(),
            boot_id: hello.boot_id.clone(),
            incarnation: hello.incarnation,
            stream: hello.stream,
            labels: hello.labels.clone(),
            slots: hello.slots.iter().map(capacity).collect(),
            kinds: hello.kinds.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
            host: hello.host.clone(),
            agent_version: hello.agent_version.clone(),
            cordoned: known.is_some_and(|node| node.cordoned),
            draining: known.and_then(|node| node.draining),
            last_seen: self.now.wall,
        }
    }

    /// The same agent, on the same boot: first what it lists, then what it does not.
    fn reconcile(&mut self, hello: &Hello) -> Listing {
        let listing = self.listed(hello.node.clone(), &hello.held);
        let held: BTreeSet<FencingToken> = hello.held.iter().map(|held| held.token).collect();
        let unstored: BTreeSet<FencingToken> = hello.unstored.iter().map(|(_, token)| *token).collect();
        for token in self.leases_of(&hello.node).into_iter().filter(|token| !held.contains(token)) {
            self.unlisted(token, unstored.contains(&token));
        }
        listing
    }

    /// A lease of this node that its Hello does not hold: its tree is gone, or it never was.
    fn unlisted(&mut self, token: FencingToken, report_to_come: bool) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        match entry.lease.stage {
            // It is not this instance's: that it is not listed says nothing. It runs out.
            Stage::Granted | Stage::Finished if entry.lease.orphaned => {}
            Stage::Unreaped | Stage::Finished => self.emit(Event::LeaseGone(token)),
            // It lives on without slots until its report is answered: at most one more lease, however often its node
            // says Hello.
            Stage::Granted if report_to_come && entry.watch.spooled => {}
            Stage::Granted if report_to_come => {
                let expires = expiry(self.now.mono, entry.lease.length);
                self.emit(Event::SlotsFreed(token));
                self.emit(Event::Renewed { token, expires });
            }
            Stage::Granted if entry.watch.started_at.is_some() => self.end(
                token,
                End {
                    cause: text("not_listed"),
                    error: text("its node came back without it"),
                    ..End::new(Outcome::Lost, How::Gone)
                },
            ),
            Stage::Granted => self.end(
                token,
                End {
                    cause: text("undelivered"),
                    error: text("its node came back and had not received it"),
                    ..End::new(Outcome::Returned, How::Gone)
                },
            ),
        }
    }

    /// Another boot or another instance: the leases of the old one run out. They charge fleet slots only.
    fn orphan(&mut self, hello: &Hello, claim: Claim) -> Listing {
        let unstored: BTreeSet<FencingToken> = hello.unstored.iter().map(|(_, token)| *token).collect();
        for token in self.leases_of(&hello.node) {
            let Some(entry) = self.state.leases.get(&token) else { continue };
            match entry.lease.stage {
                Stage::Granted | Stage::Finished if entry.lease.orphaned => {} // It runs out already.
                Stage::Unreaped => self.emit(Event::LeaseGone(token)),
                Stage::Granted if claim == Claim::Rebooted && unstored.contains(&token) => {
                    self.unlisted(token, true)
                }
                // Also what has finished: that another boot speaks is no proof that the tree is gone, since the host may be a
                // clone of the one that is cut off.
                Stage::Granted | Stage::Finished => self.emit(Event::LeaseOrphaned(token)),
            }
        }
        Listing {
            revoke: hello.held.iter().map(|held| (held.token, RevokeReason::NotLive)).collect(),
            ..Listing::default()
        }
    }

    /// Every lease that charges the node or that it may hold.
    fn leases_of(&self, node: &NodeName) -> Vec<FencingToken> {
        let entry = self.state.nodes.get(node);
        entry.map(|entry| entry.leases.iter().copied().collect()).unwrap_or_default()
    }

    fn welcome(&mut self, hello: &Hello, listing: Listing, warnings: Vec<String>) {
        let Some(entry) = self.state.nodes.get(&hello.node) else { return };
        let Some(live) = &entry.live else { return };
        let (heartbeat_interval, draining) = (live.interval, entry.node.draining);
        self.send(
            &hello.node,
            Message::Welcome {
                epoch: self.state.epoch,
                heartbeat_interval,
                anchor: hello.seq,
                renewed: listing.renewed,
                warnings,
            },
        );
        if !listing.revoke.is_empty() {
            self.send(&hello.node, Message::Revoke { leases: listing.revoke });
        }
        self.resume(&hello.node, &listing.resume);
        if draining.is_some() {
            self.send(&hello.node, Message::Drain { deadline: draining });
        }
    }
}

/// What a list of held leases is answered with.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) renewed: Vec<(FencingToken, std::time::Duration)>,
    pub(super) revoke: Vec<(FencingToken, RevokeReason)>,
    /// Waits that are over, which the node does not know.
    pub(super) resume: Vec<(FencingToken, u64, WaitVerdict)>,
}

/// Which stream wins.
fn claim(known: Option<&NodeEntry>, hello: &Hello, now: Now) -> Result<Claim, Refusal> {
    let Some(entry) = known else { return Ok(Claim::New) };
    let node = &entry.node;
    let same_instance = node.instance == hello.instance;
    if same_instance && node.boot_id == hello.boot_id {
        let newer = (hello.incarnation, hello.stream) > (node.incarnation, node.stream);
        return if newer { Ok(Claim::Same) } else { Err(Refusal::SupersededSession) };
    }
    let interval = entry.live.as_ref().map_or(std::time::Duration::from_secs(5), |live| live.interval);
    let heard_lately = now.mono.since(entry.heard) < silence(interval);
    // A takeover counts as heard, but only of those that may hold something.
    let open = entry.live.is_some() || (entry.presumed_open && !entry.leases.is_empty());
    if open && heard_lately {
        return Err(Refusal::NodeNameInUse { node: hello.node.clone() });
    }
    Ok(if same_instance { Claim::Rebooted } else { Claim::Other })
}

/// Held leases by token; the last listing of a token counts.
pub(super) fn by_token(held: &[Held]) -> BTreeMap<FencingToken, Held> {
    held.iter().map(|held| (held.token, *held)).collect()
}
