//! Bytes that are no message of the method, and messages that are too large: told as the caller's mistake, with the
//! field where there is one.

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{Kind, prost::Message as _};
use tonic::{Code, Status};

use crate::{
    bases::Bases,
    desk::{Desk, Store, fields, reason},
    places::{Place, places},
    sweep::{methods, path_of},
};

/// No text in UTF-8: a stray byte, an overlong form, half of a pair, what is beyond Unicode, one that is cut.
pub(crate) const NO_TEXT: &[&[u8]] =
    &[b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"ok\xf0\x9f\x9c"];

/// The field as something else than it is.
pub(crate) fn other_type(place: &Place) -> Vec<u8> {
    match place.wire_type() {
        WireType::LengthDelimited | WireType::SixtyFourBit => place.wire(WireType::Varint, b"\x01"),
        WireType::Varint | WireType::StartGroup | WireType::EndGroup | WireType::ThirtyTwoBit => {
            place.wire(WireType::SixtyFourBit, &[0xff; 8])
        }
    }
}

/// The field with bytes that are no text, if it holds texts.
pub(crate) fn no_texts(place: &Place) -> Vec<Vec<u8>> {
    let text = |bytes: &[u8]| place.wire(WireType::LengthDelimited, bytes);
    let field = place.field();
    if field.is_map() {
        // The key of an entry is its first field.
        return NO_TEXT
            .iter()
            .map(|bytes| text(&[&[0x0a, u8::try_from(bytes.len()).unwrap_or(u8::MAX)], *bytes].concat()))
            .collect();
    }
    if field.kind() == Kind::String { NO_TEXT.iter().map(|bytes| text(bytes)).collect() } else { Vec::new() }
}

#[track_caller]
fn is_invalid(what: &str, answer: Result<Bytes, Status>) -> Vec<String> {
    let status = answer.err().unwrap_or_else(|| panic!("{what}: it was taken"));
    assert_eq!(
        reason(&status),
        Some((Code::InvalidArgument, "INVALID_FIELD".to_owned())),
        "{what}: {status:?}"
    );
    fields(&status)
}

async fn every_field(store: Store) {
    let desk = Desk::start(store).await;
    let bases = Bases::make(&desk).await;
    let before = desk.standing(&[&bases.queued, &bases.cancelled]).await;
    for method in methods() {
        let path = path_of(&method);
        let base = bases.of(&method).0.encode_to_vec();
        let call = async |more: &[u8]| desk.call(&path, [base.as_slice(), more].concat()).await;
        for place in places(&method.input()) {
            let what = format!("{}: {}", method.name(), place.path());
            let named = is_invalid(&what, call(&other_type(&place)).await);
            assert_eq!(named, [place.plain()], "{what} of another type");
            for bytes in no_texts(&place) {
                let named = is_invalid(&what, call(&bytes).await);
                assert_eq!(named, [place.plain()], "{what} is no text");
            }
        }
        for (what, bytes) in broken() {
            is_invalid(&format!("{}: {what}", method.name()), call(&bytes).await);
        }
    }
    assert_eq!(before, desk.standing(&[&bases.queued, &bases.cancelled]).await);
    desk.end().await;
}

/// No message of any kind.
pub(crate) fn broken() -> Vec<(&'static str, Vec<u8>)> {
    // Field 900 is nobody's.
    let mut begin = Vec::new();
    encode_key(900, WireType::StartGroup, &mut begin);
    let mut long = Vec::new();
    encode_key(900, WireType::LengthDelimited, &mut long);
    let mut beyond = long.clone();
    encode_varint(u64::MAX, &mut beyond);
    let mut cut = long;
    encode_varint(100, &mut cut);
    vec![
        ("a group that never ends", begin.clone()),
        ("100,000 groups, one in the other", begin.repeat(100_000)),
        ("a field of more bytes than there are", cut),
        ("a field of 2^64 bytes", beyond),
        ("the end of a group that never began", vec![0x0c]),
        ("field 0", vec![0, 1]),
        ("a number of 11 bytes", vec![0xff; 11]),
        ("a key and nothing", vec![0x0a]),
        ("wire type 7", vec![0x0f]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_another_kind_are_the_callers_mistake_in_every_field_on_sqlite() {
    every_field(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_another_kind_are_the_callers_mistake_in_every_field_on_postgres() {
    every_field(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_beginning_of_a_good_request_is_answered_in_good_order() {
    let desk = Desk::start(Store::Sqlite).await;
    let bases = Bases::make(&desk).await;
    for method in methods() {
        let whole = bases.of(&method).0.encode_to_vec();
        for length in 0..whole.len() {
            let answer = desk.call(&path_of(&method), whole[..length].to_vec()).await;
            let Err(status) = answer else { continue };
            let said = reason(&status);
            assert!(
                said.is_some_and(|(code, _)| code != Code::Internal),
                "{} of {length}: {status:?}",
                method.name()
            );
        }
    }
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_limit_is_too_large_for_every_method() {
    let desk = Desk::start(Store::Sqlite).await;
    let bases = Bases::make(&desk).await;
    for method in methods() {
        let mut bytes = bases.of(&method).0.encode_to_vec();
        encode_key(900, WireType::LengthDelimited, &mut bytes);
        for (size, fits) in [(3 << 20, true), (4 << 20, false), (10 << 20, false)] {
            let mut large = bytes.clone();
            encode_varint(size as u64, &mut large);
            large.resize(large.len() + size, b'x');
            let said = desk.call(&path_of(&method), large).await.err().and_then(|status| reason(&status));
            let too_large = Some((Code::InvalidArgument, "PAYLOAD_TOO_LARGE".to_owned()));
            // What a newer caller says is passed over, however much it is.
            assert_eq!(said == too_large, !fits, "{} with {size} bytes more: {said:?}", method.name());
        }
    }
    desk.end().await;
}
