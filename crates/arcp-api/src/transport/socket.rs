//! Sessions over WebSocket, at `/arcp` (ARCP §4, ARCP-W-2). The socket itself needs no key: the client
//! authenticates in its first frame.

use actix_web::{HttpRequest, HttpResponse, get, web};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, ProtocolError, Session};
use bytes::Bytes;
use entente_domain::arcp::sessions::FRAME_BYTES;
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_http::routes::Routes;

use super::session::converse;
use super::{Connection, Ending, FrameSink, FrameSource, Incoming};
use crate::ApiState;

/// Registers the routes of this file.
pub fn routes(config: &mut Routes<'_>) {
    config.service(socket);
}

/// Open an ARCP session over WebSocket
///
/// Frames are text, with one JSON envelope each. The first is `session.hello` with an API key in
/// `payload.auth.token`, or `session.resume`; the rest is specified by ARCP 1.1. `dialect` selects the
/// formats of one of the client libraries, where they are not recognised automatically.
#[utoipa::path(tag = "jobs", security(()), params(
        ("dialect" = Option<String>, Query, description = "Dialect of the frames: `strict`, `python`, `ts`, `go` or `legacy`; defaults to automatic recognition"),
        ("lines" = Option<bool>, Query, description = "Whether the frames are passed on as lines of text (`entente arcp-stdio`): none has more than 60 KB then; defaults to `false`")),
    responses(
        (status = 101, description = "The connection is now a WebSocket"),
        (status = 422, description = "The request is not a WebSocket handshake, or the dialect is unknown", body = entente_http::error::ProblemBody),
        (status = 503, description = "The server is stopping", body = entente_http::error::ProblemBody)))]
#[get("/arcp")]
async fn socket(
    api: web::Data<ApiState>,
    request: HttpRequest,
    body: web::Payload,
) -> Result<HttpResponse, Problem> {
    open(api, &request, body)
}

/// Registers the same endpoint with a trailing slash, which some clients use.
pub fn slashed_route(config: &mut web::ServiceConfig) {
    config.route("/arcp/", web::get().to(slashed));
}

async fn slashed(
    api: web::Data<ApiState>,
    request: HttpRequest,
    body: web::Payload,
) -> Result<HttpResponse, Problem> {
    open(api, &request, body)
}

fn open(
    api: web::Data<ApiState>,
    request: &HttpRequest,
    body: web::Payload,
) -> Result<HttpResponse, Problem> {
    if api.draining.is_cancelled() {
        let message = "The server is stopping. Connect again in a moment, here or to another one.";
        return Err(Refusal::new(Code::Unavailable, message).into());
    }
    let address = entente_http::address(request, &api);
    let query = request.query_string();
    let line = Connection { dialect: dialect(query)?, lines: lines(query)?, address };
    let (response, session, frames) = actix_ws::handle(request, body).map_err(|_no_handshake| {
        let message = "This is a WebSocket (ARCP 1.1). Connect with a WebSocket client.";
        Refusal::new(Code::InvalidParameter, message)
    })?;
    let frames =
        frames.max_frame_size(FRAME_BYTES).aggregate_continuations().max_continuation_size(FRAME_BYTES);
    let tasks = api.tasks.clone();
    tasks.spawn_here("arcp session", converse(api.into_inner(), line, Socket(frames), SocketSink(session)));
    Ok(response)
}

/// Returns a member of a query, and ignores everything else in it.
fn member<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Returns whether a query asks for frames that fit into lines (ARCP-W-2.5).
fn lines(query: &str) -> Result<bool, Refusal> {
    member(query, "lines").map_or(Ok(false), |word| {
        word.parse()
            .map_err(|_no_bool| Refusal::new(Code::InvalidParameter, "`lines` must be `true` or `false`."))
    })
}

/// Returns the dialect in a query.
fn dialect(query: &str) -> Result<Option<Dialect>, Refusal> {
    let word = member(query, "dialect");
    word.map(|word| {
        Dialect::parse(word).ok_or_else(|| {
            let known = Dialect::ALL.map(Dialect::as_str).join("`, `");
            Refusal::new(Code::InvalidParameter, format!("`dialect` must be one of `{known}`."))
        })
    })
    .transpose()
}

struct Socket(AggregatedMessageStream);

impl FrameSource for Socket {
    async fn hear(&mut self) -> Incoming {
        match self.0.recv().await {
            Some(Ok(AggregatedMessage::Text(text))) => Incoming::Text(text.to_string()),
            Some(Ok(AggregatedMessage::Binary(bytes))) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => Incoming::Text(text),
                Err(_no_text) => {
                    Incoming::Noise("The frame is no UTF-8 text. Send one JSON object per text frame.")
                }
            },
            Some(Ok(AggregatedMessage::Ping(bytes))) => Incoming::Ping(bytes),
            Some(Ok(AggregatedMessage::Pong(_))) => Incoming::Breath,
            Some(Ok(AggregatedMessage::Close(_))) | None => Incoming::Gone,
            Some(Err(ProtocolError::Io(_) | ProtocolError::Overflow)) => {
                Incoming::Broken("The frame is too large, or no UTF-8: a frame has at most 1 MiB of text.")
            }
            Some(Err(_)) => Incoming::Broken("The frame breaks the rules of WebSocket (RFC 6455)."),
        }
    }
}

struct SocketSink(Session);

impl FrameSink for SocketSink {
    async fn say(&mut self, frame: String) -> bool {
        self.0.text(frame).await.is_ok()
    }

    async fn ping(&mut self) -> bool {
        self.0.ping(b"").await.is_ok()
    }

    async fn pong(&mut self, ping: &[u8]) -> bool {
        self.0.pong(&Bytes::copy_from_slice(ping)).await.is_ok()
    }

    async fn end(self, how: Ending) {
        let (code, why) = match how {
            // A client that has disconnected does not receive this.
            Ending::Done | Ending::Gone => (CloseCode::Normal, "closed"),
            Ending::Refused => (CloseCode::Policy, "UNAUTHENTICATED, or not allowed"),
            Ending::Silent => (CloseCode::Policy, "HEARTBEAT_LOST"),
            Ending::Broken => (CloseCode::Size, "the frame cannot be read"),
            Ending::Taken => (CloseCode::Normal, "resumed on another connection"),
            Ending::Idle => (CloseCode::Normal, "nothing has happened for a long time"),
            Ending::Restart => (CloseCode::Restart, "the server restarts: resume"),
        };
        let _gone = self.0.close(Some(CloseReason { code, description: Some(why.to_owned()) })).await;
    }
}
