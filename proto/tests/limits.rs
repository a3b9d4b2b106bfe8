//! The limits that both ends of the wire keep, as the documents and the Python client say them.

use std::{collections::BTreeSet, fs, path::Path};

use tenure_proto::limits;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// In the largest unit of which it is a whole number.
fn bytes(count: u64) -> String {
    match count {
        _ if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}

/// Every limit as `docs/limits.md` shows it.
fn all() -> Vec<(&'static str, String)> {
    vec![
        ("INLINE_BYTES", bytes(limits::INLINE_BYTES as u64)),
        ("MESSAGE_BYTES", bytes(limits::MESSAGE_BYTES as u64)),
        ("DECODE_BYTES", bytes(limits::DECODE_BYTES as u64)),
        ("BATCH_BYTES", bytes(limits::BATCH_BYTES as u64)),
        ("BATCH_JOBS", limits::BATCH_JOBS.to_string()),
        ("CHUNK_BYTES", bytes(limits::CHUNK_BYTES as u64)),
        ("RESULT_BYTES", bytes(limits::RESULT_BYTES)),
        ("TRANSFER_AT_FIRST", format!("{} s", limits::TRANSFER_AT_FIRST.as_secs())),
        ("TRANSFER_BYTES_A_SECOND", bytes(limits::TRANSFER_BYTES_A_SECOND)),
        ("TRANSFER_SILENCE", format!("{} s", limits::TRANSFER_SILENCE.as_secs())),
        ("LOG_PIECE_BYTES", bytes(limits::LOG_PIECE_BYTES as u64)),
        ("WORKER_END_BYTES", bytes(limits::WORKER_END_BYTES as u64)),
        ("SLOT_UNITS", limits::SLOT_UNITS.to_string()),
    ]
}

#[test]
fn the_table_of_limits_is_that_of_the_code() {
    let page = text("docs/limits.md");
    let rows: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` | "))
        .filter_map(|(name, rest)| Some((name.to_owned(), rest.split_once(" | ")?.0.to_owned())))
        .collect();
    let code: BTreeSet<_> = all().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(rows, code);
    let declared = text("proto/src/limits.rs");
    let declared: BTreeSet<&str> = declared
        .lines()
        .filter_map(|line| line.strip_prefix("pub const "))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    assert_eq!(declared, all().iter().map(|&(name, _)| name).collect(), "a limit is missing in this test");
}

#[test]
fn other_pages_say_the_same_figures() {
    let inline = bytes(limits::INLINE_BYTES as u64);
    let first = limits::TRANSFER_AT_FIRST.as_secs();
    let pace = bytes(limits::TRANSFER_BYTES_A_SECOND);
    let silence = limits::TRANSFER_SILENCE.as_secs();
    for (page, words) in [
        ("docs/results.md", format!("What has at most {inline} travels")),
        ("docs/results.md", format!("{first} s, and a second for each {pace} that came")),
        ("docs/results.md", format!("messages of at most {}", bytes(limits::CHUNK_BYTES as u64))),
        ("docs/results.md", format!("default: {}", bytes(limits::RESULT_BYTES))),
        ("docs/results.md", "at most 1,000,000 bytes".to_owned()),
        (
            "docs/errors.md",
            format!(
                "for {silence} s, or an upload or a fetch is behind its pace, {first} s and a second for each {pace}"
            ),
        ),
    ] {
        assert!(text(page).contains(&words), "{page} does not say {words:?}");
    }
    assert_eq!(limits::WORKER_END_BYTES, 1_000_000);
}

#[test]
fn the_python_client_keeps_the_same() {
    let end = text("client/python/src/tenure/worker.py");
    assert!(end.contains("_MOST_END = 1_000_000\n") && limits::WORKER_END_BYTES == 1_000_000);
    let message = text("client/python/src/tenure/_calls.py");
    assert!(message.contains("_MAX_MESSAGE_BYTES = 1024 * 1024\n") && limits::MESSAGE_BYTES == 1024 * 1024);
}
