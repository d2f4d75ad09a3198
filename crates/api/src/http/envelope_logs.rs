//! Routes of envelopes' log lines (AEE §7.2): one JSON object on each line of the body.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post, web};
use entente_domain::envelopes::logs::{LogLine, read, split};
use entente_domain::keys::Scope;
use entente_domain::refusal::Refusal;
use entente_kernel::envelope_logs;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::{Query, Raw};
use super::caller::Asker;
use super::error::{Problem, ProblemBody, Reply};
use super::wire::WireTime;
use super::{Doors, json, ok};
use crate::http::routes::Routes;

/// Lines of a page when nothing is said.
const STEP: u32 = 100;

pub fn routes(config: &mut Routes<'_>) {
    config.service(keep).service(list);
}

/// What became of one line.
#[derive(Debug, Serialize, ToSchema)]
struct LineOutcome {
    /// Its place in the body, from 0; blank lines count.
    index: usize,
    /// Whether it was kept.
    ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemBody>,
}

/// What became of the lines.
#[derive(Debug, Serialize, ToSchema)]
struct LinesReply {
    /// How many were kept.
    kept: usize,
    /// How many were refused.
    refused: usize,
    /// Each of them, in the order of the body.
    results: Vec<LineOutcome>,
}

/// Keep log lines
///
/// One JSON object on each line: the five members of MVE-5, or a whole envelope. They are kept for those who look and
/// delivered to nobody; nothing in them is verified. Each for itself: a line that is refused does not harm the others.
#[utoipa::path(operation_id = "keep_envelope_log_lines", tag = "envelopes",
    request_body(content = String, content_type = "application/x-ndjson", description = "Up to 1,000 lines"),
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 201, description = "All were kept", body = LinesReply),
              (status = 207, description = "Some were refused", body = LinesReply)))]
#[post("/aee/logs")]
async fn keep(request: HttpRequest, doors: web::Data<Doors>, asker: Asker, body: Raw) -> Reply {
    asker.caller.require(Scope::MailWrite)?;
    let once = body.once(&request)?;
    let lines: Vec<_> = split(&body.0)?.into_iter().map(|(index, line)| (index, parsed(line))).collect();
    let good: Vec<(LogLine, &str)> =
        lines.iter().filter_map(|(_, line)| line.as_ref().ok().cloned()).collect();
    envelope_logs::keep(&doors.ctx, &asker.caller, &good, once.as_ref()).await?;
    let outcome = |(index, line): (usize, Result<_, Refusal>)| LineOutcome {
        index,
        ok: line.is_ok(),
        error: line.err().map(|refusal| Problem::from(refusal).body()),
    };
    let (kept, refused) = (good.len(), lines.len() - good.len());
    let reply = LinesReply { kept, refused, results: lines.into_iter().map(outcome).collect() };
    json(if refused == 0 { StatusCode::CREATED } else { StatusCode::MULTI_STATUS }, &reply)
}

/// A line and its text. What was read as JSON is UTF-8.
fn parsed(line: &[u8]) -> Result<(LogLine, &str), Refusal> {
    Ok((read(line)?, std::str::from_utf8(line).unwrap_or_default()))
}

/// A line that was kept.
#[derive(Debug, Serialize, ToSchema)]
struct KeptLine {
    /// Its number; later ones are higher.
    seq: i64,
    /// When it came.
    received_at: WireTime,
    /// The line, letter by letter.
    #[schema(value_type = Object)]
    line: Box<RawValue>,
}

/// List log lines
///
/// Those that one's own principal sent, the oldest first. A page of large lines may be shorter than `limit`: read on from
/// its last `seq` until one is empty.
#[utoipa::path(operation_id = "list_envelope_log_lines", tag = "envelopes",
    params(("corr" = Option<String>, Query, description = "Only those of this thread"),
           ("after" = Option<i64>, Query, description = "The `seq` of the last line of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000", maximum = 1000)),
    responses((status = 200, description = "The lines", body = [KeptLine])))]
#[get("/aee/logs")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    let after =
        query.parsed("after", "a number of 0 or more", |text| text.parse().ok().filter(|n| *n >= 0))?;
    let (corr, limit) = (query.text("corr"), query.limit(STEP)?);
    let found = envelope_logs::list(&doors.ctx, &asker.caller, corr, after.unwrap_or(0), limit).await?;
    let shown = |kept: envelope_logs::Kept| KeptLine {
        seq: kept.seq,
        received_at: WireTime::new(kept.received_at, asker.dialect),
        line: kept.body,
    };
    ok(&found.into_iter().map(shown).collect::<Vec<_>>())
}
