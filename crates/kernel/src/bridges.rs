//! Bridges: what is carried between envelopes, jobs and messages, by explicit configuration. The law is
//! `entente_domain::bridges`; the rows are `bridges/rows.rs`; who carries is `bridges/carrying.rs`, and what is carried how
//! `jobs.rs`, `answers.rs`, `mirrors.rs` and `exports.rs` below it.
//!
//! A bridge has the powers of the key that set it up, and rests when that ends. Each thing is carried once: what it becomes
//! has an id or a key that is made of it, and `aee_bridged` says what was carried. What a bridge has made is carried by no
//! other one, so nothing goes in a circle.

mod answers;
mod carrying;
mod exports;
mod finds;
mod jobs;
mod mirrors;
mod rows;

use entente_domain::bridges::{self as law, Bridge, Export, Jobs, Mirror};
use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

pub use self::carrying::{forget, step};
use self::rows::Whence;
use super::lines::Line;
use super::visits::visit;
use super::{Caller, Ctx, Outcome, mailboxes, not_found};

/// Bridges that there are at the most: each is looked at several times a second.
const BRIDGES: usize = 100;

/// How far a bridge is in what it carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number in the mailbox or the channel; of a bus the transaction.
    pub number: i64,
    /// Of a bus the envelope.
    pub id: String,
}

impl Place {
    fn number(number: i64) -> Self {
        Self { number, id: String::new() }
    }
}

/// A bridge as it is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub bridge: Bridge,
    /// Whose key it has the powers of.
    pub created_by: String,
    /// When it was set up.
    pub created_at: Timestamp,
    /// That key.
    pub key_id: KeyId,
    /// As whom it acts.
    pub agent: String,
    /// How far it is.
    pub place: Place,
    /// Why it rests, when it does.
    pub problem: Option<String>,
    salt: Vec<u8>,
}

/// Every bridge.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Kept>> {
    caller.require(Scope::Admin)?;
    rows::all(&mut *ctx.pool.acquire().await?).await
}

/// Sets up a bridge, or changes one. It carries from now on: of tasks, what nobody has taken out yet. One that goes on
/// carrying from where it did goes on where it is.
///
/// # Errors
/// The scope `admin` is missing, or what the bridge itself needs; it is not lawful; what it names is not the caller's.
pub async fn put(ctx: &Ctx, caller: &Caller, name: &str, bridge: Bridge) -> Outcome<Kept> {
    caller.require(Scope::Admin)?;
    law::check_name(name)?;
    bridge.check()?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let now = line.now();
    let start = may(ctx, &mut tx, caller, &bridge, now).await?;
    let all = rows::all(&mut tx).await?;
    if all.len() >= BRIDGES && !all.iter().any(|one| one.name == name) {
        let message = format!("There are {BRIDGES} bridges, as many as there may be. Take one away first.");
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let before = all.into_iter().find(|one| one.name == name);
    let same = before.as_ref().filter(|before| whence(&before.bridge) == whence(&bridge));
    if same.is_none() {
        rows::leave(&mut tx, name).await?;
    }
    let kept = Kept {
        name: name.to_owned(),
        created_by: caller.principal().to_owned(),
        created_at: before.as_ref().map_or(now, |before| before.created_at),
        key_id: caller.grant.key.id,
        agent: caller.agent.clone(),
        place: same.map_or(start, |same| same.place.clone()),
        salt: same.map_or_else(|| ctx.chance.bits().to_be_bytes().to_vec(), |same| same.salt.clone()),
        problem: None,
        bridge,
    };
    rows::put(&mut tx, &kept, &whence(&kept.bridge)).await?;
    let payload = json!({ "name": kept.name, "bridge": kept.bridge, "principal_id": kept.created_by });
    line.record(ctx, Draft::of(Kind::BridgeSet, &kept.agent, payload));
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(kept)
}

/// Takes a bridge away. What it has carried stays; jobs that it has made go on, and nobody is told of them.
///
/// # Errors
/// The scope `admin` is missing; there is no such bridge.
pub async fn remove(ctx: &Ctx, caller: &Caller, name: &str) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    if !rows::delete(&mut tx, name).await? {
        return Err(not_found("bridge"));
    }
    rows::leave(&mut tx, name).await?;
    line.record(ctx, Draft::of(Kind::BridgeRemoved, &caller.agent, json!({ "name": name })));
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(())
}

/// From where a bridge carries.
fn whence(bridge: &Bridge) -> Whence<'_> {
    match bridge {
        Bridge::Jobs(jobs) => Whence { entity: Some(&jobs.entity), ..Whence::default() },
        Bridge::Mirror(mirror) => {
            Whence { entity: mirror.entity.as_deref(), bus: mirror.bus.as_deref(), channel: None }
        }
        Bridge::Export(export) => Whence { channel: Some(export.channel_id), ..Whence::default() },
    }
}

/// Requires that the caller may do everything that the bridge does, and says where it begins. Asked when it is set up, and
/// each time that it carries.
async fn may(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    bridge: &Bridge,
    now: Timestamp,
) -> Outcome<Place> {
    match bridge {
        Bridge::Jobs(Jobs { entity, .. }) => {
            for scope in [Scope::MailRead, Scope::MailWrite, Scope::JobsRead, Scope::JobsWrite] {
                caller.require(scope)?;
            }
            mailboxes::require(conn, caller, entity).await?;
            let mailbox = mailboxes::find(conn, entity).await?;
            Ok(Place::number(mailbox.map_or(0, |mailbox| mailbox.acked_seq)))
        }
        Bridge::Mirror(Mirror { entity, channel_id, .. }) => {
            caller.require(Scope::MailRead)?;
            caller.require(Scope::ChannelsWrite)?;
            visit(conn, caller, *channel_id, now).await?;
            let Some(entity) = entity else { return Ok(Place::number(rows::this(conn).await?)) };
            mailboxes::require(conn, caller, entity).await?;
            let mailbox = mailboxes::find(conn, entity).await?;
            Ok(Place::number(mailbox.map_or(0, |mailbox| mailbox.last_seq)))
        }
        Bridge::Export(Export { channel_id, to, .. }) => {
            caller.require(Scope::ChannelsRead)?;
            caller.require(Scope::MailWrite)?;
            let visit = visit(conn, caller, *channel_id, now).await?;
            visit.viewer(caller, ctx.settings.strict).require(&visit.channel)?;
            if *to == ctx.settings.post.entity {
                let message =
                    "The server itself has nothing to do with what is said there. Send it to somebody else.";
                return Err(Refusal::field(Code::Unprocessable, "to", "server", message).into());
            }
            Ok(Place::number(visit.channel.message_count))
        }
    }
}
