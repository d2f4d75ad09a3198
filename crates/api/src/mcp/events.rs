//! The tool that waits: a long poll over messages to the agent, its assignments, jobs, mail and decisions, with a single
//! cursor, which the server keeps on request (`cursors.rs`). An agent misses nothing between calls: the cursor holds the position up to which each kind
//! was returned, and later entries stay in the database.

use std::sync::Arc;
use std::time::Duration;

use ::entente_moments as decisions;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entente_aee::mailboxes;
use entente_aee::mailboxes::MailboxItem;
use entente_aee_api::mailboxes::ItemBody;
use entente_arcp::jobs;
use entente_arcp::jobs::JobEventToken;
use entente_arcp_api::job_events;
use entente_bridges::Ctx;
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::log::event_types::EventTypes;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_http::frames::{parse_resume_token, show};
use entente_http::message::MessageBody;
use entente_kernel::feed::streams::{End, MissedMessages, Stream, Subject};
use entente_kernel::feed::{Frame, ResumeToken};
use entente_kernel::log::Record;
use entente_kernel::wakeups::{Listener, WakeKey};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cursors::Place;
use super::shapes::{cursor, gives, list, may, must, nullable, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, mail, moments, within};

/// Default and maximum number of events per response.
const STEP: usize = 50;
const STEP_MOST: u32 = 200;

/// Time for the agent's stream to deliver pending frames when other events were found already.
const STREAM_REST: Duration = Duration::from_millis(250);

/// Polling interval for jobs: those submitted during the wait send no notification to it.
const JOB_POLL: Duration = Duration::from_secs(2);

/// Maximum number of unfinished jobs whose notifications are followed.
const BELLS: u32 = 200;

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "wait_for_events",
        title: "Wait for events that concern you",
        about: "Waits for events that concern you: messages, assignments, job progress, envelopes, decisions. Use it instead \
                of polling, each time with the same `cursor`, or with `next` of the last answer as `after`: no event is lost in \
                between. A new cursor starts now and includes your open assignments and the envelopes that you have not \
                acknowledged. An empty list means that the time ran out.",
        takes: takes(vec![
            may("cursor", cursor()),
            may("after", text("`next`, instead of `cursor`.")),
            may("kinds", list(word("A kind of event.", &KINDS), "Only these kinds; others stay for later.")),
            may("timeout_s", whole("Seconds to wait; defaults to 25.", 0, i64::from(WAIT_SECONDS))),
            may("limit", whole("Maximum number of events; defaults to 50.", 1, i64::from(STEP_MOST))),
        ]),
        example: json!({ "cursor": "c1" }),
        gives: gives(vec![
            must(
                "events",
                list(
                    gives(vec![must(
                        "kind",
                        word("Kind of the event.", &["message", "assignment", "job", "mail", "decision"]),
                    )]),
                    "The events.",
                ),
            ),
            must("next", text("`after` of the next call.")),
            may("cursor", nullable(text("`cursor` of the next call."))),
        ]),
        // Pings among the mail are answered, so the tool does not only read.
        hints: Hints::marks(),
        names: &[],
        run: |call| Box::pin(wait_for_events(call)),
    }]
}

/// Kinds of events to wait for.
const KINDS: [&str; 5] = ["messages", "assignments", "jobs", "mail", "decisions"];

/// Kinds that the agent's stream has.
const STREAMED: [EventKind; 2] = [EventKind::Messages, EventKind::Assignments];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EventKind {
    Messages,
    Assignments,
    Jobs,
    Mail,
    Decisions,
}

impl EventKind {
    fn scope(self) -> Scope {
        match self {
            Self::Messages | Self::Assignments => Scope::ChannelsRead,
            Self::Jobs => Scope::JobsRead,
            Self::Mail => Scope::MailRead,
            Self::Decisions => Scope::MomentsRead,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    after: Option<String>,
    cursor: Option<String>,
    kinds: Option<Vec<EventKind>>,
    timeout_s: Option<u32>,
    limit: Option<u32>,
}

async fn wait_for_events(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let patience = within("timeout_s", said.timeout_s, WAIT_SECONDS, 0, WAIT_SECONDS)?;
    let limit = within("limit", said.limit, 50, 1, STEP_MOST)?;
    let mut place =
        Place::open(&call, "events".to_owned(), said.cursor.as_deref(), said.after.as_deref()).await?;
    let after = Place::from(place.as_ref(), said.after.as_deref());
    let after = after.map(|text| Cursor::parse(text).ok_or_else(|| unreadable(text))).transpose()?;
    let kinds = if let Some(kinds) = said.kinds {
        kinds.iter().try_for_each(|kind| call.caller.require(kind.scope()))?;
        kinds
    } else {
        let all = [
            EventKind::Messages,
            EventKind::Assignments,
            EventKind::Jobs,
            EventKind::Mail,
            EventKind::Decisions,
        ];
        all.into_iter().filter(|kind| call.caller.has(kind.scope())).collect()
    };
    let _place = call.waits()?;
    let mut after = after.unwrap_or_default();
    if place.is_some() && after.is_new() {
        // The position of now: the first answer of a cursor can be repeated from here.
        after = Watch::open(&call, kinds.clone(), after).await?.leave();
        Place::begins(&mut place, || Some(after.show()));
    }
    let mut watch = Watch::open(&call, kinds, after).await?;
    let time = Duration::from_secs(u64::from(patience));
    let events = watch.wait(&call, time, usize::try_from(limit).unwrap_or(STEP)).await?;
    let missed = watch.missed();
    let next = watch.leave().show();
    let cursor = Place::keep(place, &call, &next).await?;
    let on = if cursor.is_some() { "cursor" } else { "next" };
    let summary = match events.len() {
        0 => format!("Nothing happened.{missed} Call again with this `{on}`, or go on with something else."),
        count => format!("{count} event(s).{missed}"),
    };
    Answer::new(summary, &json!({ "events": events, "next": next, "cursor": cursor }))
}

fn unreadable(text: &str) -> Refusal {
    let message =
        format!("`{text}` is no cursor of this tool. Send `next` of the last answer, or none to begin now.");
    Refusal::field(Code::InvalidRequest, "after", "value", message)
}

/// Position up to which each kind was returned; `None` if it has never been read.
#[derive(Debug, Clone, Default)]
struct Cursor {
    messages: Option<ResumeToken>,
    assignments: Option<ResumeToken>,
    jobs: Option<JobEventToken>,
    mail: Option<i64>,
    decisions: Option<i64>,
}

impl Cursor {
    fn show(&self) -> String {
        let part = |name: &str, value: Option<String>| value.map(|value| format!("{name}={value}"));
        let joint = self.messages.filter(|place| self.assignments == Some(*place));
        let parts = [
            part("s", joint.map(show)),
            part("m", self.messages.filter(|_| joint.is_none()).map(show)),
            part("a", self.assignments.filter(|_| joint.is_none()).map(show)),
            part("j", self.jobs.map(job_events::show_token)),
            part("b", self.mail.map(|seq| seq.to_string())),
            part("d", self.decisions.map(|seq| seq.to_string())),
        ];
        format!("ev_{}", URL_SAFE_NO_PAD.encode(parts.into_iter().flatten().collect::<Vec<_>>().join(";")))
    }

    fn is_new(&self) -> bool {
        let Self { messages, assignments, jobs, mail, decisions } = self;
        let unread = messages.is_none() && assignments.is_none();
        unread && jobs.is_none() && mail.is_none() && decisions.is_none()
    }

    /// Sets the position of the kinds of a track.
    fn move_to(&mut self, kinds: &[EventKind], place: ResumeToken) {
        for kind in kinds {
            match kind {
                EventKind::Messages => self.messages = Some(place),
                EventKind::Assignments => self.assignments = Some(place),
                EventKind::Jobs | EventKind::Mail | EventKind::Decisions => {}
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim().strip_prefix("ev_")?).ok()?;
        let mut cursor = Self::default();
        for part in String::from_utf8(bytes).ok()?.split(';').filter(|part| !part.is_empty()) {
            match part.split_once('=')? {
                ("s", value) => cursor.move_to(&STREAMED, parse_resume_token(value)?),
                ("m", value) => cursor.messages = Some(parse_resume_token(value)?),
                ("a", value) => cursor.assignments = Some(parse_resume_token(value)?),
                ("j", value) => cursor.jobs = Some(job_events::read(value)?),
                ("b", value) => cursor.mail = Some(value.parse().ok()?),
                ("d", value) => cursor.decisions = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(cursor)
    }
}

/// A part of a wait that follows the agent's stream, for these kinds.
struct Track {
    kinds: Vec<EventKind>,
    stream: Option<Stream>,
}

impl Track {
    /// Returns the next frames; pends forever without a stream.
    async fn next(&mut self, ctx: &Ctx) -> Result<Vec<Arc<Frame>>, Problem> {
        let Some(stream) = &mut self.stream else { return std::future::pending().await };
        match stream.next(ctx).await {
            Ok(frames) => Ok(frames),
            Err(End::Failed(failure)) => Err(failure.into()),
            Err(ended @ (End::AccessEnded | End::Gone)) => {
                let message = format!("The key no longer opens this: {ended}.");
                Err(Refusal::new(Code::Unauthenticated, message).into())
            }
        }
    }
}

/// A wait in progress.
struct Watch {
    kinds: Vec<EventKind>,
    cursor: Cursor,
    /// One for messages and assignments if both were read up to the same position, otherwise one for each.
    tracks: Vec<Track>,
    /// Messages that the agent has missed, as the tracks said.
    missed: Vec<MissedMessages>,
    listener: Listener,
}

impl Watch {
    /// A new cursor begins now for all kinds that the caller may read, so that none of a kind is lost before the first
    /// call that asks for it.
    async fn open(call: &Call, kinds: Vec<EventKind>, mut cursor: Cursor) -> Result<Self, Problem> {
        let (ctx, caller) = (call.ctx(), &call.caller);
        let new = cursor.is_new();
        let wants = |kind: EventKind| kinds.contains(&kind);
        let begins = |kind: EventKind| wants(kind) || new && caller.has(kind.scope());
        // Subscribes before the first read, so that a change in between is not missed.
        let mut listener = ctx.feed.wakeups().listener();
        if wants(EventKind::Mail) {
            listener.add(WakeKey::Mailbox(caller.agent.clone()));
        }
        if wants(EventKind::Decisions) {
            listener.add(WakeKey::Inbox(caller.agent.clone()));
        }
        if cursor.decisions.is_none() && begins(EventKind::Decisions) {
            cursor.decisions = Some(decisions::last_change(&ctx.moments).await?);
        }
        if wants(EventKind::Jobs) {
            let statuses = vec![JobStatus::Pending, JobStatus::Running];
            let filter = jobs::JobFilter { statuses, limit: BELLS, ..jobs::JobFilter::default() };
            for job in jobs::list(&ctx.arcp, caller, &filter).await?.0 {
                listener.add(WakeKey::Job(job.id));
            }
        }
        if cursor.jobs.is_none() && begins(EventKind::Jobs) {
            cursor.jobs = Some(JobEventToken::Place(jobs::start_of_everything(&ctx.arcp).await?));
        }
        let tracks = if new && begins(EventKind::Messages) {
            Self::begin(call, &kinds, &mut cursor).await?
        } else {
            Self::resume(call, &kinds, &cursor).await?
        };
        Ok(Self { kinds, cursor, tracks, missed: Vec::new(), listener })
    }

    /// Opens the agent's stream for a new cursor.
    async fn begin(call: &Call, kinds: &[EventKind], cursor: &mut Cursor) -> Result<Vec<Track>, Problem> {
        let track = follow(call, streamed(kinds), None).await?;
        if let Some(stream) = &track.stream {
            cursor.move_to(&STREAMED, stream.mark());
        }
        Ok(if track.kinds.is_empty() { Vec::new() } else { vec![track] })
    }

    /// Opens the agent's stream at the positions of a cursor.
    async fn resume(call: &Call, kinds: &[EventKind], cursor: &Cursor) -> Result<Vec<Track>, Problem> {
        let wanted = streamed(kinds);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if cursor.messages == cursor.assignments {
            return Ok(vec![follow(call, wanted, cursor.messages).await?]);
        }
        let mut tracks = Vec::with_capacity(wanted.len());
        for kind in wanted {
            let from = if kind == EventKind::Messages { cursor.messages } else { cursor.assignments };
            tracks.push(follow(call, vec![kind], from).await?);
        }
        Ok(tracks)
    }

    /// Waits until there are events, the time runs out, or the server stops.
    async fn wait(&mut self, call: &Call, patience: Duration, limit: usize) -> Result<Vec<Value>, Problem> {
        let until = Instant::now() + patience;
        let ctx = call.ctx();
        loop {
            let mut found = self.look(call, limit).await?;
            let left = until.saturating_duration_since(Instant::now()).min(JOB_POLL).max(STREAM_REST);
            let rest = if found.is_empty() { left } else { STREAM_REST };
            if found.len() >= limit {
                return Ok(found);
            }
            let stopping = tokio::select! {
                biased;
                () = call.api.draining.cancelled() => true,
                heard = next(&mut self.tracks, ctx) => {
                    let (track, frames) = heard?;
                    self.hand_out(track, frames, limit, ctx.settings.strict, &mut found);
                    false
                }
                () = self.listener.rung(), if found.is_empty() => false,
                () = sleep(rest) => false,
            };
            if !found.is_empty() || stopping || Instant::now() >= until {
                return Ok(found);
            }
            call.caller.require_key(ctx.now())?;
        }
    }

    /// Reads new job events, mail and decisions.
    async fn look(&mut self, call: &Call, limit: usize) -> Result<Vec<Value>, Problem> {
        let mut found = Vec::new();
        if self.kinds.contains(&EventKind::Jobs) {
            self.look_at_jobs(call, limit, &mut found).await?;
        }
        if self.kinds.contains(&EventKind::Mail) && found.len() < limit {
            let room = u32::try_from(limit - found.len()).unwrap_or(STEP_MOST);
            for item in self.look_into_mailbox(call, room).await? {
                self.cursor.mail = Some(item.seq);
                mail::pong(call, &call.caller.agent, &item).await?;
                let mut event = object(&ItemBody::new(item, Dialect::Standard)?)?;
                event["kind"] = json!("mail");
                found.push(event);
            }
        }
        if self.kinds.contains(&EventKind::Decisions) && found.len() < limit {
            let room = u32::try_from(limit - found.len()).unwrap_or(STEP_MOST);
            let after = self.cursor.decisions.unwrap_or_default();
            for change in decisions::changes(&call.ctx().moments, &call.caller, after, room).await? {
                self.cursor.decisions = Some(change.changed_seq);
                // Skips the agent's own new question.
                if change.moment.version > 1 || change.role != decisions::Role::Agent {
                    let mut event = moments::shown(&change);
                    event["kind"] = json!("decision");
                    found.push(event);
                }
            }
        }
        Ok(found)
    }

    /// Reads the mail after the cursor that has not been acknowledged meanwhile.
    async fn look_into_mailbox(&mut self, call: &Call, room: u32) -> Result<Vec<MailboxItem>, Problem> {
        let (ctx, caller, entity) = (call.ctx(), &call.caller, &call.caller.agent);
        if let Some(after) = self.cursor.mail {
            return Ok(mailboxes::waiting(&ctx.aee, caller, entity, after, room).await?);
        }
        let (mailbox, items) = mailboxes::read(&ctx.aee, caller, entity, None, room).await?;
        self.cursor.mail = Some(mailbox.acked_seq);
        Ok(items)
    }

    async fn look_at_jobs(
        &mut self,
        call: &Call,
        limit: usize,
        found: &mut Vec<Value>,
    ) -> Result<(), Problem> {
        let mut spot = match self.cursor.jobs {
            None => return Ok(()),
            Some(JobEventToken::Place(spot)) => spot,
            Some(former) => jobs::resume_everything(&call.ctx().arcp, former).await?,
        };
        loop {
            let (events, reached) = jobs::everything(&call.ctx().arcp, &call.caller, spot).await?;
            for (place, event, job) in events {
                if found.len() >= limit {
                    return Ok(());
                }
                self.cursor.jobs = Some(JobEventToken::Place(place));
                self.listener.add(WakeKey::Job(job.id));
                found.push(json!({
                    "kind": "job", "job_id": job.id, "agent": job.agent, "status": job.status,
                    "type": event.type_, "seq": event.job_seq, "event": event.payload()?,
                }));
            }
            self.cursor.jobs = Some(JobEventToken::Place(reached));
            // Events of other principals may lie in between.
            if reached == spot || found.len() >= limit {
                return Ok(());
            }
            spot = reached;
        }
    }

    /// Takes over frames of a track up to the limit; the rest lies after the cursor and is read again.
    fn hand_out(
        &mut self,
        track: usize,
        frames: Vec<Arc<Frame>>,
        limit: usize,
        strict: bool,
        found: &mut Vec<Value>,
    ) {
        let Some(track) = self.tracks.get_mut(track) else { return };
        if track.kinds.contains(&EventKind::Messages) {
            self.missed.extend(track.stream.iter_mut().flat_map(Stream::take_missed));
        }
        for frame in frames {
            let Some(event) = event(&frame, &track.kinds, strict) else { continue };
            if found.len() >= limit {
                // The stream restarts after the last frame taken over.
                track.stream = None;
                return;
            }
            self.cursor.move_to(&track.kinds, frame.mark);
            found.push(event);
        }
    }

    /// Returns a sentence about the messages that the agent has missed, if any.
    fn missed(&mut self) -> String {
        let of_messages = self.tracks.iter_mut().filter(|track| track.kinds.contains(&EventKind::Messages));
        let left: Vec<_> =
            of_messages.flat_map(|track| &mut track.stream).flat_map(Stream::take_missed).collect();
        self.missed.extend(left);
        let count: i64 = self.missed.iter().map(|missed| missed.count).sum();
        let most = if self.missed.iter().any(|missed| missed.is_truncated) { "Up to " } else { "" };
        if count == 0 {
            String::new()
        } else {
            format!(" {most}{count} message(s) were evicted or have expired before.")
        }
    }

    /// Returns the cursor from which the next call continues.
    fn leave(mut self) -> Cursor {
        for track in &self.tracks {
            if let Some(stream) = &track.stream {
                self.cursor.move_to(&track.kinds, stream.place());
            }
        }
        self.cursor
    }
}

/// Returns those of the kinds that the agent's stream has.
fn streamed(kinds: &[EventKind]) -> Vec<EventKind> {
    STREAMED.into_iter().filter(|kind| kinds.contains(kind)).collect()
}

/// Opens the agent's stream for these kinds, from a position or from now.
async fn follow(call: &Call, kinds: Vec<EventKind>, from: Option<ResumeToken>) -> Result<Track, Problem> {
    let stream =
        Stream::open(call.ctx(), call.caller.clone(), Subject::Agent, EventTypes::all(), from).await?;
    Ok(Track { kinds, stream: Some(stream) })
}

/// Returns a frame as an event, if it is of one of these kinds.
fn event(frame: &Frame, kinds: &[EventKind], strict: bool) -> Option<Value> {
    match &frame.record {
        Record::Message { message, .. } if kinds.contains(&EventKind::Messages) => {
            let body = object(&MessageBody::new(message, strict, Dialect::Standard)).ok()?;
            Some(json!({ "kind": "message", "channel_id": message.channel_id, "message": body }))
        }
        Record::Event { event, .. } if kinds.contains(&EventKind::Assignments) => {
            let kind = event.event_type.as_str();
            let told = matches!(kind, "agent_assigned" | "agent_unassigned") || kind.starts_with("task.");
            (told && !event.posted).then(|| {
                json!({
                    "kind": "assignment", "type": kind, "intent_id": event.intent_id,
                    "actor": event.actor, "payload": event.payload,
                })
            })
        }
        _ => None,
    }
}

/// Returns the next frames of one of at most two tracks, with its index; pends forever without a track.
async fn next(tracks: &mut [Track], ctx: &Ctx) -> Result<(usize, Vec<Arc<Frame>>), Problem> {
    match tracks {
        [] => std::future::pending().await,
        [only] => Ok((0, only.next(ctx).await?)),
        [first, second, ..] => tokio::select! {
            frames = first.next(ctx) => Ok((0, frames?)),
            frames = second.next(ctx) => Ok((1, frames?)),
        },
    }
}

fn object(body: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(body).map_err(|e| Problem::internal(&e.to_string()))
}
