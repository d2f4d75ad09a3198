//! Calls the operations for a session's state machine, and translates their results for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_arcp::jobs::{Canceller, Origin};
use entente_arcp::sessions::{Arrival, Entered, Since};
use entente_arcp::{inventory, jobs, sessions};
use entente_domain::arcp::jobs::ask::Submit;
use entente_domain::arcp::jobs::wire::Listed;
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::arcp::sessions::dialogue::{Answer, Request};
use entente_domain::arcp::sessions::envelope::{Hello, List};
use entente_domain::arcp::sessions::features::Features;
use entente_domain::identity::epochs::Epoch;
use entente_domain::identity::fences::Fence;
use entente_domain::ids::JobId;
use entente_domain::rate::Verdict;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::identity::authentication;
use entente_kernel::{AppError, Caller};
use entente_runtime::fences;
use serde_json::{Value, json};

use super::Connection;
use crate::ApiState;

/// Bytes of a list's envelope besides its jobs.
const AROUND: usize = 1_000;

/// Result of an operation.
pub(super) enum Done {
    /// A client was admitted.
    Entered(Request, Box<AdmittedClient>),
    /// An answer, with the job whose events the client awaits from now on.
    Answer(Request, Answer, Option<JobId>),
    /// A job is no longer followed.
    Unfollowed(JobId),
    /// Whether the connection is still the session's current one.
    Kept(bool),
    /// Whether closing the session would lose nothing.
    Idle(bool),
    /// Nothing to report.
    Nothing,
}

/// State of an admitted client.
pub(super) struct AdmittedClient {
    pub caller: Caller,
    /// Fences that its writes require: an epoch, a lease, a claim.
    pub fences: Vec<Fence>,
    pub entered: Entered,
    pub agents: Vec<Value>,
    /// Number of the last event that the client has, in its own count.
    pub last_seq: i64,
    /// Jobs that the client already follows.
    pub follows: Vec<JobId>,
}

/// An admitted client, on whose behalf operations are called.
#[derive(Clone)]
pub(super) struct Backend {
    pub api: Arc<ApiState>,
    pub caller: Caller,
    /// Fences that its writes require: an epoch, a lease, a claim.
    pub fences: Vec<Fence>,
    pub entered: Arc<Entered>,
}

/// Converts an operation's failure into a refusal that the client understands.
pub(super) fn refusal(failure: AppError) -> Refusal {
    match failure {
        AppError::Refused(refusal) => refusal,
        AppError::Unavailable(_) | AppError::RolledBack { .. } | AppError::Overtaken => {
            Refusal::new(Code::Unavailable, "The database cannot be reached, or the server stops. Try again.")
        }
        AppError::Inconsistent(_) | AppError::Database(_) => {
            tracing::error!(error = %failure, "a session's request failed");
            Refusal::new(Code::Internal, "A defect of the server; its log has the rest.")
        }
    }
}

/// Admits a client: authenticates it, and opens a new session or resumes an existing one.
pub(super) async fn enter(
    api: &ApiState,
    line: Connection,
    hello: &Hello,
    dialect: Dialect,
    features: Features,
) -> Result<AdmittedClient, AppError> {
    let ctx = &api.ctx;
    let unknown = || Refusal::new(Code::Unauthenticated, "Invalid or missing API key");
    let grant = match &hello.resume {
        Some(resume) if hello.token.is_empty() => {
            sessions::presented(ctx, resume).await?.ok_or_else(sessions::lost)?
        }
        _ if hello.token.is_empty() => return Err(unknown().into()),
        _ => authentication::of_token(ctx, &hello.token, line.address).await?,
    };
    let caller = Caller::new(grant, None, ctx.now())?;
    let arrival = Arrival {
        client: hello.client.clone(),
        dialect: (!hello.bare).then_some(dialect).or(line.dialect),
        features: (!hello.bare || !hello.features.is_empty()).then_some(features),
        lines: line.lines,
    };
    let agents = inventory::list(ctx, &caller).await?;
    let epoch = hello.epoch.map(|epoch| Fence::Epoch(Epoch { agent: caller.agent.clone(), epoch }));
    let fences: Vec<Fence> = epoch.into_iter().collect();
    let entering = async {
        Ok::<_, AppError>(match &hello.resume {
            None => (sessions::open(ctx, &caller, arrival).await?, 0, Vec::new()),
            Some(resume) => {
                let entered = sessions::resume(ctx, &caller, resume, arrival).await?;
                let follows = sessions::followed(ctx, entered.id).await?;
                (entered, resume.last_event_seq, follows)
            }
        })
    };
    let (entered, last_seq, follows) = fences::within(fences.clone(), entering).await?;
    let agents = agents.into_iter().map(|(name, known)| {
        let mut agent = json!({ "name": name, "versions": known.versions.registered });
        if let Some(default) = known.versions.default {
            agent["default"] = default.into();
        }
        agent
    });
    Ok(AdmittedClient { caller, fences, entered, agents: agents.collect(), last_seq, follows })
}

impl Backend {
    /// Counts a request against the key's rate limit, and returns how long it must wait if it came too early, or if a quota of
    /// its principal is used up.
    pub fn wait(&self) -> Option<Duration> {
        if let Some(pause) = self.api.ctx.quotas.pause(&self.caller.grant) {
            return Some(pause);
        }
        let since_start = Instant::now().duration_since(self.api.started);
        match self.caller.grant.admit(self.api.limits.rate_per_second, since_start)? {
            (_, Verdict::Wait { nanos }) => Some(Duration::from_nanos(nanos)),
            (_, Verdict::Pass { .. }) => None,
        }
    }

    /// Counts the bytes of frames for the quotas of the key's principal; an excess delays later requests.
    pub fn heard(&self, bytes: usize) {
        self.api.ctx.quotas.charge(&self.caller.grant, bytes as u64);
    }

    /// Returns the backend for one request, which counts as in progress for the key's principal.
    pub fn counted(self) -> Self {
        let open = self.caller.grant.open_request_of_session(&self.api.ctx.quotas);
        Self { caller: self.caller.within(Arc::new(open)), ..self }
    }

    /// Writes for the client, in the session of its agent that it named.
    async fn fenced<T>(&self, write: impl Future<Output = Result<T, AppError>>) -> Result<T, AppError> {
        let write = async {
            let objection = self.api.ctx.strict_agents.objection(&self.caller.agent);
            objection.map_or(Ok(()), Err)?;
            write.await
        };
        fences::within(self.fences.clone(), write).await
    }

    /// Submits a job.
    ///
    /// A client that repeats a submission from another session, or after the job has ended, still receives
    /// the events that it awaits: those from now on, or the end (ARCP-W-8.2).
    pub async fn submit(self, request: Request, submit: Submit, trace_id: Option<String>) -> Done {
        let trace = trace_id.and_then(|id| Trace::of_id(&id, &*self.api.ctx.chance));
        let caller = self.caller.clone().traced(trace);
        let origin = Origin::Session(self.entered.id);
        let submitting = Box::pin(self.api.job_writer.submit(&caller, submit, origin));
        let submitted = match self.fenced(submitting).await {
            Ok(submitted) => submitted,
            Err(failure) => return Done::Answer(request, Answer::Refused(refusal(failure), None), None),
        };
        let job = &submitted.job;
        let elsewhere = job.session_id != self.entered.id || job.status.is_terminal();
        let mut followed = None;
        if submitted.repeated && elsewhere {
            match self.follow(job.id, Since::End).await {
                Ok(follows) => followed = follows.awaits.then_some(job.id),
                Err(failure) => {
                    tracing::debug!(error = %failure, "a job that was submitted again is not followed");
                }
            }
        }
        Done::Answer(request, Answer::Accepted(Box::new(submitted.accepted)), followed)
    }

    async fn follow(&self, job: JobId, since: Since) -> Result<sessions::Followed, AppError> {
        let ctx = &self.api.ctx;
        let described = jobs::describe(ctx, &self.caller, job).await?;
        sessions::follow(ctx, &self.entered, described, since).await
    }

    /// Subscribes to a job; the outcome is recorded in either case (§14).
    pub async fn subscribe(self, request: Request, job_id: JobId, since: Since) -> Done {
        let ctx = &self.api.ctx;
        let seen = jobs::describe(ctx, &self.caller, job_id).await;
        let allowed = match &seen {
            Ok(_) => Some(true),
            Err(AppError::Refused(_)) => Some(false),
            Err(_) => None,
        };
        let followed = async {
            if let Some(allowed) = allowed {
                sessions::observed(ctx, &self.caller, self.entered.id, job_id, allowed).await?;
            }
            sessions::follow(ctx, &self.entered, seen?, since).await
        };
        match followed.await {
            Ok(followed) => {
                let sessions::Followed { job, from, replayed, awaits } = followed;
                let answer = Answer::Subscribed { job: Box::new(job), from, replayed };
                Done::Answer(request, answer, awaits.then_some(job_id))
            }
            Err(failure) => Done::Answer(request, Answer::Refused(refusal(failure), Some(job_id)), None),
        }
    }

    /// Stops following a job.
    pub async fn unsubscribe(self, job_id: JobId) -> Done {
        if let Err(failure) = sessions::unfollow(&self.api.ctx, self.entered.id, job_id).await {
            tracing::debug!(error = %failure, "a job is still followed");
        }
        Done::Unfollowed(job_id)
    }

    /// Cancels a job.
    pub async fn cancel(self, request: Request, job_id: JobId, reason: Option<String>) -> Done {
        let by = Canceller::Session(self.entered.id);
        let cancelled = Box::pin(jobs::cancel(&self.api.ctx, &self.caller, job_id, by, reason, None));
        let answer = match self.fenced(cancelled).await {
            Ok(job) => Answer::Cancelled {
                job_id,
                trace_id: job.trace_id,
                reason: job.cancel.map(|cancel| cancel.reason),
            },
            Err(failure) => Answer::Refused(refusal(failure), Some(job_id)),
        };
        Done::Answer(request, answer, None)
    }

    /// Lists as many jobs as fit into a frame.
    pub async fn list(self, request: Request, list: List, most: usize) -> Done {
        let mut filter = jobs::JobFilter {
            statuses: list.statuses,
            agent: list.agent,
            created_after: list.created_after,
            created_before: list.created_before,
            limit: list.limit,
            cursor: list.cursor,
        };
        loop {
            let (jobs, next) = match jobs::list(&self.api.ctx, &self.caller, &filter).await {
                Ok(page) => page,
                Err(failure) => return Done::Answer(request, Answer::Refused(refusal(failure), None), None),
            };
            let listed: Vec<Listed> = jobs.iter().map(Listed::new).collect();
            let bytes = serde_json::to_vec(&listed).map_or(0, |text| text.len());
            if bytes + AROUND <= most || filter.limit == 1 {
                return Done::Answer(request, Answer::Jobs(listed, next), None);
            }
            filter.limit = (filter.limit / 2).max(1);
        }
    }

    /// Warns the client that it lags behind.
    pub async fn press(self, job_id: JobId, lag: i64) -> Done {
        if let Err(failure) = sessions::press(&self.api.ctx, &self.entered, job_id, lag).await {
            tracing::debug!(error = %failure, "a client that lags was not told");
        }
        Done::Nothing
    }

    /// Records the number up to which the client has processed events.
    pub async fn acked(self, seq: i64) {
        let Entered { id, connection, .. } = *self.entered;
        if let Err(failure) = sessions::acked(&self.api.ctx, id, connection, seq).await {
            tracing::debug!(error = %failure, "an acknowledgement was not noted");
        }
    }

    /// Records that the session is connected, and whether its client was heard on this connection.
    pub async fn keep(self, heard: bool) -> Done {
        match sessions::keep(&self.api.ctx, &self.entered, heard).await {
            Ok(current) => Done::Kept(current),
            // Retried before the session's window closes.
            Err(_unreachable) => Done::Kept(true),
        }
    }

    /// Checks whether closing the session would lose nothing.
    pub async fn rest(self) -> Done {
        Done::Idle(sessions::is_idle(&self.api.ctx, self.entered.id).await.unwrap_or(false))
    }

    /// Reads the session's events after a number, and whether more events of followed jobs wait to be
    /// numbered.
    pub async fn read(self, after: i64, plan: bool) -> Result<(sessions::Batch, bool), AppError> {
        let ctx = &self.api.ctx;
        let left = plan && sessions::plan(ctx, &self.entered).await?;
        Ok((sessions::after(ctx, &self.entered, after).await?, left))
    }
}
