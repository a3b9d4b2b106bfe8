//! Operators' verbs: the fleet file, kinds, slots and nodes. Thin: check, submit, show.
//!
//! Lists ask the driver, so that whoever changed something sees it in the next list.

use std::time::Duration;

use tenure_proto::limits;
use tenure_proto::v1::{self, fleet_service_server::FleetService};
use tenure_scheduler::{
    Command, KindName, NodeName, NodeView, PausePolicy, Refusal, Reply, SlotName, Snapshot,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::{Api, unexpected},
    auth::Caller,
    check::{Checks, LIMITS},
    convert::{self, fleet as show},
    page::{self, Filters},
    status::{No, Violation},
};
use crate::config;

/// The longest fleet file, in bytes.
const MOST_FLEET: usize = 1024 * 1024;

/// How long a drain waits if the caller does not say, and at the most.
const DRAIN_DEFAULT: Duration = Duration::from_secs(60);
const DRAIN_MOST: Duration = Duration::from_secs(86_400);

/// The longest pause of a slot that ends by itself.
const PAUSE_MOST: Duration = Duration::from_secs(30 * 86_400);

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Fleet(pub(crate) Api);

#[async_trait]
impl FleetService for Fleet {
    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Result<Response<v1::ApplyResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(apply(&self.0, &caller, &request.into_inner()).await)
    }

    async fn get_fleet(
        &self,
        request: Request<v1::GetFleetRequest>,
    ) -> Result<Response<v1::GetFleetResponse>, Status> {
        let trusted = Caller::of(&request)?.operates();
        let now = self.0.now();
        self.0.answer(snapshot(&self.0).await.map(|snapshot| v1::GetFleetResponse {
            kinds: snapshot.kinds.iter().map(|kind| show::kind(kind, self.0.now())).collect(),
            slots: snapshot.slots.iter().map(show::slot).collect(),
            tenants: snapshot.tenants.iter().map(show::tenant).collect(),
            webhooks: snapshot.webhooks.iter().map(|view| convert::webhook::webhook(view, trusted)).collect(),
            cron_entries: snapshot.crons.iter().map(|entry| convert::cron::entry(entry, now)).collect(),
        }))
    }

    async fn list_kinds(
        &self,
        request: Request<v1::ListKindsRequest>,
    ) -> Result<Response<v1::ListKindsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let (snapshot, now) = (snapshot(&self.0).await, self.0.now());
        self.0.answer(snapshot.map(|s| {
            v1::ListKindsResponse {
                kinds: s
                    .kinds
                    .iter()
                    .filter(|kind| caller.knows_kind(&kind.name))
                    .map(|kind| show::kind(kind, now))
                    .collect(),
            }
        }))
    }

    async fn pause_kind(
        &self,
        request: Request<v1::PauseKindRequest>,
    ) -> Result<Response<v1::PauseKindResponse>, Status> {
        let done = pause_kind(&self.0, &request.into_inner()).await;
        self.0.answer(done.map(|(kind, changed)| v1::PauseKindResponse { kind: Some(kind), changed }))
    }

    async fn resume_kind(
        &self,
        request: Request<v1::ResumeKindRequest>,
    ) -> Result<Response<v1::ResumeKindResponse>, Status> {
        let done = resume_kind(&self.0, &request.into_inner()).await;
        self.0.answer(done.map(|(kind, changed)| v1::ResumeKindResponse { kind: Some(kind), changed }))
    }

    async fn list_slots(
        &self,
        _: Request<v1::ListSlotsRequest>,
    ) -> Result<Response<v1::ListSlotsResponse>, Status> {
        let snapshot = snapshot(&self.0).await;
        self.0.answer(
            snapshot.map(|s| v1::ListSlotsResponse { slots: s.slots.iter().map(show::slot).collect() }),
        )
    }

    async fn set_capacity(
        &self,
        request: Request<v1::SetCapacityRequest>,
    ) -> Result<Response<v1::SetCapacityResponse>, Status> {
        let done = set_capacity(&self.0, &request.into_inner()).await;
        self.0.answer(done.map(|(slot, changed)| v1::SetCapacityResponse { slot: Some(slot), changed }))
    }

    async fn pause_slot(
        &self,
        request: Request<v1::PauseSlotRequest>,
    ) -> Result<Response<v1::PauseSlotResponse>, Status> {
        let done = pause_slot(&self.0, &request.into_inner()).await;
        self.0.answer(done.map(|(slot, changed)| v1::PauseSlotResponse { slot: Some(slot), changed }))
    }

    async fn resume_slot(
        &self,
        request: Request<v1::ResumeSlotRequest>,
    ) -> Result<Response<v1::ResumeSlotResponse>, Status> {
        let done = resume_slot(&self.0, &request.into_inner()).await;
        self.0.answer(done.map(|(slot, changed)| v1::ResumeSlotResponse { slot: Some(slot), changed }))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let listed = list_nodes(&self.0, &request.into_inner()).await;
        self.0.answer(listed)
    }

    async fn get_node(
        &self,
        request: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::GetNodeResponse>, Status> {
        let found = get_node(&self.0, &request.into_inner()).await;
        self.0.answer(found.map(|node| v1::GetNodeResponse { node: Some(node) }))
    }

    async fn cordon_node(
        &self,
        request: Request<v1::CordonNodeRequest>,
    ) -> Result<Response<v1::CordonNodeResponse>, Status> {
        let done = node_verb(&self.0, &request.into_inner().node, |node| Command::Cordon { node }).await;
        self.0.answer(done.map(|(node, changed)| v1::CordonNodeResponse { node: Some(node), changed }))
    }

    async fn uncordon_node(
        &self,
        request: Request<v1::UncordonNodeRequest>,
    ) -> Result<Response<v1::UncordonNodeResponse>, Status> {
        let done = node_verb(&self.0, &request.into_inner().node, |node| Command::Uncordon { node }).await;
        self.0.answer(done.map(|(node, changed)| v1::UncordonNodeResponse { node: Some(node), changed }))
    }

    async fn drain_node(
        &self,
        request: Request<v1::DrainNodeRequest>,
    ) -> Result<Response<v1::DrainNodeResponse>, Status> {
        let done = drain_node(&self.0, &request.into_inner()).await;
        self.0.answer(done.map(|(node, changed)| v1::DrainNodeResponse { node: Some(node), changed }))
    }

    async fn forget_node(
        &self,
        request: Request<v1::ForgetNodeRequest>,
    ) -> Result<Response<v1::ForgetNodeResponse>, Status> {
        self.0.answer(forget_node(&self.0, &request.into_inner()).await)
    }
}

async fn apply(api: &Api, caller: &Caller, request: &v1::ApplyRequest) -> Result<v1::ApplyResponse, No> {
    // Not an empty fleet: a request without a file, which must not take everything away.
    if request.fleet.is_empty() {
        return Err(No::invalid_field("fleet", "is required"));
    }
    if request.fleet.len() > MOST_FLEET {
        return Err(No::invalid_field("fleet", format!("is longer than {MOST_FLEET} bytes")));
    }
    let retention = *api.retention.borrow();
    let mut fleet = config::parse_fleet(&request.fleet, &retention).map_err(|problems| {
        let violations = problems
            .into_iter()
            .map(|problem| Violation { field: "fleet".to_owned(), problem: problem.to_string() });
        No::invalid(violations.collect())
    })?;
    // Judged where it is applied: another file may be applied meanwhile.
    fleet.webhooks_stay = !caller.changes_webhooks();
    check_secrets(api, &fleet)?;
    let command = Command::Apply { fleet: Box::new(fleet), validate_only: request.validate_only };
    let Reply::Applied { changes } = api.submit(command).await? else { return Err(unexpected("apply")) };
    Ok(v1::ApplyResponse { changes })
}

/// A webhook without its secret could not be told anything. A file of webhooks as they are needs none of this server.
fn check_secrets(api: &Api, fleet: &tenure_scheduler::Fleet) -> Result<(), No> {
    if fleet.webhooks_stay {
        return Ok(());
    }
    let settings = api.webhooks.borrow().clone();
    let unknown = fleet.webhooks.iter().filter(|(_, policy)| settings.secret(&policy.secret).is_none());
    let violations = unknown.map(|(name, policy)| Violation {
        field: "fleet".to_owned(),
        problem: format!(
            "webhooks.{name}.secret names {:?}, and the server file has no such secret under [webhooks.secrets]",
            &*policy.secret
        ),
    });
    let violations: Vec<Violation> = violations.collect();
    if violations.is_empty() { Ok(()) } else { Err(No::invalid(violations)) }
}

async fn pause_kind(api: &Api, request: &v1::PauseKindRequest) -> Result<(v1::Kind, bool), No> {
    let mut checks = Checks::default();
    let kind = checks.name("kind", &request.kind, KindName::parse);
    let policy = match checks.choice("policy", request.policy) {
        v1::PausePolicy::Unspecified | v1::PausePolicy::Hold => PausePolicy::Hold,
        v1::PausePolicy::Reject => PausePolicy::Reject,
    };
    checks.finish()?;
    let Some(kind) = kind else { return Err(No::invalid_field("kind", "is required")) };
    kind_verb(api, Command::PauseKind { kind, policy }).await
}

async fn resume_kind(api: &Api, request: &v1::ResumeKindRequest) -> Result<(v1::Kind, bool), No> {
    let kind = required("kind", &request.kind, KindName::parse)?;
    kind_verb(api, Command::ResumeKind { kind }).await
}

async fn kind_verb(api: &Api, command: Command) -> Result<(v1::Kind, bool), No> {
    let Reply::Kind { kind, changed } = api.submit(command).await? else {
        return Err(unexpected("pause or resume of a kind"));
    };
    Ok((show::kind(&kind, api.now()), changed))
}

async fn set_capacity(api: &Api, request: &v1::SetCapacityRequest) -> Result<(v1::Slot, bool), No> {
    let mut checks = Checks::default();
    let slot = checks.name("slot", &request.slot, SlotName::parse_any);
    let capacity = request.capacity;
    match capacity {
        None => checks.refuse("capacity", "is required"),
        Some(capacity) if capacity > limits::SLOT_UNITS => {
            checks.refuse("capacity", format!("must be 0 to {most}", most = limits::SLOT_UNITS))
        }
        Some(_) => {}
    }
    checks.finish()?;
    let (Some(slot), Some(capacity)) = (slot, capacity) else {
        return Err(No::invalid_field("slot", "is required"));
    };
    slot_verb(api, Command::SetCapacity { slot, capacity }).await
}

async fn pause_slot(api: &Api, request: &v1::PauseSlotRequest) -> Result<(v1::Slot, bool), No> {
    let mut checks = Checks::default();
    let slot = checks.name("slot", &request.slot, SlotName::parse_any);
    let duration = checks.duration("duration", request.duration.as_ref(), *LIMITS.start()..=PAUSE_MOST);
    checks.finish()?;
    let Some(slot) = slot else { return Err(No::invalid_field("slot", "is required")) };
    slot_verb(api, Command::PauseSlot { slot, duration }).await
}

async fn resume_slot(api: &Api, request: &v1::ResumeSlotRequest) -> Result<(v1::Slot, bool), No> {
    let slot = required("slot", &request.slot, SlotName::parse_any)?;
    slot_verb(api, Command::ResumeSlot { slot }).await
}

async fn slot_verb(api: &Api, command: Command) -> Result<(v1::Slot, bool), No> {
    let Reply::Slot { slot, changed } = api.submit(command).await? else {
        return Err(unexpected("pause, resume or capacity of a slot"));
    };
    // The use of the slot is not part of the answer; a fleet file applied meanwhile may have taken the slot away.
    let snapshot = snapshot(api).await?;
    let view = snapshot.slots.iter().find(|view| view.slot.name == slot.name);
    let view = view.ok_or_else(|| Refusal::SlotNotFound { slot: slot.name, nearest: Vec::new() })?;
    Ok((show::slot(view), changed))
}

async fn list_nodes(api: &Api, request: &v1::ListNodesRequest) -> Result<v1::ListNodesResponse, No> {
    let mut checks = Checks::default();
    let size = page::size(&mut checks, request.page_size, page::MOST);
    let filters = Filters::of("ListNodes", &v1::ListNodesRequest::default());
    let after: Option<NodeName> = page::place(&mut checks, filters, &request.page_token);
    checks.finish()?;
    let snapshot = snapshot(api).await?;
    let rest =
        snapshot.nodes.iter().filter(|view| after.as_ref().is_none_or(|after| view.node.name > *after));
    // One more than a page holds tells whether there is a next one.
    let mut nodes: Vec<v1::Node> = rest.take(size as usize + 1).map(show::node).collect();
    let keep = page::fitting(nodes.iter().map(prost::Message::encoded_len), size);
    let more = nodes.len() > keep;
    nodes.truncate(keep);
    let last = nodes.last().filter(|_| more).map(|node| NodeName::new(node.name.as_str()));
    let next_page_token = last.map(|last| page::token(filters, &last)).unwrap_or_default();
    Ok(v1::ListNodesResponse { nodes, next_page_token })
}

async fn get_node(api: &Api, request: &v1::GetNodeRequest) -> Result<v1::Node, No> {
    let name = required("node", &request.node, NodeName::parse)?;
    node_view(api, name).await.map(|view| show::node(&view))
}

async fn drain_node(api: &Api, request: &v1::DrainNodeRequest) -> Result<(v1::Node, bool), No> {
    let mut checks = Checks::default();
    let deadline = checks.duration("deadline", request.deadline.as_ref(), Duration::ZERO..=DRAIN_MOST);
    checks.name("node", &request.node, NodeName::parse);
    checks.finish()?;
    let deadline = deadline.unwrap_or(DRAIN_DEFAULT);
    node_verb(api, &request.node, |node| Command::Drain { node, deadline }).await
}

async fn node_verb(
    api: &Api,
    name: &str,
    command: impl FnOnce(NodeName) -> Command,
) -> Result<(v1::Node, bool), No> {
    let name = required("node", name, NodeName::parse)?;
    let Reply::Node { node, changed } = api.submit(command(name)).await? else {
        return Err(unexpected("cordon, uncordon or drain"));
    };
    Ok((show::node(&node_view(api, node).await?), changed))
}

async fn forget_node(api: &Api, request: &v1::ForgetNodeRequest) -> Result<v1::ForgetNodeResponse, No> {
    let node = required("node", &request.node, NodeName::parse)?;
    // It is shown as it stood, and there is nothing left to show afterwards.
    let view = node_view(api, node.clone()).await?;
    let command = Command::Forget { node, lost: request.lost, validate_only: request.validate_only };
    let Reply::Forgotten { ended, .. } = api.submit(command).await? else { return Err(unexpected("forget")) };
    Ok(v1::ForgetNodeResponse { node: Some(show::node(&view)), ended_leases: ended })
}

async fn node_view(api: &Api, name: NodeName) -> Result<NodeView, No> {
    let snapshot = snapshot(api).await?;
    let found = snapshot.nodes.iter().find(|view| view.node.name == name).cloned();
    found.ok_or_else(|| {
        let known = snapshot.nodes.iter().map(|view| view.node.name.as_str());
        let nearest = config::nearest(name.as_str(), known).map(NodeName::new).into_iter().collect();
        Refusal::NodeNotFound { node: name, nearest }.into()
    })
}

async fn snapshot(api: &Api) -> Result<Snapshot, No> {
    api.query(|state, now| state.snapshot(now)).await
}

fn required<T>(
    field: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, tenure_scheduler::InvalidName>,
) -> Result<T, No> {
    let mut checks = Checks::default();
    let name = checks.name(field, text, parse);
    checks.finish()?;
    name.ok_or_else(|| No::invalid_field(field, "is required"))
}
