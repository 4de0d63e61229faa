//! House rules: names, enums, and comments that say what a caller needs to know.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::{DescriptorProto, FileDescriptorProto};

use super::ours;

#[test]
fn packages_are_folders_and_end_in_their_version() {
    for file in ours().file {
        let folder = file.name().rsplit_once('/').unwrap().0.replace('/', ".");
        assert_eq!(file.package(), folder, "{}", file.name());
        assert!(folder.ends_with(".v1"), "{}", file.name());
        assert_eq!(file.syntax(), "proto3");
    }
}

#[test]
fn one_service_per_file_named_after_it() {
    for file in ours().file {
        let expected = usize::from(file.name().ends_with("_service.proto"));
        assert_eq!(file.service.len(), expected, "{}", file.name());
        for service in &file.service {
            let stem = file.name().rsplit('/').next().unwrap();
            let words = stem.trim_end_matches(".proto").split('_');
            let name: String = words.map(capitalised).collect();
            assert_eq!(service.name(), name, "{}", file.name());
        }
    }
}

/// Request and response of a method are its own, and have one stem that begins with the
/// method's verb. In `muster.agent.v1` method names are bare verbs (`Get`, `List`): the
/// service is their noun, which the stem spells out where it would collide (`GetRunRequest`).
#[test]
fn requests_and_responses_belong_to_one_method() {
    let mut seen = BTreeSet::new();
    for file in ours().file {
        for method in file.service.iter().flat_map(|service| &service.method) {
            let place = format!("{}: {}", file.name(), method.name());
            let input = last(method.input_type());
            let output = last(method.output_type());
            let stem = input.strip_suffix("Request").unwrap_or_else(|| {
                panic!("{place}: {input} is no request");
            });
            assert_eq!(output.strip_suffix("Response"), Some(stem), "{place}");
            if file.package() == "muster.v1" {
                assert_eq!(stem, method.name(), "{place}");
            } else {
                assert!(stem.starts_with(method.name()), "{place}");
            }
            for used in [method.input_type(), method.output_type()] {
                assert!(seen.insert(used.to_owned()), "{place}: {used} is shared");
                assert!(used.starts_with(".muster."), "{place}: {used} is foreign");
            }
        }
    }
}

#[test]
fn enums_begin_unspecified_and_carry_their_name() {
    for file in ours().file {
        for item in &file.enum_type {
            let prefix = format!("{}_", screaming(item.name()));
            assert_eq!(item.value[0].number(), 0, "{}", item.name());
            assert_eq!(item.value[0].name(), format!("{prefix}UNSPECIFIED"));
            for value in &item.value {
                assert!(value.name().starts_with(&prefix), "{}", value.name());
            }
        }
    }
}

#[test]
fn every_field_of_a_request_says_whether_it_is_needed() {
    let set = ours();
    let mut messages = BTreeMap::new();
    for file in &set.file {
        let comments = comments(file);
        for (at, message) in (0..).zip(&file.message_type) {
            let name = format!(".{}.{}", file.package(), message.name());
            messages.insert(name, (at, message, comments.clone()));
        }
    }
    let methods = || {
        let services = set.file.iter().flat_map(|file| &file.service);
        services.flat_map(|service| &service.method)
    };
    let sent = reachable(&messages, methods().map(|method| method.input_type()));
    let answered = reachable(&messages, methods().map(|method| method.output_type()));
    let mut silent = Vec::new();
    for name in sent.difference(&answered) {
        let (at, message, comments) = &messages[name];
        for (index, field) in (0..).zip(&message.field) {
            // Members of a sum type are described by it.
            let path = match field.oneof_index.filter(|_| !field.proto3_optional()) {
                Some(oneof) => vec![4, *at, 8, oneof],
                None => vec![4, *at, 2, index],
            };
            let comment = comments.get(&path).map_or("", String::as_str).trim_start();
            let says = ["Required", "Optional.", "Output only.", "Immutable."];
            if !says.iter().any(|word| comment.starts_with(word)) {
                silent.push(format!("{name}.{}: {comment}", field.name()));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn every_method_says_what_it_does_and_what_can_go_wrong() {
    let mut silent = Vec::new();
    for file in ours().file {
        let comments = comments(&file);
        for (at, service) in (0..).zip(&file.service) {
            assert!(comments.contains_key(&vec![6, at]), "{}", service.name());
            for (index, method) in (0..).zip(&service.method) {
                let comment = comments.get(&vec![6, at, 2, index]);
                let comment = comment.map_or("", String::as_str);
                if !(comment.contains("Errors:") || comment.contains("dempotent")) {
                    silent.push(format!("{}.{}", service.name(), method.name()));
                }
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

/// Every reason that the contracts name is one that can be sent.
#[test]
fn named_reasons_exist() {
    for file in ours().file {
        for comment in comments(&file).values() {
            let Some((_, errors)) = comment.split_once("Errors:") else {
                continue;
            };
            let words = errors.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
            for word in words.filter(|word| word.len() > 4) {
                assert!(
                    muster_domain::Reason::parse(word).is_some(),
                    "{}: {word}",
                    file.name()
                );
            }
        }
    }
}

type Messages<'a> = BTreeMap<String, (i32, &'a DescriptorProto, BTreeMap<Vec<i32>, String>)>;

fn reachable<'a>(
    messages: &Messages<'_>,
    roots: impl Iterator<Item = &'a str>,
) -> BTreeSet<String> {
    let mut open: Vec<String> = roots.map(str::to_owned).collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some((_, message, _)) = messages.get(&name) else {
            continue;
        };
        if found.insert(name) {
            open.extend(message.field.iter().map(|f| f.type_name().to_owned()));
        }
    }
    found
}

fn comments(file: &FileDescriptorProto) -> BTreeMap<Vec<i32>, String> {
    let locations = file.source_code_info.iter().flat_map(|info| &info.location);
    locations
        .filter(|location| location.leading_comments.is_some())
        .map(|location| {
            (
                location.path.clone(),
                location.leading_comments().to_owned(),
            )
        })
        .collect()
}

fn last(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap()
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

fn screaming(name: &str) -> String {
    let mut screamed = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            screamed.push('_');
        }
        screamed.push(letter.to_ascii_uppercase());
    }
    screamed
}
