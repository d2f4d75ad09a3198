//! Delivery of events to a client: notifications, reading, holding back, delivering, and timers.

use std::sync::Arc;

use entente_arcp::sessions;
use entente_domain::arcp::sessions::What;
use entente_domain::arcp::sessions::dialogue::{Answer, Do, Opened};
use entente_domain::ids::JobId;
use entente_kernel::wakeups::WakeKey;
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use super::super::asking::{Backend, Done, Inside};
use super::super::{Ending, FrameSink, FrameSource, Heard};
use super::{AGAIN, FINISH, LISTEN, Read, STRETCH, Session, Step, TURN, begun};

impl Session {
    pub(super) fn listen_for(&mut self, job: JobId) {
        self.listener.add(WakeKey::Job(job));
        self.followed.insert(job);
        self.unplanned = true;
        // Earlier events are found by reading, later ones send notifications.
        self.stale = true;
    }

    pub(super) fn let_in(&mut self, inside: Inside) -> Answer {
        let Inside { caller, entered, agents, last_seq, follows } = inside;
        self.listener.add(WakeKey::Session(entered.id));
        follows.into_iter().for_each(|job| self.listen_for(job));
        self.stale = true;
        // If chunks are split (`lines`), the client's numbers can only be recomputed from the beginning.
        self.read_seq = if entered.lines { 0 } else { last_seq };
        self.keep_at = Instant::now() + self.api.ctx.arcp.state.sessions.resume_window / 4;
        self.unheard = entered.connection > 1;
        let opened = Opened {
            session_id: entered.id,
            dialect: entered.dialect,
            features: entered.features,
            resume_token: entered.token.clone(),
            agents,
            last_seq,
            acked: entered.acked,
            lines: entered.lines,
        };
        self.backend = Some(Backend { api: Arc::clone(&self.api), caller, entered: Arc::new(entered) });
        Answer::Opened(Box::new(opened))
    }

    /// Records the first sign of life after the welcome of a resumed session: it proves that the client has
    /// its new token, so the previous one becomes invalid.
    pub(super) fn note_life(&mut self, step: &Step) {
        let alive =
            matches!(step, Step::Heard(Heard::Text(_) | Heard::Noise(_) | Heard::Ping(_) | Heard::Breath));
        if let (true, true, Some(backend)) = (alive, self.unheard, self.backend.clone()) {
            self.unheard = false;
            self.others.push(begun(&self.api.tasks, backend.keep(true)));
        }
    }

    /// Holds events that were read until they may be delivered.
    pub(super) fn hold(&mut self, read: Read) {
        match read {
            Ok((batch, unplanned)) => {
                self.unplanned |= unplanned;
                self.stale |= batch.more || unplanned;
                if let Some(last) = batch.events.last() {
                    self.read_seq = last.event_seq;
                    self.held = Some((self.machine.mark(), batch.events.into()));
                }
            }
            Err(failure) => {
                if !failure.is_passing() {
                    tracing::error!(error = %failure, "a session's events could not be read");
                }
                self.unplanned = true;
                self.again_at = Some(Instant::now() + AGAIN);
            }
        }
    }

    /// Returns whether held events may be delivered now, with nothing that must precede them.
    pub(super) fn is_ready(&self) -> bool {
        self.held.as_ref().is_some_and(|(mark, _)| self.machine.may_deliver(*mark))
    }

    /// Delivers some of the held events, if nothing must precede them; the rest waits for the next turn, so
    /// that frames of a slow client are read in between.
    pub(super) async fn deliver(&mut self, mouth: &mut impl FrameSink) -> Option<Ending> {
        let began = Instant::now();
        for _ in 0..STRETCH {
            if !self.is_ready() || began.elapsed() >= TURN {
                break;
            }
            let Some((_, events)) = self.held.as_mut() else { break };
            let event = events.pop_front();
            if events.is_empty() {
                self.held = None;
            }
            let Some(event) = event else { break };
            if !matches!(event.what, What::Event(_)) && self.followed.remove(&event.job_id) {
                // The job has ended: no more events follow.
                self.listener.remove(&WakeKey::Job(event.job_id));
            }
            self.active_at = Instant::now();
            let chance = self.chance();
            let doing = self.machine.deliver(self.moment(&chance), event);
            if let Some(ending) = self.act(doing, mouth).await {
                return Some(ending);
            }
        }
        None
    }

    /// Reads once more before a silent client is disconnected: the server may have had no time for it or, if
    /// it was not reading (`listening`), no room.
    pub(super) async fn listen_again(
        &mut self,
        ear: &mut impl FrameSource,
        listening: bool,
    ) -> Option<Heard> {
        let at = self.began.elapsed();
        if !self.machine.is_silent(at) {
            self.listened_at = None;
        } else if !listening {
            self.machine.excuse(at);
        } else if self.last.is_none() && self.listened_at.is_none() {
            let until = Instant::now() + LISTEN;
            self.listened_at = Some(until);
            while let Ok(heard) = timeout_at(until, ear.hear()).await {
                if !matches!(heard, Heard::Breath) {
                    return Some(heard);
                }
            }
        }
        None
    }

    /// Starts to read new events, if there is room for them.
    pub(super) fn look(&mut self) {
        if !self.stale || self.reading.is_some() || self.held.is_some() || self.again_at.is_some() {
            return;
        }
        let Some(backend) = self.backend.clone() else { return };
        self.stale = false;
        let plan = std::mem::take(&mut self.unplanned) || !self.followed.is_empty();
        self.reading = Some(begun(&self.api.tasks, backend.read(self.read_seq, plan)));
    }

    /// Performs all due actions: heartbeats, fences, renewing the session, repeating a failed read.
    pub(super) fn expire_due(&mut self) -> Result<Vec<Do>, Ending> {
        let now = Instant::now();
        if self.leaving_at.is_some_and(|at| at <= now) {
            return Err(self.last.unwrap_or(Ending::Restart));
        }
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.stale = true;
        }
        if let Some((_, ask)) = self.early.take_if(|(at, _)| *at <= now) {
            self.ask(ask);
        }
        if self.keep_at <= now {
            let Some(backend) = self.backend.clone() else { return Err(Ending::Refused) };
            if backend.caller.require_key(self.api.ctx.now()).is_err() {
                return Err(Ending::Refused);
            }
            let settings = &self.api.ctx.arcp.state.sessions;
            self.keep_at = now + settings.resume_window / 4;
            self.others.push(begun(&self.api.tasks, backend.clone().keep(!self.unheard)));
            if now.duration_since(self.active_at) >= settings.idle {
                self.others.push(begun(&self.api.tasks, backend.rest()));
            }
        }
        let chance = self.chance();
        Ok(self.machine.tick(self.moment(&chance)))
    }

    /// Finishes the requests in progress although nobody receives the answers: a submitted job exists when
    /// its client looks for it later.
    pub(super) async fn finish(&mut self) {
        if self.backend.is_none() {
            return;
        }
        if let Some((_, ask)) = self.early.take() {
            self.put(ask);
        }
        let until = self.leaving_at.unwrap_or_else(|| Instant::now() + FINISH);
        let Self { submits, others, follows, .. } = self;
        let submits = async { while submits.next().await.is_some() {} };
        let others = async { while others.next().await.is_some() {} };
        let follows = async {
            while let Some(next) = follows.pop_front() {
                next.await;
            }
        };
        let all = async { tokio::join!(submits, others, follows) };
        if timeout_at(until, all).await.is_err() {
            tracing::debug!("a session ended before all that it was asked for was done");
        }
    }

    /// Records the end of the connection, which starts the session's resume window.
    pub(super) async fn leave(mut self) {
        let Some(backend) = self.backend.take() else {
            // An admission may still be in progress.
            while let Some(done) = self.others.next().await {
                if let Done::Entered(_, inside) = done {
                    let entered = &inside.entered;
                    let _counted = sessions::leave(&self.api.ctx.arcp, entered.id, entered.connection).await;
                }
            }
            return;
        };
        if let Some(acking) = self.acking.take() {
            acking.await;
        }
        if let Some(seq) = self.acked.take() {
            backend.clone().acked(seq).await;
        }
        let entered = &backend.entered;
        if entered.connection > 1 && !self.unheard {
            // The record of the first sign of life may be missing if it was also the last one.
            backend.clone().keep(true).await;
        }
        if let Err(failure) = sessions::leave(&self.api.ctx.arcp, entered.id, entered.connection).await {
            tracing::debug!(error = %failure, "a session that was left counts as connected for a while");
        }
    }
}
