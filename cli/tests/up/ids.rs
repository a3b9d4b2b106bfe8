//! Ids by their beginning or end, over a real server.

use super::{Machine, text};

#[tokio::test]
async fn a_part_of_an_id_names_its_job_and_an_ambiguous_one_names_the_candidates() {
    let machine = Machine::new();
    let up = machine.up_with_files().await;
    let first = text(&up.ask(&["enqueue", "echo", "--delay", "1h"]).await);
    let second = text(&up.ask(&["enqueue", "echo", "--delay", "1h"]).await);
    let (_, end) = first.split_at(24);
    assert_eq!(text(&up.ask(&["job", "get", end, "-o", "name"]).await), first);
    assert_eq!(text(&up.ask(&["job", "explain", &end.to_uppercase(), "-o", "name"]).await), first);
    assert_eq!(text(&up.ask(&["job", "cancel", end, "-o", "name"]).await), first);

    // Both were made within the same minute.
    let both = up.ask(&["job", "cancel", first.split_at(7).0]).await;
    let words = String::from_utf8_lossy(&both.stderr).into_owned();
    assert_eq!(both.status.code(), Some(64), "{words}");
    assert!(words.contains(&first) && words.contains(&second) && words.contains("scheduled"), "{words}");
    assert_eq!(up.ask(&["job", "get", "ffff-ffff"]).await.status.code(), Some(3));
    let other = up.ask(&["job", "get", &second, "-o", "json"]).await;
    assert!(text(&other).contains("JOB_STATE_SCHEDULED"), "nothing was cancelled");
}
