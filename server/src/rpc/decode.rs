//! What tonic answers by itself, before any handler, about bytes that are no message: its answers in our words.
//!
//! Three things are told apart, and every other status is left alone: bytes that are no message or no frame (INTERNAL
//! there) are the caller's mistake, INVALID_FIELD; a message over the limit (OUT_OF_RANGE, or RESOURCE_EXHAUSTED if gzip
//! hid its size) is PAYLOAD_TOO_LARGE; a compression that this server does not know is ENCODING_UNSUPPORTED. Their texts
//! belong to pinned crates, and a test over a real socket holds them. On a stream the handler sees the status itself, so
//! that sessions answer for themselves.

use tenure_proto::limits;
use tonic::{Code, Status};

use super::status::No;

/// How prost's errors begin.
const UNDECODABLE: &str = "failed to decode Protobuf message: ";
/// How tonic begins what it says of frames that are none: only a peer's bytes lead there.
const UNFRAMED: [&str; 4] = [
    "Missing request message",
    "Unexpected EOF decoding stream",
    "protocol error: received message with",
    "Error decompressing: ",
];
/// What tonic adds to some of them, although it was receiving.
const UNFRAMED_TAIL: &str = ", while sending request";
/// What tonic says of a message over the limit.
const TOO_LARGE: &str = "decoded message length too large";
/// What tonic says of a compressed message that is over the limit once it is not.
const TOO_LARGE_INFLATED: &str = "Error decompressing: size limit";
/// How tonic begins what it says of a compression that it does not know.
const UNKNOWN_ENCODING: &str = "Content is compressed with";

/// What one of tonic's own answers means, if it is one of these.
pub(crate) fn meaning(status: &Status) -> Option<No> {
    let message = status.message();
    if status.code() == Code::Internal {
        if let Some(rest) = message.strip_prefix(UNDECODABLE) {
            let (field, problem) = field_of(rest);
            return Some(No::invalid_field(field, problem));
        }
        if UNFRAMED.iter().any(|begin| message.starts_with(begin)) {
            let problem = message.strip_suffix(UNFRAMED_TAIL).unwrap_or(message);
            return Some(No::invalid_field("request", format!("is no message: {problem}")));
        }
    }
    if status.code() == Code::Unimplemented && message.starts_with(UNKNOWN_ENCODING) {
        return Some(No::unknown_encoding());
    }
    let too_large = (status.code() == Code::OutOfRange && message.contains(TOO_LARGE))
        || (status.code() == Code::ResourceExhausted && message.starts_with(TOO_LARGE_INFLATED));
    // Nothing was decoded, so that no field can be named.
    too_large.then(|| No::too_large(None, limits::DECODE_BYTES, "send less at once, at most 1 MiB"))
}

/// prost names the innermost field first, with its message and without list indexes:
/// `JobSpec.kind: EnqueueRequest.job: invalid string value: …` is `job.kind`.
fn field_of(mut rest: &str) -> (String, String) {
    let mut path = Vec::new();
    while let Some((place, behind)) = rest.split_once(": ") {
        let Some((message, field)) = place.split_once('.') else { break };
        let is_message = message.starts_with(|c: char| c.is_ascii_uppercase()) && is_word(message);
        if !is_message || !is_word(field) {
            break;
        }
        path.push(field);
        rest = behind;
    }
    path.reverse();
    let field = if path.is_empty() { "request".to_owned() } else { path.join(".") };
    (field, rest.to_owned())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt as _;

    use super::*;

    #[test]
    fn paths_of_fields_are_turned_around() {
        let cases = [
            (
                "JobSpec.kind: EnqueueRequest.job: invalid string value: x",
                "job.kind",
                "invalid string value: x",
            ),
            ("invalid varint", "request", "invalid varint"),
            ("A.b: c. d: e", "b", "c. d: e"),
            ("a.b: c", "request", "a.b: c"),
            ("", "request", ""),
        ];
        for (text, field, problem) in cases {
            assert_eq!(field_of(text), (field.to_owned(), problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn other_statuses_are_left_alone() {
        for status in [
            Status::internal("could not store it"),
            Status::internal("a text with failed to decode Protobuf message: in it"),
            Status::invalid_argument("failed to decode Protobuf message: x"),
            Status::out_of_range("page"),
            Status::resource_exhausted("QUEUE_FULL"),
            Status::internal("decoded message length too large"),
        ] {
            assert!(meaning(&status).is_none(), "{status:?}");
        }
    }

    #[test]
    fn a_message_over_the_limit_names_the_limit() {
        let status =
            meaning(&Status::out_of_range("Error, decoded message length too large: found 9")).unwrap();
        let status = status.into_status();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((info.reason.as_str(), &*info.metadata["limit_bytes"]), ("PAYLOAD_TOO_LARGE", "4194304"));
    }
}
