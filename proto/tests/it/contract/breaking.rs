//! What was published stays: `v1.binpb` is the contract as it was last agreed.
//!
//! `MUSTER_REFRESH_CONTRACT=1 cargo test -p muster-proto --test it contract` records
//! additions; it refuses everything else.

use std::{collections::BTreeMap, path::PathBuf};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

use super::ours;

fn baseline_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("v1.binpb")
}

/// Without comments and positions: they are no contract.
fn current() -> FileDescriptorSet {
    let mut set = ours();
    for file in &mut set.file {
        file.source_code_info = None;
    }
    set
}

#[test]
fn only_additions_since_the_recorded_contract() {
    let current = current();
    let path = baseline_path();
    let refresh = std::env::var_os("MUSTER_REFRESH_CONTRACT").is_some();
    if refresh && !path.exists() {
        std::fs::write(&path, current.encode_to_vec()).unwrap();
    }
    let recorded = std::fs::read(&path).unwrap();
    let recorded = FileDescriptorSet::decode(recorded.as_slice()).unwrap();
    let problems = breaks(&recorded, &current);
    assert!(problems.is_empty(), "breaking changes:\n{problems:#?}");
    if refresh {
        std::fs::write(&path, current.encode_to_vec()).unwrap();
    } else {
        assert!(
            recorded == current,
            "the contract has additions that are not recorded; run \
             MUSTER_REFRESH_CONTRACT=1 cargo test -p muster-proto --test it contract"
        );
    }
}

#[test]
fn the_check_sees_what_breaks() {
    let old = current();
    let breaking: [fn(&mut FileDescriptorSet); 8] = [
        |set| session(set).field.retain(|field| field.name() != "cwd"),
        |set| field(set).name = Some("renamed".to_owned()),
        |set| field(set).number = Some(4_000),
        |set| field(set).set_type(prost_types::field_descriptor_proto::Type::Bytes),
        |set| field(set).set_label(prost_types::field_descriptor_proto::Label::Repeated),
        |set| resources(set).message_type.retain(|m| m.name() != "Part"),
        |set| resources(set).enum_type[0].value[1].number = Some(99),
        |set| {
            let file = set.file.iter_mut().find(|file| !file.service.is_empty());
            let method = &mut file.unwrap().service[0].method[0];
            method.server_streaming = Some(!method.server_streaming());
        },
    ];
    for (at, change) in breaking.iter().enumerate() {
        let mut new = old.clone();
        change(&mut new);
        assert!(!breaks(&old, &new).is_empty(), "change {at} went through");
    }
    let mut added = old.clone();
    session(&mut added).field.push(FieldDescriptorProto {
        name: Some("more".to_owned()),
        number: Some(4_000),
        ..FieldDescriptorProto::default()
    });
    assert_eq!(breaks(&old, &added), Vec::<String>::new());
}

fn resources(set: &mut FileDescriptorSet) -> &mut prost_types::FileDescriptorProto {
    let file =
        |file: &&mut prost_types::FileDescriptorProto| file.name() == "muster/v1/resources.proto";
    set.file.iter_mut().find(file).unwrap()
}

fn session(set: &mut FileDescriptorSet) -> &mut DescriptorProto {
    let messages = &mut resources(set).message_type;
    messages.iter_mut().find(|m| m.name() == "Session").unwrap()
}

fn field(set: &mut FileDescriptorSet) -> &mut FieldDescriptorProto {
    let fields = &mut session(set).field;
    fields.iter_mut().find(|f| f.name() == "cwd").unwrap()
}

/// What callers of the old contract would notice of the new one.
fn breaks(old: &FileDescriptorSet, new: &FileDescriptorSet) -> Vec<String> {
    let mut problems = Vec::new();
    let (was, is) = (Index::of(old), Index::of(new));
    for (name, message) in &was.messages {
        match is.messages.get(name) {
            Some(now) => compare_messages(name, message, now, &mut problems),
            None => problems.push(format!("message {name} is gone")),
        }
    }
    for (name, old) in &was.enums {
        match is.enums.get(name) {
            Some(now) => compare_enums(name, old, now, &mut problems),
            None => problems.push(format!("enum {name} is gone")),
        }
    }
    for (name, old) in &was.services {
        match is.services.get(name) {
            Some(now) => compare_services(name, old, now, &mut problems),
            None => problems.push(format!("service {name} is gone")),
        }
    }
    problems
}

#[derive(Default)]
struct Index<'a> {
    messages: BTreeMap<String, &'a DescriptorProto>,
    enums: BTreeMap<String, &'a EnumDescriptorProto>,
    services: BTreeMap<String, &'a ServiceDescriptorProto>,
}

impl<'a> Index<'a> {
    fn of(set: &'a FileDescriptorSet) -> Self {
        let mut index = Self::default();
        for file in &set.file {
            for message in &file.message_type {
                index.add(file.package(), message);
            }
            for item in &file.enum_type {
                index.enums.insert(join(file.package(), item.name()), item);
            }
            for service in &file.service {
                let name = join(file.package(), service.name());
                index.services.insert(name, service);
            }
        }
        index
    }

    fn add(&mut self, scope: &str, message: &'a DescriptorProto) {
        let name = join(scope, message.name());
        for nested in &message.nested_type {
            self.add(&name, nested);
        }
        for item in &message.enum_type {
            self.enums.insert(join(&name, item.name()), item);
        }
        self.messages.insert(name, message);
    }
}

fn join(scope: &str, name: &str) -> String {
    format!("{scope}.{name}")
}

fn compare_messages(
    name: &str,
    old: &DescriptorProto,
    new: &DescriptorProto,
    problems: &mut Vec<String>,
) {
    for was in &old.field {
        let place = format!("{name}.{}", was.name());
        let Some(is) = new.field.iter().find(|f| f.number() == was.number()) else {
            let number_kept = new
                .reserved_range
                .iter()
                .any(|range| (range.start()..range.end()).contains(&was.number()));
            let name_kept = new.reserved_name.iter().any(|n| n == was.name());
            if !(number_kept && name_kept) {
                problems.push(format!("{place} is gone, and not reserved"));
            }
            continue;
        };
        if shape(old, was) != shape(new, is) {
            problems.push(format!("{place} changed"));
        }
    }
}

/// Everything of a field that a caller can see.
fn shape<'a>(
    message: &'a DescriptorProto,
    field: &'a FieldDescriptorProto,
) -> (&'a str, i32, i32, &'a str, bool, Option<&'a str>) {
    let oneof = field.oneof_index.and_then(|at| {
        let at = usize::try_from(at).ok()?;
        Some(message.oneof_decl.get(at)?.name())
    });
    (
        field.name(),
        field.r#type.unwrap_or_default(),
        field.label.unwrap_or_default(),
        field.type_name(),
        field.proto3_optional(),
        oneof,
    )
}

fn compare_enums(
    name: &str,
    old: &EnumDescriptorProto,
    new: &EnumDescriptorProto,
    problems: &mut Vec<String>,
) {
    for was in &old.value {
        let same = |is: &&prost_types::EnumValueDescriptorProto| {
            (is.name(), is.number()) == (was.name(), was.number())
        };
        if !new.value.iter().any(|is| same(&is)) {
            problems.push(format!("{name}.{} changed or is gone", was.name()));
        }
    }
}

fn compare_services(
    name: &str,
    old: &ServiceDescriptorProto,
    new: &ServiceDescriptorProto,
    problems: &mut Vec<String>,
) {
    for was in &old.method {
        let same = new.method.iter().any(|is| {
            is.name() == was.name()
                && is.input_type() == was.input_type()
                && is.output_type() == was.output_type()
                && is.client_streaming() == was.client_streaming()
                && is.server_streaming() == was.server_streaming()
        });
        if !same {
            problems.push(format!("{name}.{} changed or is gone", was.name()));
        }
    }
}
