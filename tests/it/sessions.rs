//! Sessions over their life: messages, waiting, control, resume, and what the commands say about them.

mod commands;
mod control;
mod messages;
mod output;
mod truth;

use muster_e2e::{World, eventually};

/// A session that notes and answers messages; its id.
fn serving(world: &World) -> String {
    let log = world.root().join("messages");
    world.detached([
        world.program(),
        "log",
        log.to_str().unwrap(),
        "print",
        "ready",
        "serve",
    ])
}

/// Waits until the raw output contains `text`.
fn await_tail(world: &World, id: &str, text: &str) -> String {
    eventually(&format!("the output contains {text:?}"), || {
        let output = world
            .muster(["tail", id, "--raw", "--from", "start"])
            .output()
            .ok()
            .text();
        output.contains(text).then_some(output)
    })
}
