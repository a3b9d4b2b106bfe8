//! Every mistake that a node file can hold: refused with file, line and key, whatever the bytes are.

use std::fs;
use std::path::Path;

use super::*;

/// A good file; mistakes are put into it.
const GOOD: &str = r#"name = "mini-1"
server = "http://127.0.0.1:7070"
data = "state"
credits = 4
drain_deadline = "10s"
[slots]
browser = 2
[labels]
os = "linux"
[kinds.qa]
command = ["sh"]
grace = "3s"
limits = { tasks = 100, file_size = "1GiB" }
headroom = { mem = "1MiB", ramp = "5s" }
[starts]
browser = "1 per 2s"
[pressure]
sample = "1s"
[[pressure.rule]]
id = "many"
close = { any = [{ signal = "procs.used", above = 550 }], for = "1s" }
open = { all = [{ signal = "procs.used", below = 500 }] }
effect = { refuse = "*", cap = { browser = 1 }, weight = 2 }
"#;

fn check(text: &str) -> Result<Config, String> {
    let file = NodeFile::parse(text, Path::new("node.toml")).map_err(|error| error.to_string())?;
    file.validate_as(Overrides::default(), false).map_err(|error| error.to_string())
}

/// The file with one piece of it replaced, and the line of that piece.
fn with(piece: &str, other: &str) -> (String, usize) {
    let (before, _) = GOOD.split_once(piece).unwrap_or_else(|| panic!("{piece} is in the good file"));
    (GOOD.replacen(piece, other, 1), 1 + before.matches('\n').count())
}

#[test]
fn every_wrong_value_is_named_with_its_line_and_key() {
    check(GOOD).unwrap();
    let long = "x".repeat(1 << 20);
    let unit = "9".repeat(30);
    let text = |text: &str| format!("{text:?}");
    let cases: Vec<(&str, String, &str)> = vec![
        ("\"mini-1\"", text(""), "name"),
        ("\"mini-1\"", text("Mini"), "name"),
        ("\"mini-1\"", text("שלום"), "name"),
        ("\"mini-1\"", "\"a\\u0000\"".into(), "name"),
        ("\"mini-1\"", "\"a\\u001b[31m\"".into(), "name"),
        ("\"mini-1\"", text(&long), "name"),
        ("\"mini-1\"", "7".into(), "name"),
        ("\"http://127.0.0.1:7070\"", text("127.0.0.1"), "server"),
        ("\"http://127.0.0.1:7070\"", text("ftp://127.0.0.1:1"), "server"),
        ("\"http://127.0.0.1:7070\"", text(&long), "server"),
        ("\"http://127.0.0.1:7070\"", text("http://10.0.0.1:7070"), "server"),
        ("\"state\"", "\"a\\u0000b\"".into(), "data"),
        ("\"state\"", "[]".into(), "data"),
        ("credits = 4", "credits = 0".into(), "credits"),
        ("credits = 4", "credits = 1001".into(), "credits"),
        ("credits = 4", "credits = -1".into(), "credits"),
        ("credits = 4", "credits = 1.5".into(), "credits"),
        ("credits = 4", format!("credits = {unit}"), "credits"),
        ("\"10s\"", text("soon"), "drain_deadline"),
        ("\"10s\"", text("-1s"), "drain_deadline"),
        ("\"10s\"", text(""), "drain_deadline"),
        ("\"10s\"", text("11years"), "drain_deadline"),
        ("\"10s\"", text(&format!("{unit}s")), "drain_deadline"),
        ("\"10s\"", text("18446744073709551615s"), "drain_deadline"),
        ("\"10s\"", "10".into(), "drain_deadline"),
        ("browser = 2", "browser = -1".into(), "browser"),
        ("browser = 2", "browser = 1000001".into(), "slots.browser"),
        ("browser = 2", "browser = \"many\"".into(), "browser"),
        ("browser = 2", "browser = [0, 1]".into(), "browser"),
        ("browser = 2", "browser = {}".into(), "browser"),
        ("browser = 2", "browser = { indexes = [] }".into(), "slots.browser"),
        ("browser = 2", "browser = { indexes = [0, 1, 0] }".into(), "slots.browser"),
        ("browser = 2", "browser = { indexes = [-1] }".into(), "indexes"),
        ("browser = 2", "browser = { indexes = 2 }".into(), "indexes"),
        ("browser = 2", "browser = { indexes = [0], surprise = 1 }".into(), "surprise"),
        (
            "browser = 2",
            format!("browser = {{ indexes = {:?} }}", (0..1001).collect::<Vec<_>>()),
            "slots.browser",
        ),
        (
            "browser = 2",
            "browser = 2\n\"a.b\" = { indexes = [0] }\n\"a-b\" = { indexes = [0] }".into(),
            "slots.a.b",
        ),
        ("browser = 2", "\"a b\" = 2".into(), "slots.a b"),
        ("browser = 2", "\"\" = 2".into(), "slots."),
        ("os = \"linux\"", "os = \"a\\u0000\"".into(), "labels.os"),
        ("os = \"linux\"", format!("os = {:?}", "x".repeat(256)), "labels.os"),
        ("os = \"linux\"", "OS = \"x\"".into(), "labels.OS"),
        ("os = \"linux\"", "os = true".into(), "os"),
        ("[\"sh\"]", "[]".into(), "kinds.qa.command"),
        ("[\"sh\"]", "[\"\"]".into(), "kinds.qa.command"),
        ("[\"sh\"]", "[\"sh\", \"\\u0000\"]".into(), "kinds.qa.command"),
        ("[\"sh\"]", "\"sh\"".into(), "command"),
        ("grace = \"3s\"", "grace = \"11m\"".into(), "kinds.qa.grace"),
        ("grace = \"3s\"", "workdir = \"\\u0000\"".into(), "kinds.qa.workdir"),
        ("grace = \"3s\"", "user = \"no-such-user\"".into(), "kinds.qa.user"),
        ("grace = \"3s\"", "user = -1".into(), "user"),
        ("grace = \"3s\"", "result = \"stderr\"".into(), "result"),
        ("grace = \"3s\"", "env = { \"A=B\" = \"\" }".into(), "kinds.qa.env.A=B"),
        ("grace = \"3s\"", "env = { A = \"\\u0000\" }".into(), "kinds.qa.env.A"),
        ("tasks = 100", "tasks = -1".into(), "tasks"),
        ("tasks = 100", "tasks = 0".into(), "kinds.qa.limits.tasks"),
        ("tasks = 100", "memory = \"1KiB\"".into(), "kinds.qa.limits.memory"),
        ("tasks = 100", "disk = 0".into(), "kinds.qa.limits.disk"),
        ("tasks = 100", "cpu = 0".into(), "kinds.qa.limits.cpu"),
        ("tasks = 100", "cpu = nan".into(), "kinds.qa.limits.cpu"),
        ("tasks = 100", "cpu = \"two\"".into(), "cpu"),
        ("credits = 4", "containment = \"some\"".into(), "some"),
        ("\"1GiB\"", text("1.5GiB"), "file_size"),
        ("\"1GiB\"", text("99999999999TiB"), "file_size"),
        ("\"1MiB\"", text("much"), "mem"),
        ("\"5s\"", text("11years"), "ramp"),
        ("\"1 per 2s\"", text("0 per 2s"), "browser"),
        ("\"1 per 2s\"", text("1 per 0s"), "browser"),
        ("\"1 per 2s\"", text("1 per 11years"), "browser"),
        ("\"1 per 2s\"", text("1"), "browser"),
        ("[starts]\nbrowser", "[starts]\nshell".into(), "starts.shell"),
        ("sample = \"1s\"", "sample = \"1ms\"".into(), "pressure.sample"),
        ("sample = \"1s\"", "stale_after = \"1s\"".into(), "pressure.stale_after"),
        ("id = \"many\"", "id = \"Many\"".into(), "Many"),
        ("id = \"many\"", "id = \"draining\"".into(), "draining"),
        ("above = 550", "above = -1".into(), "above"),
        ("above = 550", "above = nan".into(), "above"),
        ("above = 550", "above = inf".into(), "above"),
        ("above = 550", "above = 1, below = 2".into(), "above and below"),
        ("\"procs.used\", above", "\"procs.usd\", above".into(), "procs.usd"),
        ("for = \"1s\"", "for = \"11years\"".into(), "for"),
        ("refuse = \"*\"", "refuse = \"node:x\"".into(), "node:x"),
        ("cap = { browser = 1 }", "cap = { \"a b\" = 1 }".into(), "a b"),
        ("cap = { browser = 1 }", "cap = { browser = 4000000000 }".into(), "browser"),
        ("weight = 2", "weight = 4".into(), "weight"),
    ];
    for (piece, other, key) in cases {
        let (text, line) = with(piece, &other);
        let error = check(&text).expect_err(&other.chars().take(60).collect::<String>());
        // The rule as a whole, or the table around a key.
        let near =
            (line.saturating_sub(4)..=line + 1).any(|line| error.contains(&format!("node.toml:{line}: ")));
        assert!(near && error.contains(key), "{piece} → {:.60}, line {line}, {key}: {error:.600}", other);
        assert!(error.len() < 2_000, "{piece}: {} bytes", error.len());
        assert!(!error.contains(|c: char| c.is_control() && c != '\n'), "{error:?}");
    }
}

#[test]
fn a_key_that_is_unknown_is_named_at_every_level() {
    for table in [
        "name",
        "[slots]\nbrowser",
        "command",
        "tasks = 100, ",
        "mem",
        "sample",
        "id",
        "any",
        "signal",
        "refuse",
    ] {
        let (text, _) = match table {
            "[slots]\nbrowser" => continue, // a table of names of the user's
            "tasks = 100, " => with("tasks = 100, ", "surprise = 1, "),
            "mem" => with("mem = \"1MiB\"", "surprise = 1"),
            "any" => with("for = \"1s\"", "surprise = \"1s\""),
            "signal" => with("above = 550", "above = 550, surprise = 1"),
            "refuse" => with("weight = 2", "surprise = 2"),
            key => with(&format!("{key} = "), &format!("surprise = 1\n{key} = ")),
        };
        let error = check(&text).expect_err(table);
        assert!(
            error.contains("surprise is unknown; known here: ") && error.starts_with("node.toml:"),
            "{table}: {error}"
        );
    }
    for twice in ["name = \"a\"\nname = \"b\"", "[slots]\na = 1\na = 2", "[slots]\n[slots]"] {
        let error = check(twice).expect_err(twice);
        assert!(error.contains("duplicate key"), "{error}");
    }
}

#[test]
fn whatever_the_bytes_are_they_end_in_a_sentence_with_the_file() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("node.toml");
    let cases: [(&str, Vec<u8>); 8] = [
        ("no UTF-8", b"name = \"\xff\xfe\"".to_vec()),
        ("UTF-16", "name".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("NUL", b"name = \"a\"\0".to_vec()),
        ("10 MB of one line", vec![b'x'; 10 << 20]),
        ("very deep", format!("slots = {}", "[".repeat(100_000)).into_bytes()),
        ("a long key", format!("slots{} = 1", ".a".repeat(100_000)).into_bytes()),
        ("cut", b"[kinds.qa]\ncommand = [\"sh".to_vec()),
        ("a bare return", b"name = \"a\"\rserver = 1".to_vec()),
    ];
    for (what, bytes) in cases {
        fs::write(&file, bytes).unwrap();
        let error = NodeFile::load(&file).expect_err(what).to_string();
        assert!(error.contains(&file.display().to_string()) && error.len() < 1_000, "{what}: {error:.300}");
    }
    assert!(NodeFile::load(directory.path()).unwrap_err().to_string().contains("cannot read the node file"));
    assert!(NodeFile::load(&directory.path().join("none")).unwrap_err().to_string().contains("none"));
    // What editors of other systems leave behind is no mistake.
    for text in [format!("\u{feff}{GOOD}"), GOOD.replace('\n', "\r\n"), format!("# 🜁 שלום\n{GOOD}")] {
        fs::write(&file, text).unwrap();
        NodeFile::load(&file).unwrap().validate_as(Overrides::default(), false).unwrap();
    }
}
