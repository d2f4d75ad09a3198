//! Mailbox routes (AEE §5): cursor reads, long polling, picking, acknowledging, and following as a stream.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, get, post, put, web};
use bytes::BytesMut;
use entente_aee::mailboxes;
use entente_aee::mailboxes::{Ack, HOLD_SECONDS, Mailbox, MailboxItem};
use entente_domain::identity::keys::Dialect;
use entente_domain::limits::{PAGE, WAIT_SECONDS};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, LastEventId, OptionalBody, Query};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::live::{Chunk, Source, last_event_id, respond, unreadable, write};
use entente_http::ok;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;
use crate::envelopes::EnvelopeBody;

/// Default page size, and the number of envelopes read at once for a stream.
const STEP: u32 = 100;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(read).service(open).service(ack).service(pick).service(follow);
}

/// An envelope in a mailbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MailboxItem)]
pub struct ItemBody {
    /// Number of the envelope in the mailbox.
    seq: i64,
    /// End of the hold by the client that picked the envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    held_until: Option<WireTime>,
    #[serde(flatten)]
    envelope: EnvelopeBody,
}

impl ItemBody {
    /// Shapes an envelope in the client's dialect.
    ///
    /// # Errors
    /// The stored envelope is not JSON.
    pub fn new(item: MailboxItem, dialect: Dialect) -> Outcome<Self> {
        Ok(Self {
            seq: item.seq,
            held_until: item.held_until.map(|at| WireTime::new(at, dialect)),
            envelope: EnvelopeBody::new(item.envelope, dialect)?,
        })
    }

    fn all(items: Vec<MailboxItem>, dialect: Dialect) -> Outcome<Vec<Self>> {
        items.into_iter().map(|item| Self::new(item, dialect)).collect()
    }
}

/// A page of a mailbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MailboxPage)]
struct PageBody {
    /// Entity that owns the mailbox.
    entity: String,
    /// The envelopes, in order of arrival.
    items: Vec<ItemBody>,
    /// Number of the last envelope on this page: `after` of the next page.
    next_after: i64,
    /// Number of the last envelope in the mailbox.
    last_seq: i64,
    /// Every envelope up to this number has been acknowledged.
    acked_seq: i64,
}

/// The progress of a mailbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Mailbox)]
struct MailboxBody {
    /// Entity that owns the mailbox.
    entity: String,
    /// Number of the last envelope in the mailbox.
    last_seq: i64,
    /// Every envelope up to this number has been acknowledged.
    acked_seq: i64,
}

impl From<Mailbox> for MailboxBody {
    fn from(mailbox: Mailbox) -> Self {
        Self { entity: mailbox.entity, last_seq: mailbox.last_seq, acked_seq: mailbox.acked_seq }
    }
}

/// Open a mailbox
///
/// Creates a mailbox for another name that the key may act as; principals and agents always have one.
/// Idempotent.
#[utoipa::path(operation_id = "open_mailbox", tag = "envelopes",
    responses((status = 200, description = "The mailbox", body = MailboxBody)))]
#[put("/aee/mailboxes/{entity}")]
async fn open(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&MailboxBody::from(mailboxes::open(&api.ctx, &asker.caller, &path).await?))
}

/// Read a mailbox
///
/// Returns envelopes in order of arrival: those after `after`, which defaults to those not yet acknowledged.
/// With `wait`, responds as soon as there is an envelope, or with an empty page when the time is over.
#[utoipa::path(operation_id = "read_mailbox", tag = "envelopes",
    params(("after" = Option<i64>, Query, description = "Number of an envelope: only those after it; defaults to those not yet acknowledged"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 100"),
           ("wait" = Option<u32>, Query, description = "Seconds to wait if there are no envelopes, up to 120; defaults to 0", maximum = 120)),
    responses((status = 200, description = "The envelopes", body = PageBody)))]
#[get("/aee/mailboxes/{entity}")]
async fn read(
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let after = query.parsed("after", "a whole number from 0", seq)?;
    let limit = query.number("limit", STEP, 1, PAGE)?;
    let wait = query.wait(WAIT_SECONDS)?;
    let (ctx, caller) = (&api.ctx, &asker.caller);
    let (mailbox, items) = if wait == 0 {
        mailboxes::read(ctx, caller, &path, after, limit).await?
    } else {
        let _permit = asker.caller.waits(api.limits.max_streams_per_key)?;
        tokio::select! {
            found = mailboxes::wait(ctx, caller, &path, after, limit, Duration::from_secs(wait.into())) => found?,
            () = presence.over().cancelled() => mailboxes::read(ctx, caller, &path, after, limit).await?,
        }
    };
    let next_after = items.last().map_or(after.unwrap_or(mailbox.acked_seq), |item| item.seq);
    ok(&PageBody {
        entity: mailbox.entity,
        items: ItemBody::all(items, asker.dialect)?,
        next_after,
        last_seq: mailbox.last_seq,
        acked_seq: mailbox.acked_seq,
    })
}

fn seq(text: &str) -> Option<i64> {
    text.trim().parse().ok().filter(|number| *number >= 0)
}

/// The envelopes to acknowledge; exactly one of the two fields.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MailboxAck, example = json!({ "up_to": 41 }))]
struct AckBody {
    /// Every envelope up to this number.
    up_to: Option<i64>,
    /// The envelopes with these numbers.
    seqs: Option<Vec<i64>>,
}

/// Acknowledge envelopes
///
/// An acknowledged envelope is returned only to clients that request its number explicitly. Idempotent.
#[utoipa::path(operation_id = "ack_mailbox", tag = "envelopes", request_body = AckBody,
    responses((status = 200, description = "Progress of the mailbox", body = MailboxBody)))]
#[post("/aee/mailboxes/{entity}/ack")]
async fn ack(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, body: Body<AckBody>) -> Reply {
    let ack = match (body.value.up_to, body.value.seqs) {
        (Some(up_to), None) if up_to >= 0 => Ack::UpTo(up_to),
        (None, Some(seqs)) if seqs.len() <= PAGE as usize => Ack::These(seqs),
        (up_to, seqs) => {
            let message = "Say `up_to`, a number from 0, or `seqs`, a list of up to 1,000 numbers.";
            let named = if up_to.is_none() && seqs.is_some() { "seqs" } else { "up_to" };
            return Err(Refusal::field(Code::InvalidRequest, named, "missing", message).into());
        }
    };
    ok(&MailboxBody::from(mailboxes::ack(&api.ctx, &asker.caller, &path, &ack).await?))
}

/// Options of a pick.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = MailboxPick, example = json!({ "max": 10, "hold_sec": 60 }))]
struct PickBody {
    /// Maximum number of envelopes: 1 to 100; defaults to 1.
    max: Option<u32>,
    /// Seconds for which other clients cannot pick these envelopes: 0 to 3,600; defaults to 60.
    ///
    /// Acknowledge them within this time.
    hold_sec: Option<u32>,
}

/// Pick the most pressing envelopes
///
/// Selects among the envelopes that are neither acknowledged nor held, by priority and age. A priority counts
/// as a head start in seconds (low 0, normal 30, high 120, urgent 600), so an envelope that has waited longer
/// than this difference comes first.
#[utoipa::path(operation_id = "pick_mailbox", tag = "envelopes", request_body = Option<PickBody>,
    responses((status = 200, description = "The envelopes, most pressing first", body = Vec<ItemBody>)))]
#[post("/aee/mailboxes/{entity}/pick")]
async fn pick(
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    body: OptionalBody<PickBody>,
) -> Reply {
    let PickBody { max, hold_sec } = body.0.value;
    let (max, hold) = (max.unwrap_or(1), hold_sec.unwrap_or(60));
    if !(1..=STEP).contains(&max) || hold > HOLD_SECONDS {
        let message = format!("`max` must be from 1 to {STEP}, `hold_sec` from 0 to {HOLD_SECONDS}.");
        let named = if (1..=STEP).contains(&max) { "hold_sec" } else { "max" };
        return Err(Refusal::field(Code::InvalidRequest, named, "range", message).into());
    }
    let items = mailboxes::pick(&api.ctx, &asker.caller, &path, max, hold).await?;
    if !items.is_empty() && presence.is_gone().await {
        mailboxes::put_back(&api.ctx, &path, &items).await?;
        return Err(Presence::refusal());
    }
    ok(&ItemBody::all(items, asker.dialect)?)
}

/// Follow a mailbox
///
/// A stream of server-sent events. Each frame's `id` is the envelope's number; `Last-Event-ID` resumes after
/// it, without a gap or a repetition, on any server. Without it, the stream begins with the envelopes not yet
/// acknowledged.
#[utoipa::path(operation_id = "follow_mailbox", tag = "envelopes",
    params(("entity" = Option<String>, Query, description = "Entity that owns the mailbox; defaults to the acting agent"), LastEventId),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/aee/stream")]
async fn follow(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let entity = query.text("entity").unwrap_or(&asker.caller.agent).to_owned();
    let after = last_event_id(&request).map(|text| seq(text).ok_or_else(|| unreadable("Last-Event-ID")));
    let mut listener = api.ctx.feed.wakeups().listener();
    listener.add(WakeKey::Mailbox(entity.clone()));
    let after = after.transpose()?;
    let (mailbox, _) = mailboxes::read(&api.ctx, &asker.caller, &entity, after, 1).await?;
    // A resuming client has received everything before `after`; a new one starts with the unacknowledged
    // envelopes.
    let (after, old) = after.map_or((mailbox.acked_seq, mailbox.last_seq), |after| (after, after));
    let followed = Followed { ctx: api.ctx.clone(), entity, after, old, dialect: asker.dialect };
    respond(Arc::clone(&api.http), asker.caller, followed, Some(listener))
}

/// Source of a mailbox stream.
struct Followed {
    ctx: entente_aee::Ctx,
    entity: String,
    after: i64,
    /// The mailbox's last number when the stream began: up to it, envelopes acknowledged one by one are
    /// skipped.
    old: i64,
    dialect: Dialect,
}

impl Followed {
    async fn next(&mut self, caller: &Caller) -> Outcome<Vec<MailboxItem>> {
        let ctx = &self.ctx;
        if self.after < self.old {
            let mut left = mailboxes::waiting(ctx, caller, &self.entity, self.after, STEP).await?;
            left.retain(|item| item.seq <= self.old);
            if !left.is_empty() {
                return Ok(left);
            }
            self.after = self.old;
        }
        Ok(mailboxes::read(ctx, caller, &self.entity, Some(self.after), STEP).await?.1)
    }
}

impl Source for Followed {
    const KIND: &'static str = "mailbox";

    fn start(&self) -> String {
        self.after.to_string()
    }

    async fn read(&mut self, caller: &Caller) -> Result<Chunk, AppError> {
        let mut text = BytesMut::new();
        for item in self.next(caller).await? {
            self.after = item.seq;
            write(&mut text, &item.seq.to_string(), "envelope", &ItemBody::new(item, self.dialect)?)?;
        }
        Ok(Chunk { text, over: false, behind: false })
    }
}
