//! Subscriptions to resources (`subscriptions/listen` of 2026-07-28): the response of the request is a stream that
//! begins with the URIs that the server follows, and then names each of them that has changed. It ends with the key,
//! with the connection, when the server stops, and after an hour. The versions before need a session and its stream by
//! GET for this, and so have no subscriptions here.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entente_bridges::Ctx;
use entente_domain::log::event_types::EventTypes;
use entente_http::error::Problem;
use entente_http::presence::Presence;
use entente_kernel::feed::Frame;
use entente_kernel::feed::streams::{End, Stream, Subject};
use entente_kernel::log::Record;
use entente_kernel::{AppError, Caller, StreamPermit};
use entente_runtime::metrics::StreamLabels;
use futures_util::future::try_join_all;
use rmcp::service::{SubscriptionContext, SubscriptionSink};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::subject;
use crate::ApiState;
use crate::mcp::contains;

/// Maximum number of resources of one subscription.
pub const SUBSCRIBED: usize = 32;

/// Maximum duration of a subscription in seconds; the client then subscribes again.
const LISTEN_SECONDS: u64 = 3_600;

/// Pause between two notifications about one resource: changes in between are one.
const REST: Duration = Duration::from_millis(250);

/// Time for a client to take a notification.
const TAKE: Duration = Duration::from_secs(30);

/// Label of these streams in the metrics.
const KIND: &str = "mcp";

/// A request for a subscription, as far as it is read here; the library validates it.
#[derive(Deserialize)]
struct Asked {
    method: String,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    notifications: Notifications,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notifications {
    resource_subscriptions: Option<Vec<String>>,
}

/// The resources that a request subscribes to, opened before the library acknowledges them: a change after the
/// acknowledgement is not missed.
#[derive(Default)]
pub struct Subscriptions {
    /// URIs that the caller may follow.
    pub uris: Vec<String>,
    opened: Mutex<Option<Opened>>,
}

struct Opened {
    streams: Vec<(String, Stream)>,
    _permit: StreamPermit,
}

impl Subscriptions {
    /// Opens the resources that a request subscribes to; none for another request. URIs of nothing that the caller may
    /// follow are left out, and the acknowledgement does not name them.
    ///
    /// Returns `Err` with their number within the result if the request names more than [`SUBSCRIBED`] resources.
    ///
    /// # Errors
    /// The key has too many streams; a database error.
    pub async fn open(api: &ApiState, caller: &Caller, body: &[u8]) -> Result<Result<Self, usize>, Problem> {
        let asked = contains(body, b"listen").then(|| serde_json::from_slice::<Asked>(body).ok()).flatten();
        let Some(asked) = asked.filter(|asked| asked.method == "subscriptions/listen") else {
            return Ok(Ok(Self::default()));
        };
        let mut uris = asked.params.notifications.resource_subscriptions.unwrap_or_default();
        uris.sort_unstable();
        uris.dedup();
        if uris.len() > SUBSCRIBED {
            return Ok(Err(uris.len()));
        }
        let permit = caller.waits(api.limits.max_streams_per_key)?;
        let mut streams = Vec::with_capacity(uris.len());
        for uri in uris {
            let Some(subject) = subject(&uri) else { continue };
            match Stream::open(&api.ctx, caller.clone(), subject, EventTypes::all(), None).await {
                Ok(stream) => streams.push((uri, stream)),
                Err(AppError::Refused(_)) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        let uris = streams.iter().map(|(uri, _)| uri.clone()).collect();
        Ok(Ok(Self { uris, opened: Mutex::new(Some(Opened { streams, _permit: permit })) }))
    }

    /// Notifies the client of changes until the subscription ends.
    pub async fn follow(
        &self,
        api: &ApiState,
        caller: &Caller,
        presence: &Presence,
        context: &SubscriptionContext,
    ) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Opened { streams, _permit }) = opened else { return };
        let ctx = &api.ctx;
        let _counted = Counted::new(ctx);
        let sink = context.sink();
        let each: Vec<_> = streams.into_iter().map(|(uri, stream)| one(ctx, uri, stream, sink)).collect();
        let all = async {
            if let Err(failure) = try_join_all(each).await {
                tracing::debug!(error = %failure, kind = KIND, "a stream ended");
                return;
            }
            // None of the resources is left; the client keeps the stream, as with a filter that accepts none.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = all => {}
            () = context.cancelled() => {}
            () = presence.over().cancelled() => {}
            () = caller.grant.voided() => {}
            () = sleep(lasts(ctx, caller)) => {}
        }
    }
}

/// Returns how long a subscription may last: not longer than its key.
fn lasts(ctx: &Ctx, caller: &Caller) -> Duration {
    let most = Duration::from_secs(LISTEN_SECONDS);
    let key = caller.grant.key.expires_at.map(|end| (end - ctx.now()).to_std().unwrap_or_default());
    key.map_or(most, |key| key.min(most))
}

/// Counts a subscription in the metrics while it lasts.
struct Counted<'a>(&'a Ctx);

impl<'a> Counted<'a> {
    fn new(ctx: &'a Ctx) -> Self {
        ctx.metrics.streams.get_or_create(&StreamLabels { kind: KIND }).inc();
        Self(ctx)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.metrics.streams.get_or_create(&StreamLabels { kind: KIND }).dec();
    }
}

/// Notifies of the changes of one resource until the caller may no longer read it; the last notification lets the
/// client find that out.
async fn one(ctx: &Ctx, uri: String, mut stream: Stream, sink: &SubscriptionSink) -> Result<(), AppError> {
    let of_intent = matches!(subject(&uri), Some(Subject::Intent(_)));
    loop {
        let (changed, over) = match stream.next(ctx).await {
            Ok(frames) => (frames.iter().any(|frame| changes(frame, of_intent)), false),
            Err(End::Failed(failure)) => return Err(failure),
            Err(End::AccessEnded | End::Gone) => (stream.check_key(ctx).is_ok(), true),
        };
        if changed {
            let told = timeout(TAKE, sink.notify_resource_updated(uri.as_str())).await;
            if !matches!(told, Ok(Ok(()))) {
                // It ends for all resources: a client whose stream goes on would take this one for unchanged.
                return Err(AppError::Unavailable("the client takes no notifications".to_owned()));
            }
        }
        if over {
            return Ok(());
        }
        sleep(REST).await;
    }
}

/// Returns whether a frame changes the resource: messages do not change their intent.
fn changes(frame: &Frame, of_intent: bool) -> bool {
    !of_intent || matches!(frame.record, Record::Event { .. })
}
