//! Single rules of starts and messages.

use super::kit::{end_with, in_flight, refused, sent_state, status_of};
use super::world::{World, send, spec, text};
use crate::{
    Reason, Timestamp,
    delivery::Answer,
    limits,
    message::{Body, Delivery},
    session::{
        Attention, Failure, Fold, Input, Launch, Link, Status,
        fold::{Accepted, Action, Command, Fact, Mode},
    },
    task::Trigger,
};

#[test]
fn s7_a_start_is_committed_before_it_is_made() {
    let mut world = World::new();
    assert_eq!(status_of(&world), Status::Unreachable);
    world.fact(Fact::Link(Link::Connected));
    assert_eq!(status_of(&world), Status::Starting);
    assert!(world.actions.is_empty());
    assert!(world.take());
    world.commit();
    assert_eq!(world.actions, [Action::Spawn { run: 1 }]);
    world.settle();
    assert_eq!(status_of(&world), Status::Running);
}

#[test]
fn s7_a_start_that_broke_off_is_asked_for_by_key() {
    let mut world = World::new();
    world.fact(Fact::Link(Link::Connected));
    world.take();
    world.commit();
    world.act(false);
    assert_eq!(world.fold.state().run.launch.value, Launch::Requested);
    world.later(200);
    assert_eq!(world.actions, [Action::AskRun { run: 1 }]);
    world.settle();
    assert_eq!(world.started, 1);
    assert_eq!(status_of(&world), Status::Running);
}

#[test]
fn s8_a_refused_start_fails_and_can_be_resumed() {
    let mut world = World::new();
    world.say("k", "hello").unwrap();
    world.fact(Fact::Link(Link::Connected));
    world.take();
    world.commit();
    world.actions.clear();
    let failure = Failure {
        reason: "CWD_MISSING".to_owned(),
        text: "no such folder".to_owned(),
    };
    world.fact(Fact::SpawnRefused { run: 1, failure });
    assert!(world.take());
    let triggers = world.taken.as_ref().unwrap().triggers.clone();
    assert_eq!(triggers, [Trigger::Failed, Trigger::Ended]);
    world.commit();
    assert_eq!(status_of(&world), Status::Failed);
    assert_eq!(world.fold.state().attention(), Attention::Error);
    assert_eq!(sent_state(&world, "k").0, Delivery::Failed);
    let resume = Command::Resume {
        client_key: "again".to_owned(),
    };
    world.fold.command(resume.clone(), world.now).unwrap();
    world.settle();
    assert_eq!((world.started, status_of(&world)), (2, Status::Running));
    let again = world.fold.command(resume, world.now).unwrap();
    assert!(matches!(again, Accepted::Session { replayed: true, .. }));
    assert_eq!(world.fold.state().run.no, 2);
}

#[test]
fn s14_a_key_is_stored_once_also_after_the_end() {
    let mut world = World::running();
    world.say("k", "hello").unwrap();
    let again = world.say("k", "hello").unwrap();
    assert!(matches!(again, Accepted::Message { replayed: true, .. }));
    let other = world.say("k", "other").unwrap();
    let Accepted::Message {
        message, replayed, ..
    } = other
    else {
        panic!("a message is answered with a message");
    };
    assert_eq!((message.body, replayed), (Body::Text("hello".into()), true));
    world.settle();
    assert_eq!(world.received.len(), 1);
    end_with(&mut world, Some(0));
    let again = world.say("k", "hello").unwrap();
    assert!(matches!(again, Accepted::Message { replayed: true, .. }));
    let fault = world.say("new", "hello").unwrap_err();
    assert_eq!(fault.reason(), Reason::RunEnded);
    assert!(fault.hint().unwrap().contains("session resume"));
}

#[test]
fn s14_the_queue_is_bounded() {
    let mut world = World::new();
    for number in 0..limits::WAITING_HUMAN_MESSAGES {
        world.say(&format!("k{number}"), "x").unwrap();
    }
    assert_eq!(refused(&mut world, send("more", "x")), Reason::QueueFull);
    let mut agent = text("agent", "x");
    agent.source = Input::Agent;
    let command = Command::Send {
        text: agent,
        mode: Mode::Queue,
        if_turn: None,
        images: 0,
    };
    world.fold.command(command, world.now).unwrap();
}

#[test]
fn s22_what_a_line_speaking_program_cannot_take_is_refused() {
    let mut world = World::running();
    let long = "x".repeat(limits::MESSAGE_TEXT_BYTES + 1);
    for (command, reason) in [
        (send("a", "two\nlines"), Reason::MultilineText),
        (send("b", &long), Reason::MessageTooLarge),
        (send("", "x"), Reason::MissingField),
        (send("c", "a\0b"), Reason::Invalid),
    ] {
        assert_eq!(refused(&mut world, command), reason);
    }
    let with = |mode, if_turn: Option<&str>, images| Command::Send {
        text: text("d", "x"),
        mode,
        if_turn: if_turn.map(str::to_owned),
        images,
    };
    for command in [
        with(Mode::AfterTurn, None, 0),
        with(Mode::Interrupt, None, 0),
        with(Mode::Queue, Some("none"), 0),
        with(Mode::Queue, None, 1),
    ] {
        assert_eq!(refused(&mut world, command), Reason::Unsupported);
    }
    let at_most = "x".repeat(limits::MESSAGE_TEXT_BYTES);
    world.say("e", &at_most).unwrap();
    assert!(Fold::start(spec(), Some(text("k", "a\nb")), Timestamp(1)).is_err());
}

#[test]
fn s17_the_next_message_waits_for_the_outcome_of_the_first() {
    let mut world = World::running();
    world.say("a", "1").unwrap();
    let second = world.say("b", "2").unwrap();
    assert!(matches!(second, Accepted::Message { position: 2, .. }));
    world.take();
    world.commit();
    assert_eq!(world.actions.len(), 1);
    let Some(Action::Deliver {
        delivery, payload, ..
    }) = world.actions.pop_front()
    else {
        panic!("no delivery");
    };
    assert_eq!(payload, b"1\n");
    for answer in [
        Answer::Retry,
        Answer::Busy,
        Answer::InFlight,
        Answer::DiskFull,
    ] {
        world.fact(Fact::Answer { delivery, answer });
        assert!(world.actions.is_empty(), "not at once");
        world.later(5_000);
        let again = world.actions.pop_front();
        assert!(matches!(again, Some(Action::Deliver { delivery: id, .. }) if id == delivery));
    }
    let answer = Answer::Delivered {
        before: 0,
        after: 0,
    };
    world.fact(Fact::Answer { delivery, answer });
    world.settle();
    assert_eq!(sent_state(&world, "a").0, Delivery::Written);
    assert_eq!(sent_state(&world, "b").0, Delivery::Written);
}

#[test]
fn s19_a_cut_off_delivery_is_judged_by_what_was_proven_unread() {
    for (written, unread, state) in [
        (0, None, Delivery::Failed),
        (2, Some(2), Delivery::Failed),
        (2, Some(1), Delivery::Unconfirmed),
        (2, None, Delivery::Unconfirmed),
    ] {
        let mut world = World::running();
        let delivery = in_flight(&mut world);
        let answer = Answer::Exited { written };
        world.fact(Fact::Answer { delivery, answer });
        world.ends(Some(1));
        world.exit.as_mut().unwrap().stdin_unread = unread;
        end_with(&mut world, Some(1));
        assert_eq!(
            sent_state(&world, "a"),
            (state, Some("RUN_ENDED".to_owned()))
        );
    }
}

#[test]
fn s20_the_end_of_stdin_fails_what_waits_and_refuses_more() {
    let mut world = World::running();
    let delivery = in_flight(&mut world);
    world.say("b", "2").unwrap();
    let answer = Answer::StdinClosed;
    world.fact(Fact::Answer { delivery, answer });
    world.settle();
    let closed = (Delivery::Failed, Some("STDIN_CLOSED".to_owned()));
    assert_eq!(sent_state(&world, "a"), closed);
    assert_eq!(sent_state(&world, "b"), closed);
    assert_eq!(refused(&mut world, send("c", "3")), Reason::StdinClosed);
}

#[test]
fn s19_a_dead_keeper_fails_only_what_it_never_began() {
    for (journal, state) in [
        (Answer::Unseen, Delivery::Failed),
        (Answer::NoKeeper, Delivery::Unconfirmed),
        (
            Answer::Delivered {
                before: 0,
                after: 0,
            },
            Delivery::Written,
        ),
    ] {
        let mut world = World::running();
        let delivery = in_flight(&mut world);
        let answer = Answer::NoKeeper;
        world.fact(Fact::Answer { delivery, answer });
        let asked = world.actions.pop_front();
        assert_eq!(asked, Some(Action::AskDelivery { run: 1, delivery }));
        world.fact(Fact::Answer {
            delivery,
            answer: journal,
        });
        world.take();
        world.commit();
        assert_eq!(sent_state(&world, "a").0, state);
    }
}

#[test]
fn r7_keys_that_were_answered_are_not_remembered_without_end() {
    let mut world = World::running();
    let big = "x".repeat(limits::MESSAGE_TEXT_BYTES);
    for number in 0..10 {
        world.say(&format!("big{number}"), &big).unwrap();
        world.settle();
    }
    assert!(!world.fold.knows("big0"));
    assert!(world.fold.knows("big9"));
    // Replays of what the store has, without any commit.
    for number in 0..10 {
        let again = world.say(&format!("big{number}"), &big).unwrap();
        assert!(matches!(again, Accepted::Message { replayed: true, .. }));
    }
    let known = (0..10).filter(|number| world.fold.knows(&format!("big{number}")));
    assert!(known.count() <= 4);
    assert_eq!(world.received.len(), 10);
}

#[test]
fn s7_a_start_that_waits_for_its_commit_is_not_asked_for() {
    let mut world = World::running();
    end_with(&mut world, Some(0));
    let client_key = "again".to_owned();
    world.ask(Command::Resume { client_key }).unwrap();
    // The link comes back and time passes while the store is slow, and somebody stops it.
    world.fact(Fact::Link(Link::Unreachable));
    world.fact(Fact::Link(Link::Connected));
    world.later(10_000);
    world.ask(Command::Stop { survivors: false }).unwrap();
    let asked = |action: &Action| matches!(action, Action::AskRun { .. });
    assert!(!world.actions.iter().any(asked), "{:?}", world.actions);
    world.settle_all();
    // It was started after the commit, so it is stopped as what runs is.
    assert_eq!((world.started, status_of(&world)), (2, Status::Stopped));
    assert!(world.exit.is_some_and(|exit| exit.stop_requested));
}
