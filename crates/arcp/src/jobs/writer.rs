//! Job writer: accepts jobs and workers' reports, many in one commit (`store/src/commit.rs`). `acceptance.rs` and
//! `reports.rs` process each; `locked.rs` holds the locked jobs of a batch.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::ends::End;
use entente_domain::identity::fences::Fence;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId, NodeId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::many;
use entente_kernel::many::{Many, Together};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome, Tx, lock_key, nodes, try_locks};
use entente_runtime::fences;
use entente_runtime::tasks::Tasks;
use entente_store::commit::{BatchHandler, GroupCommit};
use entente_store::limits;
use sqlx::PgConnection;

use super::acceptance::{Submission, Submitted, accept, being_prepared};
use super::locked::LockedJobs;
use super::reading::conceal;
use super::reports::{CallBounds, Report, Reported, judge};
use super::writes::{self, Fresh};
use super::{budgets, log, records, rows};
use crate::Ctx;
use crate::credentials;
use crate::inventory;
use crate::inventory::Known;

/// A queued command, and the conditions without which it is refused, and has no effect.
#[derive(Debug, Clone)]
struct Fenced {
    command: Command,
    fences: Vec<Fence>,
}

/// Action of a command.
#[derive(Debug, Clone)]
enum Command {
    /// A job to accept.
    Submit(Box<Submission>),
    /// A worker's report to store.
    Report(Box<Report>),
}

/// Result of a command.
#[derive(Debug)]
enum Done {
    Submitted(Box<Submitted>),
    Reported(Box<Reported>),
}

type Answer = Outcome<Done>;

struct Working {
    ctx: Ctx,
    node: NodeId,
}

/// Commands of one transaction; `waits` says whether it waits for locks.
struct Batch<'a> {
    ctx: &'a Ctx,
    waits: bool,
}

impl BatchHandler for Working {
    type Command = Fenced;
    type Answer = Answer;
    type Memory = ();

    fn memory(&self) {}

    fn lane(command: &Fenced) -> u64 {
        Batch::lane(command)
    }

    async fn apply(&self, _memory: &mut (), commands: Vec<Fenced>) -> Vec<Result<Answer, Fenced>> {
        let mut batch = Batch { ctx: &self.ctx, waits: false };
        let answers = many::all(&mut batch, &commands, &mut HashSet::new()).await;
        commands.into_iter().zip(answers).map(|(command, answer)| answer.ok_or(command)).collect()
    }

    async fn wait(&self, commands: Vec<Fenced>) -> Vec<Answer> {
        many::waiting(&mut Batch { ctx: &self.ctx, waits: true }, &commands).await
    }

    async fn probe(&self) -> Result<(), String> {
        nodes::probe(&self.ctx, self.node).await.map_err(|failure| failure.to_string())
    }
}

impl Many for Batch<'_> {
    type Command = Fenced;
    type Answer = Done;

    /// Groups submissions by intent, if they name one; reports by job, because its intent is not known yet.
    fn lane(fenced: &Fenced) -> u64 {
        match &fenced.command {
            Command::Submit(submission) => match submission.ask.intent_id {
                Some(intent) => lock_key(intent).cast_unsigned(),
                None => first_bytes(&submission.ask.fingerprint),
            },
            Command::Report(report) => report.job_id.uuid().as_u64_pair().1,
        }
    }

    fn fences(fenced: &Fenced) -> impl Iterator<Item = &Fence> {
        fenced.fences.iter()
    }

    async fn together(&mut self, fenced: &[&Fenced]) -> Outcome<Together<Answer>> {
        let ctx = self.ctx;
        let commands: Vec<&Command> = fenced.iter().map(|fenced| &fenced.command).collect();
        let commands = commands.as_slice();
        let mut asked = look(ctx, commands).await?;
        loop {
            let mut tx = if self.waits {
                let locks = asked.intents.iter().copied().map(lock_key).collect();
                ctx.begin_waiting(locks, Some(limits::LOCK)).await?
            } else {
                let mut tx = ctx.begin_at_once().await?;
                let locked = asked.take_locks(&mut tx, commands).await?;
                if !locked.is_empty() {
                    tx.rollback().await?;
                    return Ok(Together::Locked(locked));
                }
                tx
            };
            let locked = LockedJobs::take(&mut tx, &asked.jobs, &asked.intents, ctx.now()).await?;
            // Only the rows tell a job's intent, and few jobs have one: start over, taking its lock first.
            let missing = locked.intents_missing();
            if missing.is_empty() {
                return apply(ctx, tx, locked, &asked, fenced).await.map(Together::Done);
            }
            asked.works_for.extend(locked.works_for());
            asked.intents.extend(missing);
            asked.intents.sort_unstable();
            tx.rollback().await?;
        }
    }

    async fn locked(&mut self, fenced: &[&Fenced]) -> Outcome<Vec<usize>> {
        let jobs: BTreeSet<JobId> = fenced.iter().filter_map(|fenced| fenced.command.job()).collect();
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut conn = self.ctx.pool.acquire().await?;
        let locked = rows::locked(&mut conn, &jobs.into_iter().collect::<Vec<_>>()).await?;
        let needs = |fenced: &&Fenced| fenced.command.job().is_some_and(|job| locked.contains(&job));
        Ok((0..fenced.len()).filter(|index| needs(&fenced[*index])).collect())
    }
}

impl Command {
    /// Job that the command has to lock.
    fn job(&self) -> Option<JobId> {
        match self {
            Self::Submit(submission) => submission.ask.parent_id,
            Self::Report(report) => Some(report.job_id),
        }
    }

    /// Intent that the command names.
    fn intent(&self) -> Option<IntentId> {
        match self {
            Self::Submit(submission) => submission.ask.intent_id,
            Self::Report(_) => None,
        }
    }
}

fn first_bytes(digest: &[u8]) -> u64 {
    digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn lost() -> AppError {
    AppError::Inconsistent("a job's command got no answer".to_owned())
}

/// Data gathered for a batch before it locks anything.
struct Asked {
    known: BTreeMap<String, Known>,
    /// Jobs reported on, and parents of new jobs.
    jobs: Vec<JobId>,
    intents: Vec<IntentId>,
    /// Intents of jobs, as far as known.
    works_for: HashMap<JobId, IntentId>,
}

impl Asked {
    /// Locks those intents that are free; returns the commands that need a locked one.
    async fn take_locks(&self, conn: &mut PgConnection, commands: &[&Command]) -> Outcome<Vec<usize>> {
        if self.intents.is_empty() {
            return Ok(Vec::new());
        }
        let locks: Vec<i64> = self.intents.iter().copied().map(lock_key).collect();
        let held = try_locks(conn, &locks).await?;
        let locked = |intent: IntentId| !held.contains(&lock_key(intent));
        let needs = |command: &&Command| {
            let of_job = command.job().and_then(|job| self.works_for.get(&job).copied());
            command.intent().is_some_and(locked) || of_job.is_some_and(locked)
        };
        Ok((0..commands.len()).filter(|index| needs(&commands[*index])).collect())
    }
}

async fn look(ctx: &Ctx, commands: &[&Command]) -> Outcome<Asked> {
    let mut names = Vec::new();
    for command in commands {
        if let Command::Submit(submission) = command {
            names.push(submission.ask.agent.name.as_str());
        }
    }
    names.sort_unstable();
    names.dedup();
    let jobs: BTreeSet<JobId> = commands.iter().filter_map(|command| command.job()).collect();
    let intents: BTreeSet<IntentId> = commands.iter().filter_map(|command| command.intent()).collect();
    let known = if names.is_empty() {
        BTreeMap::new()
    } else {
        inventory::known(&mut *ctx.pool.acquire().await?, &names).await?
    };
    Ok(Asked {
        known,
        jobs: jobs.into_iter().collect(),
        intents: intents.into_iter().collect(),
        works_for: HashMap::new(),
    })
}

async fn apply(
    ctx: &Ctx,
    mut tx: Tx,
    mut locked: LockedJobs,
    asked: &Asked,
    fenced: &[&Fenced],
) -> Outcome<Vec<Answer>> {
    let commands: Vec<&Command> = fenced.iter().map(|fenced| &fenced.command).collect();
    let mut repeats = Repeats::find(&mut tx, &commands).await?;
    let keys = event_keys(&mut tx, &commands).await?;
    let reports = commands.iter().filter_map(|command| match command {
        Command::Report(report) => Some(report.as_ref()),
        Command::Submit(_) => None,
    });
    let bounds = CallBounds::load(ctx, &mut tx, &locked, reports).await?;
    let mut fresh: Vec<Fresh> = Vec::new();
    let mut answers: Vec<Answer> = Vec::with_capacity(commands.len());
    for Fenced { command, fences } in fenced {
        answers.push(match command {
            Command::Report(report) => judge(&locked, report, &keys, &bounds).map(|(change, reported)| {
                locked.apply(change);
                Done::Reported(Box::new(reported))
            }),
            Command::Submit(submission) => match repeats.of(submission) {
                Some(before) => before.map(Done::Submitted).map_err(AppError::from),
                None => match fenced_by(fences, accept(ctx, &mut tx, &mut locked, &asked.known, submission))
                    .await
                {
                    Ok(made) => {
                        let submitted = Submitted {
                            preparing: made.preparing,
                            ..Submitted::new(made.job.clone(), false)
                        };
                        if !made.preparing {
                            repeats.note(submission, &made.job);
                        }
                        fresh.push(made);
                        Ok(Done::Submitted(Box::new(submitted)))
                    }
                    Err(failure @ (AppError::Refused(_) | AppError::Inconsistent(_))) => Err(failure),
                    Err(failure) => return Err(failure),
                },
            },
        });
    }
    if writes::insert(&mut tx, &fresh).await? != fresh.len() as u64 {
        // Another server has just used one of the keys, or a job under it waits for its credentials.
        return Err(being_prepared().into());
    }
    let extras: Vec<_> = fresh.iter().map(|made| (&made.job, &made.extra)).collect();
    records::insert(&mut tx, &extras).await?;
    records::accepted(&mut tx, &reruns(&fresh), locked.now()).await?;
    for made in fresh.iter().filter(|made| made.preparing) {
        credentials::prepare(ctx, &mut tx, &made.job).await?;
    }
    let initial: Vec<(JobId, Budget)> = fresh
        .iter()
        .map(|one| Ok((one.job.id, Budget::of(&one.job.lease)?)))
        .collect::<Result<_, Refusal>>()?;
    let initial: Vec<(JobId, &Budget)> = initial.iter().map(|(id, budget)| (*id, budget)).collect();
    budgets::insert(&mut tx, &initial).await?;
    locked.conclude(ctx, tx).await?;
    for made in fresh.iter().filter(|made| !made.preparing) {
        ctx.feed.wake(WakeKey::Work(made.job.agent.clone()));
    }
    Ok(answers)
}

/// Accepted jobs that run others again. One that still waits for its credentials is not accepted yet.
fn reruns(fresh: &[Fresh]) -> Vec<JobId> {
    let accepted = fresh.iter().filter(|made| !made.preparing && made.extra.rerun.is_some());
    accepted.map(|made| made.job.id).collect()
}

/// Decides a command by its own fences, not by those of the batch.
async fn fenced_by<T>(fences: &[Fence], decision: impl Future<Output = T>) -> T {
    fences::within(fences.to_vec(), Box::pin(decision)).await
}

async fn event_keys(conn: &mut PgConnection, commands: &[&Command]) -> Outcome<HashSet<(JobId, String)>> {
    let named: Vec<(JobId, String)> = commands
        .iter()
        .filter_map(|command| match command {
            Command::Report(report) => Some(report),
            Command::Submit(_) => None,
        })
        .flat_map(|report| report.event_keys().map(|key| (report.job_id, key.to_owned())))
        .collect();
    log::known(conn, &named).await
}

/// Jobs submitted under the idempotency keys of a batch, before it or in it.
struct Repeats(HashMap<(String, String), Job>);

impl Repeats {
    async fn find(conn: &mut PgConnection, commands: &[&Command]) -> Outcome<Self> {
        let keyed = commands.iter().filter_map(|command| match command {
            Command::Submit(submission) => submission.once(),
            Command::Report(_) => None,
        });
        let (principals, keys): (Vec<&str>, Vec<&str>) = keyed.unzip();
        let jobs = rows::by_keys(conn, &principals, &keys).await?;
        let named = jobs.into_iter().filter_map(|job| {
            let key = job.idempotency_key.clone()?;
            Some(((job.principal.clone(), key), job))
        });
        Ok(Self(named.collect()))
    }

    fn named(submission: &Submission) -> Option<(String, String)> {
        submission.once().map(|(principal, key)| (principal.to_owned(), key.to_owned()))
    }

    /// Returns the job of the same earlier request.
    fn of(&self, submission: &Submission) -> Option<Result<Box<Submitted>, Refusal>> {
        let job = self.0.get(&Self::named(submission)?)?;
        Some(if job.fingerprint == submission.ask.fingerprint {
            Ok(Box::new(Submitted::new(job.clone(), true)))
        } else {
            Err(Refusal::new(
                Code::DuplicateKey,
                "This idempotency_key was used for another job. Use a new key for a new job.",
            ))
        })
    }

    fn note(&mut self, submission: &Submission, job: &Job) {
        if let Some(named) = Self::named(submission) {
            self.0.insert(named, job.clone());
        }
    }
}

/// Queue of submissions and reports.
pub struct JobWriter {
    group: GroupCommit<Working>,
    pub(super) ctx: Ctx,
}

impl JobWriter {
    /// Starts the writer tasks with this context.
    #[must_use]
    pub fn start(ctx: &Ctx, node: NodeId, writers: usize, tasks: &Tasks) -> Self {
        let group = GroupCommit::start(Working { ctx: ctx.clone(), node }, writers, tasks, &ctx.metrics);
        Self { group, ctx: ctx.clone() }
    }

    /// Makes every writer perform a write within `limit`.
    ///
    /// # Errors
    /// Describes the failure.
    pub async fn probe(&self, limit: Duration) -> Result<(), String> {
        self.group.probe(limit).await
    }

    /// Has a job accepted; resolves after the commit.
    pub(super) async fn hand_in(&self, submission: Submission) -> Outcome<Submitted> {
        // Equal requests meet in one queue, where the second finds the first. A different request with the
        // same key may be in another queue: there the unique index detects it (`writes::insert`).
        let shard = first_bytes(&submission.ask.fingerprint);
        match self.ask(shard, Command::Submit(Box::new(submission))).await? {
            Done::Submitted(submitted) => Ok(*submitted),
            Done::Reported(_) => Err(lost()),
        }
    }

    /// Ends a job.
    ///
    /// # Errors
    /// The claim is lost; the result does not match the streamed chunks.
    pub async fn end(
        &self,
        ctx: &Ctx,
        caller: &Caller,
        job_id: JobId,
        token: &str,
        end: End,
    ) -> Outcome<Reported> {
        caller.require(Scope::JobsWork)?;
        let done = self.hand_report(Report::of_end(job_id, token, end)?).await;
        conceal(ctx, caller, job_id, done).await
    }

    /// Has a worker's report stored; resolves after the commit.
    pub(super) async fn hand_report(&self, report: Report) -> Outcome<Reported> {
        let shard = report.job_id.uuid().as_u64_pair().1;
        match self.ask(shard, Command::Report(Box::new(report))).await? {
            Done::Reported(reported) => Ok(*reported),
            Done::Submitted(_) => Err(lost()),
        }
    }

    async fn ask(&self, shard: u64, command: Command) -> Answer {
        let fenced = Fenced { command, fences: fences::current() };
        let mut answers = self.group.submit(shard, vec![fenced]).await;
        match answers.pop() {
            Some(Ok(answer)) => answer,
            Some(Err(unanswered)) => Err(unanswered.into()),
            None => Err(lost()),
        }
    }
}
