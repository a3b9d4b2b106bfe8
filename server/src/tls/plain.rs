//! Clients that speak no TLS to a port that does: they are told so in what they speak.
//!
//! Invariant: nothing that they sent is looked at but its first bytes.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::listener::Connection;

/// What a client of TLS says first: a record of a handshake.
const HANDSHAKE_RECORD: u8 = 0x16;
/// How HTTP/2 begins.
const PRIORITY: &[u8] = b"PRI";
/// An empty frame of settings, which HTTP/2 must hear first.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// HTTP/2's code for too little security.
const INADEQUATE_SECURITY: u8 = 0xc;
const WORDS: &str = "this port speaks TLS: use https:// and certificates";
/// The client hears the answer only if what it sent is read before the connection is closed: for so long …
const READ_FOR: Duration = Duration::from_secs(1);
/// … and so many bytes.
const READ_BYTES: u64 = 64 * 1024;

/// Whether a client begins as TLS does.
pub(super) fn is_tls(first: &[u8]) -> bool {
    first.first() == Some(&HANDSHAKE_RECORD)
}

/// Says that there is TLS here, and closes. Whether that is heard is the client's affair.
pub(super) async fn turn_away(mut connection: Connection, first: &[u8]) {
    let answer = if first.starts_with(PRIORITY) { go_away() } else { bad_request() };
    if connection.write_all(&answer).await.is_err() || connection.shutdown().await.is_err() {
        return;
    }
    let mut rest = connection.take(READ_BYTES);
    let mut nowhere = tokio::io::sink();
    let reading = tokio::io::copy(&mut rest, &mut nowhere);
    drop(tokio::time::timeout(READ_FOR, reading).await);
}

fn go_away() -> Vec<u8> {
    let length = u8::try_from(8 + WORDS.len()).unwrap_or(u8::MAX);
    let head = [0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, INADEQUATE_SECURITY];
    [SETTINGS, &head, WORDS.as_bytes()].concat()
}

fn bad_request() -> Vec<u8> {
    let length = WORDS.len() + 1;
    format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: \
         close\r\n\r\n{WORDS}\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_as_long_as_it_says() {
        let frame = go_away().split_off(SETTINGS.len());
        assert_eq!(usize::from(frame[2]) + 9, frame.len());
    }
}
