//! `entente arcp-stdio --url`: relays one ARCP session between stdin and stdout and a running server's WebSocket, for
//! clients that start their server as a child process (ARCP §4, ARCP-W-2.5).
//!
//! Nothing is queued: each direction reads its next frame once the one before is written, so a slow side slows the other
//! one down. The relay never reconnects, because only the client has the session's resume token: it ends with a status,
//! and a client that starts it again resumes.

use std::time::Duration;

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::arcp::sessions::wire::FrameWriter;
use entente_domain::arcp::sessions::{FRAME_BYTES, Moment};
use entente_domain::clock::Clock as _;
use entente_domain::ids::SessionId;
use entente_runtime::environment::{OsChance, SystemClock};
use entente_runtime::lines::{Line, Lines};
use entente_runtime::signals::Signals;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::redirect::Policy;
use reqwest::{StatusCode, Upgraded};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader, Stdin, Stdout, stdin, stdout};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{Failure as RequestFailure, api_key, client};
use crate::output::exit::{Ended, Exit};
use crate::{Done, Failure};

/// Time limit for the connection: clients wait five seconds for their welcome (ARCP-W-2.6).
const CONNECT: Duration = Duration::from_secs(3);
/// Wait for the client's first frame, to answer it when there is no connection.
const FIRST: Duration = Duration::from_secs(5);
/// Interval of the relay's pings, and the silence after which the server counts as gone.
const PING: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(45);
/// Time for the server to answer the requests that came before the end of the client's input.
const FINISH: Duration = Duration::from_secs(10);

type Wire = WebSocketStream<Upgraded>;
type Input = Lines<BufReader<Stdin>>;

/// Reason why a relay ends without success.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("`{0}` is no URL of a server: it begins with http://, https://, ws:// or wss://")]
    Url(String),
    #[error("{url} answered {status} and opened no ARCP session: {message}. Check --url")]
    Stranger { url: String, status: u16, message: String },
    #[error(
        "the server ended the session: {0}. Check the key: ENTENTE_API_KEY, or the token of the client's session.hello"
    )]
    Refused(String),
    #[error(
        "the server restarts. The session and its jobs live on: start this again, and resume the session"
    )]
    Restarts,
    #[error(
        "the connection to the server is gone ({0}). The session and its jobs live on: start this again, and resume the session"
    )]
    Lost(String),
}

impl Broken {
    /// Returns the kind of the failure, as for every command.
    fn exit(&self) -> Exit {
        match self {
            Self::Url(_) => Exit::Usage,
            Self::Refused(_) => Exit::Refused,
            Self::Stranger { .. } | Self::Restarts | Self::Lost(_) => Exit::Unavailable,
        }
    }
}

/// Relays a session until the client's input or the server's connection ends.
///
/// # Errors
/// The server cannot be reached, refuses the session, restarts or falls silent.
pub async fn run(url: &str, dialect: Option<Dialect>) -> Done {
    begin(url, dialect).await.map_err(|failure| match failure.downcast::<Broken>() {
        Ok(broken) => Failure::from(Ended { exit: broken.exit(), message: broken.to_string() }),
        Err(other) => other,
    })
}

async fn begin(url: &str, dialect: Option<Dialect>) -> Done {
    let mut signals = Signals::listen()?;
    let address = address(url, dialect)?;
    let mut input = Lines::new(BufReader::new(stdin()), FRAME_BYTES);
    let output = Output::new(dialect.unwrap_or_default());
    tokio::select! {
        done = session(&address, &mut input, &output) => done,
        () = signals.told() => Ok(()),
    }
}

/// Connects and relays; a client whose server cannot be reached is told so in its own protocol.
async fn session(address: &str, input: &mut Input, output: &Output) -> Done {
    let connected = match timeout(CONNECT, connect(address)).await {
        Ok(connected) => connected,
        Err(_late) => Err(RequestFailure::Late { url: endpoint(address), seconds: CONNECT.as_secs() }.into()),
    };
    let failure = match connected {
        Ok(wire) => return relay(wire, input, output).await,
        Err(failure) => failure,
    };
    // Clients show a refusal of their first frame, and of a closed pipe only that it is closed.
    if let Ok(Line::Text(first)) = timeout(FIRST, input.next()).await {
        output.refuse(request_id(&first).as_deref(), Fault::InternalError, &failure.to_string()).await?;
    }
    Err(failure)
}

/// Returns an address without its query, for messages.
fn endpoint(address: &str) -> String {
    address.split('?').next().unwrap_or(address).to_owned()
}

/// Returns the address of a server's ARCP endpoint, as HTTP, for frames that fit into lines.
fn address(url: &str, dialect: Option<Dialect>) -> Result<String, Broken> {
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let (scheme, rest) = base.split_once("://").ok_or_else(|| Broken::Url(url.to_owned()))?;
    let scheme = match scheme {
        "http" | "ws" => "http",
        "https" | "wss" => "https",
        _ => return Err(Broken::Url(url.to_owned())),
    };
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix("/arcp").unwrap_or(rest);
    let mut address = format!("{scheme}://{rest}/arcp?lines=true");
    if let Some(dialect) = dialect {
        address.push_str("&dialect=");
        address.push_str(dialect.as_str());
    }
    if let Some(query) = query {
        address.push('&');
        address.push_str(query);
    }
    Ok(address)
}

/// Opens a WebSocket (RFC 6455 §4.1) with the HTTP client of all commands.
async fn connect(address: &str) -> Result<Wire, Failure> {
    let key = generate_key();
    let request = client(Policy::none())?
        .get(address)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", &key);
    let away = |source| RequestFailure::Away { url: endpoint(address), source };
    let response = request.send().await.map_err(away)?;
    let status = response.status();
    let accepted = response.headers().get("sec-websocket-accept").map(|value| value.as_bytes().to_vec());
    if status != StatusCode::SWITCHING_PROTOCOLS
        || accepted.as_deref() != Some(derive_accept_key(key.as_bytes()).as_bytes())
    {
        let problem = response.json::<Value>().await.unwrap_or_default();
        let message = problem["message"].as_str().unwrap_or("it is no ARCP endpoint").to_owned();
        return Err(Broken::Stranger { url: endpoint(address), status: status.as_u16(), message }.into());
    }
    let stream = response.upgrade().await.map_err(away)?;
    let limits =
        WebSocketConfig::default().max_message_size(Some(FRAME_BYTES)).max_frame_size(Some(FRAME_BYTES));
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
}

/// Passes frames on in both directions until one side ends.
async fn relay(wire: Wire, input: &mut Input, output: &Output) -> Done {
    let (mut sink, mut source) = wire.split();
    let down = downwards(&mut source, output);
    tokio::pin!(down);
    let sent = tokio::select! {
        ended = &mut down => return ended,
        sent = upwards(input, &mut sink, output) => sent,
    };
    match sent {
        // The server still answers open requests, and closes then.
        Ok(()) => {
            // A server that stands still takes no close either.
            let finish = async {
                let _closed = sink.send(Message::Close(None)).await;
                down.await
            };
            let _answered = timeout(FINISH, finish).await;
            Ok(())
        }
        // The server's reason, if it gave one, is in the frames that were not read yet.
        Err(failure) => timeout(FINISH, down)
            .await
            .unwrap_or_else(|_silent| Err(Broken::Lost(failure.to_string()).into())),
    }
}

/// Passes the client's frames on until its input ends.
async fn upwards(
    input: &mut Input,
    sink: &mut SplitSink<Wire, Message>,
    output: &Output,
) -> Result<(), Failure> {
    let mut key = api_key();
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let line = tokio::select! {
            line = input.next() => line,
            _ = pings.tick() => {
                sink.send(Message::Ping(Vec::new().into())).await?;
                continue;
            }
        };
        let wrong = match line {
            Line::Text(text) => {
                let frame = match key.take() {
                    Some(key) => with_key(&text, &key),
                    None => text,
                };
                sink.send(Message::text(frame)).await?;
                continue;
            }
            Line::TooLong => "The line is too long: a frame has at most 1 MiB.",
            Line::NotText => "The line is no UTF-8 text. Send one JSON object per line.",
            Line::End => return Ok(()),
        };
        output.refuse(None, Fault::InvalidRequest, wrong).await?;
    }
}

/// Passes the server's frames on until it closes the connection, or the client reads no more.
async fn downwards(source: &mut SplitStream<Wire>, output: &Output) -> Done {
    loop {
        let message = match timeout(SILENCE, source.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(Error::ConnectionClosed)) | None) => {
                return Err(Broken::Lost("it was closed".to_owned()).into());
            }
            Ok(Some(Err(failure))) => return Err(Broken::Lost(failure.to_string()).into()),
            Err(_silence) => {
                let message = format!("the server was silent for {} s", SILENCE.as_secs());
                return Err(Broken::Lost(message).into());
            }
        };
        match message {
            Message::Text(frame) => {
                if output.write(frame.as_str()).await.is_err() {
                    return Ok(());
                }
            }
            Message::Close(frame) => return closed(frame).map_err(Into::into),
            // A ping is answered with the next read. The server sends no binary frames.
            Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
        }
    }
}

/// Judges the end of the connection by the server's close frame.
fn closed(frame: Option<CloseFrame>) -> Result<(), Broken> {
    let Some(frame) = frame else { return Err(Broken::Lost("closed without a reason".to_owned())) };
    match frame.code {
        CloseCode::Normal => Ok(()),
        CloseCode::Restart => Err(Broken::Restarts),
        CloseCode::Policy => Err(Broken::Refused(frame.reason.as_str().to_owned())),
        code => Err(Broken::Lost(format!("{} {}", u16::from(code), frame.reason.as_str()))),
    }
}

/// Returns the opening frame with a key, if it has none of its own.
fn with_key(first: &str, key: &str) -> String {
    let Ok(mut frame) = serde_json::from_str::<Value>(first) else { return first.to_owned() };
    let opens = matches!(frame["type"].as_str(), Some("session.hello" | "session.open"));
    let token = frame.pointer("/payload/auth/token").and_then(Value::as_str).unwrap_or_default();
    if !opens || !token.is_empty() || !frame["payload"].is_object() {
        return first.to_owned();
    }
    frame["payload"]["auth"] = json!({ "scheme": "bearer", "token": key });
    frame.to_string()
}

/// Returns the id of a frame.
fn request_id(frame: &str) -> Option<String> {
    serde_json::from_str::<Value>(frame).ok()?.get("id")?.as_str().map(str::to_owned)
}

/// The client's end: envelopes, one per line.
struct Output {
    pipe: Mutex<(Stdout, FrameWriter)>,
    chance: OsChance,
    began: Instant,
}

impl Output {
    fn new(dialect: Dialect) -> Self {
        let chance = OsChance::default();
        // Every frame names a session, also one of the relay itself (ARCP-W-3.3).
        let session = SessionId::mint(SystemClock.now(), &chance);
        Self {
            pipe: Mutex::new((stdout(), FrameWriter::new(session, dialect))),
            chance,
            began: Instant::now(),
        }
    }

    /// Writes a frame; waits while the client does not read.
    async fn write(&self, frame: &str) -> std::io::Result<()> {
        let mut pipe = self.pipe.lock().await;
        line(&mut pipe.0, frame).await
    }

    /// Writes a `session.error` of the relay itself.
    async fn refuse(&self, request: Option<&str>, fault: Fault, message: &str) -> std::io::Result<()> {
        let mut pipe = self.pipe.lock().await;
        let moment = Moment { at: self.began.elapsed(), now: SystemClock.now(), chance: &self.chance };
        let frame = pipe.1.error(moment, request, None, fault, message);
        line(&mut pipe.0, &frame).await
    }
}

async fn line(pipe: &mut Stdout, frame: &str) -> std::io::Result<()> {
    pipe.write_all(frame.as_bytes()).await?;
    pipe.write_all(b"\n").await?;
    pipe.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_endpoint_however_it_is_written() {
        let expected = "http://127.0.0.1:8080/arcp?lines=true";
        for url in [
            "http://127.0.0.1:8080",
            "http://127.0.0.1:8080/",
            "ws://127.0.0.1:8080/arcp",
            "ws://127.0.0.1:8080/arcp/",
        ] {
            assert_eq!(address(url, None).unwrap(), expected, "{url}");
        }
        let go = address("wss://example.org/entente/arcp?x=1", Some(Dialect::Go)).unwrap();
        assert_eq!(go, "https://example.org/entente/arcp?lines=true&dialect=go&x=1");
        for url in ["127.0.0.1:8080", "ftp://127.0.0.1", ""] {
            assert!(address(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn only_an_opening_frame_without_a_token_gets_the_key() {
        let hello =
            |auth: Value| json!({ "id": "r", "type": "session.hello", "payload": { "auth": auth, "x": 1 } });
        for none in [json!(null), json!({}), json!({ "scheme": "bearer", "token": "" })] {
            let frame: Value = serde_json::from_str(&with_key(&hello(none).to_string(), "k")).unwrap();
            assert_eq!(frame, hello(json!({ "scheme": "bearer", "token": "k" })));
        }
        let own = hello(json!({ "scheme": "bearer", "token": "own" })).to_string();
        let resume =
            json!({ "id": "r", "type": "session.resume", "payload": { "session_id": "s" } }).to_string();
        for kept in [&own, &resume, "nonsense", r#"{"type":"session.hello"}"#] {
            assert_eq!(with_key(kept, "k"), kept);
        }
    }
}
