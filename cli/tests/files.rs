//! Files that are none, given to every command that reads one: a sentence with the file's name, exit 64 or 2, no panic.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Commands that read a file, which stands at the end.
const READERS: [&[&str]; 6] = [
    &["config", "check", "fleet"],
    &["config", "check", "node"],
    &["config", "check", "server"],
    &["agent", "--config"],
    &["server", "--config"],
    &["apply", "--retry-for=0s", "--dry-run"],
];

fn run(arguments: &[&str], file: &Path, home: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(arguments)
        .arg(file)
        .env_clear()
        .env("HOME", home)
        // Nobody listens there: what gets that far is told apart by its exit code.
        .env("TENURE_SERVER", "http://127.0.0.1:1")
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn whatever_a_file_is_the_command_says_so_with_its_name() {
    let home = TempDir::new().unwrap();
    let at = |name: &str| home.path().join(name);
    let texts: [(&str, Vec<u8>); 6] = [
        ("latin", b"a = \"\xff\xfe\"".to_vec()),
        ("nul", b"a = 1\n\0".to_vec()),
        ("large", vec![b'x'; 10 << 20]),
        ("deep", "[".repeat(100_000).into_bytes()),
        ("unknown", b"surprise = 1".to_vec()),
        ("twice", b"a = 1\na = 2".to_vec()),
    ];
    for (name, bytes) in &texts {
        fs::write(at(name), bytes).unwrap();
    }
    fs::create_dir(at("directory")).unwrap();
    let names = texts.iter().map(|(name, _)| *name).chain(["directory", "missing"]);
    for name in names {
        for reader in READERS {
            let (code, said) = run(reader, &at(name), home.path());
            // What is text is judged by the server, and nobody answers.
            let sent = reader[0] == "apply" && !matches!(name, "latin" | "directory" | "missing");
            let what = format!("{reader:?} {name}: {code:?} {said:.400}");
            assert_eq!(code, Some(if sent { 69 } else { 64 }), "{what}");
            assert!(sent || said.contains(name), "{what}");
            assert!(!said.contains("panicked") && said.len() < 4_000, "{what}");
            assert!(!said.contains('\0'), "{what}");
        }
    }
    for reader in READERS {
        let (code, said) = run(&reader[..reader.len() - 1], Path::new("--surprise"), home.path());
        assert_eq!(code, Some(2), "{reader:?}: {said}");
    }
}
