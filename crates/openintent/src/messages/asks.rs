//! Ask and wait (RFC-0021 §3): one call sends a request, waits for its responses, and returns those that
//! arrived in time. `ask_all` collects several (§3.2).

use std::sync::Arc;
use std::time::Duration;

use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::ids::{ChannelId, MessageId};
use entente_domain::log::events::{Event, Kind};
use entente_domain::log::receipts::ReceiptKind;
use entente_domain::openintent::messages::{Message, MessageType};
use entente_kernel::channels::access::visit;
use entente_kernel::feed::reader;
use entente_kernel::feed::streams::news;
use entente_kernel::feed::{Follower, FollowerRead};
use entente_kernel::log::Record;
use entente_kernel::{AppError, Caller, Outcome};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::Ctx;
use crate::messages::waiting::known;
use crate::messages::writer::{Command, MessageWriter};

/// The number of responses to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// This many.
    Count(u32),
    /// One from each recipient of the request; for a request to everybody, all that arrive in time.
    All,
}

/// Why an ask ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskEnd {
    /// All wanted responses arrived.
    Complete,
    /// The time ran out first.
    TimedOut,
    /// The request expired early: its channel closed or its recipient left.
    Expired,
    /// The server is stopping; the request stays pending, and its response can be polled for.
    Interrupted,
}

/// The outcome of an ask.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The request that was sent.
    pub request: Arc<Message>,
    /// The responses that arrived, in order.
    pub responses: Vec<Message>,
    /// Why it ended.
    pub end: AskEnd,
}

/// Sends a request and waits for its responses, for at most `seconds`; the request expires when the wait
/// ends.
///
/// # Errors
/// The request is refused.
pub async fn ask(
    ctx: &Ctx,
    message_writer: &MessageWriter,
    caller: &Caller,
    mut command: Command,
    want: Want,
    seconds: u32,
    stopping: &CancellationToken,
) -> Outcome<Answer> {
    let began = Instant::now();
    command.draft.message_type = MessageType::Request;
    command.draft.expires_at = Some(plus_seconds(ctx.now(), seconds));
    // Registered before the request is sent, so that no response is missed.
    let mut follower = ctx.feed.follow(command.intent_id, 0);
    let asker = caller.acting_as(command.draft.sender.clone());
    let request = message_writer.send(command).await?;
    follower.position = request.seq;
    let deadline = began + Duration::from_secs(u64::from(seconds));
    let mut waiting = Waiting { ctx, caller, request: &request, want, responses: Vec::new(), expired: false };
    let collect = stopping.run_until_cancelled(timeout_at(deadline, waiting.collect(&mut follower)));
    let collected = known(ctx, &request, want, collect).await;
    match &collected {
        Some(Ok(_)) | None => {}
        // The feed may not have delivered a response that another server just committed.
        Some(Err(_late)) => waiting.look(request.channel_id).await?,
    }
    let interrupted = collected.is_none();
    if let Some(Ok(collected)) = collected {
        collected?;
    }
    if !waiting.responses.is_empty() {
        // Access may have been revoked since the request was sent.
        let visit = visit(&mut *ctx.pool.acquire().await?, &asker, request.channel_id, ctx.now()).await?;
        visit.viewer(&asker, ctx.settings.strict).require(&visit.channel)?;
    }
    let end = match (waiting.has_enough(), waiting.expired, interrupted) {
        (true, _, _) => AskEnd::Complete,
        (false, true, _) => AskEnd::Expired,
        (false, false, true) => AskEnd::Interrupted,
        (false, false, false) => AskEnd::TimedOut,
    };
    let responses = waiting.responses;
    Ok(Answer { request, responses, end })
}

struct Waiting<'a> {
    ctx: &'a Ctx,
    caller: &'a Caller,
    request: &'a Message,
    want: Want,
    responses: Vec<Message>,
    /// No further response is possible.
    expired: bool,
}

impl Waiting<'_> {
    fn has_enough(&self) -> bool {
        let answered = |agent: &String| self.responses.iter().any(|response| response.sender == *agent);
        match (self.want, &self.request.recipients) {
            (Want::Count(count), _) => u32::try_from(self.responses.len()).is_ok_and(|had| had >= count),
            // One from each: a second response from the same agent does not count for another.
            (Want::All, Some(asked)) => asked.iter().all(answered),
            (Want::All, None) => false,
        }
    }

    async fn collect(&mut self, follower: &mut Follower<i64>) -> Outcome<()> {
        while !self.has_enough() && !self.expired {
            self.caller.require_key(self.ctx.now())?;
            match follower.read() {
                FollowerRead::Frames(frames) => frames.iter().for_each(|frame| self.hear(&frame.record)),
                FollowerRead::UpToDate => news(follower, &self.caller.grant).await,
                FollowerRead::Behind => {
                    let stretch = reader::line(self.ctx, self.request.intent_id, follower.position).await?;
                    stretch.records.iter().for_each(|(_, record)| self.hear(record));
                    follower.position = stretch.reached;
                    follower.topic().start_at(stretch.reached);
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self, record: &Record) {
        match record {
            Record::Message { message, .. } if self.answers(message) => {
                self.responses.push(Message::clone(message));
            }
            Record::Receipt { receipt, .. } if receipt.message_id == self.request.id => {
                self.expired |= receipt.kind == ReceiptKind::Expired;
            }
            // An answered request no longer expires, but its channel can still close.
            Record::Event { event, .. } if self.closes(event) => self.expired = true,
            Record::Message { .. } | Record::Receipt { .. } | Record::Event { .. } => {}
        }
    }

    fn closes(&self, event: &Event) -> bool {
        let channel =
            || event.payload.get("channel_id").and_then(|id| id.as_str()?.parse::<ChannelId>().ok());
        !event.posted
            && event.event_type == Kind::ChannelClosed.wire()
            && channel() == Some(self.request.channel_id)
    }

    fn answers(&self, message: &Message) -> bool {
        let new = || self.responses.iter().all(|known| known.id != message.id);
        message.message_type == MessageType::Response
            && message.correlation_id == Some(self.request.id)
            && new()
    }

    async fn look(&mut self, channel: ChannelId) -> Outcome<()> {
        let mut conn = self.ctx.pool.acquire().await.map_err(AppError::from)?;
        let id: MessageId = self.request.id;
        let now: Timestamp = self.ctx.now();
        self.responses = entente_kernel::messages::responses(&mut conn, channel, id, now).await?;
        Ok(())
    }
}
