//! The committed generated code is what the `.proto` files say. `TENURE_REGENERATE=1` writes it anew.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost::Message;

const FILES: [&str; 11] = [
    "tenure/v1/job.proto",
    "tenure/v1/job_service.proto",
    "tenure/v1/fleet_service.proto",
    "tenure/v1/health_service.proto",
    "tenure/v1/admin_service.proto",
    "tenure/v1/inbox_service.proto",
    "tenure/v1/workflow_service.proto",
    "tenure/node/v1/session.proto",
    "tenure/node/v1/node_service.proto",
    "tenure/node/v1/attempt_service.proto",
    "tenure/node/v1/worker_service.proto",
];

#[test]
fn generated_code_matches_the_proto_files() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("gen-{}", std::process::id()));
    fs::create_dir_all(&fresh).expect("a directory to generate into");
    generate(&root, &fresh);

    let committed = root.join("src/gen");
    if std::env::var_os("TENURE_REGENERATE").is_some() {
        fs::create_dir_all(&committed).expect("src/gen");
        for name in names(&fresh) {
            fs::copy(fresh.join(&name), committed.join(&name)).expect("copy generated code");
        }
    }
    let (want, have) = (names(&fresh), names(&committed));
    for name in &want {
        let same = fs::read(fresh.join(name)).ok() == fs::read(committed.join(name)).ok();
        assert!(same, "src/gen/{name} is out of date: run scripts/fix");
    }
    fs::remove_dir_all(&fresh).expect("remove the generated copy");
    assert_eq!(want, have, "src/gen holds files that nothing generates");
}

fn generate(root: &Path, out: &Path) {
    let set = protox::compile(FILES, [root]).expect("the .proto files compile");
    fs::write(out.join("descriptor.bin"), set.encode_to_vec()).expect("write the descriptor set");
    tonic_prost_build::configure()
        .build_transport(true)
        .codec_path("crate::codec::LeanCodec")
        .bytes(".")
        .btree_map(".")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .out_dir(out)
        .compile_fds(set)
        .expect("code generation");
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}
