//! Waiting for a level, never for an edge, and never by sleeping for as long as it probably takes.
//!
//! Invariant: a wait ends with what was waited for, or with what was seen last instead of it.

use std::time::Duration;

use anyhow::bail;

use crate::clock::Moment;

/// Nothing in these tests takes this long unless it is broken.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Looks until `look` has found it. `Err` says what is there instead; it ends up in the message of a wait that ran out.
///
/// # Errors
/// If it is not there within `within`.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> anyhow::Result<T> {
    let deadline = Moment::now().plus(within);
    loop {
        let instead = match tokio::time::timeout(within.max(LOOK), look()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(instead)) => instead,
            Err(_) => "the look itself did not end".to_owned(),
        };
        if Moment::now() >= deadline {
            bail!("{what}: not within {within:?}; instead: {instead}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// `Ok` if it holds, else what is there instead.
///
/// # Errors
/// If it does not hold.
pub fn level(holds: bool, instead: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(instead()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_runs_out_tells_what_was_seen_last() {
        let mut looks = 0;
        let error = until("the moon", Duration::from_millis(50), async || {
            looks += 1;
            Err::<(), _>(format!("look {looks}"))
        })
        .await
        .unwrap_err()
        .to_string();
        assert!(error.starts_with("the moon: not within 50ms; instead: look "), "{error}");
    }

    #[tokio::test]
    async fn a_level_that_holds_is_seen_at_once() {
        assert_eq!(until("it", Duration::ZERO, async || Ok(5)).await.unwrap(), 5);
    }
}
