//! The wait file: what a command waits for that has ended in order to wait.
//!
//! Responsible for its format and bounds, so that nothing that a job writes can end a session. Not responsible for whether
//! anybody can wait for that (the server judges), nor for what is resumed (`inputs.rs`).

use std::time::Duration;

use serde::Deserialize;
use tenure_proto::limits;
use tenure_proto::node::v1::{Detach, ResultBytes, WorkDetached};
use tenure_proto::v1::WaitPolicy;
use uuid::Uuid;

use super::workspace::{Found, Workspace};

/// A command that ends with this wants to wait.
pub(super) const EXIT_CODE: i32 = 79;
/// The largest wait file, in bytes: ten thousand ids and a state.
pub(super) const LARGEST: u64 = 1 << 20;
/// The longest media type, in bytes.
pub(super) const LONGEST_TYPE: usize = 255;
/// The longest wait: ten years, as long as a server takes it.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 366 * 86_400);
/// Children that one wait may name, whatever a parent may have.
pub(super) const MOST_NAMED: usize = 10_000;

/// What a command waits for, and what it wants to find again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) detach: Detach,
    pub(super) state: Option<ResultBytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    children: Vec<String>,
    #[serde(default)]
    policy: Policy,
    max_wait_s: Option<f64>,
    #[serde(default)]
    same_node: bool,
    state: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Policy {
    #[default]
    All,
    Any,
    FirstFailure,
    AtLeast(u32),
}

/// The wait file of a command that has ended; None, if there is none.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn read(workspace: &Workspace, uid: u32) -> Option<Result<Wanted, String>> {
    match workspace.read_wait(uid, LARGEST) {
        Found::Nothing => None,
        Found::Bytes(bytes) => Some(parse(&bytes)),
        Found::TooLarge { limit } => Some(Err(format!("the wait file is over {limit} bytes"))),
        // A wait file is never measured for an upload.
        Found::Large(_) => None,
        Found::Unreadable(why) => Some(Err(format!("the wait file cannot be read: {why}"))),
    }
}

/// What an attempt in a worker waits for, if a session can carry that.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn check(it: WorkDetached) -> Result<Wanted, String> {
    let WorkDetached { detach, state } = it;
    let detach = detach.ok_or("it says not for whom it waits")?;
    named(&detach.job_ids)?;
    if detach.policy == i32::from(WaitPolicy::AtLeast) && detach.at_least == 0 {
        return Err("at_least must be at least 1".to_owned());
    }
    if WaitPolicy::try_from(detach.policy).is_err() {
        return Err(format!("{} is no policy of a wait", detach.policy));
    }
    let max_wait = detach.max_wait.map(Duration::try_from).transpose();
    if max_wait.ok().is_none_or(|wait| wait.is_some_and(|wait| wait > LONGEST_WAIT)) {
        return Err("max_wait is negative, or longer than ten years".to_owned());
    }
    small_enough(state.as_ref().map(|state| state.data.len()))?;
    let typed =
        |state: &ResultBytes| state.content_type.len() <= LONGEST_TYPE && !state.content_type.contains('\0');
    if !state.as_ref().is_none_or(typed) {
        return Err("the media type of the state is none".to_owned());
    }
    Ok(Wanted { detach, state })
}

fn named(children: &[String]) -> Result<(), String> {
    if children.len() > MOST_NAMED {
        return Err(format!("{} children are named, at most {MOST_NAMED} can be", children.len()));
    }
    let Some(bad) = children.iter().find(|id| !is_job(id)) else { return Ok(()) };
    let shown: String = bad.chars().take(64).collect();
    Err(format!("{shown:?} is no id of a job"))
}

fn small_enough(state: Option<usize>) -> Result<(), String> {
    match state.filter(|&bytes| bytes > limits::INLINE_BYTES) {
        Some(bytes) => {
            Err(format!("the state has {bytes} bytes, at most {most}", most = limits::INLINE_BYTES))
        }
        None => Ok(()),
    }
}

fn parse(bytes: &[u8]) -> Result<Wanted, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| format!("the wait file: {error}"))?;
    named(&file.children).map_err(|why| format!("the wait file: {why}"))?;
    let (policy, at_least) = match file.policy {
        Policy::All => (WaitPolicy::All, 0),
        Policy::Any => (WaitPolicy::Any, 0),
        Policy::FirstFailure => (WaitPolicy::FirstFailure, 0),
        Policy::AtLeast(0) => return Err("the wait file: at_least must be at least 1".to_owned()),
        Policy::AtLeast(wanted) => (WaitPolicy::AtLeast, wanted),
    };
    let max_wait = file.max_wait_s.map(Duration::try_from_secs_f64).transpose();
    let max_wait = max_wait
        .ok()
        .filter(|wait| wait.is_none_or(|wait| wait <= LONGEST_WAIT))
        .ok_or_else(|| "the wait file: max_wait_s is negative, or longer than ten years".to_owned())?;
    let state = file.state.map(|state| state.to_string().into_bytes());
    small_enough(state.as_ref().map(Vec::len)).map_err(|why| format!("the wait file: {why}"))?;
    let content_type = "application/json".to_owned();
    Ok(Wanted {
        detach: Detach {
            job_ids: file.children,
            policy: policy.into(),
            at_least,
            max_wait: max_wait.and_then(|length| length.try_into().ok()),
            same_node: file.same_node,
        },
        state: state.map(|data| ResultBytes { data: data.into(), content_type }),
    })
}

/// One spelling only, with hyphens, as the server takes it.
fn is_job(id: &str) -> bool {
    id.len() == 36 && Uuid::try_parse(id).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01900000-0000-7000-8000-000000000001";

    #[test]
    fn a_wait_file_says_for_whom_how_and_what_to_find_again() {
        let least = parse(format!("{{\"children\": [\"{ID}\"]}}").as_bytes()).unwrap();
        assert_eq!(least.detach.job_ids, [ID]);
        assert_eq!((least.detach.policy(), least.state), (WaitPolicy::All, None));
        let text = format!(
            "{{\"children\": [\"{ID}\"], \"policy\": {{\"at_least\": 2}}, \"max_wait_s\": 1.5, \"same_node\": true, \
             \"state\": {{\"step\": 2}}}}"
        );
        let all = parse(text.as_bytes()).unwrap();
        assert_eq!((all.detach.policy(), all.detach.at_least), (WaitPolicy::AtLeast, 2));
        assert!(all.detach.same_node && all.detach.max_wait.is_some());
        assert_eq!(&all.state.unwrap().data[..], b"{\"step\":2}");
    }

    #[test]
    fn what_a_worker_waits_for_has_the_same_bounds() {
        let good = Detach { job_ids: vec![ID.to_owned()], ..Detach::default() };
        let state = |bytes, content_type: &str| {
            Some(ResultBytes { data: vec![7; bytes].into(), content_type: content_type.to_owned() })
        };
        let of = |detach: &Detach, state| check(WorkDetached { detach: Some(detach.clone()), state });
        let fine = of(&good, state(limits::INLINE_BYTES, "a/b")).unwrap();
        assert_eq!((fine.detach, fine.state.is_some()), (good.clone(), true));
        assert!(of(&good, state(limits::INLINE_BYTES + 1, "a/b")).unwrap_err().contains("262145"));
        assert!(of(&good, state(1, "a\0")).unwrap_err().contains("media type"));
        assert!(check(WorkDetached::default()).is_err());
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        for bad in [
            Detach { job_ids: vec!["x".to_owned()], ..good.clone() },
            Detach { job_ids: vec![ID.to_owned(); MOST_NAMED + 1], ..good.clone() },
            Detach { policy: WaitPolicy::AtLeast.into(), ..good.clone() },
            Detach { policy: 99, ..good.clone() },
            Detach { max_wait: seconds(-1), ..good.clone() },
            Detach { max_wait: seconds(400_000_000), ..good.clone() },
        ] {
            assert!(of(&bad, None).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_told() {
        let many = format!("{{\"children\": [{}]}}", vec![format!("\"{ID}\""); 10_001].join(","));
        let state = format!("{{\"children\": [], \"state\": \"{}\"}}", "x".repeat(limits::INLINE_BYTES));
        for (text, told) in [
            ("", "EOF"),
            ("[]", "expected struct"),
            ("{}", "children"),
            ("{\"children\": [\"x\"]}", "no id of a job"),
            ("{\"children\": [\"01900000000070008000000000000001\"]}", "no id of a job"),
            ("{\"children\": [\"urn:uuid:01900000-0000-7000-8000-000000000001\"]}", "no id of a job"),
            ("{\"children\": [], \"max_wait_s\": 316224001}", "max_wait_s"),
            ("{\"children\": [], \"policy\": \"some\"}", "some"),
            ("{\"children\": [], \"policy\": {\"at_least\": 0}}", "at least 1"),
            ("{\"children\": [], \"max_wait_s\": -1}", "max_wait_s"),
            ("{\"children\": [], \"child\": 1}", "child"),
            (&many, "10001"),
            (&state, "262144"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
