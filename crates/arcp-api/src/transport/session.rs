//! Runs a session: passes the client's frames to the state machine, the machine's requests to the operations, and its frames
//! to the client. There is one task per session and no queue: events are read from the client's position once there is room to
//! send them (`session/events.rs`, `session/flow.rs`). `session/asks.rs` handles requests, `session/requests.rs` has those in
//! progress; `session/client.rs` is the client, `session/timers.rs` the session's times and its end.

mod asks;
mod client;
mod events;
mod flow;
mod requests;
mod timers;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use entente_arcp::sessions;
use entente_arcp::sessions::Batch;
use entente_domain::arcp::sessions::Moment;
use entente_domain::arcp::sessions::dialogue::{Closing, Do, Terms};
use entente_domain::arcp::sessions::machine::Machine;
use entente_domain::ids::SessionId;
use entente_kernel::Outcome;
use entente_runtime::deadlines::within;
use entente_runtime::tasks::Tasks;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use self::client::Client;
use self::events::Events;
use self::requests::{Acks, Requests};
use self::timers::{Exit, Timers};
use super::asking::Done;
use super::{Connection, Ending, FrameSink, FrameSource, Incoming};
use crate::ApiState;

/// Time limit for sending a frame: a client that takes nothing for so long has to resume later (§14).
const STALL: Duration = Duration::from_mins(1);

/// Events that were read, and whether more events of followed jobs wait to be numbered.
type Read = Outcome<(Batch, bool)>;

type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// The next thing that happened in a session.
enum Step {
    Incoming(Incoming),
    Done(Done),
    Read(Read),
    Acked,
    Rung,
    /// Events that are held back can be delivered.
    More,
    Time,
    Void,
    Draining,
}

/// A session in progress.
struct Session {
    api: Arc<ApiState>,
    machine: Machine,
    client: Client,
    requests: Requests,
    acks: Acks,
    events: Events,
    timers: Timers,
    exit: Exit,
}

/// Runs a session until it ends.
pub(super) async fn converse(
    api: Arc<ApiState>,
    line: Connection,
    mut ear: impl FrameSource,
    mut mouth: impl FrameSink,
) {
    let mut talk = Session::new(api, line);
    let ending = loop {
        let step = talk.next(&mut ear).await;
        match talk.take(step, &mut mouth).await {
            Some(ending) => break ending,
            None => talk.events.look(&talk.api.tasks, talk.client.backend.as_ref()),
        }
    };
    let _too_slow = timeout(STALL, mouth.end(ending)).await;
    // Requests of a client that has lost its access are not carried out.
    if ending != Ending::Refused {
        Box::pin(talk.finish()).await;
    }
    // Boxed, so that these one-time futures do not enlarge the session's own.
    Box::pin(talk.leave()).await;
}

/// Time limit for work that a session has started, a job's credentials included.
///
/// Beyond it the database no longer responds: the session breaks, and can be resumed.
const WORK: Duration = Duration::from_mins(2);

/// Runs work in a task of its own once it is first polled: the work may hold database locks, and must continue while the
/// session waits for a slow client or ends.
fn begun<T: Send + 'static>(tasks: &Tasks, work: impl Future<Output = T> + Send + 'static) -> Pending<T> {
    let tasks = tasks.clone();
    Box::pin(async move {
        let (done, told) = oneshot::channel();
        tasks.spawn("session work", async move {
            if let Ok(worked) = within(WORK, work).await {
                let _nobody_waits = done.send(worked);
            }
        });
        // The work timed out, panicked or was aborted by the server: the session breaks too.
        told.await.unwrap_or_else(|gone| std::panic::resume_unwind(Box::new(gone)))
    })
}

/// Awaits the future, if there is one; otherwise pends forever.
async fn maybe<T>(future: Option<&mut Pending<T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl Session {
    fn new(api: Arc<ApiState>, line: Connection) -> Self {
        let settings = &api.ctx.state.sessions;
        let terms = Terms {
            version: env!("CARGO_PKG_VERSION"),
            heartbeat: settings.heartbeat,
            resume_window: settings.resume_window,
            offered: sessions::offered(&api.ctx),
            dialect: line.dialect,
            lines: line.lines,
        };
        // Every frame names a session, even before one is opened (ARCP-W-3.3).
        let id = SessionId::mint(api.ctx.now(), &*api.ctx.chance);
        Self {
            machine: Machine::new(terms, id, Duration::ZERO),
            client: Client::new(line),
            requests: Requests::new(),
            acks: Acks::new(),
            events: Events::new(api.ctx.feed.wakeups().listener()),
            timers: Timers::start(),
            exit: Exit::new(),
            api,
        }
    }

    /// When something is due if nothing happens before.
    fn wake_at(&self) -> Instant {
        let tick = self.machine.next_tick().map(|tick| self.timers.began + tick);
        let due = [tick, self.events.again_at(), self.exit.leaving_at, self.requests.early_at()];
        due.into_iter().flatten().fold(self.timers.keep_at, Instant::min)
    }

    /// Waits for the first thing to happen.
    async fn next(&mut self, ear: &mut impl FrameSource) -> Step {
        let room = self.requests.have_room();
        let listens = self.machine.listens() && room && self.exit.last.is_none();
        let ready = self.events.is_ready(&self.machine);
        let wake = self.wake_at();
        let draining = self.api.draining.clone();
        let step = tokio::select! {
            done = self.requests.answered() => Step::Done(done),
            step = self.events.news() => step,
            () = self.acks.written() => Step::Acked,
            heard = ear.hear(), if listens => Step::Incoming(heard),
            () = sleep_until(wake) => Step::Time,
            () = self.client.voided() => Step::Void,
            () = std::future::ready(()), if ready => Step::More,
            () = draining.cancelled(), if self.exit.leaving_at.is_none() => Step::Draining,
        };
        match step {
            Step::Time => self.listen_again(ear, room).await.map_or(Step::Time, Step::Incoming),
            step => step,
        }
    }

    /// Processes a step: informs the machine and performs its instructions; returns the reason if the session ends.
    async fn take(&mut self, step: Step, mouth: &mut impl FrameSink) -> Option<Ending> {
        self.note_life(&step);
        let entered = matches!(step, Step::Done(Done::Entered(..)));
        let doing = match step {
            Step::Incoming(Incoming::Text(text)) => {
                self.client.came += text.len();
                self.machine.hear(self.moment(&self.chance()), &text)
            }
            Step::Incoming(Incoming::Noise(why)) => self.machine.hear_noise(self.moment(&self.chance()), why),
            Step::Incoming(Incoming::Broken(why)) => {
                let doing = self.machine.hear_noise(self.moment(&self.chance()), why);
                return self.act(doing, mouth).await.or(Some(Ending::Broken));
            }
            Step::Incoming(Incoming::Ping(ping)) => {
                return if mouth.pong(&ping).await { None } else { Some(Ending::Gone) };
            }
            Step::Incoming(Incoming::Breath) | Step::More => Vec::new(),
            // Requests that arrived through a pipe before it was closed are still answered.
            Step::Incoming(Incoming::Gone) if self.client.line.lines => {
                self.exit.last = Some(Ending::Gone);
                Vec::new()
            }
            Step::Incoming(Incoming::Gone) => return Some(Ending::Gone),
            Step::Done(Done::Kept(false)) => return Some(Ending::Taken),
            Step::Done(Done::Idle(true)) => return Some(Ending::Idle),
            Step::Done(done) => self.hear_of(done),
            Step::Read(Ok((batch, _))) if !batch.current => return Some(Ending::Taken),
            Step::Read(read) => {
                self.events.hold(read, &self.machine);
                Vec::new()
            }
            Step::Acked => {
                self.acks.write(&self.api.tasks, self.client.backend.as_ref());
                Vec::new()
            }
            Step::Rung => {
                self.events.rung();
                Vec::new()
            }
            Step::Time => match self.expire_due() {
                Ok(doing) => doing,
                Err(ending) => return Some(ending),
            },
            Step::Void => return Some(Ending::Refused),
            // Requests in progress are answered; nothing more is read.
            Step::Draining => {
                self.exit.leave_soon(Ending::Restart);
                Vec::new()
            }
        };
        if let Some(ending) = self.act(doing, mouth).await {
            return Some(ending);
        }
        if entered && self.client.unheard && !mouth.ping().await {
            return Some(Ending::Gone);
        }
        if let Some(ending) = self.deliver(mouth).await {
            return Some(ending);
        }
        // A pipe also receives the events that are ready now.
        let waits = self.client.line.lines && self.events.is_ready(&self.machine);
        let done = self.requests.under_way() == 0 && !waits;
        if let Some(ending) = self.exit.last.filter(|_| done) {
            let doing = self.machine.leave(self.moment(&self.chance()));
            return self.act(doing, mouth).await.or(Some(ending));
        }
        None
    }

    fn chance(&self) -> Arc<dyn entente_domain::ids::Chance> {
        Arc::clone(&self.api.ctx.chance)
    }

    fn moment<'a>(&self, chance: &'a Arc<dyn entente_domain::ids::Chance>) -> Moment<'a> {
        Moment { at: self.timers.began.elapsed(), now: self.api.ctx.now(), chance: &**chance }
    }

    /// Performs the machine's instructions: sends frames and starts requests.
    async fn act(&mut self, doing: Vec<Do>, mouth: &mut impl FrameSink) -> Option<Ending> {
        for what in doing {
            match what {
                Do::Send(frame) => match timeout(STALL, mouth.say(frame)).await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return Some(Ending::Gone),
                },
                Do::Ask(ask) => self.ask(ask),
                Do::Leave => self.exit.leave_soon(Ending::Done),
                Do::Close(Closing::Done) => return Some(Ending::Done),
                Do::Close(Closing::Refused) => return Some(Ending::Refused),
                Do::Close(Closing::Silent) => return Some(Ending::Silent),
            }
        }
        None
    }
}
