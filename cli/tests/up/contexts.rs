//! Contexts over a real server: which one is in force, and what a protected one asks for.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::{Machine, PATIENCE, text};

/// Runs `tenure ARGS` for somebody whose home directory this is, and who has no other settings.
async fn at_home(home: &Path, args: &[&str]) -> (Option<i32>, Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(args).env_clear().env("HOME", home).stdin(Stdio::null());
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("in time").expect("it starts");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output, words)
}

#[tokio::test]
async fn a_context_says_where_to_and_a_protected_one_must_be_named_to_write() {
    let machine = Machine::new();
    let up = machine.up_with_files().await;
    let home = machine.path("home");
    let run = async |args: &[&str]| at_home(&home, args).await;

    let (code, _, words) = run(&["context", "add", "here", "--server", &up.server]).await;
    assert_eq!(code, Some(0), "{words}");
    let (code, output, words) = run(&["kind", "list", "-o", "name"]).await;
    assert_eq!((code, text(&output).as_str()), (Some(0), "echo\nslow"), "the first one is in use: {words}");

    let prod = ["context", "add", "prod", "--server", &up.server, "--protected", "--colour", "red"];
    assert_eq!(run(&prod).await.0, Some(0));
    let (code, _, words) = run(&prod).await;
    assert!(code == Some(2) && words.contains("--replace"), "{words}");
    assert_eq!(run(&["context", "use", "prod"]).await.0, Some(0));
    let (_, output, _) = run(&["context", "list", "-o", "json"]).await;
    let listed: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(listed["contexts"][1]["name"], "prod");
    assert_eq!(
        (&listed["contexts"][0]["inUse"], &listed["contexts"][1]["inUse"]),
        (&false.into(), &true.into())
    );

    assert_eq!(run(&["kind", "list"]).await.0, Some(0), "reading needs no name");
    let (code, _, words) = run(&["kind", "pause", "echo"]).await;
    assert!(code == Some(2) && words.contains("prod is protected") && words.contains("--context"), "{words}");
    assert_eq!(run(&["kind", "pause", "echo", "--context", "prod"]).await.0, Some(0));
    assert_eq!(run(&["kind", "resume", "echo", "--context", "here"]).await.0, Some(0));
    let (code, _, words) = run(&["kind", "list", "--context", "prd"]).await;
    assert!(code == Some(3) && words.contains("did you mean: prod"), "{words}");

    // A flag wins over the context: port 1 of loopback, where nothing listens.
    let (code, ..) = run(&["kind", "list", "--server", "127.0.0.1:1", "--retry-for", "0s"]).await;
    assert_eq!(code, Some(69));
    assert_eq!(run(&["context", "remove", "here"]).await.0, Some(0));
    assert_eq!(run(&["context", "use", "here"]).await.0, Some(3));

    let file = home.join(".config/tenure/contexts.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("protected", "protectd")).unwrap();
    let (code, _, words) = run(&["kind", "list"]).await;
    assert_eq!(code, Some(64), "{words}");
    assert!(words.contains("contexts.toml:") && words.contains("contexts.prod.protectd"), "{words}");
}

#[tokio::test]
async fn a_context_that_is_insecure_says_nothing_of_a_server_that_a_flag_names() {
    let home = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| at_home(home.path(), args).await;
    // No address of loopback, and nobody listens there.
    let (lab, other) = ("http://0.0.0.0:1", "http://0.0.0.0:2");
    let (code, _, words) = run(&["context", "add", "lab", "--server", lab, "--insecure"]).await;
    assert_eq!(code, Some(0), "{words}");
    let once = ["kind", "list", "--retry-for", "0s"];
    let refused = "without TLS only the loopback interface is spoken to";
    let (code, _, words) = run(&once).await;
    assert!(code == Some(69) && !words.contains(refused), "{words}");
    for context in [&[][..], &["--context", "lab"]] {
        let (code, _, words) = run(&[&once[..], &["--server", other], context].concat()).await;
        assert!(code != Some(69) && words.contains(refused), "{context:?} {code:?} {words}");
    }
    let (code, _, words) = run(&[&once[..], &["--server", other, "--insecure"]].concat()).await;
    assert!(code == Some(69) && !words.contains(refused), "{words}");
}

#[tokio::test]
async fn every_shell_gets_a_script_that_knows_the_verbs() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (code, output, words) = at_home(home.path(), &["completions", shell]).await;
        assert_eq!(code, Some(0), "{words}");
        assert!(text(&output).contains("reprioritize"), "{shell}");
    }
    let (code, _, words) = at_home(home.path(), &["completions", "bsh"]).await;
    assert!(code == Some(2) && words.contains("bash"), "{words}");
    let (code, _, words) = at_home(home.path(), &["job", "watsh", "x"]).await;
    assert!(code == Some(2) && words.contains("watch"), "{words}");
}
