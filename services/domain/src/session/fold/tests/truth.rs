//! What is said about an end is true, and nothing is said without evidence.

use super::kit::{end_with, in_flight, refused, sent_state, status_of};
use super::world::{World, send};
use crate::{
    Reason,
    delivery::Answer,
    message::{Delivery, Message},
    session::{
        Damage, Identity, LostReason, Outcome, Process, RunReport, Status,
        explain::{Refusal, explain},
        fold::{Action, Command, Fact},
    },
};

const STOP: Command = Command::Stop { survivors: false };

fn who(pid: i32) -> Identity {
    Identity {
        boot: "boot".to_owned(),
        pid,
        ticks: 7,
    }
}

fn facts(world: &World) -> Vec<(&'static str, String, String)> {
    let (facts, _) = explain(world.fold.state(), world.now);
    let named = facts.into_iter();
    named
        .map(|fact| (fact.name, fact.value, fact.rule))
        .collect()
}

fn has_fact(world: &World, name: &str, value: &str) -> bool {
    facts(world)
        .iter()
        .any(|(other, said, _)| *other == name && said == value)
}

fn message(world: &World, key: &str) -> Message {
    let said = world.store.said();
    let found = said
        .into_iter()
        .find(|message| message.sent.as_ref().unwrap().client_key == key);
    found.unwrap()
}

fn text_of(world: &World, key: &str) -> String {
    message(world, key).sent.unwrap().text.unwrap_or_default()
}

/// The folder of the run is gone; a process of it lives.
fn without_folder(world: &World) -> RunReport {
    RunReport {
        identity: Some(who(44)),
        folder_missing: true,
        stream_size: 0,
        ..world.report()
    }
}

#[test]
fn s29_a_session_is_not_stopped_before_its_exit_record_is_there() {
    let mut world = World::running();
    world.fold.command(STOP, world.now).unwrap();
    world.take();
    world.commit();
    // The ladder is at work; the host sees the run alive until the record is written.
    world.actions.clear();
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    assert_eq!(status_of(&world), Status::Running);
    assert!(world.fold.state().is_stopping());
    let (_, refusals) = explain(world.fold.state(), world.now);
    assert!(refusals.contains(&Refusal::StopUnfinished));
    world.ends(None);
    world.exit.as_mut().unwrap().stop_requested = true;
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    world.settle_all();
    assert_eq!(status_of(&world), Status::Stopped);
}

#[test]
fn s33_survivors_are_those_that_live_by_the_latest_report() {
    let mut world = World::running();
    world.ends(Some(0));
    world.exit.as_mut().unwrap().survivors = vec![who(44), who(45)];
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    world.settle_all();
    assert!(world.fold.state().is_over());
    assert_eq!(world.fold.state().run.survivors(), [who(44), who(45)]);
    assert!(!world.fold.is_settled(), "they may end");
    assert!(has_fact(&world, "survivors", "44 45"));
    let left = |survivors: Vec<Identity>, world: &World| RunReport {
        survivors: Some(survivors),
        ..world.report()
    };
    let report = left(vec![who(45)], &world);
    world.fact(Fact::Report(Box::new(report)));
    world.settle();
    let stored = world.store.state.clone().unwrap();
    assert_eq!(stored.run.survivors(), [who(45)]);
    // A restart asks for them, as they may have ended meanwhile.
    world.restart(false);
    assert!(matches!(
        world.actions.front(),
        Some(Action::AskRun { run: 1 })
    ));
    world.actions.clear();
    let report = left(vec![], &world);
    world.fact(Fact::Report(Box::new(report)));
    world.settle();
    assert_eq!(world.fold.state().run.survivors(), []);
    assert!(world.fold.is_settled());
    assert_eq!(status_of(&world), Status::Exited);
    world.ask(Command::Stop { survivors: true }).unwrap();
    assert!(world.actions.is_empty(), "nobody is left to be ended");
}

#[test]
fn r5_a_run_folder_that_goes_under_a_living_process_ends_nothing() {
    let mut world = World::running();
    let report = without_folder(&world);
    world.fact(Fact::Report(Box::new(report)));
    world.settle();
    assert_eq!(status_of(&world), Status::Orphaned);
    assert_eq!(world.fold.state().run.process.value, Process::Alive);
    assert!(has_fact(&world, "run_folder", "missing"));
    assert!(has_fact(&world, "damage", "removed"));
    assert_eq!(refused(&mut world, send("a", "1")), Reason::NoKeeper);
    let accepted = world.ask(STOP).unwrap();
    assert!(matches!(
        accepted,
        crate::session::fold::Accepted::Session {
            already_ended: false,
            ..
        }
    ));
    world.take();
    world.commit();
    assert!(
        world
            .actions
            .iter()
            .any(|action| matches!(action, Action::Stop { .. }))
    );
    world.actions.clear();
    // The host looked for the folder and for processes of the run: there are none.
    world.fact(Fact::Absent { run: 1 });
    world.settle();
    assert_eq!(status_of(&world), Status::Lost);
    let run = &world.fold.state().run;
    assert_eq!(run.process.value, Process::Lost(LostReason::Folder));
    assert_eq!(run.process.rule, "s29_run_folder_gone");
    assert_eq!(world.fold.state().outcome(), Some(Outcome::Interrupted));
}

#[test]
fn r5_a_message_in_flight_when_the_folder_goes_is_unconfirmed() {
    let mut world = World::running();
    in_flight(&mut world);
    let report = without_folder(&world);
    world.fact(Fact::Report(Box::new(report)));
    world.settle();
    let (state, reason) = sent_state(&world, "a");
    assert_eq!(state, Delivery::Unconfirmed);
    assert_eq!(reason.as_deref(), Some("RUN_FOLDER_GONE"));
}

#[test]
fn s29_a_damaged_exit_record_ends_the_session_and_is_named() {
    let mut world = World::running();
    world.stream = b"abc".to_vec();
    let report = RunReport {
        process: Some(Process::Lost(LostReason::Keeper)),
        exit_damaged: true,
        ..world.report()
    };
    world.fact(Fact::Report(Box::new(report)));
    assert!(!world.fold.state().is_over(), "its output is not read");
    world.tail(10);
    world.settle();
    assert_eq!(status_of(&world), Status::Lost);
    let run = &world.fold.state().run;
    assert_eq!(run.process.value, Process::Lost(LostReason::Keeper));
    assert_eq!(run.process.rule, "s29_exit_record_damaged");
    assert!(has_fact(&world, "exit_record", "damaged"));
    assert_eq!(world.fold.state().outcome(), Some(Outcome::Unknown));
}

fn bytes(offset: u64, text: &str) -> Fact {
    Fact::Bytes {
        run: 1,
        offset,
        bytes: text.as_bytes().to_vec(),
        next: (offset + text.len() as u64).to_le_bytes().to_vec(),
    }
}

#[test]
fn s28_output_after_a_truncation_arrives_and_the_damage_is_told() {
    for (fact, damage) in [
        (Fact::Truncated { run: 1 }, Damage::Truncated),
        (Fact::Replaced { run: 1 }, Damage::Replaced),
        (Fact::Gap { run: 1, from: 6 }, Damage::Gap),
    ] {
        let mut world = World::running();
        world.fact(bytes(0, "before"));
        world.settle();
        world.fact(fact);
        world.fact(bytes(0, "new"));
        world.fact(bytes(3, "er"));
        world.settle();
        let run = &world.fold.state().run;
        assert_eq!(run.damage.as_ref().unwrap().value, damage);
        assert_eq!((run.consumed, run.file_consumed()), (11, 5));
        assert_eq!(run.damaged_lines, 1);
        assert!(has_fact(&world, "damage", damage.as_str()));
        // It goes on from there after a restart.
        world.later(1_000);
        world.settle();
        world.restart(true);
        world.stream = b"newer!".to_vec();
        world.fact(Fact::Link(crate::session::Link::Connected));
        end_with(&mut world, Some(0));
        let texts: Vec<_> = world
            .store
            .output()
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(texts, ["before", "newer!"]);
        assert_eq!(status_of(&world), Status::Exited);
    }
}

#[test]
fn s28_a_file_that_shrank_unseen_is_read_to_its_end_before_the_end_is_judged() {
    let mut world = World::running();
    world.fact(bytes(0, "before"));
    world.stream = b"xy".to_vec();
    world.ends(Some(0));
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    assert!(!world.fold.state().is_over(), "two bytes are not read");
    world.fact(Fact::Truncated { run: 1 });
    world.fact(bytes(0, "xy"));
    world.fact(Fact::TailEnd {
        run: 1,
        late_bytes: 0,
    });
    world.settle_all();
    assert_eq!(status_of(&world), Status::Exited);
    let texts: Vec<_> = world
        .store
        .output()
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(texts, ["before", "xy"]);
}

fn ended_with_unread(world: &mut World, unread: u64, survivors: Vec<Identity>) {
    world.ends(Some(0));
    let exit = world.exit.as_mut().unwrap();
    exit.stdin_unread = Some(unread);
    exit.survivors = survivors;
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    world.settle_all();
}

#[test]
fn s19_what_was_written_and_never_read_is_failed() {
    let mut world = World::running();
    for (key, said) in [
        ("a", "read"),
        ("b", "half"),
        ("c", "never"),
        ("d", "nor this"),
    ] {
        world.say(key, said).unwrap();
        world.settle();
        assert_eq!(sent_state(&world, key).0, Delivery::Written);
    }
    // `nor this\n`, `never\n`, and `f\n` of `half\n`.
    ended_with_unread(&mut world, 9 + 6 + 2, Vec::new());
    assert_eq!(sent_state(&world, "a").0, Delivery::Written);
    let never = |state| (state, Some("NEVER_READ".to_owned()));
    assert_eq!(sent_state(&world, "b"), never(Delivery::Unconfirmed));
    assert!(text_of(&world, "b").contains("2 of 5 bytes"));
    assert_eq!(sent_state(&world, "c"), never(Delivery::Failed));
    assert_eq!(sent_state(&world, "d"), never(Delivery::Failed));
    assert!(text_of(&world, "d").contains("9 of 9 bytes"));
    assert!(world.fold.is_settled());
}

#[test]
fn s19_what_survivors_may_still_read_is_unconfirmed() {
    let mut world = World::running();
    world.say("a", "x").unwrap();
    world.settle();
    ended_with_unread(&mut world, 2, vec![who(44)]);
    assert_eq!(sent_state(&world, "a").0, Delivery::Unconfirmed);
    assert!(text_of(&world, "a").contains("may read them"));
}

#[test]
fn s19_a_store_that_does_not_answer_delays_the_verdict_and_changes_none() {
    let mut world = World::running();
    world.say("a", "x").unwrap();
    world.settle();
    world.ends(Some(0));
    world.exit.as_mut().unwrap().stdin_unread = Some(2);
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    world.take();
    world.commit();
    let asked = world
        .actions
        .iter()
        .position(|action| matches!(action, Action::Recall { .. }));
    world.actions.remove(asked.unwrap());
    world.fact(Fact::RecallFailed { run: 1 });
    assert!(!world.fold.state().is_over());
    world.later(10_000);
    world.settle_all();
    assert_eq!(sent_state(&world, "a").0, Delivery::Failed);
    // So does a restart in between.
    let mut world = World::running();
    world.say("a", "x").unwrap();
    world.settle();
    world.ends(Some(0));
    world.exit.as_mut().unwrap().stdin_unread = Some(2);
    let report = world.report();
    world.fact(Fact::Report(Box::new(report)));
    world.take();
    world.restart(true);
    world.fact(Fact::Link(crate::session::Link::Connected));
    world.settle_all();
    assert_eq!(sent_state(&world, "a").0, Delivery::Failed);
}

#[test]
fn s19_a_message_that_the_end_cut_says_how_far_it_came() {
    for (unread, state) in [(3, Delivery::Failed), (2, Delivery::Unconfirmed)] {
        let mut world = World::running();
        world.say("a", "before").unwrap();
        world.settle();
        world.say("b", "cut off").unwrap();
        world.take();
        world.commit();
        let Some(Action::Deliver { delivery, .. }) = world.actions.pop_front() else {
            panic!("no delivery");
        };
        let answer = Answer::Exited { written: 3 };
        world.fact(Fact::Answer { delivery, answer });
        ended_with_unread(&mut world, unread, Vec::new());
        assert_eq!(sent_state(&world, "b").0, state);
        assert!(text_of(&world, "b").starts_with("written 3 of 8 bytes"));
        assert_eq!(sent_state(&world, "a").0, Delivery::Written);
    }
}
