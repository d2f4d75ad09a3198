//! Requests of a session's state machine, and the handling of their results. `asking.rs` performs them.

use std::sync::Arc;

use entente_arcp::sessions::Since;
use entente_domain::arcp::sessions::dialogue::{Answer, Ask, Do};
use tokio::time::Instant;

use super::super::asking::{Backend, Done, enter, refusal};
use super::Session;

impl Session {
    /// Accepts a request; one that exceeds the key's rate limit or a quota waits, and holds up everything behind it.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.timers.touch();
        if let Ask::Open { request, hello, dialect, features } = ask {
            let (api, line) = (Arc::clone(&self.api), self.client.line);
            self.requests.start(&self.api.tasks, async move {
                match enter(&api, line, &hello, dialect, features).await {
                    Ok(admitted) => Done::Entered(request, Box::new(admitted)),
                    Err(failure) => Done::Answer(request, Answer::Refused(refusal(failure), None), None),
                }
            });
            return;
        }
        // These are exempt from the rate limit: acknowledgements are coalesced, and warnings are the server's
        // own.
        let counts = !matches!(ask, Ask::Acked(_) | Ask::Press { .. });
        match self.client.backend.as_ref().filter(|_| counts).and_then(Backend::wait) {
            Some(wait) => self.requests.delay(Instant::now() + wait, ask),
            None => self.put(ask),
        }
    }

    /// Starts the work for a request.
    pub(super) fn put(&mut self, ask: Ask) {
        let Some(backend) = self.client.backend.clone().map(Backend::counted) else { return };
        backend.heard(std::mem::take(&mut self.client.came));
        let tasks = &self.api.tasks;
        match ask {
            Ask::Open { .. } => {}
            Ask::Submit { request, submit, trace_id } => {
                let bytes = submit.input.as_ref().map_or(0, |input| input.get().len());
                self.requests.submit(tasks, bytes, backend.submit(request, *submit, trace_id));
            }
            Ask::Cancel { request, job_id, reason } => {
                self.requests.start(tasks, backend.cancel(request, job_id, reason));
            }
            Ask::List { request, list } => {
                let most = self.machine.most();
                self.requests.start(tasks, backend.list(request, *list, most));
            }
            Ask::Subscribe { request, job_id, history, from } => {
                let since = if history { Since::After(from) } else { Since::Now };
                self.requests.follow(tasks, backend.subscribe(request, job_id, since));
            }
            Ask::Unsubscribe { job_id } => {
                self.requests.follow(tasks, backend.unsubscribe(job_id));
            }
            Ask::Press { job_id, lag } => {
                self.requests.start(tasks, backend.press(job_id, lag));
            }
            Ask::Acked(seq) => {
                self.acks.note(seq);
                self.acks.write(tasks, Some(&backend));
            }
        }
    }

    /// Passes the result of a request to the state machine.
    pub(super) fn hear_of(&mut self, done: Done) -> Vec<Do> {
        let chance = self.chance();
        match done {
            Done::Entered(request, admitted) => {
                let answer = self.let_in(*admitted);
                self.machine.answer(self.moment(&chance), &request, answer)
            }
            Done::Answer(request, answer, followed) => {
                if let Some(job) = followed {
                    self.events.follow(job);
                }
                self.machine.answer(self.moment(&chance), &request, answer)
            }
            Done::Unfollowed(job) => {
                self.events.unfollow(job);
                Vec::new()
            }
            Done::Kept(_) | Done::Idle(_) | Done::Nothing => Vec::new(),
        }
    }
}
