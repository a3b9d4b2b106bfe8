//! The end of a log, as a node tells it.

use tenure_proto::{node::v1 as wire, v1};
use tenure_scheduler::Wall;
use tenure_store::{LogEnd, LogTail};

/// The most bytes of each stream that are kept.
const MOST_TAIL: usize = 8 * 1024;

/// An end within its bounds: of one that is longer the last bytes, since everything else of its report counts.
pub(super) fn tail(told: wire::LogTail) -> LogTail {
    let end = |part: Option<v1::LogTailPart>| {
        let v1::LogTailPart { total, data } = part.unwrap_or_default();
        let data = data.slice(data.len().saturating_sub(MOST_TAIL)..);
        // A database counts up to here.
        let most = i64::MAX.unsigned_abs();
        LogEnd { total: total.max(data.len() as u64).min(most), data }
    };
    // When it is stored, the driver says.
    LogTail { stdout: end(told.stdout), stderr: end(told.stderr), created_at: Wall(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_cut_at_its_front_and_counts_at_least_what_it_has() {
        let part = |total, data: Vec<u8>| Some(v1::LogTailPart { total, data: data.into() });
        let long: Vec<u8> = (0..MOST_TAIL + 3).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let told = wire::LogTail { stdout: part(3, long.clone()), stderr: part(u64::MAX, Vec::new()) };
        let LogTail { stdout, stderr, .. } = tail(told);
        assert_eq!((stdout.total, &*stdout.data), (MOST_TAIL as u64, &long[3..]));
        assert_eq!((stderr.total, stderr.offset()), (i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs()));
        assert_eq!(tail(wire::LogTail::default()), LogTail { created_at: Wall(0), ..LogTail::default() });
    }
}
