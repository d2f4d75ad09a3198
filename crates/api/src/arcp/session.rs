//! Runs a session: passes the client's frames to the state machine, the machine's requests to the kernel, and its frames to
//! the client. There is one task per session and no queue: events are read from the client's position once there is room to
//! send them (`session/flow.rs`). Requests are handled in `session/asks.rs`.

mod asks;
mod flow;

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use entente_arcp::sessions;
use entente_arcp::sessions::Batch;
use entente_domain::arcp::sessions::dialogue::{Ask, Closing, Do, Terms};
use entente_domain::arcp::sessions::machine::Machine;
use entente_domain::arcp::sessions::{Delivery, Moment};
use entente_domain::ids::{JobId, SessionId};
use entente_kernel::Outcome;
use entente_kernel::wakeups::Listener;
use entente_runtime::deadlines::within;
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::asking::{Backend, Done};
use super::{Connection, Ending, FrameSink, FrameSource, Heard};
use crate::http::ApiState;

/// Maximum number of requests in progress per session; more are read once one of them is answered.
const UNDER_WAY: usize = 256;
/// Maximum total bytes of the submissions among them: a few of the largest.
const BYTES: usize = 4 * 1024 * 1024;
/// Time to finish requests in progress when the server stops or the client leaves.
const FINISH: Duration = Duration::from_secs(2);
/// Time limit for a client to authenticate.
const HELLO: Duration = Duration::from_secs(30);
/// Time limit for sending a frame: a client that takes nothing for so long has to resume later (§14).
const STALL: Duration = Duration::from_mins(1);
/// Maximum number of events delivered in one turn; the client's frames are read in between.
const STRETCH: usize = 16;
/// Maximum duration of such a turn: see [`STRETCH`].
const TURN: Duration = Duration::from_millis(100);
/// Extra time for reading before a client counts as silent.
const LISTEN: Duration = Duration::from_millis(50);
/// Pause before a failed read is repeated.
const AGAIN: Duration = Duration::from_millis(500);

/// Events that were read, and whether more events of followed jobs wait to be numbered.
type Read = Outcome<(Batch, bool)>;

type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// The next thing that happened in a session.
enum Step {
    Heard(Heard),
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
    line: Connection,
    machine: Machine,
    began: Instant,
    /// Reason of the end: nothing more is read, and the session ends once all requests are answered.
    last: Option<Ending>,
    /// When the session ends even with requests unanswered, because the server or the client is leaving.
    leaving_at: Option<Instant>,
    backend: Option<Backend>,
    listener: Listener,
    /// Answered in the order of submission, by which alone some clients identify their jobs (ARCP-W-4.3.2).
    submits: FuturesOrdered<Pending<Done>>,
    /// Bytes of each submission.
    weights: VecDeque<usize>,
    /// Answered in any order.
    others: FuturesUnordered<Pending<Done>>,
    /// Performed one after the other, because each may undo the one before.
    follows: VecDeque<Pending<Done>>,
    /// A request that exceeds the key's rate limit, and the time at which it is accepted.
    ///
    /// Nothing is read until then: an error would harm some clients (ARCP-W-4.2.1).
    early: Option<(Instant, Ask)>,
    followed: HashSet<JobId>,
    /// Whether events of followed jobs may wait to be numbered.
    unplanned: bool,
    reading: Option<Pending<Read>>,
    /// Events that were read, and the machine's marker at that time.
    held: Option<(u64, VecDeque<Delivery>)>,
    /// Number of the last event read.
    read_seq: i64,
    /// Whether something may have happened since.
    stale: bool,
    acking: Option<Pending<()>>,
    acked: Option<i64>,
    keep_at: Instant,
    /// Whether it is still unconfirmed that the client of a resumed session has received the welcome, and with it its new
    /// token.
    unheard: bool,
    active_at: Instant,
    again_at: Option<Instant>,
    /// End of the extra reading time of a client that counts as silent.
    listened_at: Option<Instant>,
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
            None => talk.look(),
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

async fn voided(backend: Option<&Backend>) {
    match backend {
        Some(backend) => backend.caller.grant.voided().await,
        None => std::future::pending().await,
    }
}

impl Session {
    fn new(api: Arc<ApiState>, line: Connection) -> Self {
        let settings = &api.ctx.arcp.state.sessions;
        let terms = Terms {
            version: env!("CARGO_PKG_VERSION"),
            heartbeat: settings.heartbeat,
            resume_window: settings.resume_window,
            offered: sessions::offered(&api.ctx.arcp),
            dialect: line.dialect,
            lines: line.lines,
        };
        let began = Instant::now();
        // Every frame names a session, even before one is opened (ARCP-W-3.3).
        let id = SessionId::mint(api.ctx.now(), &*api.ctx.chance);
        Self {
            line,
            machine: Machine::new(terms, id, Duration::ZERO),
            began,
            last: None,
            leaving_at: None,
            backend: None,
            listener: api.ctx.feed.wakeups().listener(),
            submits: FuturesOrdered::new(),
            weights: VecDeque::new(),
            others: FuturesUnordered::new(),
            follows: VecDeque::new(),
            early: None,
            followed: HashSet::new(),
            unplanned: false,
            reading: None,
            held: None,
            read_seq: 0,
            stale: false,
            acking: None,
            acked: None,
            keep_at: began + HELLO,
            unheard: false,
            active_at: began,
            again_at: None,
            listened_at: None,
            api,
        }
    }

    fn under_way(&self) -> usize {
        self.submits.len() + self.others.len() + self.follows.len() + usize::from(self.early.is_some())
    }

    /// Stops reading, and ends once requests are answered or the time is over.
    fn leave_soon(&mut self, ending: Ending) {
        self.last = Some(ending);
        self.leaving_at.get_or_insert(Instant::now() + FINISH);
    }

    /// Waits for the first thing to happen.
    async fn next(&mut self, ear: &mut impl FrameSource) -> Step {
        let room = self.under_way() < UNDER_WAY && self.weights.iter().sum::<usize>() < BYTES;
        let room = room && self.early.is_none();
        let listens = self.machine.listens() && room && self.last.is_none();
        let ready = self.is_ready();
        let tick = self.machine.next_tick().map(|tick| self.began + tick);
        let early = self.early.as_ref().map(|(at, _)| *at);
        let due = [tick, Some(self.keep_at), self.again_at, self.leaving_at, early];
        let wake = due.into_iter().flatten().min().unwrap_or(self.keep_at);
        let draining = self.api.draining.clone();
        let step = tokio::select! {
            Some(done) = self.submits.next() => {
                self.weights.pop_front();
                Step::Done(done)
            }
            Some(done) = self.others.next() => Step::Done(done),
            done = maybe(self.follows.front_mut()) => {
                self.follows.pop_front();
                Step::Done(done)
            }
            batch = maybe(self.reading.as_mut()) => {
                self.reading = None;
                Step::Read(batch)
            }
            () = maybe(self.acking.as_mut()) => {
                self.acking = None;
                Step::Acked
            }
            heard = ear.hear(), if listens => Step::Heard(heard),
            () = self.listener.rung() => Step::Rung,
            () = sleep_until(wake) => Step::Time,
            () = voided(self.backend.as_ref()) => Step::Void,
            () = std::future::ready(()), if ready => Step::More,
            () = draining.cancelled(), if self.leaving_at.is_none() => Step::Draining,
        };
        match step {
            Step::Time => self.listen_again(ear, room).await.map_or(Step::Time, Step::Heard),
            step => step,
        }
    }

    /// Processes a step: informs the machine and performs its instructions; returns the reason if the session ends.
    async fn take(&mut self, step: Step, mouth: &mut impl FrameSink) -> Option<Ending> {
        self.note_life(&step);
        let entered = matches!(step, Step::Done(Done::Entered(..)));
        let doing = match step {
            Step::Heard(Heard::Text(text)) => self.machine.hear(self.moment(&self.chance()), &text),
            Step::Heard(Heard::Noise(why)) => self.machine.hear_noise(self.moment(&self.chance()), why),
            Step::Heard(Heard::Broken(why)) => {
                let doing = self.machine.hear_noise(self.moment(&self.chance()), why);
                return self.act(doing, mouth).await.or(Some(Ending::Broken));
            }
            Step::Heard(Heard::Ping(ping)) => {
                return if mouth.pong(&ping).await { None } else { Some(Ending::Gone) };
            }
            Step::Heard(Heard::Breath) | Step::More => Vec::new(),
            // Requests that arrived through a pipe before it was closed are still answered.
            Step::Heard(Heard::Gone) if self.line.lines => {
                self.last = Some(Ending::Gone);
                Vec::new()
            }
            Step::Heard(Heard::Gone) => return Some(Ending::Gone),
            Step::Done(Done::Kept(false)) => return Some(Ending::Taken),
            Step::Done(Done::Idle(true)) => return Some(Ending::Idle),
            Step::Done(done) => self.hear_of(done),
            Step::Read(Ok((batch, _))) if !batch.current => return Some(Ending::Taken),
            Step::Read(read) => {
                self.hold(read);
                Vec::new()
            }
            Step::Acked => {
                self.acknowledge();
                Vec::new()
            }
            Step::Rung => {
                self.stale = true;
                Vec::new()
            }
            Step::Time => match self.expire_due() {
                Ok(doing) => doing,
                Err(ending) => return Some(ending),
            },
            Step::Void => return Some(Ending::Refused),
            // Requests in progress are answered; nothing more is read.
            Step::Draining => {
                self.leave_soon(Ending::Restart);
                Vec::new()
            }
        };
        if let Some(ending) = self.act(doing, mouth).await {
            return Some(ending);
        }
        if entered && self.unheard && !mouth.ping().await {
            return Some(Ending::Gone);
        }
        if let Some(ending) = self.deliver(mouth).await {
            return Some(ending);
        }
        // A pipe also receives the events that are ready now.
        let done = self.under_way() == 0 && !(self.line.lines && self.is_ready());
        if let Some(ending) = self.last.filter(|_| done) {
            let doing = self.machine.leave(self.moment(&self.chance()));
            return self.act(doing, mouth).await.or(Some(ending));
        }
        None
    }

    fn chance(&self) -> Arc<dyn entente_domain::ids::Chance> {
        Arc::clone(&self.api.ctx.chance)
    }

    fn moment<'a>(&self, chance: &'a Arc<dyn entente_domain::ids::Chance>) -> Moment<'a> {
        Moment { at: self.began.elapsed(), now: self.api.ctx.now(), chance: &**chance }
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
                Do::Leave => self.leave_soon(Ending::Done),
                Do::Close(Closing::Done) => return Some(Ending::Done),
                Do::Close(Closing::Refused) => return Some(Ending::Refused),
                Do::Close(Closing::Silent) => return Some(Ending::Silent),
            }
        }
        None
    }
}
