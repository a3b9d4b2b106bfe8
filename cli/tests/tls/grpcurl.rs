//! The real grpcurl over mutual TLS, as docs/operating.md has it.

use std::process::Output;

use tenure_tls::{Files, Role};
use tokio::process::Command;

use crate::home::{Home, SERVER, SOON, Served, TLS};

/// `TENURE_GRPCURL`, which scripts/test sets; else the one on the PATH.
async fn grpcurl(home: &Home, served: &Served, files: &Files, args: &[&str]) -> Output {
    let program = std::env::var_os("TENURE_GRPCURL").unwrap_or_else(|| "grpcurl".into());
    let own = files.own.as_ref().expect("a certificate");
    let mut command = Command::new(program);
    command.current_dir(home.path(".")).arg("-cacert").arg(&files.ca);
    command.arg("-cert").arg(&own.cert).arg("-key").arg(&own.key);
    // Flags come before the address, and what is called behind it.
    let (flags, call) =
        args.split_at(args.iter().position(|arg| !arg.starts_with('-')).unwrap_or(args.len()));
    command.args(flags).arg(served.address()).args(call).kill_on_drop(true);
    tokio::time::timeout(SOON, command.output())
        .await
        .expect("in time")
        .expect("scripts/test installs grpcurl")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[tokio::test]
async fn an_operator_lists_a_producer_enqueues_and_may_not_drain() {
    let home = Home::new();
    let served = home.serve(&format!("{SERVER}{TLS}")).await;
    let (operator, producer) = (home.leaf(Role::Operator, "op"), home.leaf(Role::Producer, "web"));
    home.write("fleet.toml", "[kinds.\"page\"]\n");
    let (code, words) = home.call(&served.grpc, &operator, &["apply", "fleet.toml"]).await;
    assert_eq!(code, Some(0), "{words}");

    let listed = text(&grpcurl(&home, &served, &operator, &["list"]).await);
    assert!(listed.contains("tenure.v1.JobService"), "{listed}");
    let refused = text(&grpcurl(&home, &served, &producer, &["list"]).await);
    assert!(refused.contains("producer web may not call ServerReflectionInfo"), "{refused}");

    // Whoever may not ask for the descriptors is handed them in a file.
    let out = ["-protoset-out=tenure.protoset", "describe", "tenure.v1.JobService"];
    let described = grpcurl(&home, &served, &operator, &out).await;
    assert!(described.status.success(), "{}", text(&described));
    let out = ["-protoset-out=fleet.protoset", "describe", "tenure.v1.FleetService"];
    assert!(grpcurl(&home, &served, &operator, &out).await.status.success());

    let job =
        ["-protoset=tenure.protoset", "-d={\"job\":{\"kind\":\"page\"}}", "tenure.v1.JobService/Enqueue"];
    let enqueued = grpcurl(&home, &served, &producer, &job).await;
    let words = text(&enqueued);
    assert!(enqueued.status.success() && words.contains("\"producer\": \"web\""), "{words}");

    let drain = ["-protoset=fleet.protoset", "-d={\"node\":\"n1\"}", "tenure.v1.FleetService/DrainNode"];
    let refused = grpcurl(&home, &served, &producer, &drain).await;
    let words = text(&refused);
    assert!(!refused.status.success() && words.contains("PermissionDenied"), "{words}");
    assert!(words.contains("producer web may not call DrainNode: it is for operator, admin"), "{words}");
    served.process.end().await;
}
