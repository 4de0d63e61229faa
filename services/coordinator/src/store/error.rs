//! What can go wrong when reading or opening.

use muster_domain::{Fault, Reason, page};

/// Why the store gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written now. The text is for the log.
    #[error("the store cannot be read")]
    Unavailable(String),
    /// A later version of Muster has written here.
    #[error("the database has schema {found}, this version knows up to {known}")]
    Newer {
        /// Schema of the database.
        found: u32,
        /// Latest schema of this version.
        known: u32,
    },
    /// A row that this version cannot read. The text is for the log.
    #[error("a row cannot be read")]
    Damaged(String),
    /// The page token is not one of this list.
    #[error("the page token is not one of this list")]
    BadToken,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(cause) => {
                Self::new(Reason::StoreUnavailable, "the store cannot be read")
                    .with_hint("check the disk that holds the data folder")
                    .with_internal(cause)
            }
            Error::Newer { found, known } => Self::new(
                Reason::Incompatible,
                format!("the database has schema {found}, this version knows up to {known}"),
            )
            .with_hint("use the version of Muster that wrote it, or a later one")
            .with("found", found)
            .with("known", known),
            Error::Damaged(cause) => Self::internal(cause),
            Error::BadToken => page::bad_token(),
        }
    }
}
