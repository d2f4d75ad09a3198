//! A turn: one transaction in which a trigger fires, creates an intent or not, and records the result. Every change
//! of a trigger holds the lock of the system log, so that a second server sees the first one's changes.

use std::collections::HashMap;

use entente_domain::access::Level;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, KeyId, TriggerId};
use entente_domain::log::events::{Draft, Event, Kind};
use entente_domain::openintent::triggers::making::{FiringContext, Made};
use entente_domain::openintent::triggers::{
    Circumstances, DisabledReason, Lineage, SkipReason, Trigger, Verdict, filter, source,
};
use entente_domain::traces::Trace;
use entente_kernel::access::{assignments, membership};
use entente_kernel::audit::events;
use entente_kernel::feed::streams::{View, VisibilityFilter};
use entente_kernel::log::Record;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::webhooks::endpoints;
use entente_kernel::{AppError, Caller, Outcome, Tx};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::event_draft;
use super::firings::{self, Firing, FiringStatus};
use super::made;
use super::rows::{self, Stored};
use crate::Ctx;
use crate::intents;

/// Reason for a firing without rights.
const POWERLESS: &str = "No key by which it acts is in force, or may make intents as its agent.";

/// A running transaction, with the system log and the log of the intent that may be created.
pub(super) struct FiringTx {
    /// The transaction.
    pub tx: Tx,
    /// The system log.
    pub system_log: IntentLog,
    /// Id of the intent that may be created; its lock is held already.
    fresh: IntentId,
    /// Log of the created intent.
    made: Option<IntentLog>,
    trace: Option<Trace>,
}

/// Result of an attempt, before it is stored.
enum End {
    Made(IntentId, Lineage),
    /// A job is to be submitted: the request.
    Job(String),
    Waits,
    Skipped(SkipReason, Option<String>),
    Failed(&'static str, String),
    Powerless,
}

impl FiringTx {
    /// Begins a turn without a caller.
    pub async fn begin(ctx: &Ctx) -> Outcome<Self> {
        let fresh = IntentId::mint(ctx.now(), &*ctx.chance);
        let tx = ctx.begin(&[IntentId::SYSTEM, fresh]).await?;
        Self::open(ctx, tx, fresh, None).await
    }

    /// Begins a turn for a caller's request.
    pub async fn begin_once(ctx: &Ctx, caller: &Caller, once: Option<&Idempotency>) -> Outcome<Self> {
        let fresh = IntentId::mint(ctx.now(), &*ctx.chance);
        let tx = ctx.begin_once(&[IntentId::SYSTEM, fresh], caller, once).await?;
        Self::open(ctx, tx, fresh, caller.trace).await
    }

    async fn open(ctx: &Ctx, mut tx: Tx, fresh: IntentId, trace: Option<Trace>) -> Outcome<Self> {
        let system_log = IntentLog::open(&mut tx, IntentId::SYSTEM, trace, ctx.now()).await?;
        Ok(Self { tx, system_log, fresh, made: None, trace })
    }

    /// Commits the turn and notifies followers.
    pub async fn conclude(mut self, ctx: &Ctx) -> Outcome<()> {
        self.system_log.save(&mut self.tx).await?;
        self.tx.commit().await?;
        ctx.feed.notify_committed(IntentId::SYSTEM);
        if let Some(made) = self.made {
            ctx.feed.notify_committed(made.intent_id);
        }
        Ok(())
    }

    /// Records an event about a trigger in the system log, with the server as its actor.
    pub fn tell(&mut self, ctx: &Ctx, kind: Kind, trigger: &Trigger, about: Value) {
        self.system_log.record(ctx, event_draft(kind, trigger, SYSTEM, about));
    }

    /// Fires a trigger and stores the result: the firing, the trigger, the intent and the events.
    ///
    /// A stored firing that continues to wait stays unchanged.
    pub async fn pull(
        &mut self,
        ctx: &Ctx,
        stored: &mut Stored,
        mut firing: Firing,
        brought: &Map<String, Value>,
    ) -> Outcome<Firing> {
        let now = self.system_log.now();
        let waited = firing.status == FiringStatus::Waiting;
        let end = match self.attempt(ctx, stored, &firing, brought).await {
            // It was refused before anything was written.
            Err(AppError::Refused(refusal)) => End::Failed("refused", refusal.message),
            end => end?,
        };
        let cause = firing.cause;
        firing.status = match &end {
            End::Made(..) | End::Job(_) => FiringStatus::Fired,
            End::Waits => FiringStatus::Waiting,
            End::Skipped(..) => FiringStatus::Skipped,
            End::Failed(..) | End::Powerless => FiringStatus::Failed,
        };
        (firing.brought, firing.done_at) = (None, (!firing.status.is_open()).then_some(now));
        let enabled = stored.trigger.enabled;
        match end {
            End::Made(intent, lineage) => {
                firing.intent_id = Some(intent);
                stored.trigger = stored.trigger.fired(now);
                self.fired(ctx, stored, &firing, "lineage", Value::Object(lineage.shown(&stored.trigger)));
            }
            End::Job(request) => {
                firing.job = Some(request);
                stored.trigger = stored.trigger.fired_for_job(now);
                self.fired(ctx, stored, &firing, "job", json!(true));
            }
            End::Waits => firing.brought = Some(serde_json::to_string(brought)?),
            End::Skipped(reason, detail) => {
                firing.reason = Some(reason.as_str().to_owned());
                firing.detail = detail;
                let about = Self::about(&firing);
                self.tell(ctx, kind_of(reason), &stored.trigger, about);
            }
            End::Failed(reason, detail) => {
                firing.reason = Some(reason.to_owned());
                firing.detail = Some(detail);
                stored.trigger = stored.trigger.failed(cause, now);
                let about = Self::about(&firing);
                self.tell(ctx, Kind::TriggerFailed, &stored.trigger, about);
            }
            End::Powerless => {
                firing.reason = Some(DisabledReason::Powers.as_str().to_owned());
                firing.detail = Some(POWERLESS.to_owned());
                stored.trigger = stored.trigger.disabled(DisabledReason::Powers, now);
                let about = Self::about(&firing);
                self.tell(ctx, Kind::TriggerFailed, &stored.trigger, about);
            }
        }
        if waited && firing.status == FiringStatus::Waiting {
            return Ok(firing);
        }
        if firings::insert(&mut self.tx, std::slice::from_ref(&firing)).await? == 0 {
            firings::save(&mut self.tx, &firing).await?;
        }
        if enabled && !stored.trigger.enabled {
            self.switched_off(ctx, stored).await?;
        }
        rows::save(&mut self.tx, stored, false).await?;
        Ok(firing)
    }

    /// Records that a trigger fired, with a further member.
    fn fired(&mut self, ctx: &Ctx, stored: &Stored, firing: &Firing, member: &str, value: Value) {
        let mut about = Self::about(firing);
        about["fire_count"] = json!(stored.trigger.fire_count);
        about[member] = value;
        let actor = &stored.trigger.agent_id;
        self.system_log.record(ctx, event_draft(Kind::TriggerFired, &stored.trigger, actor, about));
    }

    /// Records that the server disabled a trigger, and skips its remaining firings.
    pub async fn switched_off(&mut self, ctx: &Ctx, stored: &Stored) -> Outcome<()> {
        let reason = stored.trigger.disabled_reason;
        // Its only firing may still wait for an open intent.
        if reason != Some(DisabledReason::Done) {
            let word = SkipReason::Disabled.as_str();
            firings::call_off(&mut self.tx, stored.trigger.id, word, self.system_log.now()).await?;
        }
        self.tell(ctx, Kind::TriggerDisabled, &stored.trigger, json!({ "reason": reason }));
        Ok(())
    }

    /// Counts that one of a trigger's firings could not be read, or that its job was refused, which may disable it.
    pub async fn count_failure(&mut self, ctx: &Ctx, id: TriggerId, reason: &str) -> Outcome<()> {
        let now = self.system_log.now();
        let Some((agent_id, is_disabled)) = rows::count_failure(&mut self.tx, id, now).await? else {
            return Ok(());
        };
        self.broken(ctx, id, &agent_id, reason);
        if is_disabled {
            let reason = DisabledReason::Failing;
            let payload = json!({ "trigger_id": id, "agent_id": agent_id, "reason": reason });
            self.system_log.record(ctx, Draft::of(Kind::TriggerDisabled, SYSTEM, payload));
        }
        Ok(())
    }

    /// Records that a trigger or one of its firings could not be read, or that its job was refused.
    pub fn broken(&mut self, ctx: &Ctx, id: TriggerId, agent_id: &str, reason: &str) {
        let payload = json!({ "trigger_id": id, "agent_id": agent_id, "reason": reason });
        self.system_log.record(ctx, Draft::of(Kind::TriggerFailed, SYSTEM, payload));
    }

    fn about(firing: &Firing) -> Value {
        let intent = firing.source.map(|(intent, _)| intent).filter(|intent| *intent != IntentId::SYSTEM);
        json!({
            "firing_id": firing.id, "cause": firing.cause, "reason": firing.reason, "intent_id": firing.intent_id,
            "created_intent_id": firing.intent_id, "source_intent_id": intent, "fired_by": firing.fired_by,
            "due_at": firing.due_at.map(rfc3339),
        })
    }

    async fn attempt(
        &mut self,
        ctx: &Ctx,
        stored: &Stored,
        firing: &Firing,
        brought: &Map<String, Value>,
    ) -> Outcome<End> {
        let now = self.system_log.now();
        let trigger = &stored.trigger;
        let Some(owner) = owner(&mut self.tx, stored, now).await? else { return Ok(End::Powerless) };
        // A firing that is due while its owner is stopped is not made up for: the next due time fires again.
        let about = firing.source.map(|(intent, _)| intent).filter(|intent| *intent != IntentId::SYSTEM);
        if ctx.stops.objection(&owner, &trigger.agent_id, about).is_some() {
            return Ok(End::Skipped(SkipReason::Stopped, None));
        }
        let mut brought = brought.clone();
        let mut before = Lineage::default();
        if let Some(place) = firing.source {
            let found = events::at(&mut self.tx, &[place]).await?.into_iter().next();
            let Some(event) = found else {
                return Ok(End::Skipped(SkipReason::NotVisible, None));
            };
            if !sees(&mut self.tx, ctx, owner.clone(), &event, now).await? {
                return Ok(End::Skipped(SkipReason::NotVisible, None));
            }
            if let Some(intent) = source(&event) {
                before = made::lineage(&mut self.tx, intent).await?;
            }
            brought.insert("event".to_owned(), Value::Object(filter::members(&event)));
        }
        let lineage = before.with(trigger.id);
        let circumstances = Circumstances {
            now,
            open: match trigger.job {
                Some(_) => firings::job_is_open(&mut self.tx, trigger.id).await?,
                None => made::is_open(&mut self.tx, trigger).await?,
            },
            waiting: firings::waits(&mut self.tx, trigger.id, firing.id).await?,
            depth: lineage.depth(),
        };
        match trigger.judge(firing.cause, circumstances) {
            Verdict::Skip(reason) => return Ok(End::Skipped(reason, None)),
            Verdict::Wait => return Ok(End::Waits),
            Verdict::Fire => {}
        }
        let context = FiringContext {
            firing: firing.id,
            cause: firing.cause,
            at: now,
            due_at: firing.due_at,
            brought: &brought,
            lineage: &lineage,
        };
        match trigger.make_job(&context) {
            Ok(Some(request)) => return Ok(End::Job(request)),
            Ok(None) => {}
            Err(why) => return Ok(End::Failed("template", format!("Its `job` {}.", why.0))),
        }
        match trigger.make(&context) {
            Ok(made) => self.make(ctx, trigger, made, lineage).await,
            Err(why) => Ok(End::Failed("template", format!("Its template {}.", why.0))),
        }
    }

    /// Creates the intent as the trigger's owner.
    async fn make(&mut self, ctx: &Ctx, trigger: &Trigger, made: Made, lineage: Lineage) -> Outcome<End> {
        let agent = &trigger.agent_id;
        let mut log = IntentLog::fresh(self.fresh, self.trace, self.system_log.now());
        let shown = Some(Value::Object(lineage.shown(trigger)));
        let assigned: Vec<&str> = made.assignments.iter().map(|one| one.agent_id.as_str()).collect();
        let intent = intents::make(&mut self.tx, ctx, &mut log, agent, made.ask, shown, &assigned).await?;
        // The trigger's owner does not hand on an intent that begins with all its assignments.
        let by = assignments::Assigner { agent, assigned: false };
        for one in &made.assignments {
            assignments::put(&mut self.tx, ctx, &mut log, by, &one.agent_id, &one.role).await?;
        }
        made::insert(&mut self.tx, trigger, intent.id, &lineage).await?;
        log.save(&mut self.tx).await?;
        self.made = Some(log);
        Ok(End::Made(intent.id, lineage))
    }
}

/// Returns the kind of the event of a skipped firing.
fn kind_of(reason: SkipReason) -> Kind {
    if reason == SkipReason::CascadeLimit { Kind::TriggerCascadeLimit } else { Kind::TriggerSkipped }
}

/// Returns the trigger's owner with its current rights; `None` if it may not create intents, or submit jobs.
async fn owner(conn: &mut PgConnection, stored: &Stored, now: Timestamp) -> Outcome<Option<Caller>> {
    let one = (stored.trigger.id, stored.key_id, stored.trigger.agent_id.as_str());
    let owners = owners(conn, &[one], now).await?;
    let scope = if stored.trigger.job.is_some() { Scope::JobsWrite } else { Scope::IntentsWrite };
    Ok(owners.into_values().next().filter(|owner| owner.has(scope)))
}

/// Returns the owners of these triggers (each with its key and agent), with their current rights, by trigger.
///
/// Triggers without a valid key are left out.
pub(super) async fn owners(
    conn: &mut PgConnection,
    triggers: &[(TriggerId, KeyId, &str)],
    now: Timestamp,
) -> Outcome<HashMap<TriggerId, Caller>> {
    let keys: Vec<_> = triggers.iter().map(|(_, key, _)| *key).collect();
    let grants = endpoints::grants(conn, &keys, now).await?;
    let owner = |(id, key, agent): &(TriggerId, KeyId, &str)| {
        let grant = grants.get(key)?.clone();
        Some((*id, Caller::new(grant, Some(agent), now).ok()?))
    };
    Ok(triggers.iter().filter_map(owner).collect())
}

/// Returns whether an owner may read an event at this moment.
async fn sees(
    conn: &mut PgConnection,
    ctx: &Ctx,
    owner: Caller,
    event: &Event,
    now: Timestamp,
) -> Outcome<bool> {
    let membership = match event.intent_id {
        IntentId::SYSTEM => None,
        intent => membership::find(conn, &owner.agent, intent, now).await?,
    };
    let readable = membership.as_ref().is_some_and(|membership| membership.access.reaches(Level::Read));
    if event.intent_id != IntentId::SYSTEM && !readable {
        return Ok(false);
    }
    let mut visibility = VisibilityFilter::new(owner, View::All);
    visibility.learn(event.intent_id, membership);
    visibility.sees(ctx, &Record::Event { event: event.clone(), change: None }).await
}
