//! `ceiling`: the same rows by bare SQL.

use super::Found;
use crate::args::{Args, Store};
use crate::ceiling::Ceiling;
use crate::figure::Figure;

/// The name of the figure that a lifecycle is compared with.
pub(super) const LIFECYCLE: &str = "bare SQL, lifecycles";
/// The name of the figure that an enqueue is compared with.
pub(super) const ENQUEUE: &str = "bare SQL, enqueues";

pub(super) async fn measure(
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    bare.lifecycles(args.warm_up()).await?;
    bare.enqueues(args.warm_up()).await?;
    let (mut lifecycles, mut enqueues) = (Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        lifecycles.push(bare.lifecycles(args.amount()).await?);
        enqueues.push(bare.enqueues(args.amount()).await?);
    }
    found.figures.push(Figure::new("ceiling", Some(store), LIFECYCLE, "jobs/s", lifecycles));
    found.figures.push(Figure::new("ceiling", Some(store), ENQUEUE, "jobs/s", enqueues));
    Ok(())
}
