//! Operating the fleet: its file, kinds, slots, nodes. Repeating a verb is harmless; the answer says `changed = false`.

use std::time::Duration;

use tenure_proto::v1::{
    ApplyRequest, CordonNodeRequest, CordonNodeResponse, DrainNodeRequest, DrainNodeResponse,
    ForgetNodeRequest, ForgetNodeResponse, GetFleetRequest, GetFleetResponse, GetNodeRequest, Kind,
    ListKindsRequest, ListNodesRequest, ListSlotsRequest, Node, PauseKindRequest, PauseKindResponse,
    PausePolicy, PauseSlotRequest, PauseSlotResponse, ResumeKindRequest, ResumeKindResponse,
    ResumeSlotRequest, ResumeSlotResponse, SetCapacityRequest, SetCapacityResponse, Slot, Tenant,
    UncordonNodeRequest, UncordonNodeResponse,
};

use crate::retry::rpc;
use crate::{Client, Error, wire};

impl Client {
    /// Makes the kinds, slots, tenants, cron entries and webhooks those of a fleet file (its text). Returns one line per change; none: it was so already.
    /// With `validate_only` nothing changes.
    ///
    /// # Errors
    /// INVALID_FIELD with every violation at once; FAILED_PRECONDITION with the list of what would be orphaned.
    pub async fn apply(&self, fleet: &str, validate_only: bool) -> Result<Vec<String>, Error> {
        let request = ApplyRequest { fleet: fleet.to_owned(), validate_only };
        Ok(rpc!(self, fleet.apply, request).await?.value.changes)
    }

    /// The kinds, slots and tenants in force.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn fleet(&self) -> Result<GetFleetResponse, Error> {
        Ok(rpc!(self, fleet.get_fleet, GetFleetRequest {}).await?.value)
    }

    /// The tenants that are declared, or have leases or queued jobs, by name.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Error> {
        Ok(self.fleet().await?.tenants)
    }

    /// All kinds, by name.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn kinds(&self) -> Result<Vec<Kind>, Error> {
        Ok(rpc!(self, fleet.list_kinds, ListKindsRequest {}).await?.value.kinds)
    }

    /// Starts no more jobs of a kind.
    ///
    /// # Errors
    /// KIND_NOT_FOUND.
    pub async fn pause_kind(&self, kind: &str, policy: PausePolicy) -> Result<PauseKindResponse, Error> {
        let request = PauseKindRequest { kind: kind.to_owned(), policy: policy.into() };
        Ok(rpc!(self, fleet.pause_kind, request).await?.value)
    }

    /// Ends the pause of a kind.
    ///
    /// # Errors
    /// KIND_NOT_FOUND.
    pub async fn resume_kind(&self, kind: &str) -> Result<ResumeKindResponse, Error> {
        Ok(rpc!(self, fleet.resume_kind, ResumeKindRequest { kind: kind.to_owned() }).await?.value)
    }

    /// All slots with use and capacity, by name.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn slots(&self) -> Result<Vec<Slot>, Error> {
        Ok(rpc!(self, fleet.list_slots, ListSlotsRequest {}).await?.value.slots)
    }

    /// Changes the capacity of a fleet slot. Below the present use nothing is killed, and nothing more starts.
    ///
    /// # Errors
    /// SLOT_NOT_FOUND; a refusal for a node slot, whose capacity is its nodes'.
    pub async fn set_capacity(&self, slot: &str, capacity: u32) -> Result<SetCapacityResponse, Error> {
        let request = SetCapacityRequest { slot: slot.to_owned(), capacity: Some(capacity) };
        Ok(rpc!(self, fleet.set_capacity, request).await?.value)
    }

    /// Starts no more jobs that need a slot; with `duration` the pause ends by itself.
    ///
    /// # Errors
    /// SLOT_NOT_FOUND.
    pub async fn pause_slot(
        &self,
        slot: &str,
        duration: Option<Duration>,
    ) -> Result<PauseSlotResponse, Error> {
        let request = PauseSlotRequest { slot: slot.to_owned(), duration: duration.map(wire::duration) };
        Ok(rpc!(self, fleet.pause_slot, request).await?.value)
    }

    /// Ends the pause of a slot.
    ///
    /// # Errors
    /// SLOT_NOT_FOUND.
    pub async fn resume_slot(&self, slot: &str) -> Result<ResumeSlotResponse, Error> {
        Ok(rpc!(self, fleet.resume_slot, ResumeSlotRequest { slot: slot.to_owned() }).await?.value)
    }

    /// All nodes ever heard of and not forgotten, by name.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListNodesRequest { page_size: 0, page_token };
            let page = rpc!(self, fleet.list_nodes, request).await?.value;
            nodes.extend(page.nodes);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(nodes);
            }
        }
    }

    /// One node.
    ///
    /// # Errors
    /// NODE_NOT_FOUND.
    pub async fn node(&self, node: &str) -> Result<Node, Error> {
        let answer = rpc!(self, fleet.get_node, GetNodeRequest { node: node.to_owned() }).await?.value;
        answer.node.ok_or(Error::Answer { rpc: "get_node", missing: "node" })
    }

    /// A node takes no new grants; what runs there runs on.
    ///
    /// # Errors
    /// NODE_NOT_FOUND.
    pub async fn cordon(&self, node: &str) -> Result<CordonNodeResponse, Error> {
        Ok(rpc!(self, fleet.cordon_node, CordonNodeRequest { node: node.to_owned() }).await?.value)
    }

    /// Ends cordon and drain.
    ///
    /// # Errors
    /// NODE_NOT_FOUND.
    pub async fn uncordon(&self, node: &str) -> Result<UncordonNodeResponse, Error> {
        Ok(rpc!(self, fleet.uncordon_node, UncordonNodeRequest { node: node.to_owned() }).await?.value)
    }

    /// A node takes no new grants; what runs there finishes within the deadline (default: 60 s) or is returned.
    ///
    /// # Errors
    /// NODE_NOT_FOUND.
    pub async fn drain(&self, node: &str, deadline: Option<Duration>) -> Result<DrainNodeResponse, Error> {
        let request = DrainNodeRequest { node: node.to_owned(), deadline: deadline.map(wire::duration) };
        Ok(rpc!(self, fleet.drain_node, request).await?.value)
    }

    /// Removes a node that will not come back. `lost` asserts that its host is dead: wrong on a live host, this runs
    /// jobs twice. With `validate_only` nothing changes.
    ///
    /// # Errors
    /// NODE_NOT_FOUND; FAILED_PRECONDITION while leases of the node live, unless `lost`.
    pub async fn forget(
        &self,
        node: &str,
        lost: bool,
        validate_only: bool,
    ) -> Result<ForgetNodeResponse, Error> {
        let request = ForgetNodeRequest { node: node.to_owned(), lost, validate_only };
        Ok(rpc!(self, fleet.forget_node, request).await?.value)
    }
}
