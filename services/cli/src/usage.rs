//! What is wrong with what was typed, and how it should have been.

use std::{ffi::OsString, process::ExitCode};

use clap::{
    CommandFactory as _, Parser as _,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

use crate::{
    args::Cli,
    exit::{self, Failure},
    out,
};

/// What people call things elsewhere.
const ELSEWHERE: [(&str, &str); 8] = [
    ("attach", "tail --follow"),
    ("exec", "run"),
    ("jobs", "session ls"),
    ("kill", "session stop"),
    ("list", "session ls"),
    ("logs", "tail"),
    ("ps", "session ls"),
    ("start", "run"),
];

/// Whether a program reads: `--json` is among Muster's own arguments. Looked at before they
/// are parsed, so that it also holds where they are wrong.
pub(crate) fn wants_json(args: &[OsString]) -> bool {
    own(args).iter().any(|arg| arg == "--json")
}

/// Says what is wrong, or prints the help that was asked for.
pub(crate) fn refuse(error: &Error, args: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        // A command that lacks its second word: the help is the answer, and no data.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !out::is_json() => {
            let _ = error.print();
            ExitCode::from(exit::USAGE)
        }
        _ => failure(error, args).report(),
    }
}

/// A parser's error in our words.
pub(crate) fn failure(error: &Error, args: &[OsString]) -> Failure {
    let text = error.render().to_string();
    let words = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "which command? its name is missing".to_owned()
        }
        _ => first_paragraph(&text),
    };
    let usage = text
        .lines()
        .find_map(|line| line.strip_prefix("Usage: "))
        .map(str::to_owned);
    let failure = Failure::usage(words).usage_line(usage);
    match special(error, args).or_else(|| tip(&text)) {
        Some(hint) => failure.hint(hint),
        None => failure.hint("the same with `--help` explains it"),
    }
}

/// The arguments before `--`: those behind it belong to a program.
fn own(args: &[OsString]) -> &[OsString] {
    let end = args.iter().position(|arg| arg == "--");
    args.get(1..end.unwrap_or(args.len())).unwrap_or_default()
}

fn first_paragraph(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.is_empty());
    let words: Vec<&str> = lines.map(str::trim).collect();
    let words = words.join(" ");
    words.strip_prefix("error: ").unwrap_or(&words).to_owned()
}

/// What the parser itself proposes.
fn tip(text: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.trim_start().strip_prefix("tip: "))
        .map(|tip| tip.replace('\'', "`"))
}

/// What is meant, where the parser cannot know.
fn special(error: &Error, args: &[OsString]) -> Option<String> {
    let verb = own(args).iter().find_map(|arg| known_verb(arg.to_str()?));
    match (error.kind(), verb.as_deref()) {
        (ErrorKind::UnknownArgument, Some("run")) => program(&invalid(error)?, args),
        (ErrorKind::UnknownArgument, Some("send")) => {
            let word = invalid(error)?;
            (!word.starts_with('-')).then(|| {
                "a text of several words needs quotes: `muster send ID \"some words\"`".to_owned()
            })
        }
        (ErrorKind::MissingRequiredArgument, Some("send")) => Some(
            "`muster send ID \"TEXT\"` says the text; `-` in its place reads standard input"
                .to_owned(),
        ),
        (
            ErrorKind::MissingRequiredArgument,
            Some("tail" | "wait" | "queue" | "session" | "resume"),
        ) => Some("`muster session ls` lists the sessions".to_owned()),
        (ErrorKind::InvalidSubcommand, _) => elsewhere(&invalid(error)?, args),
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, _) => {
            Some("`muster --help` lists the commands".to_owned())
        }
        _ => None,
    }
}

/// A program whose name was taken for an argument of `run`.
fn program(word: &str, args: &[OsString]) -> Option<String> {
    if word.starts_with('-') {
        return None;
    }
    let place = (2..args.len()).find(|&place| {
        let (before, after) = args.split_at(place);
        let dashes = [OsString::from("--")];
        args[place] == word
            && Cli::try_parse_from(before.iter().chain(&dashes).chain(after)).is_ok()
    })?;
    let typed = |args: &[OsString]| {
        let words: Vec<String> = args
            .iter()
            .map(|arg| quoted(&arg.to_string_lossy()))
            .collect();
        words.join(" ")
    };
    Some(format!(
        "put the program after `--`: `muster {} -- {}`",
        typed(&args[1..place]),
        typed(&args[place..])
    ))
}

/// A word that is a command of another level, or is called so elsewhere.
fn elsewhere(word: &str, args: &[OsString]) -> Option<String> {
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(name, _)| *name == word) {
        return Some(format!("`muster {ours}` does that here"));
    }
    if own(args).first().is_some_and(|first| first == word) {
        for group in Cli::command().get_subcommands() {
            if group.find_subcommand(word).is_some() && !group.is_hide_set() {
                return Some(format!(
                    "`muster {} {word}` is the command",
                    group.get_name()
                ));
            }
        }
    }
    None
}

fn known_verb(word: &str) -> Option<String> {
    let known = Cli::command().find_subcommand(word).is_some();
    known.then(|| word.to_owned())
}

/// The word that the parser did not take.
fn invalid(error: &Error) -> Option<String> {
    let kinds = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        _ => None,
    })
}

/// As it has to be typed in a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(args: &[&str]) -> String {
        let args: Vec<OsString> = std::iter::once("muster")
            .chain(args.iter().copied())
            .map(OsString::from)
            .collect();
        let error = Cli::try_parse_from(&args).unwrap_err();
        failure(&error, &args).words()
    }

    #[test]
    fn a_program_without_the_dashes_is_shown_with_them() {
        let text = said(&["run", "echo", "hi"]);
        assert!(text.contains("`muster run -- echo hi`"), "{text}");
        let text = said(&["run", "--detach", "bash", "-c", "echo 'a b'"]);
        assert!(
            text.contains(r"`muster run --detach -- bash -c 'echo '\''a b'\'''`"),
            "{text}"
        );
        let text = said(&["run", "--title", "run", "run"]);
        assert!(text.contains("`muster run --title run -- run`"), "{text}");
        let text = said(&["run", "--detch", "--", "true"]);
        assert!(
            text.contains("`--detach`") && !text.contains("put the program"),
            "{text}"
        );
    }

    #[test]
    fn unknown_commands_are_answered_with_the_one_that_is_meant() {
        for (typed, meant) in [
            (&["sesion", "ls"][..], "`session`"),
            (&["ps"], "`muster session ls`"),
            (&["logs", "x"], "`muster tail`"),
            (&["stop", "x"], "`muster session stop`"),
            (&["session", "lst"], "`ls`"),
        ] {
            let text = said(typed);
            assert!(text.contains("hint: ") && text.contains(meant), "{text}");
        }
        assert!(said(&["xyzzy"]).contains("--help"));
    }

    #[test]
    fn a_message_without_its_text_is_shown_with_one() {
        let text = said(&["send", "0190"]);
        assert!(
            text.contains("<TEXT>") && text.contains("standard input"),
            "{text}"
        );
        assert!(text.contains("usage: muster send"), "{text}");
        let text = said(&["send", "0190", "two", "words"]);
        assert!(text.contains("quotes"), "{text}");
    }

    #[test]
    fn json_is_asked_for_by_our_own_arguments_alone() {
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&args(&["muster", "nonsense", "--json"])));
        assert!(!wants_json(&args(&["muster", "run", "--", "x", "--json"])));
        assert!(!wants_json(&args(&["--json"])));
    }
}
