//! What a worker does around its jobs' commands: it claims no more jobs than it has room for, lets the server hear of it, and
//! stops in order. A job's command is `child.rs`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use entente_runtime::signals::Signals;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::child::{self, Manner};
use super::reports::{CALL, Fate, Pauses, insist, passes};
use super::{Claimed, Stop};
use crate::Done;
use crate::remote::{Api, Failure, segment};

/// How long the server may think about a claim when there is nothing to do, in seconds.
const WAIT_SECONDS: u64 = 20;
/// Jobs that the server gives at once.
const CLAIMS: usize = 100;
/// The shortest time between two heartbeats, and between two claims that bring nothing: a job that takes its time to stop, and
/// a server that does, must not make a storm of them.
const BEAT: Duration = Duration::from_secs(1);
/// How long the server is given to take back what was not done when the worker stops.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the worker is to do (contract 11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Directive {
    /// Work.
    #[default]
    Run,
    /// Claim nothing more.
    Quiet,
    /// Finish, and go.
    Terminate,
}

/// The server's answer to a heartbeat.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Beat {
    directive: Directive,
    cancel: Vec<String>,
    lost: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Claims {
    #[serde(default)]
    jobs: Vec<Claimed>,
}

/// A job that this worker has.
struct Held {
    claim_token: String,
    stop: watch::Sender<Option<Stop>>,
}

/// A worker.
pub(super) struct Host {
    pub(super) api: Api,
    pub(super) name: String,
    pub(super) agents: Vec<String>,
    pub(super) slots: usize,
    pub(super) manner: Manner,
    pub(super) drain: Duration,
    /// Who the server knows it as.
    id: RefCell<String>,
    /// How often it wants to hear of it.
    interval: RefCell<Duration>,
    held: RefCell<BTreeMap<String, Held>>,
    directive: watch::Sender<Directive>,
    draining: watch::Sender<bool>,
}

type Claiming<'a> = Pin<Box<dyn Future<Output = Result<Vec<Claimed>, Failure>> + 'a>>;

impl Host {
    pub(super) fn new(
        api: Api,
        name: String,
        agents: Vec<String>,
        slots: usize,
        manner: Manner,
        drain: Duration,
    ) -> Self {
        Self {
            api,
            name,
            agents,
            slots,
            manner,
            drain,
            id: RefCell::default(),
            interval: RefCell::new(Duration::from_secs(10)),
            held: RefCell::default(),
            directive: watch::Sender::new(Directive::Run),
            draining: watch::Sender::new(false),
        }
    }

    /// Works until it is told to stop, by a signal or by the server.
    pub(super) async fn run(&self, mut signals: Signals) -> Done {
        self.register().await?;
        say(&format!(
            "{} works on {}, {} at a time, as {}",
            self.name,
            self.agents.join(", "),
            self.slots,
            self.id.borrow()
        ));
        tokio::select! {
            done = self.work(&mut signals) => done,
            failure = self.beat() => Err(failure.into()),
        }
    }

    /// Tells the server that there is a worker.
    async fn register(&self) -> Result<(), Failure> {
        let body = json!({ "name": self.name, "agents": self.agents, "slots": self.slots, "labels": {} });
        let known: Value = insist(&self.api, "/workers", &body).await?;
        known["worker_id"].as_str().unwrap_or_default().clone_into(&mut self.id.borrow_mut());
        if let Some(seconds) = known["heartbeat_interval_sec"].as_u64() {
            *self.interval.borrow_mut() = Duration::from_secs(seconds.max(1));
        }
        Ok(())
    }

    async fn work(&self, signals: &mut Signals) -> Done {
        let mut jobs = FuturesUnordered::new();
        let mut directive = self.directive.subscribe();
        let mut claiming: Option<Claiming<'_>> = None;
        loop {
            let free = self.slots - jobs.len();
            let asked = *directive.borrow_and_update();
            match asked {
                Directive::Run if claiming.is_none() && free > 0 => {
                    claiming = Some(Box::pin(self.claim(free)));
                }
                Directive::Run | Directive::Quiet => {}
                Directive::Terminate => break,
            }
            tokio::select! {
                () = signals.told() => break,
                claimed = under_way(&mut claiming) => {
                    claiming = None;
                    jobs.extend(claimed?.into_iter().map(|job| self.job(job)));
                }
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
                // The sender is this worker's own, and outlives the wait.
                _ = directive.changed() => {}
            }
        }
        // What it brings now is given back when the worker leaves.
        drop(claiming);
        let _ = self.draining.send_replace(true);
        self.finish(&mut jobs, signals).await;
        let leave = format!("/workers/{}/leave", segment(&self.id.borrow()));
        if timeout(FAREWELL, insist::<Value>(&self.api, &leave, &json!({}))).await.is_err() {
            say("the server did not hear that the worker stopped: its claims run out by themselves");
        }
        Ok(())
    }

    /// Lets the jobs that run finish for a while; what is left then is stopped and given back.
    async fn finish(&self, jobs: &mut FuturesUnordered<impl Future<Output = ()>>, signals: &mut Signals) {
        if jobs.is_empty() {
            return;
        }
        say(&format!("finishing {} jobs, for {} s at the most", jobs.len(), self.drain.as_secs()));
        tokio::select! {
            () = async { while jobs.next().await.is_some() {} } => return,
            () = sleep(self.drain) => {}
            () = signals.told() => {}
        }
        for held in self.held.borrow().values() {
            super::stop(&held.stop, Stop::Drained);
        }
        let limit = self.manner.grace + FAREWELL;
        let _late = timeout(limit, async { while jobs.next().await.is_some() {} }).await;
    }

    /// Takes jobs, up to as many as there is room for; waits for one a while.
    async fn claim(&self, most: usize) -> Result<Vec<Claimed>, Failure> {
        let mut pauses = Pauses::new();
        loop {
            let id = self.id.borrow().clone();
            let max = most.min(CLAIMS);
            let body =
                json!({ "worker_id": id, "agents": self.agents, "max": max, "wait_sec": WAIT_SECONDS });
            let limit = Duration::from_secs(WAIT_SECONDS) + CALL;
            let began = Instant::now();
            match timeout(limit, self.api.ask::<Claims>("/jobs/claim", &body)).await {
                Ok(Ok(claims)) if claims.jobs.is_empty() && began.elapsed() < BEAT => {
                    // A server that stops answers at once.
                    sleep_until(began + BEAT).await;
                    return Ok(Vec::new());
                }
                Ok(Ok(claims)) => return Ok(claims.jobs),
                Ok(Err(failure)) if passes(&failure) || forgotten(&failure) => {}
                Ok(Err(failure)) => return Err(failure),
                Err(_silence) => {}
            }
            pauses.rest().await;
        }
    }

    /// One job, from its claim to its end.
    async fn job(&self, job: Claimed) {
        let began = Instant::now();
        let stop = watch::Sender::new(None);
        let held = Held { claim_token: job.claim_token.clone(), stop: stop.clone() };
        // A job that comes back while its command of before still runs was lost, and did not hear of it.
        if let Some(before) = self.held.borrow_mut().insert(job.job_id.clone(), held) {
            super::stop(&before.stop, Stop::Lost);
        }
        say(&format!("{} begins: {}, attempt {}", job.job_id, job.agent, job.attempt));
        let fate = child::run(&self.api, &self.manner, &job, &stop).await;
        let mut all = self.held.borrow_mut();
        // The same job may have come back under another claim meanwhile.
        if all.get(&job.job_id).is_some_and(|held| held.claim_token == job.claim_token) {
            all.remove(&job.job_id);
        }
        drop(all);
        let what = match fate {
            Fate::Done => "is done",
            Fate::Failed => "has failed",
            Fate::Cancelled => "was called off",
            Fate::Released => "was given back",
            Fate::Lost => "is no longer ours",
        };
        say(&format!("{} {what}, after {:.1} s", job.job_id, began.elapsed().as_secs_f64()));
    }

    /// Lets the server hear of the worker, and does what it says. Ends only when the server does not want to.
    async fn beat(&self) -> Failure {
        let mut pauses = Pauses::new();
        loop {
            let began = Instant::now();
            let (path, body, limit) = self.sign_of_life();
            match timeout(limit, self.api.ask::<Beat>(&path, &body)).await {
                Ok(Ok(beat)) => {
                    pauses = Pauses::new();
                    self.heed(&beat);
                    sleep_until(began + BEAT).await;
                    continue;
                }
                Ok(Err(failure)) if forgotten(&failure) => {
                    if let Err(failure) = self.register().await {
                        return failure;
                    }
                }
                Ok(Err(failure)) if passes(&failure) => {}
                Ok(Err(failure)) => return failure,
                Err(_silence) => {}
            }
            pauses.rest().await;
        }
    }

    fn sign_of_life(&self) -> (String, Value, Duration) {
        let held = self.held.borrow();
        // What is known already is no news to wake this worker for.
        let one = |(id, held): (&String, &Held)| {
            let stopping = held.stop.borrow().is_some();
            json!({ "job_id": id, "claim_token": held.claim_token, "stopping": stopping })
        };
        let jobs: Vec<Value> = held.iter().map(one).collect();
        let state = if *self.draining.borrow() { "draining" } else { "running" };
        let wait = *self.interval.borrow();
        let directive = *self.directive.borrow();
        let body =
            json!({ "state": state, "jobs": jobs, "directive": directive, "wait_sec": wait.as_secs() });
        (format!("/workers/{}/heartbeat", segment(&self.id.borrow())), body, wait + CALL)
    }

    fn heed(&self, beat: &Beat) {
        let held = self.held.borrow();
        for (jobs, word) in [(&beat.cancel, Stop::Cancelled), (&beat.lost, Stop::Lost)] {
            for held in jobs.iter().filter_map(|id| held.get(id)) {
                super::stop(&held.stop, word);
            }
        }
        let news =
            self.directive.send_if_modified(|now| std::mem::replace(now, beat.directive) != beat.directive);
        if news {
            say(match beat.directive {
                Directive::Run => "the server says: go on",
                Directive::Quiet => "the server says: claim nothing more",
                Directive::Terminate => "the server says: finish, and go",
            });
        }
    }
}

/// The claim that is under way; waits for ever when there is none.
async fn under_way(claiming: &mut Option<Claiming<'_>>) -> Result<Vec<Claimed>, Failure> {
    match claiming {
        Some(claiming) => claiming.await,
        None => pending().await,
    }
}

/// Whether the server does not know the worker any more, so that it must register again.
fn forgotten(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { status: 404, .. })
}

/// A line for whoever watches the worker.
fn say(line: &str) {
    eprintln!("{line}");
}
