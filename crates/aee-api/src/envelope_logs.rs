//! Endpoints for envelope log lines (AEE §7.2): bodies with one JSON object per line.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post, web};
use entente_aee::envelope_logs;
use entente_domain::aee::envelopes::logs::{LogLine, read, split};
use entente_domain::identity::keys::Scope;
use entente_domain::refusal::Refusal;
use entente_http::body::{IdempotencyKey, Limit100, Query, Raw};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{json, ok};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;

/// Default page size.
const STEP: u32 = 100;

pub fn routes(config: &mut Routes<'_>) {
    config.service(keep).service(list);
}

/// The outcome for one line.
#[derive(Debug, Serialize, ToSchema)]
struct LineOutcome {
    /// The line's index in the body, from 0; blank lines count.
    index: usize,
    /// Whether the line was stored.
    ok: bool,
    /// The error, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemBody>,
}

/// The outcome for all lines.
#[derive(Debug, Serialize, ToSchema)]
struct LinesReply {
    /// Number of lines stored.
    kept: usize,
    /// Number of lines refused.
    refused: usize,
    /// The outcome of each line, in the order of the body.
    results: Vec<LineOutcome>,
}

/// Store log lines
///
/// One JSON object per line: the five members of MVE-5, or a whole envelope. Lines are stored for later inspection,
/// delivered to no one, and not verified. Lines are independent: a refused line does not affect the others.
#[utoipa::path(operation_id = "keep_envelope_log_lines", tag = "envelopes",
    request_body(content = String, content_type = "application/x-ndjson", description = "Up to 1,000 lines, one JSON object each"),
    params(IdempotencyKey),
    responses((status = 201, description = "All lines were stored", body = LinesReply),
              (status = 207, description = "Some lines were refused", body = LinesReply)))]
#[post("/aee/logs")]
async fn keep(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Raw) -> Reply {
    asker.caller.require(Scope::MailWrite)?;
    let once = body.once(&request)?;
    let lines: Vec<_> = split(&body.0)?.into_iter().map(|(index, line)| (index, parsed(line))).collect();
    let good: Vec<(LogLine, &str)> =
        lines.iter().filter_map(|(_, line)| line.as_ref().ok().cloned()).collect();
    envelope_logs::keep(&api.ctx, &asker.caller, &good, once.as_ref()).await?;
    let outcome = |(index, line): (usize, Result<_, Refusal>)| LineOutcome {
        index,
        ok: line.is_ok(),
        error: line.err().map(|refusal| Problem::from(refusal).body()),
    };
    let (kept, refused) = (good.len(), lines.len() - good.len());
    let reply = LinesReply { kept, refused, results: lines.into_iter().map(outcome).collect() };
    json(if refused == 0 { StatusCode::CREATED } else { StatusCode::MULTI_STATUS }, &reply)
}

/// Parses a line and returns it with its text. Lines that parse as JSON are valid UTF-8.
fn parsed(line: &[u8]) -> Result<(LogLine, &str), Refusal> {
    Ok((read(line)?, std::str::from_utf8(line).unwrap_or_default()))
}

/// A stored line.
#[derive(Debug, Serialize, ToSchema)]
struct KeptLine {
    /// The line's number; increases with each line.
    seq: i64,
    /// When it was received.
    received_at: WireTime,
    /// The line, byte for byte.
    #[schema(value_type = Object)]
    line: Box<RawValue>,
}

/// List log lines
///
/// Returns lines sent by the caller's principal, oldest first. Large lines can make a page shorter than `limit`:
/// continue from its last `seq` until a page is empty.
#[utoipa::path(operation_id = "list_envelope_log_lines", tag = "envelopes",
    params(("corr" = Option<String>, Query, description = "Only lines of this thread"),
           ("after" = Option<i64>, Query, description = "`seq` of the last line of the previous page"), Limit100),
    responses((status = 200, description = "The lines", body = [KeptLine])))]
#[get("/aee/logs")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let after =
        query.parsed("after", "a number of 0 or more", |text| text.parse().ok().filter(|n| *n >= 0))?;
    let (corr, limit) = (query.text("corr"), query.limit(STEP)?);
    let found = envelope_logs::list(&api.ctx, &asker.caller, corr, after.unwrap_or(0), limit).await?;
    let shown = |kept: envelope_logs::StoredLine| KeptLine {
        seq: kept.seq,
        received_at: WireTime::new(kept.received_at, asker.dialect),
        line: kept.body,
    };
    ok(&found.into_iter().map(shown).collect::<Vec<_>>())
}
