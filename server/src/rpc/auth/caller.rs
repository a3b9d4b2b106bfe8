//! Who calls, and what of everything that there is belongs to it.
//!
//! Not responsible for which methods a role may call (the table of `auth.rs`). Invariant: nothing of a request says who
//! the caller is.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tenure_scheduler::{Enqueue, KindName, Producer, ProducerLimits, Tenant};
use tenure_tls::{Certificate, Identity, Role};
use tokio::sync::watch;
use tonic::Status;

use crate::{access::Rules, config, rpc::status::No};

/// The holder of a live stream is judged again so often, when its certificate runs out, and whenever the rules are
/// replaced.
const JUDGE_AGAIN: Duration = Duration::from_secs(60);

/// Watches of one viewer, operator or admin: a person looks at a screenful.
const PERSONS_WATCHES: usize = 20;

/// Watches of one producer, and of everybody together where there is no TLS: programs follow their jobs.
const PROGRAMS_WATCHES: usize = 1_000;

/// Who calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    who: Who,
    address: SocketAddr,
}

#[derive(Debug, Clone)]
enum Who {
    /// Whoever reaches the port, where there is no TLS: it may do everything.
    Local,
    Holder(Arc<Holder>),
    /// Who inserted a row into the inbox: a role of the database.
    Role(Arc<RoleHolder>),
}

/// A role of the database, by the rules in force when its row was read.
#[derive(Debug)]
struct RoleHolder {
    role: String,
    /// The producer that the server file says it is.
    producer: Option<String>,
    limits: config::Producer,
}

/// The holder of a certificate, by the rules in force when it called.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) holder: Identity,
    pub(super) certificate: Arc<Certificate>,
    pub(super) limits: config::Producer,
    pub(super) rules: watch::Receiver<Arc<Rules>>,
}

impl Caller {
    /// Whoever calls from there, where there is no TLS.
    pub(super) fn local(address: SocketAddr) -> Self {
        Self { who: Who::Local, address }
    }

    pub(super) fn holder(holder: Holder, address: SocketAddr) -> Self {
        Self { who: Who::Holder(Arc::new(holder)), address }
    }

    /// A role of the database that inserted a row. What the server file counts to a producer is that producer's; all others
    /// are `db:ROLE`, which no certificate says.
    ///
    /// # Errors
    /// If the producer is denied.
    pub(crate) fn role(rules: &Rules, role: &str) -> (Self, Result<(), No>) {
        let known = rules.producers().iter().find(|(_, limits)| limits.database_roles.contains(role));
        let holder = RoleHolder {
            role: role.to_owned(),
            producer: known.map(|(name, _)| name.clone()),
            limits: known.map(|(_, limits)| limits.clone()).unwrap_or_default(),
        };
        let denied = known.is_some_and(|(name, _)| rules.denies(Role::Producer, name));
        let judged = match denied {
            true => Err(No::not_allowed(format!("{holder} is denied by the server's configuration"))),
            false => Ok(()),
        };
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        (Self { who: Who::Role(Arc::new(holder)), address }, judged)
    }

    /// Who sent a request.
    ///
    /// # Errors
    /// If the layer did not see it: a bug, and nobody is let through by it.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Result<Self, Status> {
        request.extensions().get().cloned().ok_or_else(|| No::internal().into_status())
    }

    /// Where it calls from, for the log.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn is_holder(&self) -> bool {
        matches!(self.who, Who::Holder(_))
    }

    fn producer(&self) -> Option<&Holder> {
        match &self.who {
            Who::Holder(holder) if holder.holder.role == Role::Producer => Some(holder),
            Who::Holder(_) | Who::Local | Who::Role(_) => None,
        }
    }

    /// Under which name it enqueues. Roles other than that of a producer carry theirs in front, behind which no
    /// producer's name can hide: a colon stands in no name.
    pub(crate) fn enqueues_as(&self) -> Producer {
        match &self.who {
            Who::Local => Producer::new("local"),
            Who::Role(holder) => match &holder.producer {
                Some(name) => Producer::new(name.as_str()),
                None => Producer::new(format!("db:{}", holder.role)),
            },
            Who::Holder(holder) if holder.holder.role == Role::Producer => {
                Producer::new(holder.holder.name.as_str())
            }
            Who::Holder(holder) => {
                Producer::new(format!("{}:{}", holder.holder.role, holder.holder.name).as_str())
            }
        }
    }

    /// Whose work it is, unless the job says so.
    pub(crate) fn tenant(&self) -> Tenant {
        if let Who::Role(holder) = &self.who {
            return Tenant::new(holder.producer.as_deref().unwrap_or(&holder.role));
        }
        Tenant::new(self.producer().map_or("default", |holder| holder.holder.name.as_str()))
    }

    /// Whose jobs alone it sees; none: all.
    pub(crate) fn sees_only(&self) -> Option<Producer> {
        self.producer().map(|_| self.enqueues_as())
    }

    /// How many watches it may have open at once. Beyond: TOO_MANY_WATCHES.
    pub(crate) fn most_watches(&self) -> usize {
        match &self.who {
            Who::Holder(holder) if holder.holder.role != Role::Producer => PERSONS_WATCHES,
            Who::Holder(_) | Who::Local | Who::Role(_) => PROGRAMS_WATCHES,
        }
    }

    /// Whether it may know of a kind.
    pub(crate) fn knows_kind(&self, kind: &KindName) -> bool {
        self.limits().is_none_or(|limits| limits.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind)))
    }

    fn limits(&self) -> Option<&config::Producer> {
        match &self.who {
            Who::Role(holder) => Some(&holder.limits),
            Who::Local | Who::Holder(_) => self.producer().map(|holder| &holder.limits),
        }
    }

    /// Whether it may enqueue this.
    ///
    /// # Errors
    /// What of it is beyond what the server file gives it.
    pub(crate) fn check_enqueue(&self, enqueue: &Enqueue) -> Result<(), No> {
        if !self.knows_kind(&enqueue.kind) {
            return Err(self.beyond(format!("enqueue jobs of kind {}", enqueue.kind)));
        }
        let tenants = self.limits().and_then(|limits| limits.tenants.as_ref());
        // A child that names none is of its parent's tenant, which only the scheduler knows: it judges by `limits`.
        let default = enqueue.parent.is_none().then_some(&enqueue.default_tenant);
        if let (Some(tenants), Some(tenant)) = (tenants, enqueue.tenant.as_ref().or(default))
            && !tenants.contains(tenant)
        {
            return Err(self.beyond(format!("enqueue jobs for tenant {tenant}")));
        }
        enqueue.priority.map_or(Ok(()), |priority| self.check_priority(priority))
    }

    /// What the server file gives it of that which a child has from its parent.
    pub(crate) fn limits_of_children(&self) -> ProducerLimits {
        self.limits().map_or_else(ProducerLimits::default, |limits| ProducerLimits {
            tenants: limits.tenants.clone(),
            max_priority: limits.max_priority,
        })
    }

    /// Whether it may give a job this priority.
    ///
    /// # Errors
    /// If that is above its ceiling.
    pub(crate) fn check_priority(&self, priority: i8) -> Result<(), No> {
        match self.limits().and_then(|limits| limits.max_priority) {
            Some(most) if priority > most => Err(self.beyond(format!("give a priority above {most}"))),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether it may free a job whose last processes are not known to be gone.
    ///
    /// # Errors
    /// If that is an operator's.
    pub(crate) fn check_force(&self) -> Result<(), No> {
        match self.producer() {
            Some(_) => Err(self.beyond("requeue with force: that is for operator, admin".to_owned())),
            None => Ok(()),
        }
    }

    /// Whether it may change webhooks: what they send leaves the fleet.
    pub(crate) fn changes_webhooks(&self) -> bool {
        match &self.who {
            Who::Local => true,
            Who::Holder(holder) => holder.holder.role == Role::Admin,
            Who::Role(_) => false,
        }
    }

    /// Whether it may do more than look.
    pub(crate) fn operates(&self) -> bool {
        match &self.who {
            Who::Local => true,
            Who::Holder(holder) => matches!(holder.holder.role, Role::Operator | Role::Admin),
            Who::Role(_) => false,
        }
    }

    fn beyond(&self, what: String) -> No {
        let who = match &self.who {
            Who::Role(holder) => holder.to_string(),
            Who::Local | Who::Holder(_) => {
                self.producer().map(|holder| holder.holder.to_string()).unwrap_or_default()
            }
        };
        No::not_allowed(format!("{who} may not {what}"))
    }

    /// Whether it may speak for a node.
    ///
    /// # Errors
    /// If its certificate is another node's.
    pub(crate) fn check_node(&self, node: &str) -> Result<(), No> {
        match &self.who {
            Who::Local => Ok(()),
            // It sends rows, and no calls.
            Who::Role(holder) => Err(No::not_allowed(format!("{holder} may not speak as a node"))),
            Who::Holder(holder) if holder.holder.role == Role::Node && holder.holder.name == node => Ok(()),
            Who::Holder(holder) => Err(No::not_allowed(format!(
                "{} may not speak as node {node}: a node has the name of its certificate",
                holder.holder
            ))),
        }
    }

    /// Returns once this caller counts for nothing any more. Cancel-safe.
    pub(crate) async fn revoked(&self) -> No {
        let Who::Holder(holder) = &self.who else { return std::future::pending().await };
        let mut rules = holder.rules.clone();
        loop {
            // Cancel-safe: both only wait. A server that ends tells its sessions otherwise.
            tokio::select! {
                changed = rules.changed() => if changed.is_err() { return std::future::pending().await },
                () = tokio::time::sleep(JUDGE_AGAIN.min(holder.certificate.runs_out_in())) => {}
            }
            if let Err(nobody) = rules.borrow().holder(&holder.certificate) {
                return nobody.into();
            }
        }
    }
}

impl std::fmt::Display for RoleHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "role {}", self.role)?;
        self.producer.as_ref().map_or(Ok(()), |producer| write!(f, " of producer/{producer}"))
    }
}
