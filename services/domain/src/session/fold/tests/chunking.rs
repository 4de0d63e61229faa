//! Any pieces of the same bytes give the same messages, ids, texts and state (S22, R2).

use proptest::{collection::vec, prelude::*};

use super::kit::timeless;
use super::world::World;
use crate::{limits, message::Body};

/// Output as programs make it: text, multi-byte characters, torn ones, NULs, raw bytes.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-z \n]{0,20}".prop_map(String::into_bytes),
        2 => "\\PC{0,8}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..6),
        1 => Just(b"a\0b\n".to_vec()),
        1 => Just("\u{20ac}".as_bytes()[..2].to_vec()),
        1 => (1usize..70_000).prop_map(|n| vec![b'x'; n]),
        1 => (1usize..20_000).prop_map(|n| "\u{1f980}".repeat(n).into_bytes()),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn ended(stream: &[u8], cuts: &[usize]) -> World {
    let mut world = World::running();
    world.stream = stream.to_vec();
    for cut in cuts {
        world.tail(*cut);
        if cut % 3 == 0 {
            world.later(400);
            world.settle();
        }
        if cut % 7 == 0 {
            world.take();
            world.restart(cut % 2 == 0);
            world.fact(crate::session::fold::Fact::Link(
                crate::session::Link::Connected,
            ));
            world.settle();
        }
    }
    world.ends(Some(0));
    let report = world.report();
    world.fact(crate::session::fold::Fact::Report(Box::new(report)));
    world.settle_all();
    assert!(world.fold.state().is_over());
    world
}

fn shape(world: &World) -> Vec<(String, Body, u64, bool, String)> {
    let output = world.store.output().into_iter();
    let shape = output.map(|(m, text)| (m.id.to_string(), m.body, m.bytes, m.complete, text));
    shape.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn s22_any_pieces_and_restarts_give_the_same(
        stream in output(),
        cuts in vec(prop_oneof![1usize..9, 1usize..90_000], 0..60),
    ) {
        let whole = ended(&stream, &[]);
        let cut = ended(&stream, &cuts);
        prop_assert_eq!(shape(&whole), shape(&cut));
        prop_assert_eq!(timeless(whole.fold.state()), timeless(cut.fold.state()));
        let text: String = whole.store.output().into_iter().map(|(_, text)| text).collect();
        if stream.len() < 500_000 {
            let expected = String::from_utf8_lossy(&stream).replace('\0', "\u{2400}");
            prop_assert_eq!(text, expected);
        }
    }
}

#[test]
fn s22_the_first_messages_have_their_text_and_later_ones_say_where_it_is() {
    let size = limits::OUTPUT_MESSAGE_BYTES as usize;
    let stored = limits::OUTPUT_MESSAGES_STORED as usize;
    let world = ended(&vec![b'x'; size * (stored + 2) + 1], &[]);
    let output = world.store.output();
    assert_eq!(output.len(), stored + 3);
    for (index, (message, text)) in output.iter().enumerate() {
        assert!(message.complete);
        assert_eq!(message.at.offset, (index * size) as u64);
        match &message.body {
            Body::Text(_) => assert_eq!(text.len(), size, "{index}"),
            Body::Reference { offset, length, .. } => {
                assert!(index >= stored);
                assert_eq!((*offset, text.as_str()), (message.at.offset, ""));
                assert_eq!(*length, if index < stored + 2 { size as u64 } else { 1 });
            }
        }
    }
}

#[test]
fn s28_damaged_lines_are_counted_once_each() {
    let world = ended(b"ok\n\xff\xfe bad \xff\nok\nalso \xc3", &[1, 1, 1, 1, 1]);
    assert_eq!(world.fold.state().run.damaged_lines, 2);
}
