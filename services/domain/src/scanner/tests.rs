use proptest::{collection::vec, prelude::*};
use serde_json::Value;

use super::*;

fn scan(pieces: &[&[u8]]) -> Scanned {
    let mut scanner = Scanner::new(100);
    for piece in pieces {
        scanner.push(piece);
    }
    scanner.finish()
}

fn whole(text: &str) -> Scanned {
    scan(&[text.as_bytes()])
}

/// The same as our nodes; `None` where something is a reference.
fn value(node: &Node) -> Option<Value> {
    Some(match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Number(number) => match number.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => number.parse::<f64>().ok()?.into(),
        },
        Node::Text(text) => Value::String(text.clone()),
        Node::Reference { .. } => return None,
        Node::Array(nodes) => Value::Array(nodes.iter().map(value).collect::<Option<_>>()?),
        Node::Object(members) => {
            let pairs = members
                .iter()
                .map(|(key, node)| Some((key.clone(), value(node)?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
    })
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        (-1e9f64..1e9).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[\\x01-\\x1f\"\\\\/\u{1f980}]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec(("\\PC{0,6}", inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Cuts `bytes` at the given places.
fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, tail) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces.push(rest);
    pieces
}

proptest! {
    #[test]
    fn what_is_small_is_read_as_it_is(documents in vec(json(), 1..3), cuts in vec(0usize..40, 0..20)) {
        let lines: Vec<_> = documents.iter().map(|document| format!("[{document}]")).collect();
        let text = lines.concat();
        let scanned = scan(&cut(text.as_bytes(), &cuts));
        prop_assert_eq!(scanned.ending, Ending::Whole);
        prop_assert_eq!(&scanned, &whole(&text));
        for (node, document) in scanned.documents.iter().zip(&documents) {
            prop_assert_eq!(value(node).unwrap(), Value::Array(vec![document.clone()]));
        }
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same(
        bytes in vec(prop_oneof![4 => prop::sample::select(&b"{}[]\",:\\u0d81 e-"[..]), 1 => any::<u8>()], 0..200),
        cuts in vec(0usize..12, 0..30),
    ) {
        prop_assert_eq!(scan(&cut(&bytes, &cuts)), scan(&[&bytes]));
    }
}

#[test]
fn s28_a_field_behind_a_big_text_is_found_and_the_text_is_not_held() {
    let big = "a\\ud83e\\udd80\\n".repeat(1 << 20);
    let text = format!(r#"{{"text":"{big}","uuid":"42"}}"#);
    let scanned = whole(&text);
    assert_eq!(scanned.ending, Ending::Whole);
    let document = &scanned.documents[0];
    assert_eq!(document.get("uuid").and_then(Node::as_text), Some("42"));
    let place = Node::Reference {
        offset: 100 + 9,
        length: big.len() as u64,
    };
    assert_eq!(document.get("text"), Some(&place));
}

#[test]
fn a_string_is_long_wherever_an_escape_lies_at_the_bound() {
    for shift in 0..14 {
        let filler = "x".repeat(limits::SCANNED_STRING_BYTES - shift);
        let text = format!("[\"{filler}\\ud83e\\udd80\\n{}\"]", "y".repeat(20));
        let scanned = whole(&text);
        assert_eq!(scanned.ending, Ending::Whole, "{shift}");
        let Node::Array(nodes) = &scanned.documents[0] else {
            panic!("no array");
        };
        let length = text.len() as u64 - 4;
        let place = Node::Reference {
            offset: 102,
            length,
        };
        assert_eq!(nodes[0], place, "{shift}");
    }
}

#[test]
fn s28_two_documents_on_one_line_are_both_read() {
    let scanned = whole(r#"{"a":1}{"b":2} "#);
    assert_eq!(
        (scanned.documents.len(), scanned.ending),
        (2, Ending::Whole)
    );
}

#[test]
fn s28_what_is_torn_or_damaged_is_told_and_what_came_before_is_kept() {
    for (text, documents, ending) in [
        ("", 0, Ending::Whole),
        ("  \n", 0, Ending::Whole),
        ("17", 1, Ending::Whole),
        (r#"{"a":1}{"b":"#, 1, Ending::Torn),
        (r#"{"a":"tor"#, 0, Ending::Torn),
        (r#"{"a":1}}"#, 1, Ending::Damaged),
        (r#"{"a":1} oops"#, 1, Ending::Damaged),
        ("{\"a\":\"\u{1}\"}", 0, Ending::Damaged),
    ] {
        let scanned = whole(text);
        let got = (scanned.documents.len(), scanned.ending);
        assert_eq!(got, (documents, ending), "{text}");
    }
}

#[test]
fn r11_bytes_that_are_no_text_become_a_reference() {
    let scanned = scan(&[b"{\"a\":\"x\xff\",\"b\":1}"]);
    let place = Node::Reference {
        offset: 106,
        length: 2,
    };
    assert_eq!(scanned.documents[0].get("a"), Some(&place));
    assert_eq!(scanned.ending, Ending::Whole);
}

#[test]
fn r7_depth_numbers_values_and_kept_text_are_bounded() {
    let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
    let most = limits::SCANNED_DEPTH;
    assert_eq!(whole(&deep(most)).ending, Ending::Whole);
    assert_eq!(whole(&deep(most + 1)).ending, Ending::Damaged);
    assert_eq!(whole(&"1".repeat(5_000)).ending, Ending::Damaged);
    let many = format!("[{}0]", "0,".repeat(limits::SCANNED_VALUES));
    assert_eq!(whole(&many).ending, Ending::Opaque);
    let piece = format!("\"{}\",", "x".repeat(60_000));
    let much = format!("[{}0]", piece.repeat(200));
    let scanned = whole(&much);
    let Node::Array(nodes) = &scanned.documents[0] else {
        panic!("no array");
    };
    let kept: usize = nodes.iter().filter_map(Node::as_text).map(str::len).sum();
    assert!(kept <= limits::SCANNED_KEPT_BYTES, "{kept}");
    assert_eq!(nodes.len(), 201);
}
