//! Which variables of the login environment programs inherit (H18). Everything else, secrets of
//! unrelated tools above all, has to be added by the caller.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
];
const PREFIXES: &[&str] = &[
    "LC_",
    "XDG_",
    "NODE_",
    "ANTHROPIC_",
    "CLAUDE_",
    "OPENAI_",
    "CODEX_",
];
const SUFFIXES: &[&str] = &["_PROXY", "_proxy"];

pub(super) fn is_allowed(name: &OsStr) -> bool {
    let name = name.as_bytes();
    NAMES.iter().any(|allowed| name == allowed.as_bytes())
        || PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
        || SUFFIXES
            .iter()
            .any(|suffix| name.ends_with(suffix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h18_only_listed_names_pass() {
        for name in [
            "PATH",
            "LC_ALL",
            "http_proxy",
            "NO_PROXY",
            "ANTHROPIC_API_KEY",
        ] {
            assert!(is_allowed(OsStr::new(name)), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "PATHX",
            "MUSTER_RUN",
            "LD_PRELOAD",
            "lc_all",
        ] {
            assert!(!is_allowed(OsStr::new(name)), "{name}");
        }
    }
}
