//! Pages of lists: how many rows, and where the next page begins.
//!
//! A token is opaque to callers: a version, a digest of the method and its filters, and the place. One that was made
//! for other filters is refused, because its place would mean nothing there. It is no secret and carries no rights.

use ring::digest::{SHA256, digest};
use tenure_scheduler::{DeliveryId, FencingToken, JobId, NodeName, Wall, WorkflowId};
use tenure_store::{JobCursor, WorkflowCursor};
use uuid::Uuid;

use super::check::Checks;

/// The most rows of a page, whatever was asked for.
pub(crate) const MOST: u32 = 1000;

/// Encoded rows of a page are cut here, so that a message stays under 1 MiB; a page always holds one row.
pub(crate) const MOST_BYTES: usize = 960 * 1024;

/// Of the form of tokens.
const VERSION: u8 = 1;

/// How many rows a request asks for.
pub(crate) fn size(checks: &mut Checks, asked: i32, default: u32) -> u32 {
    match u32::try_from(asked) {
        Ok(0) => default,
        Ok(size) => size.min(MOST),
        Err(_) => {
            checks.refuse("page_size", "is negative");
            default
        }
    }
}

/// How many of these rows fit into a page: at least one, if there is one.
pub(crate) fn fitting(sizes: impl Iterator<Item = usize>, most: u32) -> usize {
    let mut bytes = 0;
    let fit = sizes.take(most as usize).take_while(|size| {
        let first = bytes == 0;
        bytes += size;
        first || bytes <= MOST_BYTES
    });
    fit.count()
}

/// What a token is bound to: the method and everything that it was asked but for the page itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filters([u8; 8]);

impl Filters {
    /// `request` is the request without page size and token.
    pub(crate) fn of(method: &str, request: &impl prost::Message) -> Self {
        let mut bytes = Vec::from(method);
        bytes.push(0);
        bytes.extend(request.encode_to_vec());
        let full = digest(&SHA256, &bytes);
        let mut short = [0; 8];
        short.iter_mut().zip(full.as_ref()).for_each(|(to, from)| *to = *from);
        Self(short)
    }
}

/// Where a page ends.
pub(crate) trait Place: Sized {
    fn encode(&self) -> Vec<u8>;
    fn decode(bytes: &[u8]) -> Option<Self>;
}

impl Place for JobCursor {
    fn encode(&self) -> Vec<u8> {
        [&self.created_at.0.to_be_bytes()[..], self.id.0.as_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (at, id) = bytes.split_first_chunk()?;
        Some(Self { created_at: Wall(i64::from_be_bytes(*at)), id: JobId(Uuid::from_slice(id).ok()?) })
    }
}

impl Place for WorkflowCursor {
    fn encode(&self) -> Vec<u8> {
        JobCursor { created_at: self.created_at, id: JobId(self.id.0) }.encode()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        JobCursor::decode(bytes)
            .map(|place| Self { created_at: place.created_at, id: WorkflowId(place.id.0) })
    }
}

impl Place for NodeName {
    fn encode(&self) -> Vec<u8> {
        self.as_str().as_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::parse(std::str::from_utf8(bytes).ok()?).ok()
    }
}

impl Place for FencingToken {
    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

impl Place for DeliveryId {
    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// The token of the page that begins behind a place.
pub(crate) fn token(filters: Filters, place: &impl Place) -> String {
    let bytes = [&[VERSION][..], &filters.0, &place.encode()].concat();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The place that a token names; none if there is no token.
pub(crate) fn place<P: Place>(checks: &mut Checks, filters: Filters, token: &str) -> Option<P> {
    if token.is_empty() {
        return None;
    }
    let Some((bound, place)) = parse(token) else {
        checks.refuse("page_token", "is no token of this server");
        return None;
    };
    if bound != filters.0 {
        checks.refuse("page_token", "belongs to a list with other filters");
        return None;
    }
    let place = P::decode(&place);
    if place.is_none() {
        checks.refuse("page_token", "is no token of this server");
    }
    place
}

fn parse(token: &str) -> Option<([u8; 8], Vec<u8>)> {
    if token.len() > 256 || !token.is_ascii() {
        return None;
    }
    let (pairs, []) = token.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Vec<u8> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect::<Option<_>>()?;
    let (&VERSION, rest) = bytes.split_first()? else { return None };
    let (bound, place) = rest.split_first_chunk()?;
    Some((*bound, place.to_vec()))
}

#[cfg(test)]
mod tests {
    use tenure_proto::v1::ListJobsRequest;

    use super::*;

    fn filters(kind: &str) -> Filters {
        Filters::of("ListJobs", &ListJobsRequest { kind: kind.to_owned(), ..Default::default() })
    }

    fn cursor() -> JobCursor {
        JobCursor { created_at: Wall(-5), id: JobId(Uuid::from_u128(7)) }
    }

    fn refusal_of(filters: Filters, token: &str) -> String {
        let mut checks = Checks::default();
        assert_eq!(place::<JobCursor>(&mut checks, filters, token), None);
        format!("{:?}", checks.finish().unwrap_err().into_status().message())
    }

    #[test]
    fn a_token_leads_back_to_its_place() {
        let mut checks = Checks::default();
        let made = token(filters("a"), &cursor());
        assert_eq!(place(&mut checks, filters("a"), &made), Some(cursor()));
        let made = token(filters("a"), &FencingToken(u64::MAX));
        assert_eq!(place(&mut checks, filters("a"), &made), Some(FencingToken(u64::MAX)));
        assert_eq!(place::<JobCursor>(&mut checks, filters("a"), ""), None);
        assert!(checks.finish().is_ok());
    }

    #[test]
    fn a_token_of_other_filters_is_refused() {
        let made = token(filters("a"), &cursor());
        assert!(refusal_of(filters("b"), &made).contains("other filters"));
        let attempts = Filters::of("ListAttempts", &ListJobsRequest::default());
        assert!(refusal_of(attempts, &made).contains("other filters"));
    }

    #[test]
    fn whatever_else_stands_there_is_refused() {
        let good = token(filters("a"), &cursor());
        let short = token(filters("a"), &FencingToken(1));
        for bad in [
            "x",
            "zz",
            "00",
            "0g",
            "äö",
            good.get(2..).unwrap(),
            good.get(..good.len() - 2).unwrap(),
            &short,
            &"0".repeat(1000),
        ] {
            assert!(refusal_of(filters("a"), bad).contains("no token"), "{bad}");
        }
    }

    #[test]
    fn a_page_is_full_by_rows_or_by_bytes_and_holds_one_row_whatever_its_size() {
        assert_eq!(fitting([1, 1, 1].into_iter(), 2), 2);
        assert_eq!(fitting([MOST_BYTES, 1].into_iter(), 9), 1);
        assert_eq!(fitting([MOST_BYTES + 1, 1].into_iter(), 9), 1);
        assert_eq!(fitting([].into_iter(), 9), 0);
    }

    #[test]
    fn sizes_have_a_default_and_a_ceiling() {
        let mut checks = Checks::default();
        assert_eq!([0, 1, 1000, 1001, i32::MAX].map(|n| size(&mut checks, n, 50)), [50, 1, 1000, 1000, 1000]);
        assert!(checks.is_clean());
        size(&mut checks, -1, 50);
        assert!(!checks.is_clean());
    }
}
