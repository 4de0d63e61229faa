//! Page tokens: the key of the last row that was given, bound to the list and its filter.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{Error, Result};

/// Makes the token that goes on after `key`. `list` names the list with its filter.
pub(super) fn make(list: &str, key: &[String]) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{}", key.join("\n")))
}

/// The key in a token of the same list and filter; `None` for the first page.
///
/// # Errors
/// [`Error::BadToken`]: another list made it, or the filter has changed since.
pub(super) fn read<const N: usize>(list: &str, token: &str) -> Result<Option<[String; N]>> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| Error::BadToken)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::BadToken)?;
    let mut parts = text.split('\n').map(str::to_owned);
    if parts.next().as_deref() != Some(list) {
        return Err(Error::BadToken);
    }
    let key: Vec<String> = parts.collect();
    key.try_into().map(Some).map_err(|_| Error::BadToken)
}

/// A part of a key.
///
/// # Errors
/// [`Error::BadToken`] when it has another form.
pub(super) fn part<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::BadToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_serves_only_the_list_that_made_it() {
        let token = make("sessions/live", &["7".to_owned(), "x".to_owned()]);
        assert_eq!(
            read::<2>("sessions/live", &token),
            Ok(Some(["7".to_owned(), "x".to_owned()]))
        );
        assert_eq!(read::<2>("sessions", &token), Err(Error::BadToken));
        assert_eq!(read::<3>("sessions/live", &token), Err(Error::BadToken));
        assert_eq!(read::<2>("sessions/live", "%"), Err(Error::BadToken));
        assert_eq!(read::<2>("sessions/live", ""), Ok(None));
    }
}
