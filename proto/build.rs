//! Compiles the contracts with protox (no protoc on the machine is needed).

use std::path::PathBuf;

use prost::Message as _;

const FILES: &[&str] = &[
    "muster/keeper/v1/keeper.proto",
    "muster/agent/v1/host_service.proto",
    "muster/agent/v1/files_service.proto",
    "muster/agent/v1/tails_service.proto",
    "muster/agent/v1/pipes_service.proto",
    "muster/agent/v1/processes_service.proto",
    "muster/agent/v1/exec_service.proto",
    "muster/agent/v1/git_service.proto",
    "muster/v1/system_service.proto",
    "muster/v1/tasks_service.proto",
    "muster/v1/sessions_service.proto",
    "muster/v1/messages_service.proto",
    "muster/v1/interactions_service.proto",
    "muster/v1/hosts_service.proto",
    "muster/v1/files_service.proto",
    "muster/v1/feed_service.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=muster");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("muster.binpb"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .bytes(".")
        // They hold values of environments: printed without them, see `secrets`.
        .skip_debug([
            "muster.agent.v1.EnvVar",
            "muster.keeper.v1.EnvVar",
            "muster.v1.StartSessionRequest",
        ])
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}
