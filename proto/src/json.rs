//! The JSON view of messages, as the command line and other tools print it.
//!
//! Protobuf's JSON with the names of the contract (snake_case), with three differences that
//! make it easier to script: enum values are plain lower-case words without their prefix
//! (`alive`), unspecified ones are left out, and fields without presence are always printed.
//! 64-bit integers are strings, bytes are base64, times are RFC 3339.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey,
    ReflectMessage as _, SerializeOptions, Value as Reflected,
};
use serde_json::{Map, Value};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    // The set was written by our own build from the same sources.
    DescriptorPool::decode(crate::DESCRIPTORS).expect("our descriptor set is whole")
});

/// The JSON view of a message of our contracts. Linear in its size.
///
/// # Panics
/// Never for messages of this crate: their descriptors are compiled in.
pub fn view<M: Message + Name>(message: &M) -> Value {
    let descriptor = POOL
        .get_message_by_name(&M::full_name())
        .expect("every message of ours is in the descriptor set");
    let decoded = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .expect("the bytes were encoded from the same contract");
    object(&decoded)
}

/// The descriptors of all contracts.
pub fn descriptors() -> &'static DescriptorPool {
    &POOL
}

fn object(message: &DynamicMessage) -> Value {
    let descriptor = message.descriptor();
    if descriptor.package_name() == "google.protobuf" {
        return well_known(message);
    }
    let mut object = Map::new();
    for field in descriptor.fields() {
        if field.supports_presence() && !message.has_field(&field) {
            continue;
        }
        if let Some(value) = field_value(&field, &message.get_field(&field)) {
            object.insert(field.name().to_owned(), value);
        }
    }
    Value::Object(object)
}

/// Times, spans and masks have forms of their own in protobuf's JSON.
fn well_known(message: &DynamicMessage) -> Value {
    message
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        // Out of the range that the form can say.
        .unwrap_or(Value::Null)
}

fn field_value(field: &FieldDescriptor, value: &Reflected) -> Option<Value> {
    match value {
        Reflected::List(items) => Some(
            items
                .iter()
                .filter_map(|item| single(&field.kind(), item))
                .collect(),
        ),
        Reflected::Map(entries) => {
            let kind = field.kind();
            let kind = kind.as_message()?.map_entry_value_field().kind();
            let entries = entries
                .iter()
                .filter_map(|(key, value)| Some((map_key(key), single(&kind, value)?)));
            Some(Value::Object(entries.collect()))
        }
        value => single(&field.kind(), value),
    }
}

/// `None` for an unspecified enum.
fn single(kind: &Kind, value: &Reflected) -> Option<Value> {
    Some(match value {
        Reflected::Bool(value) => (*value).into(),
        Reflected::I32(value) => (*value).into(),
        Reflected::U32(value) => (*value).into(),
        Reflected::I64(value) => value.to_string().into(),
        Reflected::U64(value) => value.to_string().into(),
        Reflected::F32(value) => (*value).into(),
        Reflected::F64(value) => (*value).into(),
        Reflected::String(value) => value.as_str().into(),
        Reflected::Bytes(value) => STANDARD.encode(value).into(),
        Reflected::Message(message) => object(message),
        Reflected::EnumNumber(number) => return word(kind.as_enum()?, *number),
        // The contracts have no lists of lists.
        Reflected::List(_) | Reflected::Map(_) => return None,
    })
}

/// The word of an enum value: its name without the enum's own, in lower case. A number that
/// this version does not know stays a number.
fn word(descriptor: &EnumDescriptor, number: i32) -> Option<Value> {
    if number == 0 {
        return None;
    }
    let Some(value) = descriptor.get_value(number) else {
        return Some(number.into());
    };
    let name = value.name();
    let prefix = descriptor
        .values()
        .find_map(|value| Some(value.name().strip_suffix("UNSPECIFIED")?.to_owned()));
    let word = prefix
        .and_then(|prefix| name.strip_prefix(&prefix))
        .unwrap_or(name);
    Some(word.to_ascii_lowercase().into())
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::public;

    #[test]
    fn words_strings_and_times() {
        let session = public::Session {
            id: "s".to_owned(),
            process: public::ProcessState::Alive.into(),
            status: public::SessionStatus::WaitingPermission.into(),
            cursor: Some(public::OutputCursor {
                run: 1,
                offset: u64::MAX,
            }),
            created_at: Some(prost_types::Timestamp {
                seconds: 1_767_225_600,
                nanos: 250_000_000,
            }),
            survivors: vec![public::Survivor {
                pid: 7,
                start_ticks: 9,
            }],
            exit_code: Some(0),
            ..public::Session::default()
        };
        let view = view(&session);
        assert_eq!(view["id"], "s");
        assert_eq!(view["process"], "alive");
        assert_eq!(view["status"], "waiting_permission");
        assert_eq!(
            view["cursor"],
            json!({"run": 1, "offset": "18446744073709551615"})
        );
        assert_eq!(view["created_at"], "2026-01-01T00:00:00.250Z");
        assert_eq!(view["survivors"], json!([{"pid": 7, "start_ticks": "9"}]));
        assert_eq!(view["exit_code"], 0);
        // Without presence: always there.
        assert_eq!(view["queued_messages"], 0);
        assert_eq!(view["argv"], json!([]));
        // With presence and absent, and unspecified: never there.
        assert_eq!(view.get("exit_signal"), None);
        assert_eq!(view.get("ended_at"), None);
        assert_eq!(view.get("turn"), None);
    }

    #[test]
    fn one_of_several_shows_the_one() {
        let event = public::TailResponse {
            event: Some(public::tail_response::Event::Data(public::TailData {
                run: 1,
                offset: 5,
                bytes: b"hi\n".to_vec().into(),
            })),
        };
        assert_eq!(
            view(&event),
            json!({"data": {"run": 1, "offset": "5", "bytes": "aGkK"}})
        );
    }

    #[test]
    fn maps_and_unknown_numbers() {
        let error = public::CommandError {
            metadata: [("session".to_owned(), "s".to_owned())].into(),
            ..public::CommandError::default()
        };
        assert_eq!(view(&error)["metadata"], json!({"session": "s"}));
        let session = public::Session {
            process: 99,
            ..public::Session::default()
        };
        assert_eq!(view(&session)["process"], 99);
    }

    #[test]
    fn every_message_of_the_public_contract_has_a_view() {
        for message in descriptors().all_messages() {
            if message.package_name().starts_with("muster.") {
                assert!(object(&DynamicMessage::new(message)).is_object());
            }
        }
    }
}
