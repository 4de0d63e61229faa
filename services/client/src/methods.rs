//! The calls of the API, by service.

mod files;
mod messages;
mod sessions;
mod system;
mod tasks;

use futures_util::Stream;
use muster_domain::{Fault, limits, page};
use muster_proto::public as pb;
use tonic::transport::Channel;

pub use files::FileChunk;
pub use muster_domain::page::Page;
pub use sessions::Control;
pub use system::ShutDown;

/// Clients of one service each, with the limits of the contract.
macro_rules! services {
    ($($name:ident $module:ident $client:ident),* $(,)?) => {$(
        pub(crate) fn $name(channel: Channel) -> pb::$module::$client<Channel> {
            pb::$module::$client::new(channel)
                .max_decoding_message_size(limits::GRPC_DECODE_BYTES)
                .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES)
        }
    )*};
}

services! {
    system system_service_client SystemServiceClient,
    tasks tasks_service_client TasksServiceClient,
    sessions sessions_service_client SessionsServiceClient,
    messages messages_service_client MessagesServiceClient,
    interactions interactions_service_client InteractionsServiceClient,
    hosts hosts_service_client HostsServiceClient,
    files files_service_client FilesServiceClient,
    feed feed_service_client FeedServiceClient,
}

/// A call as `Client::again` and the like take it: `call!(sessions.get_session(request))`.
macro_rules! call {
    ($service:ident.$method:ident($request:expr)) => {{
        let request = $request;
        move |channel: ::tonic::transport::Channel| -> $crate::client::CallAnswer<_> {
            let request = request.clone();
            Box::pin(async move { $crate::methods::$service(channel).$method(request).await })
        }
    }};
}
pub(crate) use call;

/// A field that every answer of the contract has.
pub(crate) fn there<T>(field: Option<T>, name: &'static str) -> Result<T, Fault> {
    field.ok_or_else(|| Fault::internal(format!("the coordinator's answer lacks `{name}`")))
}

pub(crate) fn page<T>(items: Vec<T>, next: String) -> Page<T> {
    Page {
        items,
        next: (!next.is_empty()).then_some(next),
    }
}

/// All rows of a list, page by page as they are taken, as in
/// `pages(|page| client.list_sessions(filter.clone(), page))`. Ends after the first error.
pub fn pages<T, F, A>(mut fetch: F) -> impl Stream<Item = Result<T, Fault>>
where
    F: FnMut(page::Request) -> A,
    A: Future<Output = Result<Page<T>, Fault>>,
{
    async_stream::try_stream! {
        let mut token = String::new();
        loop {
            let page = fetch(page::Request { size: 0, token }).await?;
            for item in page.items {
                yield item;
            }
            match page.next {
                Some(next) => token = next,
                None => break,
            }
        }
    }
}
