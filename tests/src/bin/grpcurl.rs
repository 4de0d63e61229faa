//! The part of `grpcurl` that the documentation uses, for machines that have none: messages are known by reflection
//! alone, so this client knows no more of Muster than any other tool does.
//!
//! `grpcurl -plaintext -unix [-d JSON|@] SOCKET list | list SERVICE | SERVICE/METHOD`. Requests are sent as they are read; an error
//! of the server ends it with 64 plus the code, as the real one does.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use tokio_stream::StreamExt as _;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{FileDescriptorResponse, ServerReflectionRequest};

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let status = error.downcast_ref::<tonic::Status>();
    let text = status.map_or_else(
        || format!("{error:#}"),
        |status| format!("Code: {:?}\n  Message: {}", status.code(), status.message()),
    );
    // Nothing is left to be done when standard error is closed.
    let _ = writeln!(std::io::stderr(), "ERROR:\n  {text}");
    let code = status.map_or(1, |status| 64 + i32::from(status.code()));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

async fn run() -> anyhow::Result<()> {
    let mut data = "{}".to_owned();
    let mut rest = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-plaintext" | "-unix" => {}
            "-d" => data = args.next().context("-d needs a value")?,
            _ => rest.push(arg),
        }
    }
    let channel = connect(rest.first().context("an address is missing")?).await?;
    match rest.iter().skip(1).map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for service in services(&channel).await? {
                print(&service)?;
            }
            Ok(())
        }
        ["list", service] => {
            let pool = describe(&channel, service).await?;
            let service = pool
                .get_service_by_name(service)
                .context("no such service")?;
            for method in service.methods() {
                print(method.full_name())?;
            }
            Ok(())
        }
        [method] => call(channel, method, &data).await,
        _ => bail!("one of `list`, `list SERVICE`, `SERVICE/METHOD` was expected"),
    }
}

fn print(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

async fn connect(path: &str) -> anyhow::Result<Channel> {
    let path = path.strip_prefix("unix:").unwrap_or(path).to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move {
            muster_runtime::socket::connect(path.as_ref())
                .await
                .map(TokioIo::new)
        }
    });
    // The address is a name for the HTTP/2 authority only; the connector knows where to go.
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint
        .connect_with_connector(connector)
        .await
        .context("connect")
}

async fn ask(channel: &Channel, request: MessageRequest) -> anyhow::Result<MessageResponse> {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(request),
    };
    let mut client = ServerReflectionClient::new(channel.clone());
    let mut answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await?
        .into_inner();
    let answer = answers
        .next()
        .await
        .context("reflection did not answer")??;
    match answer
        .message_response
        .context("reflection answered nothing")?
    {
        MessageResponse::ErrorResponse(error) => bail!("{}", error.error_message),
        other => Ok(other),
    }
}

async fn services(channel: &Channel) -> anyhow::Result<Vec<String>> {
    match ask(channel, MessageRequest::ListServices(String::new())).await? {
        MessageResponse::ListServicesResponse(list) => Ok(list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect()),
        _ => bail!("reflection answered something else"),
    }
}

async fn files(
    channel: &Channel,
    request: MessageRequest,
) -> anyhow::Result<FileDescriptorResponse> {
    match ask(channel, request).await? {
        MessageResponse::FileDescriptorResponse(files) => Ok(files),
        _ => bail!("reflection answered something else"),
    }
}

/// The pool of everything that a symbol needs: its file, and what that imports, each asked for once.
async fn describe(channel: &Channel, symbol: &str) -> anyhow::Result<DescriptorPool> {
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    let mut wanted = vec![MessageRequest::FileContainingSymbol(symbol.to_owned())];
    while let Some(request) = wanted.pop() {
        for bytes in files(channel, request).await?.file_descriptor_proto {
            let file = prost_types::FileDescriptorProto::decode(&bytes[..])?;
            if !known.insert(file.name().to_owned()) {
                continue;
            }
            let missing = file.dependency.iter().filter(|name| !known.contains(*name));
            wanted.extend(missing.cloned().map(MessageRequest::FileByFilename));
            found.push(file);
        }
    }
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(found)?;
    Ok(pool)
}

async fn call(channel: Channel, method: &str, data: &str) -> anyhow::Result<()> {
    let (service, name) = method
        .split_once('/')
        .context("SERVICE/METHOD was expected")?;
    let pool = describe(&channel, service).await?;
    let service = pool
        .get_service_by_name(service)
        .context("no such service")?;
    let method = service
        .methods()
        .find(|method| method.name() == name)
        .context("no such method")?;
    let requests = requests(data, method.input());
    let path = format!("/{}/{name}", service.full_name()).parse()?;
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await?;
    let request = tonic::Request::new(requests);
    let answers = grpc.streaming(request, path, Dynamic(method)).await?;
    let mut answers = answers.into_inner();
    while let Some(answer) = answers.next().await {
        print_message(&answer?)?;
    }
    Ok(())
}

/// Requests as they come: from the argument, or with `@` from standard input. What is no request ends the program.
fn requests(
    data: &str,
    input: MessageDescriptor,
) -> tokio_stream::wrappers::ReceiverStream<DynamicMessage> {
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    let reader: Box<dyn std::io::Read + Send> = match data {
        "@" => Box::new(std::io::stdin()),
        _ => Box::new(std::io::Cursor::new(data.to_owned())),
    };
    // A thread: standard input cannot be read without blocking.
    std::thread::spawn(move || {
        let documents =
            serde_json::Deserializer::from_reader(reader).into_iter::<serde_json::Value>();
        for document in documents {
            let message =
                document.and_then(|document| DynamicMessage::deserialize(input.clone(), document));
            match message {
                Ok(message) => {
                    if sender.blocking_send(message).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    fail(&anyhow!(error).context("the request"));
                    std::process::exit(1);
                }
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}

fn print_message(message: &DynamicMessage) -> anyhow::Result<()> {
    let mut json = Vec::new();
    let mut to = serde_json::Serializer::pretty(&mut json);
    message.serialize_with_options(&mut to, &SerializeOptions::new())?;
    json.push(b'\n');
    Ok(std::io::stdout().write_all(&json)?)
}

/// Encodes and decodes by descriptor.
#[derive(Clone, Debug)]
struct Dynamic(MethodDescriptor);

impl Codec for Dynamic {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for Dynamic {
    type Item = DynamicMessage;
    type Error = tonic::Status;

    fn encode(
        &mut self,
        item: DynamicMessage,
        to: &mut EncodeBuf<'_>,
    ) -> Result<(), tonic::Status> {
        item.encode(to)
            .map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

impl Decoder for Dynamic {
    type Item = DynamicMessage;
    type Error = tonic::Status;

    fn decode(
        &mut self,
        from: &mut DecodeBuf<'_>,
    ) -> Result<Option<DynamicMessage>, tonic::Status> {
        let message = DynamicMessage::decode(self.0.output(), from);
        message
            .map(Some)
            .map_err(|error| tonic::Status::internal(error.to_string()))
    }
}
