//! The wait file: what a command waits for that has ended in order to wait.
//!
//! Responsible for its format and bounds, so that nothing that a job writes can end a session. Not responsible for whether
//! anybody can wait for that (the server judges), nor for what is resumed (`inputs.rs`).

use std::time::Duration;

use serde::Deserialize;
use tenure_proto::node::v1::{Detach, ResultBytes};
use tenure_proto::v1::WaitPolicy;
use uuid::Uuid;

use super::workspace::{Found, Workspace};

/// A command that ends with this wants to wait.
pub(super) const EXIT_CODE: i32 = 79;
/// The largest wait file, in bytes: ten thousand ids and a state.
pub(super) const LARGEST: u64 = 1 << 20;
/// The largest state, in bytes.
const LARGEST_STATE: usize = 256 * 1024;
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

fn parse(bytes: &[u8]) -> Result<Wanted, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| format!("the wait file: {error}"))?;
    if file.children.len() > MOST_NAMED {
        return Err(format!(
            "the wait file names {} children, at most {MOST_NAMED} can be",
            file.children.len()
        ));
    }
    if let Some(bad) = file.children.iter().find(|id| !is_job(id)) {
        let shown: String = bad.chars().take(64).collect();
        return Err(format!("the wait file: {shown:?} is no id of a job"));
    }
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
    if let Some(large) = state.as_ref().filter(|state| state.len() > LARGEST_STATE) {
        return Err(format!("the wait file: the state has {} bytes, at most {LARGEST_STATE}", large.len()));
    }
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
    fn what_cannot_be_meant_is_told() {
        let many = format!("{{\"children\": [{}]}}", vec![format!("\"{ID}\""); 10_001].join(","));
        let state = format!("{{\"children\": [], \"state\": \"{}\"}}", "x".repeat(LARGEST_STATE));
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
