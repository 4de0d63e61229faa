//! A message above a size limit is refused as `RESOURCE_EXHAUSTED`.
//!
//! The library says `OUT_OF_RANGE`, which in our contracts means a compacted revision and nothing else, and mostly it
//! says so without asking any handler. So it is put right on the way out: in the headers of a call that is refused at
//! once, in the trailers of a stream.

use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use tonic::{Code, Status, body::Body};

/// Makes the refusal from a text that names both sizes.
pub type TooLarge = fn(&str) -> Status;

/// What the library's own refusals begin with.
const REFUSALS: [&str; 2] = [
    "Error, decoded message length too large",
    "Error, encoded message length too large",
];

/// The refusal of a server that was given none.
pub(super) fn plain(text: &str) -> Status {
    Status::resource_exhausted(text)
}

/// The response with its status put right, now and where it comes at the end of a stream.
pub(super) fn put_right(response: http::Response<Body>, refusal: TooLarge) -> http::Response<Body> {
    let (mut parts, body) = response.into_parts();
    rewrite(&mut parts.headers, refusal);
    let body = body.map_frame(move |mut frame| {
        if let Some(trailers) = frame.trailers_mut() {
            rewrite(trailers, refusal);
        }
        frame
    });
    http::Response::from_parts(parts, Body::new(body))
}

fn rewrite(headers: &mut HeaderMap, refusal: TooLarge) {
    // The usual case first: no status yet, or another one.
    let code = HeaderValue::from(Code::OutOfRange as i32);
    if headers.get(Status::GRPC_STATUS) != Some(&code) {
        return;
    }
    let Some(status) = Status::from_header_map(headers) else {
        return;
    };
    let text = status.message();
    if REFUSALS.iter().any(|start| text.starts_with(start)) {
        let refusal = refusal(text.trim_start_matches("Error, "));
        // It fails for a text that no header can carry, when the code is in its place already.
        let _ = refusal.add_header(headers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(status: &Status) -> HeaderMap {
        let mut headers = HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        headers
    }

    #[test]
    fn only_the_library_s_own_refusals_of_a_size_are_rewritten() {
        for start in REFUSALS {
            let mut said = headers(&Status::out_of_range(format!(
                "{start}: found 9 bytes, the limit is: 8 bytes"
            )));
            rewrite(&mut said, plain);
            let status = Status::from_header_map(&said).unwrap();
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert!(status.message().ends_with("the limit is: 8 bytes"));
            assert!(!status.message().starts_with("Error"), "{status}");
        }
        for other in [
            Status::out_of_range("revision 3 is compacted"),
            Status::internal(REFUSALS[0]),
            Status::ok(""),
        ] {
            let before = headers(&other);
            let mut after = before.clone();
            rewrite(&mut after, plain);
            assert_eq!(before, after);
        }
    }
}
