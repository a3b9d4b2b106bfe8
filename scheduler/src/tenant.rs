//! Tenants: whose work it is, and how much of the fleet each is owed. Any name is a tenant; the fleet file declares those
//! that are owed more or less than the others.

/// What the fleet file says of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantPolicy {
    /// Of two tenants that both have work waiting, one with twice the weight of the other gets twice as much. 1 to
    /// 1,000.
    pub weight: u32,
}

/// The highest weight of a tenant. The lowest is 1, which is also that of tenants that are not declared.
pub const MOST_WEIGHT: u32 = 1000;

impl Default for TenantPolicy {
    fn default() -> Self {
        Self { weight: 1 }
    }
}
