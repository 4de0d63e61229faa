//! Ids and other checked texts.

use std::str::FromStr;

use muster_domain::{Fault, Reason, WorkspaceId, id::InvalidId, limits};

/// An id that must be there, in canonical form.
///
/// # Errors
/// `MISSING_FIELD`, `INVALID_ID`.
pub fn id<T>(field: &'static str, text: &str) -> Result<T, Fault>
where
    T: FromStr<Err = InvalidId>,
{
    id_opt(field, text)?.ok_or_else(|| Fault::missing(field))
}

/// An id that may be missing (empty).
///
/// # Errors
/// `INVALID_ID`.
pub fn id_opt<T>(field: &'static str, text: &str) -> Result<Option<T>, Fault>
where
    T: FromStr<Err = InvalidId>,
{
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(id) => Ok(Some(id)),
        Err(error) => Err(invalid_id(field, &error)),
    }
}

/// The text of an id that may be missing: empty then.
pub fn id_text<T: ToString>(id: Option<T>) -> String {
    id.map_or_else(String::new, |id| id.to_string())
}

/// A workspace that must be named.
///
/// # Errors
/// `MISSING_FIELD`, `INVALID_ID`.
pub fn workspace(field: &'static str, text: &str) -> Result<WorkspaceId, Fault> {
    required(field, text)?;
    WorkspaceId::parse(text).map_err(|error| invalid_id(field, &error))
}

/// A text that must not be empty.
///
/// # Errors
/// `MISSING_FIELD`.
pub fn required<'a>(field: &'static str, text: &'a str) -> Result<&'a str, Fault> {
    if text.is_empty() {
        return Err(Fault::missing(field));
    }
    Ok(text)
}

/// A client-made key: not empty, at most [`limits::CLIENT_KEY_BYTES`].
///
/// # Errors
/// `MISSING_FIELD`, `INVALID`.
pub fn client_key<'a>(field: &'static str, text: &'a str) -> Result<&'a str, Fault> {
    required(field, text)?;
    if text.len() > limits::CLIENT_KEY_BYTES {
        return Err(Fault::invalid(
            field,
            format!("at most {} bytes", limits::CLIENT_KEY_BYTES),
        ));
    }
    Ok(text)
}

/// A text where empty means that there is none.
pub fn text_opt(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn invalid_id(field: &'static str, error: &InvalidId) -> Fault {
    Fault::new(Reason::InvalidId, format!("`{field}`: {error}")).with("field", field)
}

#[cfg(test)]
mod tests {
    use muster_domain::SessionId;

    use super::*;

    #[test]
    fn ids_are_refused_by_field() {
        let fault = id::<SessionId>("session_id", "..").unwrap_err();
        assert_eq!(fault.reason(), Reason::InvalidId);
        assert_eq!(fault.metadata()["field"], "session_id");
        assert_eq!(
            id::<SessionId>("session_id", "").unwrap_err().reason(),
            Reason::MissingField
        );
        assert_eq!(id_opt::<SessionId>("session_id", ""), Ok(None));
    }

    #[test]
    fn keys_have_a_bound() {
        assert!(client_key("client_key", &"k".repeat(limits::CLIENT_KEY_BYTES)).is_ok());
        assert!(client_key("client_key", &"k".repeat(limits::CLIENT_KEY_BYTES + 1)).is_err());
        assert!(client_key("client_key", "").is_err());
    }
}
