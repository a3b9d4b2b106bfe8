//! Results that are larger than a report holds: measured, and sent before the report that names them.
//!
//! Responsible for how often that is tried and for how long. Not responsible for the bytes on the wire (`socket/calls.rs`),
//! nor for what the end is called if it fails (`outcome.rs`).
//!
//! Invariant: a report names an upload only after the server has said that its bytes are safe. While it is on its way the
//! lease is held and renewed, and the file stays where it is: an agent that starts anew sends it again.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use ring::digest::{Context, SHA256};
use serde::de::IgnoredAny;
use tenure_proto::limits;
use tenure_proto::node::v1::{Report, ResultBytes, UploadedResult, report::Event};
use tokio::io::AsyncReadExt as _;

use super::bounds::Bounds;
use super::socket::{Calls, Lease, is_away};
use super::workspace::{Found, Workspace, open_plain};
use super::{Shared, outcome};
use crate::holdings::StopReason;
use crate::shim::ExitRecord;

/// Before the second try, and between later ones at the most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// A server or object storage that is away for longer costs the result.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Up to which size results are taken, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runner) struct Limits {
    /// In a report.
    pub(super) inline: u64,
    /// By an upload; 0: none is taken.
    pub(super) uploaded: u64,
}

impl Limits {
    /// Those of an attempt that did not succeed: nobody waits for what it leaves.
    pub(super) fn of(self, record: &ExitRecord) -> Self {
        if outcome::leaves_whole(record) { self } else { Self { uploaded: 0, ..self } }
    }
}

/// A result in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Large {
    place: Place,
    size: u64,
    sha256: [u8; 32],
    content_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A command wrote it.
    File {
        path: PathBuf,
        /// Whose it has to be.
        uid: u32,
    },
    /// A worker sent it. It dies with the agent, like the attempt.
    Memory(Bytes),
}

impl Large {
    /// Looks at a file that is too large for a report.
    pub(super) fn measure(path: &Path, uid: u32, limits: Limits) -> io::Result<Found> {
        let mut file = open_plain(path, uid)?;
        let size = file.metadata()?.len();
        if size > limits.uploaded {
            return Ok(Found::TooLarge { limit: limits.uploaded.max(limits.inline) });
        }
        let (sha256, is_text) = digest(&mut file, size)?;
        file.rewind()?;
        let content_type = if is_text && is_json(&mut file) {
            "application/json"
        } else if is_text {
            "text/plain; charset=utf-8"
        } else {
            "application/octet-stream"
        };
        let place = Place::File { path: path.to_owned(), uid };
        Ok(Found::Large(Self { place, size, sha256, content_type: content_type.to_owned() }))
    }

    /// In bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// As it is named on the wire.
    pub(super) fn reference(&self) -> UploadedResult {
        UploadedResult {
            size: self.size,
            content_type: self.content_type.clone(),
            sha256: Bytes::copy_from_slice(&self.sha256),
        }
    }

    /// Its bytes. They end early if it cannot be read any more, or is another by now: the server finds that.
    fn bytes(&self) -> BoxStream<'static, Bytes> {
        match &self.place {
            Place::File { path, uid } => file(path.clone(), *uid).boxed(),
            Place::Memory(bytes) => {
                let (bytes, count) = (bytes.clone(), bytes.len().div_ceil(limits::CHUNK_BYTES));
                let chunk = move |n: usize| {
                    bytes.slice(n * limits::CHUNK_BYTES..bytes.len().min((n + 1) * limits::CHUNK_BYTES))
                };
                stream::iter((0..count).map(chunk)).boxed()
            }
        }
    }
}

fn file(path: PathBuf, uid: u32) -> impl Stream<Item = Bytes> + Send {
    let open = move || open_plain(&path, uid);
    stream::unfold((None, open), async |(file, open)| {
        let mut file: tokio::fs::File = match file {
            Some(file) => file,
            None => {
                let opened = tokio::task::spawn_blocking(open.clone()).await.ok()?;
                tokio::fs::File::from_std(opened.ok()?)
            }
        };
        let mut chunk = Vec::with_capacity(limits::CHUNK_BYTES);
        (&mut file).take(limits::CHUNK_BYTES as u64).read_to_end(&mut chunk).await.ok()?;
        (!chunk.is_empty()).then(|| (Bytes::from(chunk), (Some(file), open)))
    })
}

/// What stands in a report and is too large for it.
pub(super) fn taken_from(report: &mut Report, limits: Limits) -> Option<Large> {
    let Some(Event::Finished(finished)) = &mut report.event else { return None };
    let too_large = |result: &&mut ResultBytes| result.data.len() as u64 > limits.inline;
    finished.result.as_mut().filter(too_large)?;
    let ResultBytes { data, content_type } = finished.result.take()?;
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(ring::digest::digest(&SHA256, &data).as_ref());
    let large = Large { size: data.len() as u64, place: Place::Memory(data), sha256, content_type };
    finished.uploaded = Some(large.reference());
    Some(large)
}

/// The checksum of so many bytes, and whether they are UTF-8.
fn digest(file: &mut File, size: u64) -> io::Result<([u8; 32], bool)> {
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; limits::CHUNK_BYTES];
    let (mut is_text, mut begun) = (true, Vec::new());
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(limits::CHUNK_BYTES).min(limits::CHUNK_BYTES);
        let part = chunk.get_mut(..most).unwrap_or_default();
        file.read_exact(part)?;
        context.update(part);
        if is_text {
            begun.extend_from_slice(part);
            match std::str::from_utf8(&begun) {
                Ok(_) => begun.clear(),
                // A character may be cut at the end of a part.
                Err(error) if error.error_len().is_none() => drop(begun.drain(..error.valid_up_to())),
                Err(_) => is_text = false,
            }
        }
        left -= most as u64;
    }
    let mut sum = [0; 32];
    sum.copy_from_slice(context.finish().as_ref());
    Ok((sum, is_text && begun.is_empty()))
}

fn is_json(file: &mut File) -> bool {
    serde_json::from_reader::<_, IgnoredAny>(io::BufReader::with_capacity(limits::CHUNK_BYTES, file)).is_ok()
}

/// Whether what stands where a result may be is larger than a report holds, so that a server has to take it first.
pub(super) async fn is_needed(shared: &Shared, workspace: &Workspace, record: &ExitRecord) -> bool {
    if !outcome::leaves_whole(record) {
        return false;
    }
    let (workspace, limit) = (workspace.clone(), shared.max_result());
    let looked = tokio::task::spawn_blocking(move || workspace.result_size() > limit).await;
    looked.unwrap_or_default()
}

/// Up to which size a server takes results; waits until one has said so. An attempt that is stopped before measures its
/// result all the same, and what is sent of it is broken off.
pub(super) async fn limits(shared: &Shared, bounds: &mut Bounds) -> Limits {
    tokio::select! {
        biased;
        // Cancel-safe: it only waits.
        limits = shared.limits_of_server() => limits,
        // Cancel-safe, as documented there.
        _ = bounds.over() => Limits { uploaded: u64::MAX, ..shared.limits() },
    }
}

/// Brings the result of a report to the server, if it has one that is too large for it. Then the report, or another if that
/// cannot be done: whoever waits for the result must not be told that there is one.
pub(super) async fn before(shared: &Shared, report: Report, large: Option<Large>) -> Report {
    let named = matches!(&report.event, Some(Event::Finished(finished)) if finished.uploaded.is_some());
    let Some(large) = large.filter(|_| named) else { return report };
    let lease = Lease { job: report.job_id.clone(), token: crate::holdings::FencingToken(report.token) };
    match send(shared, &lease, &large).boxed().await {
        Ok(()) => report,
        Err(why) => {
            tracing::warn!(lease.token = report.token, why, "the result of an attempt is not stored");
            outcome::without_result(report, &why)
        }
    }
}

/// As [`before`], for as long as nothing breaks it off: then what does, and the report that is not so.
pub(super) async fn unless_stopped(
    shared: &Shared,
    report: Report,
    large: Option<Large>,
    bounds: &mut Bounds,
) -> Result<Report, (Box<Report>, StopReason)> {
    let reason = tokio::select! {
        biased;
        // Cancel-safe: an upload that is cut is none.
        report = before(shared, report.clone(), large) => return Ok(report),
        // Cancel-safe, as documented there.
        reason = bounds.over() => reason,
    };
    tracing::warn!(lease.token = report.token, ?reason, "an attempt is stopped while its result is sent");
    Err((Box::new(report), reason))
}

/// Sends it until the server has it, or says no.
async fn send(shared: &Shared, lease: &Lease, large: &Large) -> Result<(), String> {
    let (calls, clock) = (&shared.options.calls, shared.options.clock);
    let until = clock.now() + PATIENCE;
    let mut pause = AGAIN.0;
    loop {
        match try_once(calls, lease, large).await {
            Ok(()) => {
                tracing::info!(lease.token = lease.token.0, bytes = large.size, "a result was uploaded");
                return Ok(());
            }
            Err(status) if is_away(&status) && clock.now() < until => {
                tracing::debug!(%status, "a result cannot be uploaded now; again soon");
            }
            Err(status) => return Err(status.message().to_owned()),
        }
        clock.sleep_until(clock.now() + pause).await;
        pause = (pause * 2).min(AGAIN.1);
    }
}

async fn try_once(calls: &Calls, lease: &Lease, large: &Large) -> Result<(), tonic::Status> {
    #[cfg(feature = "failpoints")]
    fail::fail_point!("upload::on_the_way", |_| std::process::abort());
    calls.upload_result(lease, large.reference(), large.bytes()).boxed().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(bytes: &[u8]) -> (tempfile::TempDir, Large) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("result");
        std::fs::write(&path, bytes).unwrap();
        let limits = Limits { inline: 0, uploaded: 1 << 30 };
        let found = Large::measure(&path, rustix::process::getuid().as_raw(), limits).unwrap();
        let Found::Large(large) = found else { panic!("{found:?}") };
        (home, large)
    }

    #[tokio::test]
    async fn a_file_is_sent_as_it_was_measured_in_chunks() {
        let bytes: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
        let (home, large) = measured(&bytes);
        let sent: Vec<Bytes> = large.bytes().collect().await;
        assert!(sent.iter().all(|chunk| chunk.len() <= limits::CHUNK_BYTES));
        assert!(sent.concat() == bytes);
        assert_eq!(large.sha256, ring::digest::digest(&SHA256, &bytes).as_ref());
        drop(home);
        assert_eq!(large.bytes().collect::<Vec<_>>().await.len(), 0, "it is gone");
    }

    #[tokio::test]
    async fn what_a_worker_sent_leaves_its_report_if_it_is_too_large() {
        let limits = Limits { inline: 3, uploaded: 1 << 20 };
        let finished = |data: &[u8]| {
            let result = ResultBytes { data: Bytes::copy_from_slice(data), content_type: "a/b".to_owned() };
            let finished = tenure_proto::node::v1::Finished { result: Some(result), ..Default::default() };
            Report { event: Some(Event::Finished(finished)), ..Report::default() }
        };
        assert_eq!(taken_from(&mut finished(b"123"), limits), None);
        let bytes = vec![7; limits::CHUNK_BYTES + 1];
        let mut report = finished(&bytes);
        let large = taken_from(&mut report, limits).unwrap();
        let Some(Event::Finished(finished)) = report.event else { panic!() };
        assert_eq!((finished.result, finished.uploaded), (None, Some(large.reference())));
        assert!(large.bytes().collect::<Vec<_>>().await.concat() == bytes);
    }

    #[test]
    fn the_media_type_is_that_of_all_bytes() {
        let text = "é".repeat(limits::CHUNK_BYTES);
        let json = format!("[\"{text}\"]");
        let cut = &text.as_bytes()[..text.len() - 1];
        for (bytes, want) in [
            (text.as_bytes(), "text/plain; charset=utf-8"),
            (json.as_bytes(), "application/json"),
            (cut, "application/octet-stream"),
            (&[0xff; limits::CHUNK_BYTES + 1][..], "application/octet-stream"),
        ] {
            assert_eq!(measured(bytes).1.content_type, want);
        }
    }
}
