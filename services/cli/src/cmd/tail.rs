//! `muster tail`.

use muster_client::{Reason, TailFile, TailFrom, TailRequest};

use crate::{
    args,
    context::Context,
    exit::Failure,
    follow::{self, Sink},
};

/// What is shown of the end where nothing else was asked for.
const LAST_BYTES: u64 = 64 * 1024;

/// Prints output of a session; ends well only at the real end.
pub(crate) async fn run(context: &Context, tail: args::Tail) -> Result<(), Failure> {
    let (named, from) = from(tail.from.as_deref())?;
    let run = match (tail.run, named) {
        (Some(run), Some(other)) if run != other => {
            return Err(
                Failure::usage(format!("the cursor is in run {other}, not in run {run}"))
                    .reason(Reason::BadCursor.as_str())
                    .hint("leave out `--run`: the cursor names its run"),
            );
        }
        (run, named) => run.or(named),
    };
    let request = TailRequest {
        session: tail.session,
        run,
        file: if tail.stderr {
            TailFile::Stderr
        } else {
            TailFile::Stdout
        },
        from,
        follow: tail.follow,
        late_bytes: tail.raw,
        patience: follow::PATIENCE,
    };
    let sink = if context.json {
        Sink::Json
    } else {
        Sink::Stdout
    };
    Box::pin(follow::print(context.client()?.tail(request), sink)).await
}

/// The run, if the place names it, and the place in it.
fn from(text: Option<&str>) -> Result<(Option<u32>, TailFrom), Failure> {
    let Some(text) = text else {
        return Ok((None, TailFrom::LastBytes(LAST_BYTES)));
    };
    let bad = || {
        Failure::usage(format!("`{text}` is no place in an output"))
            .reason(Reason::BadCursor.as_str())
            .hint("`start`, `end`, OFFSET in bytes, or RUN:OFFSET, as in 1:4096; lines of `tail --json` carry `run` and `next`")
    };
    match (text, text.split_once(':')) {
        ("start", _) => Ok((None, TailFrom::Beginning)),
        ("end", _) => Ok((None, TailFrom::End)),
        (_, Some((run, offset))) => {
            let run = run.parse().ok().filter(|run| *run > 0).ok_or_else(bad)?;
            let offset = offset.parse().map_err(|_| bad())?;
            Ok((Some(run), TailFrom::Offset(offset)))
        }
        (offset, None) => {
            let offset = offset.parse().map_err(|_| bad())?;
            Ok((None, TailFrom::Offset(offset)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_word_an_offset_or_a_run_and_an_offset() {
        assert_eq!(from(None).unwrap(), (None, TailFrom::LastBytes(LAST_BYTES)));
        assert_eq!(from(Some("start")).unwrap(), (None, TailFrom::Beginning));
        assert_eq!(from(Some("end")).unwrap(), (None, TailFrom::End));
        assert_eq!(from(Some("17")).unwrap(), (None, TailFrom::Offset(17)));
        assert_eq!(from(Some("2:17")).unwrap(), (Some(2), TailFrom::Offset(17)));
        for bad in ["", ":", "1:", ":1", "0:1", "1:x", "-1", "middle", "1:2:3"] {
            assert!(from(Some(bad)).is_err(), "{bad}");
        }
    }
}
