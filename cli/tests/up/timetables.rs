//! `tenure cron` over a real server: what comes, and what an operator does to it.

use super::{FLEET, Machine, PATIENCE, text};

const ENTRY: &str = r#"
[cron.nightly]
kind = "echo"
when = "30 2 29 2 *"
zone = "Europe/Berlin"
payload = "from the timetable"
"#;

/// What was said beside the data.
fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn entries_are_listed_in_both_zones_paused_resumed_and_run() {
    let machine = Machine::new();
    let mut up = machine.up_with_files().await;
    let fleet = machine.path("with-cron.toml");
    std::fs::write(&fleet, format!("{FLEET}{ENTRY}")).expect("a writable directory");
    let fleet = fleet.to_str().expect("a plain path");
    let applied = up.ask(&["apply", fleet]).await;
    assert!(text(&applied).contains("cron nightly declared: 30 2 29 2 * Europe/Berlin"), "{applied:?}");

    let mut list = up.command(&["cron", "list"]);
    let listed = list.env("TZ", "America/New_York").output().await.expect("it starts");
    let table = text(&listed);
    assert_eq!(table.lines().filter(|line| line.contains("-02-29T02:30:00+01:00")).count(), 5, "{table}");
    assert_eq!(table.lines().filter(|line| line.contains("-02-28T20:30:00-05:00")).count(), 5, "{table}");
    assert!(table.contains("30 2 29 2 *") && table.contains("Europe/Berlin"), "{table}");

    for words in ["nightly is paused", "nightly was paused already, by local"] {
        let paused = up.ask(&["cron", "pause", "nightly"]).await;
        assert!(said(&paused).contains(words), "{paused:?}");
    }
    let table = text(&up.ask(&["cron", "list"]).await);
    assert!(table.contains("paused by local") && !table.contains("02-29T"), "{table}");
    // What health shows is made now and then, not with each call.
    let told = async {
        while !text(&up.ask(&["health"]).await).contains("cron entry nightly is paused by local") {}
    };
    tokio::time::timeout(PATIENCE, told).await.expect("health tells of the pause");

    let id = text(&up.ask(&["cron", "run", "nightly"]).await);
    assert_eq!(up.ask(&["job", "wait", &id, "--timeout", "20s"]).await.status.code(), Some(0), "{id}");
    assert_eq!(text(&up.ask(&["job", "result", &id]).await), "from the timetable");
    let again = up.ask(&["cron", "run", "nightly", "--job-id", &id, "--json"]).await;
    let again: serde_json::Value = serde_json::from_str(&text(&again)).expect("JSON");
    assert_eq!((&again["deduplicated"], &again["job"]["cron"]["entry"]), (&true.into(), &"nightly".into()));

    assert!(said(&up.ask(&["cron", "resume", "nightly"]).await).contains("nightly is resumed"));
    assert!(said(&up.ask(&["cron", "resume", "nightly"]).await).contains("nightly was not paused"));
    let unknown = up.ask(&["cron", "run", "nightle"]).await;
    let words = said(&unknown);
    assert_eq!(unknown.status.code(), Some(3), "{words}");
    assert!(words.contains("nightly"), "{words}");
    let wide = text(&up.ask(&["cron", "list", "-o", "wide"]).await);
    assert!(wide.contains(&id), "{wide}");
    assert_eq!(up.ask(&["doctor"]).await.status.code(), Some(0));
    up.signal();
    assert!(up.end().await.success(), "{}", machine.log());
}
