//! Results whose bytes stand in object storage.

use tenure_proto::node::v1 as wire;
use tenure_store::{ResultBytes, ResultObject, Sha256, StoredResult};

use crate::rpc::check::Checks;

/// What stands, or is to stand, in object storage: its media type, size and checksum.
pub(crate) fn uploaded(
    checks: &mut Checks,
    field: &str,
    uploaded: Option<&wire::UploadedResult>,
) -> Option<(String, ResultObject)> {
    let Some(uploaded) = uploaded else {
        checks.refuse(field, "is required");
        return None;
    };
    let content_type = checks.text(&format!("{field}.content_type"), &uploaded.content_type, 255);
    let sha256 = <[u8; 32]>::try_from(&*uploaded.sha256).ok();
    if sha256.is_none() {
        checks.refuse(format!("{field}.sha256"), "must be 32 bytes");
    }
    if uploaded.size == 0 || i64::try_from(uploaded.size).is_err() {
        checks.refuse(format!("{field}.size"), "must be 1 to 9223372036854775807");
        return None;
    }
    let object = ResultObject { size: uploaded.size, sha256: Sha256(sha256?) };
    Some((content_type.unwrap_or_default().to_string(), object))
}

/// The result of a report that was uploaded before.
pub(super) fn offloaded(
    checks: &mut Checks,
    field: &str,
    finished: &wire::Finished,
    has_inline: bool,
) -> Option<ResultBytes> {
    let reference = finished.uploaded.as_ref()?;
    if has_inline {
        checks.refuse(format!("{field}.uploaded"), "excludes result");
    }
    if finished.outcome() != wire::FinishedOutcome::Succeeded {
        checks.refuse(format!("{field}.uploaded"), "belongs to FINISHED_OUTCOME_SUCCEEDED");
    }
    let (content_type, object) = uploaded(checks, &format!("{field}.uploaded"), Some(reference))?;
    Some(ResultBytes { data: bytes::Bytes::new(), content_type, object: Some(object) })
}

/// A stored result as a reference, if its bytes stand in object storage.
pub(crate) fn uploaded_out(stored: &StoredResult) -> Option<wire::UploadedResult> {
    let object = stored.object?;
    Some(wire::UploadedResult {
        size: object.size,
        content_type: stored.content_type.clone(),
        sha256: bytes::Bytes::copy_from_slice(&object.sha256.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(change: impl FnOnce(&mut wire::Finished)) -> wire::Finished {
        let uploaded =
            wire::UploadedResult { size: 7, content_type: "a/b".to_owned(), sha256: vec![1; 32].into() };
        let outcome = wire::FinishedOutcome::Succeeded.into();
        let mut finished = wire::Finished { outcome, uploaded: Some(uploaded), ..wire::Finished::default() };
        change(&mut finished);
        finished
    }

    fn judged(finished: &wire::Finished, has_inline: bool) -> Result<Option<ResultBytes>, String> {
        let mut checks = Checks::default();
        let result = offloaded(&mut checks, "f", finished, has_inline);
        checks.finish().map_or_else(|no| Err(no.message().to_owned()), |()| Ok(result))
    }

    #[test]
    fn a_report_names_what_was_uploaded_or_nothing() {
        let object = Some(ResultObject { size: 7, sha256: Sha256([1; 32]) });
        let result = ResultBytes { content_type: "a/b".to_owned(), object, ..ResultBytes::default() };
        assert_eq!(judged(&finished(|_| {}), false), Ok(Some(result)));
        assert_eq!(judged(&finished(|it| it.uploaded = None), true), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let of = |change: fn(&mut wire::UploadedResult)| {
            judged(&finished(|it| change(it.uploaded.as_mut().unwrap())), false).unwrap_err()
        };
        assert!(of(|it| it.size = 0).contains("f.uploaded.size"));
        assert!(of(|it| it.size = u64::MAX).contains("f.uploaded.size"));
        assert!(of(|it| it.sha256 = vec![1; 33].into()).contains("f.uploaded.sha256"));
        assert!(of(|it| it.content_type = "\0".to_owned()).contains("f.uploaded.content_type"));
        assert!(judged(&finished(|_| {}), true).unwrap_err().contains("f.uploaded"), "two results");
        let failed = finished(|it| it.set_outcome(wire::FinishedOutcome::Failed));
        assert!(judged(&failed, false).unwrap_err().contains("f.uploaded"), "of a failure");
    }
}
