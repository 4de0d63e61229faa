//! `muster tail`.

use muster_client::{TailFile, TailFrom, TailRequest};

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
    let request = TailRequest {
        session: tail.session,
        run: tail.run,
        file: if tail.stderr {
            TailFile::Stderr
        } else {
            TailFile::Stdout
        },
        from: from(tail.from.as_deref())?,
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

fn from(text: Option<&str>) -> Result<TailFrom, Failure> {
    match text {
        None => Ok(TailFrom::LastBytes(LAST_BYTES)),
        Some("start") => Ok(TailFrom::Beginning),
        Some("end") => Ok(TailFrom::End),
        Some(offset) => offset.parse().map(TailFrom::Offset).map_err(|_| {
            Failure::usage(format!("`{offset}` is no place in an output"))
                .hint("start, end, or a byte offset")
        }),
    }
}
