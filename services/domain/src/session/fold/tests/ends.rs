//! Single rules of ends, links, statuses and what is shown.

use std::time::Duration;

use super::kit::{end_with, in_flight, refused, sent_state, status_of};
use super::world::{World, send};
use crate::{
    Reason, Timestamp,
    delivery::Answer,
    feed::Change,
    limits,
    message::Delivery,
    session::{
        Attention, Link, LostReason, Offer, Outcome, Process, Status,
        explain::{Refusal, explain},
        fold::{Accepted, Action, Command, Fact},
        offers, status,
    },
};

#[test]
fn s29_the_end_is_judged_when_everything_was_read() {
    for (code, outcome, word) in [
        (Some(0), Outcome::Completed, Status::Exited),
        (Some(3), Outcome::Failed, Status::Failed),
        (None, Outcome::Unknown, Status::Lost),
    ] {
        let mut world = World::running();
        world.stream = b"last words".to_vec();
        world.ends(code);
        let report = world.report();
        world.fact(Fact::Report(Box::new(report)));
        world.settle();
        assert_eq!(status_of(&world), Status::Running);
        let (_, refusals) = explain(world.fold.state(), world.now);
        assert!(refusals.contains(&Refusal::StreamNotRead));
        world.settle_all();
        assert_eq!(world.fold.state().outcome(), Some(outcome));
        assert_eq!(status_of(&world), word);
        assert_eq!(world.store.output()[0].1, "last words");
        assert!(world.fold.is_settled());
    }
}

#[test]
fn s29_a_requested_stop_reads_as_stopped_and_holds_the_queue() {
    let mut world = World::running();
    let delivery = in_flight(&mut world);
    world.say("b", "2").unwrap();
    let stop = Command::Stop { survivors: false };
    world.fold.command(stop.clone(), world.now).unwrap();
    assert_eq!(refused(&mut world, send("c", "3")), Reason::RunEnded);
    let answer = Answer::Delivered {
        before: 0,
        after: 0,
    };
    world.fact(Fact::Answer { delivery, answer });
    world.settle_all();
    assert_eq!(status_of(&world), Status::Stopped);
    assert_eq!(sent_state(&world, "a").0, Delivery::Written);
    assert_eq!(sent_state(&world, "b").0, Delivery::Failed);
    let again = world.fold.command(stop, world.now).unwrap();
    assert!(matches!(
        again,
        Accepted::Session {
            already_ended: true,
            ..
        }
    ));
}

#[test]
fn s29_a_restarted_host_is_lost_boot() {
    let mut world = World::running();
    world.stream = b"abc".to_vec();
    let mut report = world.report();
    report.process = Some(Process::Lost(LostReason::Boot));
    world.fact(Fact::Report(Box::new(report)));
    assert!(!world.fold.state().is_over());
    world.tail(10);
    assert_eq!(
        world.fold.state().run.process.value,
        Process::Lost(LostReason::Boot)
    );
    assert_eq!(status_of(&world), Status::Lost);
}

#[test]
fn s31_a_link_that_is_down_says_nothing_about_the_process() {
    let mut world = World::running();
    let before = world.fold.state().clone();
    world.fact(Fact::Link(Link::Suspect));
    assert_eq!(status_of(&world), Status::Running);
    world.fact(Fact::Link(Link::Unreachable));
    assert_eq!(status_of(&world), Status::Unreachable);
    world.settle();
    let stored = world.store.state.clone().unwrap();
    assert_eq!(stored.run.process.value, Process::Unknown);
    assert_eq!(stored.turn, before.turn);
    world.later(3_600_000);
    world.say("k", "it waits").unwrap();
    let stop = Command::Stop { survivors: false };
    assert_eq!(refused(&mut world, stop), Reason::HostUnreachable);
    world.settle();
    assert!(world.received.is_empty());
    world.fact(Fact::Link(Link::Connected));
    assert_eq!(
        status_of(&world),
        Status::Unreachable,
        "not before it is reported"
    );
    world.later(1_000);
    world.settle();
    assert_eq!(status_of(&world), Status::Running);
    assert_eq!(world.received.len(), 1);
}

#[test]
fn s35_a_restart_writes_nothing_when_nothing_changed() {
    let mut world = World::running();
    let before = world.store.state.clone().unwrap();
    world.later(1_000);
    world.restart(false);
    assert_eq!(status_of(&world), Status::Unreachable);
    world.fact(Fact::Link(Link::Connected));
    world.settle();
    assert_eq!(world.store.state.as_ref(), Some(&before));
    assert_eq!(world.fold.state().run, before.run);
}

#[test]
fn s35_a_host_that_stays_away_is_written_down() {
    let mut world = World::running();
    world.restart(false);
    assert!(!world.take());
    world.later(5_000);
    world.settle();
    let stored = world.store.state.clone().unwrap();
    assert_eq!(stored.run.process.value, Process::Unknown);
    assert_eq!(stored.link.value, Link::Connecting);
}

#[test]
fn s32_a_silent_turn_is_stalled_and_told_once() {
    let mut world = World::running();
    let due = world.fold.next_wakeup().unwrap();
    world.now = due;
    world.fact(Fact::Tick);
    assert_eq!(status_of(&world), Status::Stalled);
    assert!(world.take());
    let events = &world.taken.as_ref().unwrap().changeset.events;
    assert!(matches!(events[..], [ref e] if matches!(e.change, Change::Session(_))));
    world.commit();
    assert_eq!(world.fold.next_wakeup(), None);
    world.stream = b"x".to_vec();
    world.tail(1);
    assert_eq!(status_of(&world), Status::Running);
}

#[test]
fn s33_a_vanished_folder_is_orphaned() {
    let mut world = World::running();
    let mut report = world.report();
    report.cwd_exists = false;
    world.fact(Fact::Report(Box::new(report)));
    assert_eq!(status_of(&world), Status::Orphaned);
    assert!(world.take());
}

#[test]
fn s39_an_interrupt_is_a_signal_after_the_commit() {
    let mut world = World::running();
    world.fold.command(Command::Interrupt, world.now).unwrap();
    assert!(world.fold.take_actions().is_empty());
    world.take();
    world.commit();
    assert_eq!(world.actions, [Action::Signal { run: 1, signal: 2 }]);
    world.actions.clear();
    world.later(6_000);
    let (_, refusals) = explain(world.fold.state(), world.now);
    assert!(refusals.contains(&Refusal::InterruptWithoutEffect));
}

#[test]
fn s39_an_interrupt_without_effect_offers_a_stop_until_the_end() {
    let mut world = World::running();
    let offered = |world: &World| offers(world.fold.state(), world.now);
    world.fold.command(Command::Interrupt, world.now).unwrap();
    world.take();
    world.commit();
    world.later(4_999);
    assert_eq!(offered(&world), []);
    assert!(!world.take(), "nothing is told before its time");
    let due = world.now.plus(std::time::Duration::from_millis(1));
    assert_eq!(world.fold.next_wakeup(), Some(due));
    world.later(1);
    assert_eq!(offered(&world), [Offer::Stop]);
    assert!(world.take(), "subscribers are told");
    world.commit();
    // What it prints proves nothing.
    world.stream = b"x".to_vec();
    world.tail(1);
    assert_eq!(offered(&world), [Offer::Stop]);
    world.restart(true);
    world.fact(Fact::Link(Link::Connected));
    world.settle();
    assert_eq!(offered(&world), [Offer::Stop]);
    world.actions.clear();
    end_with(&mut world, Some(130));
    assert_eq!(offered(&world), []);
    assert_eq!(status_of(&world), Status::Stopped, "it ended as asked");
}

#[test]
fn s22_a_program_that_ends_of_an_interrupt_was_asked_to() {
    let ended = |interrupted: bool, code: i32| {
        let mut world = World::running();
        if interrupted {
            world.fold.command(Command::Interrupt, world.now).unwrap();
        }
        end_with(&mut world, Some(code));
        status_of(&world)
    };
    assert_eq!(ended(true, 130), Status::Stopped);
    assert_eq!(ended(true, 0), Status::Exited);
    assert_eq!(ended(true, 1), Status::Failed);
    assert_eq!(ended(false, 130), Status::Failed);
}

#[test]
fn s39_what_is_being_stopped_is_not_offered_a_stop() {
    let mut world = World::running();
    world.fold.command(Command::Interrupt, world.now).unwrap();
    let stop = Command::Stop { survivors: false };
    world.fold.command(stop, world.now).unwrap();
    world.settle();
    assert_eq!(
        offers(
            world.fold.state(),
            world.now.plus(crate::limits::STALLED_AFTER)
        ),
        []
    );
}

#[test]
fn s40_a_stop_says_how_many_messages_wait() {
    let mut world = World::running();
    in_flight(&mut world);
    world.say("b", "2").unwrap();
    world.say("c", "3").unwrap();
    let stop = Command::Stop { survivors: false };
    let told = world.fold.command(stop, world.now).unwrap();
    assert!(
        matches!(told, Accepted::Session { unwritten: 3, .. }),
        "{told:?}"
    );
}

#[test]
fn cancel_takes_back_what_waits_and_nothing_else() {
    let mut world = World::running();
    in_flight(&mut world);
    let id = |accepted| match accepted {
        Accepted::Message { message, .. } => message.id,
        Accepted::Session { .. } => panic!("no message"),
    };
    let first = id(world.say("a", "1").unwrap());
    let second = id(world.say("b", "2").unwrap());
    let cancel = |message| Command::Cancel { message };
    assert_eq!(refused(&mut world, cancel(first)), Reason::AlreadyWritten);
    let taken = world.fold.command(cancel(second), world.now).unwrap();
    assert!(matches!(
        taken,
        Accepted::Message {
            replayed: false,
            ..
        }
    ));
    world.fold.command(cancel(second), world.now).unwrap();
    world.settle();
    assert_eq!(sent_state(&world, "b").0, Delivery::Cancelled);
}

#[test]
fn f16_growth_is_shown_at_once_then_ten_times_a_second() {
    let mut world = World::running();
    let mut shown = 0;
    let mut text = String::new();
    for _ in 0..30_000 {
        world.stream.push(b'z');
        world.tail(1);
        if let Some(preview) = world.fold.take_preview(world.now) {
            shown += 1;
            text.truncate(usize::try_from(preview.from).unwrap());
            text.push_str(&preview.text);
        }
        world.now = Timestamp(world.now.0 + 10);
        if world.take() {
            world.commit();
        }
    }
    assert!((2..=5).contains(&shown), "{shown}");
    world.settle();
    world.later(2_000);
    world.settle();
    assert_eq!(world.store.output()[0].1.len(), 30_000);
    assert_eq!(text, "z".repeat(text.len()));
}

#[test]
fn f16_the_first_piece_of_a_message_is_committed_at_once() {
    let mut world = World::running();
    world.stream = b"x".to_vec();
    world.tail(1);
    assert!(world.take(), "subscribers are told of the message now");
    assert_eq!(world.taken.clone().unwrap().changeset.chunks[0].text, "x");
}

#[test]
fn f17_growth_is_committed_once_a_second() {
    let mut world = World::running();
    world.stream = b"wx".to_vec();
    world.tail(1);
    assert!(world.take());
    world.commit();
    world.tail(1);
    assert!(!world.take());
    let due = world.now.plus(limits::FLUSH_AFTER);
    world.fold.take_preview(world.now);
    assert_eq!(world.fold.next_wakeup(), Some(due));
    world.now = due;
    assert!(world.take());
    let changeset = world.taken.clone().unwrap().changeset;
    assert_eq!(changeset.chunks[0].text, "x");
    let row = changeset.session.unwrap().row;
    assert_eq!(row.run.consumed, 2, "text and cursor in one commit (R2)");
    world.commit();
    assert_eq!(world.fold.growth(), None);
    assert_eq!(world.now.since(due), Duration::ZERO);
}

#[test]
fn r12_events_have_names_of_the_environment_and_no_values() {
    let mut world = World::new();
    world.take();
    let commit = world.taken.as_ref().unwrap();
    let row = &commit.changeset.session.as_ref().unwrap().row;
    assert_eq!(row.spec.env["TOKEN"], "secret");
    let shown = commit.changeset.events.iter().find_map(|event| {
        let Change::Session(state) = &event.change else {
            return None;
        };
        Some(state)
    });
    assert_eq!(shown.unwrap().spec.env["TOKEN"], "");
}

#[test]
fn s28_lost_bytes_are_damage_and_not_silence() {
    let mut world = World::running();
    let bytes = |offset, text: &str| Fact::Bytes {
        run: 1,
        offset,
        bytes: text.as_bytes().to_vec(),
        next: Vec::new(),
    };
    world.fact(bytes(0, "abc"));
    world.fact(bytes(10, "too early"));
    let detach = Action::Detach { run: 1 };
    assert!(world.actions.contains(&detach), "asked for again, not lost");
    world.fact(Fact::Gap { run: 1, from: 3 });
    world.fact(bytes(10, "xyz"));
    assert_eq!(world.fold.state().run.consumed, 13);
    assert!(world.fold.state().run.damage.is_some());
    world.settle();
    world.later(2_000);
    world.settle();
    let texts: Vec<_> = world
        .store
        .output()
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(texts, ["abc", "xyz"]);
}

#[test]
fn s5_the_first_of_several_words_is_shown() {
    let world = World::running();
    let now = world.now;
    let word = |change: &dyn Fn(&mut crate::session::State), attention| {
        let mut state = world.fold.state().clone();
        change(&mut state);
        status(&state, attention, now).0
    };
    let none = Attention::None;
    assert_eq!(word(&|_| {}, none), Status::Running);
    assert_eq!(
        word(&|_| {}, Attention::Permission),
        Status::WaitingPermission
    );
    assert_eq!(word(&|_| {}, Attention::Question), Status::WaitingQuestion);
    assert_eq!(word(&|_| {}, Attention::Plan), Status::WaitingPlan);
    let orphaned = |state: &mut crate::session::State| state.run.cwd_exists = false;
    assert_eq!(word(&orphaned, Attention::Permission), Status::Orphaned);
    let away = |state: &mut crate::session::State| {
        orphaned(state);
        state.link.value = Link::Unreachable;
    };
    assert_eq!(word(&away, Attention::Permission), Status::Unreachable);
    let lost = |state: &mut crate::session::State| {
        away(state);
        state.run.process.value = Process::Lost(LostReason::Keeper);
    };
    assert_eq!(word(&lost, none), Status::Lost);
    let ended = |state: &mut crate::session::State| {
        away(state);
        state.run.process.value = Process::Exited;
    };
    assert_eq!(word(&ended, none), Status::Exited);
    let silent = |state: &mut crate::session::State| {
        state.last_activity = Timestamp(-limits::STALLED_AFTER.as_micros().try_into().unwrap_or(0));
        state.run.process.at = state.last_activity;
    };
    assert_eq!(word(&silent, none), Status::Stalled);
    assert_eq!(word(&silent, Attention::Plan), Status::WaitingPlan);
}
