//! A conversation: what is heard goes to the session's machine, what it asks to the deeds, what it says to the client. One task
//! per session, without queues: events are read from where the client is when there is room to send them (`session/flow.rs`);
//! requests are `session/asks.rs`.

mod asks;
mod flow;

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use entente_domain::ids::{JobId, SessionId};
use entente_domain::sessions::dialogue::{Ask, Closing, Do, Terms};
use entente_domain::sessions::machine::Machine;
use entente_domain::sessions::{Delivery, Moment};
use entente_kernel::Outcome;
use entente_kernel::feed::Listener;
use entente_kernel::sessions::{self, Batch};
use entente_runtime::deadlines::within;
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::asking::{Desk, Done};
use super::{Ear, Ending, Heard, Line, Mouth};
use crate::http::Doors;

/// Requests of one session that are under way at once; the next are read when one of them is answered.
const UNDER_WAY: usize = 256;
/// Bytes of the submits among them: a few of the largest.
const BYTES: usize = 4 * 1024 * 1024;
/// How long what was asked may take when the server stops or the client goes.
const FINISH: Duration = Duration::from_secs(2);
/// How long a client may take to say who it is.
const HELLO: Duration = Duration::from_secs(30);
/// How long one frame may wait for room: who takes nothing for so long resumes when it can (§14).
const STALL: Duration = Duration::from_mins(1);
/// Events delivered in one turn at the most, and how long one may take: in between the client is listened to.
const STRETCH: usize = 16;
/// See [`STRETCH`].
const TURN: Duration = Duration::from_millis(100);
/// How long it is listened once more before silence is believed.
const LISTEN: Duration = Duration::from_millis(50);
/// How long to wait before what could not be read is read again.
const AGAIN: Duration = Duration::from_millis(500);

/// What was read, and whether more of what is followed waits for a number.
type Read = Outcome<(Batch, bool)>;

type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// What has happened.
enum Step {
    Heard(Heard),
    Done(Done),
    Read(Read),
    Acked,
    Rung,
    /// What is held can be delivered.
    More,
    Time,
    Void,
    Draining,
}

/// A conversation as it goes on.
struct Talk {
    doors: Arc<Doors>,
    line: Line,
    machine: Machine,
    began: Instant,
    /// Nothing more will be heard: how it ends once what was asked is answered.
    last: Option<Ending>,
    /// When the conversation ends because the server does, or its client, answered or not.
    leaving_at: Option<Instant>,
    desk: Option<Desk>,
    listener: Listener,
    /// Answered in the order in which they were asked: some clients tell their jobs by nothing else (contract 4.3).
    submits: FuturesOrdered<Pending<Done>>,
    /// Bytes of each of them.
    weights: VecDeque<usize>,
    /// Answered whenever they can be.
    others: FuturesUnordered<Pending<Done>>,
    /// Done one after the other, because each may take back what the one before has done.
    follows: VecDeque<Pending<Done>>,
    /// A request that came before the key's rate has room for it, and when there will be. Until then nothing is heard: an
    /// error for it would harm some clients (contract 4.3).
    early: Option<(Instant, Ask)>,
    followed: HashSet<JobId>,
    /// Whether something that is followed may wait for its number.
    unplanned: bool,
    reading: Option<Pending<Read>>,
    /// What was read, and the machine's mark of that moment.
    held: Option<(u64, VecDeque<Delivery>)>,
    /// Up to where it was read.
    read_seq: i64,
    /// Whether something may have happened since.
    stale: bool,
    acking: Option<Pending<()>>,
    acked: Option<i64>,
    keep_at: Instant,
    /// Whether it is not known yet that the client has the welcome of a session that it took up again, and with it its new
    /// token.
    unheard: bool,
    active_at: Instant,
    again_at: Option<Instant>,
    /// When it was listened once more, since the client counts as silent.
    listened_at: Option<Instant>,
}

/// Carries on a conversation until it ends.
pub(super) async fn converse(doors: Arc<Doors>, line: Line, mut ear: impl Ear, mut mouth: impl Mouth) {
    let mut talk = Talk::new(doors, line);
    let ending = loop {
        let step = talk.next(&mut ear).await;
        match talk.take(step, &mut mouth).await {
            Some(ending) => break ending,
            None => talk.look(),
        }
    };
    let _too_slow = timeout(STALL, mouth.end(ending)).await;
    // Who is let in no longer has nothing done for it any more.
    if ending != Ending::Refused {
        Box::pin(talk.finish()).await;
    }
    // What comes once is not carried along all the time.
    Box::pin(talk.leave()).await;
}

/// How long something may take that a session has begun, a job's credentials included. Longer, and the database does not answer
/// any more: the session breaks, and may be taken up again.
const WORK: Duration = Duration::from_mins(2);

/// Work in a task of its own, from the moment that it is waited for: it may hold locks of the database, and goes on also while
/// a client that reads slowly, or the session's end, is waited for instead.
fn begun<T: Send + 'static>(tasks: &Tasks, work: impl Future<Output = T> + Send + 'static) -> Pending<T> {
    let tasks = tasks.clone();
    Box::pin(async move {
        let (done, told) = oneshot::channel();
        tasks.spawn("session work", async move {
            if let Ok(worked) = within(WORK, work).await {
                let _nobody_waits = done.send(worked);
            }
        });
        // It broke, or the server has given it up, and the session with it.
        told.await.unwrap_or_else(|gone| std::panic::resume_unwind(Box::new(gone)))
    })
}

/// The future, if there is one; else nothing ever.
async fn maybe<T>(future: Option<&mut Pending<T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn voided(desk: Option<&Desk>) {
    match desk {
        Some(desk) => desk.caller.grant.voided().await,
        None => std::future::pending().await,
    }
}

impl Talk {
    fn new(doors: Arc<Doors>, line: Line) -> Self {
        let settings = &doors.ctx.settings.sessions;
        let terms = Terms {
            version: env!("CARGO_PKG_VERSION"),
            heartbeat: settings.heartbeat,
            resume_window: settings.resume_window,
            offered: sessions::offered(&doors.ctx),
            dialect: line.dialect,
            lines: line.lines,
        };
        let began = Instant::now();
        // Every frame names a session, also those before there is one (contract 3).
        let id = SessionId::mint(doors.ctx.now(), &*doors.ctx.chance);
        Self {
            line,
            machine: Machine::new(terms, id, Duration::ZERO),
            began,
            last: None,
            leaving_at: None,
            desk: None,
            listener: doors.ctx.feed.bells().listener(),
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
            doors,
        }
    }

    fn under_way(&self) -> usize {
        self.submits.len() + self.others.len() + self.follows.len() + usize::from(self.early.is_some())
    }

    /// Hears nothing more, and ends when what was asked is answered, or soon.
    fn leave_soon(&mut self, ending: Ending) {
        self.last = Some(ending);
        self.leaving_at.get_or_insert(Instant::now() + FINISH);
    }

    /// Waits for whatever happens first.
    async fn next(&mut self, ear: &mut impl Ear) -> Step {
        let room = self.under_way() < UNDER_WAY && self.weights.iter().sum::<usize>() < BYTES;
        let room = room && self.early.is_none();
        let listens = self.machine.listens() && room && self.last.is_none();
        let ready = self.is_ready();
        let tick = self.machine.next_tick().map(|tick| self.began + tick);
        let early = self.early.as_ref().map(|(at, _)| *at);
        let due = [tick, Some(self.keep_at), self.again_at, self.leaving_at, early];
        let wake = due.into_iter().flatten().min().unwrap_or(self.keep_at);
        let draining = self.doors.draining.clone();
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
            () = voided(self.desk.as_ref()) => Step::Void,
            () = std::future::ready(()), if ready => Step::More,
            () = draining.cancelled(), if self.leaving_at.is_none() => Step::Draining,
        };
        match step {
            Step::Time => self.listen_again(ear, room).await.map_or(Step::Time, Step::Heard),
            step => step,
        }
    }

    /// Takes a step: tells the machine, and does what it says. `Some` when that was the last one.
    async fn take(&mut self, step: Step, mouth: &mut impl Mouth) -> Option<Ending> {
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
            // What came through a pipe before it was closed is answered.
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
            Step::Time => match self.pass_time() {
                Ok(doing) => doing,
                Err(ending) => return Some(ending),
            },
            Step::Void => return Some(Ending::Refused),
            // What was asked is answered; nothing more is heard.
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
        // A pipe is also given what it can have at once.
        let done = self.under_way() == 0 && !(self.line.lines && self.is_ready());
        if let Some(ending) = self.last.filter(|_| done) {
            let doing = self.machine.leave(self.moment(&self.chance()));
            return self.act(doing, mouth).await.or(Some(ending));
        }
        None
    }

    fn chance(&self) -> Arc<dyn entente_domain::ids::Chance> {
        Arc::clone(&self.doors.ctx.chance)
    }

    fn moment<'a>(&self, chance: &'a Arc<dyn entente_domain::ids::Chance>) -> Moment<'a> {
        Moment { at: self.began.elapsed(), now: self.doors.ctx.now(), chance: &**chance }
    }

    /// Sends and asks what the machine says.
    async fn act(&mut self, doing: Vec<Do>, mouth: &mut impl Mouth) -> Option<Ending> {
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
