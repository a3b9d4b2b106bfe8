//! A file of jobs over a real server: what is stored, what is told, and a run that broke off.

use std::fmt::Write;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use super::{Machine, PATIENCE, Up, text};

fn lines(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let line = format!(
            r#"{{"kind":"echo","delay":"3600s","labels":{{"n":"{number}"}},"payload":{{"data":"aGVsbG8="}}}}"#
        );
        writeln!(text, "{line}").expect("a string takes all");
    }
    text
}

async fn stored(up: &Up) -> usize {
    text(&up.ask(&["job", "list", "--all", "-o", "name"]).await).lines().count()
}

/// The run that a command named on stderr.
fn run_of(words: &str) -> String {
    let run = words.split("--run ").nth(1).and_then(|rest| rest.split(' ').next());
    run.unwrap_or_else(|| panic!("no run in {words}")).to_owned()
}

#[tokio::test]
async fn a_file_is_enqueued_line_by_line_and_a_bad_line_sinks_no_other() {
    let machine = Machine::new();
    let up = machine.up_with_files().await;
    let mut file = lines(2_500);
    file.insert_str(0, "\n{\"kind\":\"echo\",\"prio\":1}\n{\"kind\":\"ecko\"}\n");
    std::fs::write(machine.path("jobs.jsonl"), file).unwrap();
    let path = machine.path("jobs.jsonl").display().to_string();

    let checked = up.ask(&["enqueue", "--file", &path, "--dry-run"]).await;
    let words = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!((checked.status.code(), stored(&up).await), (Some(64), 0), "{words}");
    assert!(
        words.contains("line 2: ") && words.contains("prio") && words.contains("2501 lines are jobs"),
        "{words}"
    );

    let sent = up.ask(&["enqueue", "--file", &path]).await;
    let words = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert_eq!(sent.status.code(), Some(64), "{words}");
    assert!(words.contains("line 2: ") && words.contains("2500 enqueued, 2 refused"), "{words}");
    assert!(words.contains("line 3: ") && words.contains("KIND_NOT_FOUND"), "{words}");
    assert_eq!((text(&sent).as_str(), stored(&up).await), ("", 2_500));

    let again = up.ask(&["enqueue", "--file", &path, "--run", &run_of(&words), "-o", "json"]).await;
    let tally: serde_json::Value = serde_json::from_str(&text(&again)).unwrap();
    assert_eq!(
        (&tally["enqueued"], &tally["deduplicated"], &tally["refused"]),
        (&0.into(), &2_500.into(), &2.into())
    );
    assert_eq!(tally["lines"][0]["line"], 2);
    assert_eq!(stored(&up).await, 2_500);

    let missing = up.ask(&["enqueue", "--file", "no-such-file.jsonl"]).await;
    assert_eq!(missing.status.code(), Some(64));
}

#[tokio::test]
async fn a_run_that_was_killed_goes_on_where_it_stood() {
    let machine = Machine::new();
    let up = machine.up_with_files().await;
    let all = lines(1_700);
    let first: String = all.lines().take(1_200).flat_map(|line| [line, "\n"]).collect();
    let log = std::fs::File::create(machine.path("run")).unwrap();
    let mut command = up.command(&["enqueue", "--file", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::from(log)).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(first.as_bytes()).await.unwrap();
    // A program that pauses is not waited for: what it wrote is stored meanwhile.
    let all_of_it = async {
        while stored(&up).await < 1_200 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_of_it).await.expect("all that was written is stored");
    child.kill().await.unwrap();

    let run = run_of(&std::fs::read_to_string(machine.path("run")).unwrap());
    std::fs::write(machine.path("jobs.jsonl"), all).unwrap();
    let path = machine.path("jobs.jsonl").display().to_string();
    let rest = up.ask(&["enqueue", "--file", &path, "--run", &run]).await;
    let words = String::from_utf8_lossy(&rest.stderr).into_owned();
    assert_eq!(rest.status.code(), Some(0), "{words}");
    assert!(words.contains("500 enqueued, 1200 deduplicated"), "{words}");
    assert_eq!(stored(&up).await, 1_700);
}
