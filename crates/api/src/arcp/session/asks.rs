//! Requests of a session's state machine, and the handling of their results. `asking.rs` performs them.

use std::sync::Arc;

use entente_arcp::sessions::Since;
use entente_domain::arcp::sessions::dialogue::{Answer, Ask, Do};
use entente_kernel::wakeups::WakeKey;
use tokio::time::Instant;

use super::super::asking::{Backend, Done, enter, refusal};
use super::{Session, begun};

impl Session {
    /// Accepts a request; one that exceeds the key's rate limit waits, and holds up everything behind it.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.active_at = Instant::now();
        if let Ask::Open { request, hello, dialect, features } = ask {
            let (api, line) = (Arc::clone(&self.api), self.line);
            self.others.push(begun(&self.api.tasks, async move {
                match enter(&api, line, &hello, dialect, features).await {
                    Ok(inside) => Done::Entered(request, Box::new(inside)),
                    Err(failure) => Done::Answer(request, Answer::Refused(refusal(failure), None), None),
                }
            }));
            return;
        }
        // These are exempt from the rate limit: acknowledgements are coalesced, and warnings are the server's
        // own.
        let counts = !matches!(ask, Ask::Acked(_) | Ask::Press { .. });
        match self.backend.as_ref().filter(|_| counts).and_then(Backend::wait) {
            Some(wait) => self.early = Some((Instant::now() + wait, ask)),
            None => self.put(ask),
        }
    }

    /// Starts the work for a request.
    pub(super) fn put(&mut self, ask: Ask) {
        let Some(backend) = self.backend.clone() else { return };
        match ask {
            Ask::Open { .. } => {}
            Ask::Submit { request, submit, trace_id } => {
                self.weights.push_back(submit.input.as_ref().map_or(0, |input| input.get().len()));
                self.submits.push_back(begun(&self.api.tasks, backend.submit(request, *submit, trace_id)));
            }
            Ask::Cancel { request, job_id, reason } => {
                self.others.push(begun(&self.api.tasks, backend.cancel(request, job_id, reason)));
            }
            Ask::List { request, list } => {
                let most = self.machine.most();
                self.others.push(begun(&self.api.tasks, backend.list(request, *list, most)));
            }
            Ask::Subscribe { request, job_id, history, from } => {
                let since = if history { Since::After(from) } else { Since::Now };
                self.follows.push_back(begun(&self.api.tasks, backend.subscribe(request, job_id, since)));
            }
            Ask::Unsubscribe { job_id } => {
                self.follows.push_back(begun(&self.api.tasks, backend.unsubscribe(job_id)));
            }
            Ask::Press { job_id, lag } => {
                self.others.push(begun(&self.api.tasks, backend.press(job_id, lag)));
            }
            Ask::Acked(seq) => {
                self.acked = Some(seq);
                self.acknowledge();
            }
        }
    }

    /// Records the client's acknowledgement: one write at a time, always of the latest.
    pub(super) fn acknowledge(&mut self) {
        if self.acking.is_some() {
            return;
        }
        if let (Some(seq), Some(backend)) = (self.acked.take(), self.backend.clone()) {
            self.acking = Some(begun(&self.api.tasks, backend.acked(seq)));
        }
    }

    /// Passes the result of a request to the state machine.
    pub(super) fn hear_of(&mut self, done: Done) -> Vec<Do> {
        let chance = self.chance();
        match done {
            Done::Entered(request, inside) => {
                let answer = self.let_in(*inside);
                self.machine.answer(self.moment(&chance), &request, answer)
            }
            Done::Answer(request, answer, followed) => {
                if let Some(job) = followed {
                    self.listen_for(job);
                }
                self.machine.answer(self.moment(&chance), &request, answer)
            }
            Done::Unfollowed(job) => {
                self.followed.remove(&job);
                self.listener.remove(&WakeKey::Job(job));
                Vec::new()
            }
            Done::Kept(_) | Done::Idle(_) | Done::Nothing => Vec::new(),
        }
    }
}
