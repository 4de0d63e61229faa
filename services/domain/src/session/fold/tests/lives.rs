//! Random lives: whatever is lost, late or killed, each message reaches the program at most
//! once, in order, and is answered for (S14–S19, S22).

use proptest::{collection::vec, prelude::*};

use super::kit::timeless;
use super::world::World;
use crate::{
    message::Delivery,
    session::{
        Link,
        fold::{Command, Fact},
    },
};

#[derive(Debug, Clone, Copy)]
enum Op {
    Say(u8),
    Act { heard: bool },
    Take,
    Commit,
    Later(u16),
    Print(u16),
    Tail(u16),
    TailLost,
    Link(bool),
    Relist,
    Restart { written: bool },
    End(u8),
    Stop,
    Cancel(u8),
    Resume(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u8..40).prop_map(Op::Say),
        12 => prop::bool::weighted(0.8).prop_map(|heard| Op::Act { heard }),
        8 => Just(Op::Take),
        10 => Just(Op::Commit),
        4 => (0u16..3_000).prop_map(Op::Later),
        3 => (1u16..2_000).prop_map(Op::Print),
        4 => (1u16..2_000).prop_map(Op::Tail),
        1 => Just(Op::TailLost),
        2 => prop::bool::weighted(0.7).prop_map(Op::Link),
        1 => Just(Op::Relist),
        2 => any::<bool>().prop_map(|written| Op::Restart { written }),
        1 => (0u8..8).prop_map(Op::End),
        1 => Just(Op::Stop),
        2 => (0u8..40).prop_map(Op::Cancel),
        2 => (0u8..4).prop_map(Op::Resume),
    ]
}

/// Keys that were answered as accepted: their commit was in the store.
#[derive(Default)]
struct Promises {
    open: Vec<(u64, String)>,
    kept: Vec<String>,
}

fn apply(world: &mut World, op: Op, promises: &mut Promises) {
    match op {
        Op::Say(key) => {
            let key = format!("k{key}");
            if world.say(&key, &format!("text of {key}")).is_ok() {
                match world.fold.pending() {
                    Some(ticket) => promises.open.push((ticket.0, key)),
                    None => promises.kept.push(key),
                }
            }
        }
        Op::Act { heard } => {
            world.act(heard);
        }
        Op::Take => {
            world.take();
        }
        Op::Commit => {
            if let Some(ticket) = world.commit() {
                let open = std::mem::take(&mut promises.open);
                for (of, key) in open {
                    if of <= ticket.0 {
                        promises.kept.push(key);
                    } else {
                        promises.open.push((of, key));
                    }
                }
            }
        }
        Op::Later(millis) => world.later(millis.into()),
        Op::Print(bytes) => {
            if world.exit.is_none() && world.started > 0 {
                world.stream.extend(std::iter::repeat_n(b'y', bytes.into()));
            }
        }
        Op::Tail(bytes) => world.tail(bytes.into()),
        Op::TailLost => {
            if world.tail.take().is_some() {
                let run = world.fold.state().run.no;
                world.fact(Fact::TailLost { run });
            }
        }
        Op::Link(up) => world.fact(Fact::Link(if up {
            Link::Connected
        } else {
            Link::Unreachable
        })),
        Op::Relist => world.fact(Fact::Relist),
        Op::Restart { written } => {
            promises.open.clear();
            world.restart(written);
        }
        Op::End(code) => {
            if world.started > 0 {
                world.ends(Some(i32::from(code) / 4));
            }
        }
        Op::Stop => {
            let _ = world.ask(Command::Stop { survivors: false });
        }
        Op::Cancel(key) => {
            let message = world.look_up(&format!("k{key}"));
            let _ = world.ask(Command::Cancel { message });
        }
        Op::Resume(key) => {
            let client_key = format!("r{key}");
            let _ = world.ask(Command::Resume { client_key });
        }
    }
}

fn check(world: &World, promises: &Promises) {
    let said = world.store.said();
    for key in &promises.kept {
        let there = said
            .iter()
            .any(|m| m.sent.as_ref().is_some_and(|s| s.client_key == *key));
        assert!(there, "{key} was accepted and vanished");
    }
    for message in &said {
        let sent = message.sent.as_ref().unwrap();
        let got = sent
            .delivery
            .is_some_and(|id| world.received.iter().any(|(r, _)| *r == id));
        if sent.state == Delivery::Written {
            assert!(got, "written only after it was delivered");
        }
        if matches!(sent.state, Delivery::Failed | Delivery::Cancelled) {
            assert!(!got, "only when it was not delivered: {message:?}");
        }
    }
    let mut order = Vec::new();
    for (id, bytes) in &world.received {
        let of = said
            .iter()
            .find(|m| m.sent.as_ref().unwrap().delivery == Some(*id));
        let of = of.expect("a delivery is committed before it is made");
        let expected = match &of.body {
            crate::message::Body::Text(text) => format!("{text}\n"),
            crate::message::Body::Reference { .. } => unreachable!(),
        };
        assert_eq!(*bytes, expected.into_bytes());
        order.push(of.sent.as_ref().unwrap().sequence);
    }
    assert!(order.is_sorted(), "in order: {order:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn s17_each_message_once_in_order_whatever_happens(ops in vec(op(), 0..250)) {
        let mut world = World::new();
        let mut promises = Promises::default();
        world.fact(Fact::Link(Link::Connected));
        world.take();
        world.commit();
        for op in ops {
            apply(&mut world, op, &mut promises);
            check(&world, &promises);
        }
        // Then everything works again, and the program ends.
        world.fact(Fact::Link(Link::Connected));
        world.settle();
        world.later(10_000);
        world.settle();
        if world.started > 0 {
            world.ends(Some(0));
        }
        world.fact(Fact::Relist);
        world.settle_all();
        check(&world, &promises);
        let state = world.fold.state();
        prop_assert!(state.is_over(), "{:?}", world.fold);
        prop_assert!(world.fold.is_settled(), "{:?}", world.fold);
        prop_assert_eq!(state.waiting, 0);
        for message in world.store.said() {
            prop_assert!(message.sent.unwrap().state.is_final());
        }
        let text: String = world.store.output().into_iter().map(|(_, text)| text).collect();
        let printed = [&world.past[..], &world.stream].concat();
        prop_assert_eq!(text.as_bytes(), printed);
        prop_assert_eq!(timeless(world.store.state.as_ref().unwrap()), timeless(state));
    }
}
