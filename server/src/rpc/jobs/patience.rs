//! How long the caller of a long poll listens: the deadline of its call, less the time that an answer may need.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// An answer is sent this long before the deadline, or a quarter of it, if that is less.
const BEFORE: Duration = Duration::from_millis(500);

/// How long a call may be held up before it is answered; none: its caller gave it no deadline.
pub(super) fn of(metadata: &MetadataMap) -> Option<Duration> {
    let deadline = parse(metadata.get("grpc-timeout")?.to_str().ok()?)?;
    Some(deadline - BEFORE.min(deadline / 4))
}

/// `grpc-timeout`: at most eight digits and a unit. The transport cuts calls off by it; one that makes no sense is none.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_of_a_call_leaves_time_for_the_answer() {
        for (text, want) in [
            ("60S", Some(Duration::from_millis(59_500))),
            ("1000m", Some(Duration::from_millis(750))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600) - BEFORE)),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("100000000S", None),
            ("-1S", None),
            ("1.5S", None),
            ("5", None),
            ("5d", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(of(&metadata), want, "{text}");
        }
        assert_eq!(of(&MetadataMap::new()), None);
    }
}
