//! What tests of single rules share.

use super::world::World;
use crate::{
    Reason, Timestamp,
    message::Delivery,
    session::{
        Attention, Link, Source, State, Status,
        fold::{Action, Command, Fact},
        status,
    },
};

pub(super) fn status_of(world: &World) -> Status {
    status(world.fold.state(), Attention::None, world.now).0
}

pub(super) fn refused(world: &mut World, command: Command) -> Reason {
    world.fold.command(command, world.now).unwrap_err().reason()
}

pub(super) fn sent_state(world: &World, key: &str) -> (Delivery, Option<String>) {
    let said = world.store.said();
    let message = said
        .iter()
        .find(|m| m.sent.as_ref().unwrap().client_key == key);
    let sent = message.unwrap().sent.clone().unwrap();
    (sent.state, sent.reason)
}

pub(super) fn end_with(world: &mut World, code: Option<i32>) {
    world.ends(code);
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    world.settle_all();
}

/// The delivery of `a`, called and not answered.
pub(super) fn in_flight(world: &mut World) -> crate::DeliveryId {
    world.say("a", "1").unwrap();
    world.take();
    world.commit();
    let Some(Action::Deliver { delivery, .. }) = world.actions.pop_front() else {
        panic!("no delivery");
    };
    delivery
}

/// The state without what differs from run to run: times, versions, the resume point.
pub(super) fn timeless(state: &State) -> State {
    let mut state = state.clone();
    let zero = Timestamp(0);
    state.version = 0;
    state.last_activity = zero;
    // The link of an ended session is of no interest, and is not written.
    state.link = crate::session::Observed::new(Link::Connected, Source::Link, zero, "");
    state.run.launch.at = zero;
    state.run.process.at = zero;
    state.run.cursor.clear();
    if let Some(turn) = &mut state.turn {
        turn.began_at = zero;
        turn.ended_at = None;
        if let Some(outcome) = &mut turn.outcome {
            outcome.at = zero;
        }
    }
    state
}
