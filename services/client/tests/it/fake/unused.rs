//! What no test calls.

use muster_client::Fault;
use tonic::{Response, Status};

pub(crate) fn unused<T>() -> Result<Response<T>, Status> {
    Err(muster_proto::fault::into_status(&Fault::unsupported(
        "this call",
    )))
}
