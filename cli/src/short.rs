//! Ids as people type them: the whole, or a beginning or end that only one job has.
//!
//! The end is the part to type: an id begins with the time of its making, which jobs of the same minute share.

use tenure_client::Client;
use tenure_client::proto::ListJobsRequest;

use crate::exit::Failure;
use crate::job::state_word;

/// Candidates that an ambiguous part is answered with.
const CANDIDATES: usize = 8;
/// A shorter part is a slip of the finger.
const SHORTEST: usize = 4;
/// A whole id.
const WHOLE: usize = 36;

/// The whole id that is meant. What has the length of one is left to the server to judge.
pub(crate) async fn whole(client: &Client, text: &str) -> Result<String, Failure> {
    let part = text.to_ascii_lowercase();
    if part.len() == WHOLE {
        return Ok(text.to_owned());
    }
    if !is_part(&part) {
        return Err(Failure::NoId { text: text.to_owned() });
    }
    let filter = ListJobsRequest {
        id_part: part,
        page_size: i32::try_from(CANDIDATES + 1).unwrap_or(i32::MAX),
        ..ListJobsRequest::default()
    };
    let jobs = client.list(filter).take(CANDIDATES + 1).await?;
    match &jobs[..] {
        [] => Err(Failure::Unknown { noun: "job", name: text.to_owned(), known: Vec::new() }),
        [job] => Ok(job.id.clone()),
        many => {
            let candidates = many.iter().take(CANDIDATES);
            let candidates = candidates.map(|job| format!("{} ({}, {})", job.id, job.kind, state_word(job)));
            let more = many.len() > CANDIDATES;
            Err(Failure::Ambiguous { part: text.to_owned(), candidates: candidates.collect(), more })
        }
    }
}

fn is_part(text: &str) -> bool {
    (SHORTEST..WHOLE).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_part_is_looked_up() {
        for part in ["0198", "f00d", "-8000-00", "01990000-0000-7000-8000-00000000000"] {
            assert!(is_part(part), "{part}");
        }
        for other in ["", "abc", "site.qa", "01990000-0000-7000-8000-000000000000"] {
            assert!(!is_part(other), "{other}");
        }
    }
}
