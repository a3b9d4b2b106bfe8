//! A node's stream of what one of its attempts prints, as far as the reader who wants it.
//!
//! Responsible for the order and size of pieces. Not responsible for whom they reach (`logs.rs`). Invariant: nothing that a
//! node says here reaches a reader of another node's attempt, or of another attempt.

use std::time::Duration;

use tenure_proto::limits;
use tenure_proto::{
    node::v1::{PushLogOpening, PushLogRequest, PushLogResponse, push_log_request::Said},
    v1::{LogChunk, LogStream},
};
use tonic::{Status, Streaming};

use crate::{
    logs::{FromNode, Push},
    rpc::{api::Api, auth::Caller, check::Checks, convert_node, decode, status::No},
};

/// A stream that does not say what it is about within this time is ended.
const OPENS_WITHIN: Duration = Duration::from_secs(10);

/// The most bytes of the reason for which a node has nothing.
const MOST_REASON: usize = 1024;

/// How far the two streams have come: the place behind the last byte.
#[derive(Debug, Default)]
struct Ends {
    stdout: u64,
    stderr: u64,
}

/// Takes a stream to its end, or to that of its reader.
pub(super) async fn push(
    api: &Api,
    caller: &Caller,
    mut stream: Streaming<PushLogRequest>,
) -> Result<PushLogResponse, No> {
    let over = api.handle.ways()?.over;
    let taken = async {
        let push = open(api, caller, &mut stream).await?;
        relay(&push, &mut stream).await
    };
    // Cancel-safe: whatever wins, nothing more is read from this stream; its reader sees that it broke.
    tokio::select! {
        biased;
        () = over.cancelled() => Err(api.handle.elsewhere().into()),
        no = caller.revoked() => Err(no),
        taken = taken => taken.map(|()| PushLogResponse {}),
    }
}

/// The first message, in time, and who waits for what follows.
async fn open(api: &Api, caller: &Caller, stream: &mut Streaming<PushLogRequest>) -> Result<Push, No> {
    let first = tokio::time::timeout(OPENS_WITHIN, stream.message()).await;
    let Ok(first) = first else {
        return Err(No::invalid_field("opening", "did not come within 10 s"));
    };
    let said = first.map_err(|status| mistake(&status).unwrap_or_else(No::log_unwanted))?;
    let Some(Said::Opening(PushLogOpening { lease, want_id })) = said.and_then(|said| said.said) else {
        return Err(No::invalid_field("opening", "must be the first message of a stream"));
    };
    let mut checks = Checks::default();
    let lease = convert_node::lease_at(&mut checks, "opening.lease", lease.as_ref());
    checks.finish()?;
    let lease = lease.ok_or_else(|| No::invalid_field("opening.lease", "is required"))?;
    caller.check_node(lease.node.as_str())?;
    api.logs.push(&lease.node, lease.job, lease.token, want_id).ok_or_else(No::log_unwanted)
}

/// Hands on what comes, until nothing comes or nobody reads.
async fn relay(push: &Push, stream: &mut Streaming<PushLogRequest>) -> Result<(), No> {
    let mut ends = Ends::default();
    loop {
        // Cancel-safe: the one only waits, and once it is over nothing more is read.
        let message = tokio::select! {
            biased;
            () = push.unwanted() => return Ok(()),
            message = stream.message() => message,
        };
        let said = match message {
            Ok(Some(message)) => message.said,
            // Its reader sees that the stream broke, and asks again.
            Ok(None) => return Ok(()),
            Err(status) => return mistake(&status).map_or(Ok(()), Err),
        };
        match said {
            Some(Said::Chunk(chunk)) => {
                check(&mut ends, &chunk)?;
                if !push.say(FromNode::Chunk(chunk)).await {
                    return Ok(());
                }
            }
            Some(Said::NoLog(no_log)) => {
                let mut reason = no_log.reason.replace('\0', "\u{fffd}");
                reason.truncate(reason.floor_char_boundary(MOST_REASON));
                push.say(FromNode::Nothing(reason)).await;
                return Ok(());
            }
            Some(Said::LogEnd(_)) => {
                push.say(FromNode::End).await;
                return Ok(());
            }
            Some(Said::Opening(_)) => return Err(No::invalid_field("opening", "comes once")),
            // A noun of a newer agent.
            None => {}
        }
    }
}

/// Whether a piece is one, and stands behind those before it.
fn check(ends: &mut Ends, chunk: &LogChunk) -> Result<(), No> {
    let end = match LogStream::try_from(chunk.stream) {
        Ok(LogStream::Stdout) => &mut ends.stdout,
        Ok(LogStream::Stderr) => &mut ends.stderr,
        Ok(LogStream::Unspecified) | Err(_) => {
            return Err(No::invalid_field("chunk.stream", format!("{} is unknown", chunk.stream)));
        }
    };
    if chunk.data.len() > limits::LOG_PIECE_BYTES {
        return Err(No::invalid_field(
            "chunk.data",
            format!("is over the limit of {most} bytes", most = limits::LOG_PIECE_BYTES),
        ));
    }
    let behind = chunk.offset.checked_add(chunk.data.len() as u64);
    let behind = behind.filter(|behind| i64::try_from(*behind).is_ok());
    let Some(behind) = behind.filter(|_| chunk.offset >= *end && chunk.dropped <= chunk.offset) else {
        return Err(No::invalid_field("chunk.offset", "is out of order or out of range"));
    };
    *end = behind;
    Ok(())
}

/// What a status of the transport says of the node's bytes; none: its connection broke.
fn mistake(status: &Status) -> Option<No> {
    decode::meaning(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_by_stream_and_within_their_size() {
        let mut ends = Ends::default();
        let chunk = |stream: LogStream, offset, data: &'static [u8]| LogChunk {
            stream: stream.into(),
            offset,
            data: data.into(),
            dropped: 0,
        };
        let mut field = |chunk: &LogChunk| check(&mut ends, chunk).err().map(|no| no.message().to_owned());
        assert_eq!(field(&chunk(LogStream::Stdout, 5, b"abc")), None);
        assert_eq!(field(&chunk(LogStream::Stderr, 0, b"x")), None);
        assert_eq!(field(&chunk(LogStream::Stdout, 8, b"")), None);
        assert_eq!(field(&chunk(LogStream::Stdout, 20, b"d")), None);
        for bad in [
            chunk(LogStream::Stdout, 20, b"again"),
            chunk(LogStream::Unspecified, 30, b"x"),
            LogChunk { stream: 7, ..chunk(LogStream::Stdout, 30, b"x") },
            chunk(LogStream::Stderr, u64::MAX, b"x"),
            chunk(LogStream::Stderr, u64::MAX / 2, b"x"),
            LogChunk { dropped: 31, ..chunk(LogStream::Stdout, 30, b"x") },
            LogChunk {
                data: vec![0; limits::LOG_PIECE_BYTES + 1].into(),
                ..chunk(LogStream::Stdout, 30, b"")
            },
        ] {
            assert!(field(&bad).is_some(), "{bad:?}");
        }
        assert_eq!(field(&chunk(LogStream::Stdout, 21, b"e")), None, "what was refused changed nothing");
    }
}
