//! Course of a session: the client's admission, the delivery of events, the due actions, the end.

use std::sync::Arc;
use std::time::Duration;

use entente_arcp::sessions;
use entente_domain::arcp::sessions::dialogue::{Answer, Do, Opened};
use tokio::time::{Instant, timeout_at};

use super::super::asking::{AdmittedClient, Backend};
use super::super::{Ending, FrameSink, FrameSource, Incoming};
use super::{Session, Step};

/// Maximum number of events delivered in one turn; the client's frames are read in between.
const STRETCH: usize = 16;
/// Maximum duration of such a turn: see [`STRETCH`].
const TURN: Duration = Duration::from_millis(100);
/// Extra time for reading before a client counts as silent.
const LISTEN: Duration = Duration::from_millis(50);

impl Session {
    pub(super) fn let_in(&mut self, admitted: AdmittedClient) -> Answer {
        let AdmittedClient { caller, fences, entered, agents, last_seq, follows } = admitted;
        // If chunks are split (`lines`), the client's numbers can only be recomputed from the beginning.
        let read_seq = if entered.lines { 0 } else { last_seq };
        self.events.open(entered.id, read_seq, follows);
        self.timers.renew(Instant::now(), self.api.ctx.state.sessions.resume_window);
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
        self.client.admit(Backend { api: Arc::clone(&self.api), caller, fences, entered: Arc::new(entered) });
        Answer::Opened(Box::new(opened))
    }

    /// Records the first sign of life after the welcome of a resumed session: it proves that the client has
    /// its new token, so the previous one becomes invalid.
    pub(super) fn note_life(&mut self, step: &Step) {
        let alive = matches!(
            step,
            Step::Incoming(Incoming::Text(_) | Incoming::Noise(_) | Incoming::Ping(_) | Incoming::Breath)
        );
        if let Some(backend) = alive.then(|| self.client.note_life()).flatten() {
            self.requests.start(&self.api.tasks, backend.keep(true));
        }
    }

    /// Delivers some of the held events, if nothing must precede them; the rest waits for the next turn, so
    /// that frames of a slow client are read in between.
    pub(super) async fn deliver(&mut self, mouth: &mut impl FrameSink) -> Option<Ending> {
        let began = Instant::now();
        for _ in 0..STRETCH {
            if !self.events.is_ready(&self.machine) || began.elapsed() >= TURN {
                break;
            }
            let Some(event) = self.events.take() else { break };
            self.timers.touch();
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
    ) -> Option<Incoming> {
        let at = self.timers.began.elapsed();
        if !self.machine.is_silent(at) {
            self.timers.listened_at = None;
        } else if !listening {
            self.machine.excuse(at);
        } else if self.exit.last.is_none() && self.timers.listened_at.is_none() {
            let until = Instant::now() + LISTEN;
            self.timers.listened_at = Some(until);
            while let Ok(heard) = timeout_at(until, ear.hear()).await {
                if !matches!(heard, Incoming::Breath) {
                    return Some(heard);
                }
            }
        }
        None
    }

    /// Performs all due actions: heartbeats, fences, renewing the session, repeating a failed read.
    pub(super) fn expire_due(&mut self) -> Result<Vec<Do>, Ending> {
        let now = Instant::now();
        if let Some(ending) = self.exit.overdue(now) {
            return Err(ending);
        }
        self.events.expire(now);
        if let Some(ask) = self.requests.take_due(now) {
            self.ask(ask);
        }
        if self.timers.keep_at <= now {
            self.renew(now)?;
        }
        let chance = self.chance();
        Ok(self.machine.tick(self.moment(&chance)))
    }

    /// Renews the session of a client that still has access, and looks whether it is idle.
    fn renew(&mut self, now: Instant) -> Result<(), Ending> {
        let Some(backend) = self.client.backend.clone() else { return Err(Ending::Refused) };
        if backend.caller.require_key(self.api.ctx.now()).is_err() {
            return Err(Ending::Refused);
        }
        let (tasks, settings) = (&self.api.tasks, &self.api.ctx.state.sessions);
        self.timers.renew(now, settings.resume_window);
        self.requests.start(tasks, backend.clone().keep(!self.client.unheard));
        if self.timers.is_idle(now, settings.idle) {
            self.requests.start(tasks, backend.rest());
        }
        Ok(())
    }

    /// Finishes the requests in progress although nobody receives the answers: a submitted job exists when
    /// its client looks for it later.
    pub(super) async fn finish(&mut self) {
        if self.client.backend.is_none() {
            return;
        }
        if let Some(ask) = self.requests.take_early() {
            self.put(ask);
        }
        self.requests.finish(self.exit.finish_until()).await;
    }

    /// Records the end of the connection, which starts the session's resume window.
    pub(super) async fn leave(mut self) {
        let Some(backend) = self.client.backend.take() else {
            while let Some(admitted) = self.requests.admission().await {
                let entered = &admitted.entered;
                let _counted = sessions::leave(&self.api.ctx, entered.id, entered.connection).await;
            }
            return;
        };
        self.acks.finish(&backend).await;
        let entered = &backend.entered;
        if entered.connection > 1 && !self.client.unheard {
            // The record of the first sign of life may be missing if it was also the last one.
            backend.clone().keep(true).await;
        }
        if let Err(failure) = sessions::leave(&self.api.ctx, entered.id, entered.connection).await {
            tracing::debug!(error = %failure, "a session that was left counts as connected for a while");
        }
    }
}
