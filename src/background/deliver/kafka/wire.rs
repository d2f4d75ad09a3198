//! A connection to a Kafka broker: one request at a time, in the newest version that both sides know.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use entente_runtime::tls::{Authorities, client};
use kafka_protocol::error::ParseResponseErrorCode as _;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
    ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message, StrBytes, VersionRange};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::config::sinks::KafkaConfig;

/// Name of this program in a broker's log.
const CLIENT: &str = "entente";

/// Largest answer, in bytes: a page of records is much smaller, but a broker returns at least one whole batch.
const LARGEST: usize = 64 << 20;

/// Newest versions of the requests that open a connection. Version 0 of the first one is understood by all brokers.
const API_VERSIONS: i16 = 0;
const SASL_HANDSHAKE: i16 = 1;
const SASL_AUTHENTICATE: i16 = 1;

/// A request that this program sends. The library's own trait also requires the brokers' side, which would compile
/// twice as long.
pub(super) trait Request: Encodable + HeaderVersion + Message {
    /// Its number.
    const KEY: ApiKey;
    /// Its answer.
    type Response: Decodable + HeaderVersion;
}

macro_rules! requests {
    ($($key:ident: $request:ty => $response:ty;)+) => {
        $(impl Request for $request {
            const KEY: ApiKey = ApiKey::$key;
            type Response = $response;
        })+
    };
}

requests! {
    ApiVersions: ApiVersionsRequest => ApiVersionsResponse;
    Fetch: FetchRequest => FetchResponse;
    InitProducerId: InitProducerIdRequest => InitProducerIdResponse;
    ListOffsets: ListOffsetsRequest => ListOffsetsResponse;
    Metadata: MetadataRequest => MetadataResponse;
    Produce: ProduceRequest => ProduceResponse;
    SaslAuthenticate: SaslAuthenticateRequest => SaslAuthenticateResponse;
    SaslHandshake: SaslHandshakeRequest => SaslHandshakeResponse;
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    /// The versions of each request that the broker knows.
    known: HashMap<i16, VersionRange>,
    /// Number of the last request.
    correlation: i32,
}

impl Wire {
    /// Connects to a broker and logs in.
    ///
    /// # Errors
    /// The fault, in words.
    pub(super) async fn open(
        config: &KafkaConfig,
        host: &str,
        port: u16,
        authorities: &Authorities,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect((host, port)).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let stream: Box<dyn Stream> = if config.tls {
            let tls = client(authorities).map_err(|e| e.to_string())?;
            let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
            let connected = TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
            Box::new(connected.map_err(|e| e.to_string())?)
        } else {
            Box::new(stream)
        };
        let mut wire = Self { stream, known: HashMap::new(), correlation: 0 };
        let told = wire.send(&ApiVersionsRequest::default(), API_VERSIONS).await?;
        if let Some(error) = told.error_code.err() {
            return Err(error.to_string());
        }
        let range = |min, max| VersionRange { min, max };
        wire.known =
            told.api_keys.iter().map(|one| (one.api_key, range(one.min_version, one.max_version))).collect();
        if let Some((user, password)) = &config.login {
            wire.log_in(user, password).await?;
        }
        Ok(wire)
    }

    async fn log_in(&mut self, user: &str, password: &str) -> Result<(), String> {
        let hello = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
        let told = self.ask(&hello, SASL_HANDSHAKE).await?;
        if let Some(error) = told.error_code.err() {
            let offered: Vec<&str> = told.mechanisms.iter().map(StrBytes::as_str).collect();
            return Err(format!("it takes no SASL/PLAIN, but {}: {error}", offered.join(", ")));
        }
        let proof = Bytes::from(format!("\0{user}\0{password}"));
        let told =
            self.ask(&SaslAuthenticateRequest::default().with_auth_bytes(proof), SASL_AUTHENTICATE).await?;
        match told.error_code.err() {
            None => Ok(()),
            Some(error) => {
                Err(told.error_message.map_or_else(|| error.to_string(), |why| format!("{error}: {why}")))
            }
        }
    }

    /// Sends a request in the newest version up to `newest` that the broker knows, and returns the answer.
    ///
    /// # Errors
    /// The fault, in words; the connection is of no use then.
    pub(super) async fn ask<R: Request>(&mut self, request: &R, newest: i16) -> Result<R::Response, String> {
        let known = self.known.get(&(R::KEY as i16));
        let version = known.map(|known| known.intersect(&VersionRange { min: R::VERSIONS.min, max: newest }));
        match version {
            Some(version) if !version.is_empty() => self.send(request, version.max).await,
            _ => Err(format!("it knows no version of request {:?} up to {newest}", R::KEY)),
        }
    }

    async fn send<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response, String> {
        self.correlation = self.correlation.wrapping_add(1);
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str(CLIENT)));
        let mut frame = BytesMut::from(&[0; 4][..]);
        let encoded = header.encode(&mut frame, R::header_version(version));
        encoded.and_then(|()| request.encode(&mut frame, version)).map_err(|e| e.to_string())?;
        let length = u32::try_from(frame.len().saturating_sub(4)).map_err(|e| e.to_string())?;
        frame.get_mut(..4).unwrap_or_default().copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&frame).await.map_err(|e| e.to_string())?;
        self.stream.flush().await.map_err(|e| e.to_string())?;

        let length = self.stream.read_u32().await.map_err(|e| e.to_string())?;
        let length = usize::try_from(length).map_err(|e| e.to_string())?;
        if length > LARGEST {
            return Err(format!("it answers with {length} bytes, as no Kafka broker does"));
        }
        let mut answer = BytesMut::zeroed(length);
        self.stream.read_exact(&mut answer).await.map_err(|e| e.to_string())?;
        let mut answer = answer.freeze();
        let read = |e: &dyn std::fmt::Display| format!("its answer cannot be read: {e}");
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))
            .map_err(|e| read(&e))?;
        if header.correlation_id != self.correlation {
            return Err("it answers another request".to_owned());
        }
        R::Response::decode(&mut answer, version).map_err(|e| read(&e))
    }
}
