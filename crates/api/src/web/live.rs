//! Streams of the dashboard, the inbox and a question, which report when the page is out of date. They carry
//! no content, unlike those of the API (`http/live.rs`): the script reloads the page, so that access checks
//! and rendering stay in one place.

use std::io;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::web;
use bytes::Bytes;
use entente_aee::approvals;
use entente_http::live::broken;
use entente_kernel::wakeups::{Listener, WakeKey};
use entente_kernel::{Caller, Outcome, StreamPermit, overview};
use entente_moments as moments;
use futures_util::stream;
use tokio::time::{Instant, sleep};

use super::guard::{PageResult, Visitor};
use super::inbox::moment_id;
use super::{dressed, held};
use crate::ApiState;

/// Polling interval for the dashboard, which receives no notifications.
const LOOK: Duration = Duration::from_millis(700);
/// Polling interval in addition to notifications: one may be lost, and the passage of time sends none.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/dashboard/stream", web::get().to(dashboard));
    config.route("/inbox/stream", web::get().to(inbox));
    config.route("/inbox/{id}/stream", web::get().to(moment));
}

struct Live {
    api: web::Data<ApiState>,
    caller: Caller,
    /// Subjects that are followed; empty for the dashboard, which receives no notifications.
    touches: Vec<WakeKey>,
    listener: Listener,
    seen: Option<i64>,
    said: Instant,
    _permit: StreamPermit,
}

async fn dashboard(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    respond(api, visitor.caller, Vec::new())
}

async fn inbox(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    let touches = vec![WakeKey::Inbox(visitor.caller.agent.clone())];
    respond(api, visitor.caller, touches)
}

/// Follows one question, also for viewers other than the person asked: their own inbox does not report it.
async fn moment(api: web::Data<ApiState>, visitor: Visitor, path: web::Path<String>) -> PageResult {
    let id = moment_id(&path)?;
    // Viewers without access receive no stream.
    moments::get(&api.ctx.moments, &visitor.caller, id).await?;
    respond(api, visitor.caller, vec![WakeKey::Moment(id)])
}

fn respond(api: web::Data<ApiState>, caller: Caller, touches: Vec<WakeKey>) -> PageResult {
    let permit = caller.waits(api.limits.max_streams_per_key)?;
    // Subscribes before the first read, so that a change in between is not missed.
    let mut listener = api.ctx.feed.wakeups().listener();
    touches.iter().for_each(|touch| listener.add(touch.clone()));
    let live = Live { api, caller, touches, listener, seen: None, said: Instant::now(), _permit: permit };
    let body = stream::try_unfold(live, |mut live| async move {
        let bytes = live.next().await?;
        Ok::<_, io::Error>(Some((bytes, live)))
    });
    Ok(dressed(StatusCode::OK)
        .content_type("text/event-stream; charset=utf-8")
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header(("x-accel-buffering", "no"))
        .streaming(body))
}

impl Live {
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        loop {
            self.caller.require_key(self.api.ctx.now()).map_err(|_ended| broken())?;
            let fingerprint = self.fingerprint().await.map_err(|_failure| broken())?;
            if self.seen.replace(fingerprint) != Some(fingerprint) {
                self.said = Instant::now();
                // Sent the first time too: something may have changed since the page was rendered.
                return Ok(Bytes::from(format!("retry: 1000\nevent: changed\ndata: {fingerprint}\n\n")));
            }
            if self.said.elapsed() >= self.api.limits.ping {
                self.said = Instant::now();
                return Ok(Bytes::from_static(b": ping\n\n"));
            }
            tokio::select! {
                () = self.api.draining.cancelled() => return Err(broken()),
                () = self.caller.grant.voided() => return Err(broken()),
                () = self.patience() => {}
            }
        }
    }

    async fn fingerprint(&self) -> Outcome<i64> {
        let ctx = &self.api.ctx;
        if self.touches.is_empty() {
            return overview::fingerprint(ctx).await;
        }
        let moved = moments::versions(&ctx.moments, &self.touches).await?;
        let moved = moved.first().map_or(0, |(_, seq)| *seq);
        if !matches!(self.touches.as_slice(), [WakeKey::Inbox(_)]) {
            return Ok(moved);
        }
        // Tasks waiting for a person are in the inbox too, but send no notifications.
        Ok(moved.wrapping_add(approvals::fingerprint(&ctx.aee, &self.caller, held::SHOWN).await?))
    }

    async fn patience(&self) {
        if self.touches.is_empty() {
            return sleep(LOOK).await;
        }
        tokio::select! {
            () = self.listener.rung() => {}
            () = sleep(LOOK_AGAIN) => {}
        }
    }
}
