//! Whether whoever asked still waits for the answer.
//!
//! A request goes on to its end although its connection is gone: what was asked for is done, and whoever sends and hangs up
//! (as senders of hooks do) has been heard. But nobody is given anything who cannot hear of it, and nobody is waited for.

use std::cell::{Cell, OnceCell};
use std::future::{Future, Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::dev::Payload as Incoming;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, web};
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::Doors;
use super::error::Problem;

/// Whether whoever asked is there, for a handler that minds.
#[derive(Clone)]
pub struct Presence {
    gone: CancellationToken,
    over: CancellationToken,
}

impl Presence {
    /// Cancelled when nobody is to be waited for any more: the connection is gone, or the server is stopping.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Whether the connection is gone. One that went while the last thing was awaited is only seen when it is looked at, which is
    /// when this handler lets others have their turn.
    pub async fn is_gone(&self) -> bool {
        tokio::task::yield_now().await;
        self.gone.is_cancelled()
    }

    /// What is answered then, for the log: nobody reads it.
    pub fn refusal() -> Problem {
        Refusal::new(Code::Unavailable, "Whoever asked has hung up, and was given nothing.").into()
    }
}

impl FromRequest for Presence {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Incoming) -> Self::Future {
        let known = request.extensions().get::<Watch>().cloned();
        let doors = request.app_data::<web::Data<Doors>>();
        ready(match (known, doors) {
            (Some(watch), Some(doors)) => Ok(watch.presence(doors)),
            _ => Err(Problem::internal("a request came without the front door")),
        })
    }
}

/// What the front door notes of a request, in case its handler minds whether the connection is gone.
#[derive(Clone, Default)]
pub struct Watch(Rc<Watched>);

#[derive(Default)]
struct Watched {
    left: Cell<bool>,
    /// Made when a handler asks, which few do.
    presence: OnceCell<Presence>,
}

impl Watch {
    fn presence(&self, doors: &Doors) -> Presence {
        let made = || Presence { gone: CancellationToken::new(), over: doors.draining.child_token() };
        let presence = self.0.presence.get_or_init(made).clone();
        if self.0.left.get() {
            self.leave();
        }
        presence
    }

    fn leave(&self) {
        self.0.left.set(true);
        if let Some(presence) = self.0.presence.get() {
            presence.gone.cancel();
            presence.over.cancel();
        }
    }
}

/// A handler at work. When its connection is gone, and it is dropped with it, it goes on by itself to its end.
pub struct UnderWay<F: Future + Unpin + 'static, D: FnOnce(F::Output) + 'static> {
    at_work: Option<(F, D)>,
    watch: Watch,
    tasks: Option<Tasks>,
}

impl<F: Future + Unpin + 'static, D: FnOnce(F::Output) + 'static> UnderWay<F, D> {
    /// A handler at work, and what is to be done with an answer that nobody hears.
    pub fn new(handler: F, unheard: D, watch: Watch, tasks: Option<Tasks>) -> Self {
        Self { at_work: Some((handler, unheard)), watch, tasks }
    }
}

impl<F: Future + Unpin + 'static, D: FnOnce(F::Output) + Unpin + 'static> Future for UnderWay<F, D> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((handler, _)) = self.at_work.as_mut() else { return Poll::Pending };
        let done = Pin::new(handler).poll(context);
        if done.is_ready() {
            self.at_work = None;
        }
        done
    }
}

impl<F: Future + Unpin + 'static, D: FnOnce(F::Output) + 'static> Drop for UnderWay<F, D> {
    fn drop(&mut self) {
        let Some((handler, unheard)) = self.at_work.take() else { return };
        self.watch.leave();
        let Some(tasks) = self.tasks.take().filter(|tasks| !tasks.stopping().is_cancelled()) else { return };
        // Where the thread itself ends nothing can go on; what was not answered may be lost.
        let _with_its_thread = catch_unwind(AssertUnwindSafe(|| {
            tasks.spawn_here("request", async move { unheard(handler.await) });
        }));
    }
}
