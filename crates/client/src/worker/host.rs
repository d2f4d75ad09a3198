//! Worker loop around the jobs' commands: claims no more jobs than it has slots for, sends heartbeats, and
//! stops in order. `child.rs` runs a job's command.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use entente_domain::clock;
use entente_domain::ids::Chance as _;
use entente_runtime::environment::OsChance;
use entente_runtime::signals::Signals;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::child::{self, CommandSettings};
use super::reports::{CALL, Fate, Pauses, insist, passes};
use super::{Claimed, Stop};
use crate::Done;
use crate::output::note;
use crate::remote::{Api, Failure, segment};

/// Seconds that the server may hold a claim request while there is no job.
const WAIT_SECONDS: u64 = 20;
/// Most jobs per claim request.
const CLAIMS: usize = 100;
/// Shortest interval between two heartbeats, and between two empty claims: a job or a server that is slow to
/// stop must not cause a storm of requests.
const BEAT: Duration = Duration::from_secs(1);
/// Time limit for leaving, by which the server takes back unfinished jobs.
const FAREWELL: Duration = Duration::from_secs(5);

/// Directive from the server (ARCP-W-11.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Directive {
    /// Work normally.
    #[default]
    Run,
    /// Claim no more jobs.
    Quiet,
    /// Finish the running jobs, and leave.
    Terminate,
}

/// The server's answer to a heartbeat.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Beat {
    directive: Directive,
    cancel: Vec<String>,
    cancel_due_at: BTreeMap<String, String>,
    lost: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Claims {
    #[serde(default)]
    jobs: Vec<Claimed>,
}

/// A job that this worker holds.
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
    pub(super) settings: CommandSettings,
    pub(super) drain: Duration,
    /// The worker's id on the server.
    id: RefCell<String>,
    /// Heartbeat interval that the server requests.
    interval: RefCell<Duration>,
    held: RefCell<BTreeMap<String, Held>>,
    /// Source of the claims' keys.
    chance: OsChance,
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
        settings: CommandSettings,
        drain: Duration,
    ) -> Self {
        Self {
            api,
            name,
            agents,
            slots,
            settings,
            drain,
            id: RefCell::default(),
            interval: RefCell::new(Duration::from_secs(10)),
            held: RefCell::default(),
            chance: OsChance::default(),
            directive: watch::Sender::new(Directive::Run),
            draining: watch::Sender::new(false),
        }
    }

    /// Runs until a signal or the server requests a stop.
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

    /// Registers the worker with the server.
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
                // The sender belongs to this worker and outlives the wait.
                _ = directive.changed() => {}
            }
        }
        // Jobs of a claim in flight are given back when the worker leaves.
        drop(claiming);
        let _ = self.draining.send_replace(true);
        self.finish(&mut jobs, signals).await;
        let leave = format!("/workers/{}/leave", segment(&self.id.borrow()));
        if timeout(FAREWELL, insist::<Value>(&self.api, &leave, &json!({}))).await.is_err() {
            say("the server did not hear that the worker stopped: its claims run out by themselves");
        }
        Ok(())
    }

    /// Waits a limited time for the running jobs to finish; then stops the remaining ones and gives them
    /// back.
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
        let limit = self.settings.grace + FAREWELL;
        let _late = timeout(limit, async { while jobs.next().await.is_some() {} }).await;
    }

    /// Claims up to `most` jobs; the server holds the request for a while if there are none. The request has a key: after a
    /// lost answer it is sent again, and the server gives the same jobs again.
    async fn claim(&self, most: usize) -> Result<Vec<Claimed>, Failure> {
        let mut pauses = Pauses::new();
        let key = format!("{:032x}", self.chance.bits());
        loop {
            let id = self.id.borrow().clone();
            let max = most.min(CLAIMS);
            let body = json!({
                "worker_id": id, "agents": self.agents, "max": max, "wait_sec": WAIT_SECONDS, "idempotency_key": key,
            });
            let limit = Duration::from_secs(WAIT_SECONDS) + CALL;
            let began = Instant::now();
            match timeout(limit, self.api.ask::<Claims>("/jobs/claim", &body)).await {
                Ok(Ok(claims)) if claims.jobs.is_empty() && began.elapsed() < BEAT => {
                    // A stopping server answers at once.
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

    /// Handles one job, from its claim to its end.
    async fn job(&self, job: Claimed) {
        let began = Instant::now();
        let stop = watch::Sender::new(None);
        let held = Held { claim_token: job.claim_token.clone(), stop: stop.clone() };
        // A job claimed again while its earlier command still runs: the earlier claim was lost unnoticed.
        if let Some(before) = self.held.borrow_mut().insert(job.job_id.clone(), held) {
            super::stop(&before.stop, Stop::Lost);
        }
        say(&format!("{} begins: {}, attempt {}", job.job_id, job.agent, job.attempt));
        let fate = child::run(&self.api, &self.settings, &job, &stop).await;
        let mut all = self.held.borrow_mut();
        // The same job may have been claimed again meanwhile.
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

    /// Sends heartbeats and follows the answers. Returns only when the server refuses.
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
        // A stop that the worker already knows is marked, so that the server does not answer early because of
        // it.
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
        for (id, held) in beat.cancel.iter().filter_map(|id| Some((id, held.get(id)?))) {
            let due = beat.cancel_due_at.get(id).and_then(|due| clock::parse(due));
            super::stop(&held.stop, Stop::Cancelled { due });
        }
        for held in beat.lost.iter().filter_map(|id| held.get(id)) {
            super::stop(&held.stop, Stop::Lost);
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

/// Waits for the claim in flight; never resolves without one.
async fn under_way(claiming: &mut Option<Claiming<'_>>) -> Result<Vec<Claimed>, Failure> {
    match claiming {
        Some(claiming) => claiming.await,
        None => pending().await,
    }
}

/// Returns whether the server no longer knows the worker, so that it must register again.
fn forgotten(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { status: 404, .. })
}

/// Prints a line for the worker's operator.
fn say(line: &str) {
    note(line);
}
