//! The environment of a command: what the agent sets, what the node file names, and nothing else.
//!
//! Responsible for every variable that a job sees. Not responsible for the shim's own tag.
//!
//! Invariant: nothing of the payload, and nothing of the agent's environment that the kind does not name.

use std::path::Path;
use std::time::Duration;

use tenure_proto::node::v1::Grant;

use super::indexes::{self, Assigned};
use super::inputs::Inputs;
use super::socket::Socket;
use super::workspace::Workspace;
use crate::config::{Account, Kind};

/// All variables. A later one of the same name wins, and the agent's own come last.
pub(super) fn build(
    grant: &Grant,
    kind: &Kind,
    account: &Account,
    (workspace, assigned): (&Workspace, &Assigned),
    own: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = vec![
        ("PATH".to_owned(), kind.path().to_owned()),
        ("HOME".to_owned(), text(&account.home)),
        ("USER".to_owned(), account.name.clone()),
        ("LOGNAME".to_owned(), account.name.clone()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
    ];
    let mut set = |name: &str, value: String| {
        variables.retain(|(other, _)| other != name);
        variables.push((name.to_owned(), value));
    };
    for name in &kind.env_from {
        if let Some(value) = own(name) {
            set(name, value);
        }
    }
    for (name, value) in &kind.env {
        set(name, value.clone());
    }
    set("TENURE_JOB_ID", grant.job_id.clone());
    set("TENURE_KIND", grant.kind.clone());
    set("TENURE_ATTEMPT", grant.attempt.to_string());
    set("TENURE_IDEMPOTENCY_KEY", grant.idempotency_key.clone());
    set("TENURE_FENCE", grant.token.to_string());
    set("TENURE_TENANT", grant.tenant.clone());
    set("TENURE_RESULT", text(&workspace.result()));
    set("TENURE_WORKDIR", text(&workspace.work()));
    if let Some(limit) = grant.soft_time_limit.and_then(|limit| Duration::try_from(limit).ok()) {
        set("TENURE_SOFT_DEADLINE_S", limit.as_secs_f64().to_string());
    }
    if grant.checkpoint.is_some() {
        set("TENURE_CHECKPOINT", text(&workspace.checkpoint_before()));
    }
    if grant.partial.is_some() {
        set("TENURE_PARTIAL_RESULT", text(&workspace.partial_before()));
    }
    for (slot, numbers) in assigned {
        set(&indexes::variable(slot), indexes::value(numbers));
    }
    if !grant.parent_id.is_empty() {
        set("TENURE_PARENT_ID", grant.parent_id.clone());
    }
    if !grant.traceparent.is_empty() {
        set("TRACEPARENT", grant.traceparent.clone());
        if !grant.tracestate.is_empty() {
            set("TRACESTATE", grant.tracestate.clone());
        }
    }
    variables
}

/// How the command speaks with its agent, and what it goes on from.
pub(super) fn of_socket(workspace: &Workspace, inputs: Option<&Inputs>) -> Vec<(String, String)> {
    let set = |name: &str, path: &Path| (name.to_owned(), path.to_string_lossy().into_owned());
    let mut variables =
        vec![set("TENURE_SOCKET", &Socket::path(workspace.dir())), set("TENURE_WAIT", &workspace.wait())];
    if let Some(inputs) = inputs {
        variables.push(set("TENURE_CHILD_RESULTS", &inputs.results));
        variables.extend(inputs.state.as_ref().map(|state| set("TENURE_RESUME_STATE", state)));
    }
    variables
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{NodeFile, Overrides};

    #[test]
    fn a_job_sees_what_the_agent_and_its_kind_set_and_nothing_else() {
        let text = "name = \"a\"\nserver = \"http://127.0.0.1:1\"\nallow_root = true\n[kinds.qa]\ncommand = [\"sh\"]\n\
            env = { PATH = \"/opt/bin\", MODE = \"x\" }\nenv_from = [\"TOKEN\", \"UNSET\"]\n";
        let file = NodeFile::parse(text, Path::new("node.toml")).unwrap();
        let config = file.validate(Overrides { data: Some("/tmp".into()), ..Overrides::default() }).unwrap();
        let grant = Grant {
            job_id: "j".to_owned(),
            token: 9,
            kind: "qa".to_owned(),
            attempt: 2,
            idempotency_key: "key".to_owned(),
            tenant: "t".to_owned(),
            payload: "secret".into(),
            soft_time_limit: Some(prost_types::Duration { seconds: 90, nanos: 500_000_000 }),
            checkpoint: Some(tenure_proto::node::v1::Checkpoint { data: "8 of 12".into() }),
            partial: Some(tenure_proto::node::v1::ResultBytes::default()),
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            tracestate: "rojo=1".to_owned(),
            ..Grant::default()
        };
        let account =
            Account { name: "qa".to_owned(), uid: 1, gid: 1, groups: vec![], home: "/home/qa".into() };
        let own = BTreeMap::from([("TOKEN", "from the agent"), ("HOME", "not this"), ("SECRET", "nor this")]);
        let workspace = Workspace::new(Path::new("/attempts"), 9);
        let assigned = BTreeMap::from([("gpu.a".to_owned(), vec![0, 2])]);
        let variables = build(&grant, &config.kinds["qa"], &account, (&workspace, &assigned), |name| {
            own.get(name).map(|&value| value.to_owned())
        });
        let lines: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "HOME=/home/qa",
                "USER=qa",
                "LOGNAME=qa",
                "LANG=C.UTF-8",
                "TOKEN=from the agent",
                "MODE=x",
                "PATH=/opt/bin",
                "TENURE_JOB_ID=j",
                "TENURE_KIND=qa",
                "TENURE_ATTEMPT=2",
                "TENURE_IDEMPOTENCY_KEY=key",
                "TENURE_FENCE=9",
                "TENURE_TENANT=t",
                "TENURE_RESULT=/attempts/9/io/result",
                "TENURE_WORKDIR=/attempts/9/work",
                "TENURE_SOFT_DEADLINE_S=90.5",
                "TENURE_CHECKPOINT=/attempts/9/before.checkpoint",
                "TENURE_PARTIAL_RESULT=/attempts/9/before.partial",
                "TENURE_SLOT_gpu_a=0,2",
                "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "TRACESTATE=rojo=1",
            ]
        );
    }
}
