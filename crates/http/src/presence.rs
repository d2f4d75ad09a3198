//! Tracks whether the client still waits for its response.
//!
//! A request runs to completion even if its connection is gone, because clients such as webhook senders send
//! and hang up. But nothing is handed out to a client that cannot receive it, and no request waits on its
//! behalf.

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

use super::error::Problem;
use crate::HttpState;

/// The client's presence, for handlers that depend on it.
#[derive(Clone)]
pub struct Presence {
    gone: CancellationToken,
    over: CancellationToken,
}

impl Presence {
    /// Returns a token that is cancelled when waiting has become pointless: the connection is gone, or the
    /// server is stopping.
    #[must_use]
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Returns whether the connection is gone.
    ///
    /// Yields first: a disconnect during the last await is noticed only when this handler lets the others
    /// run.
    pub async fn is_gone(&self) -> bool {
        tokio::task::yield_now().await;
        self.gone.is_cancelled()
    }

    /// Returns the refusal for a client that has disconnected; it appears only in the log.
    #[must_use]
    pub fn refusal() -> Problem {
        Refusal::new(Code::Unavailable, "Whoever asked has hung up, and was given nothing.").into()
    }
}

impl FromRequest for Presence {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Incoming) -> Self::Future {
        let known = request.extensions().get::<Watch>().cloned();
        let api = request.app_data::<web::Data<HttpState>>();
        ready(match (known, api) {
            (Some(watch), Some(api)) => Ok(watch.presence(api)),
            _ => Err(Problem::internal("a request came without the middleware")),
        })
    }
}

/// Tracks the connection of a request, in case its handler depends on the client's presence.
#[derive(Clone, Default)]
pub struct Watch(Rc<Watched>);

#[derive(Default)]
struct Watched {
    left: Cell<bool>,
    /// Created when a handler first asks for it, which few do.
    presence: OnceCell<Presence>,
}

impl Watch {
    fn presence(&self, api: &HttpState) -> Presence {
        let made = || Presence { gone: CancellationToken::new(), over: api.draining.child_token() };
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

/// A running handler; if it is dropped because its connection is gone, it runs to completion as a task of its
/// own.
pub struct UnderWay<F: Future + Unpin + 'static, D: FnOnce(F::Output) + 'static> {
    at_work: Option<(F, D)>,
    watch: Watch,
    tasks: Option<Tasks>,
}

impl<F: Future + Unpin + 'static, D: FnOnce(F::Output) + 'static> UnderWay<F, D> {
    /// Wraps a handler; `unheard` receives its response if the client is gone.
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
        // If the thread itself is ending nothing can be spawned; unanswered requests may be lost.
        let _with_its_thread = catch_unwind(AssertUnwindSafe(|| {
            tasks.spawn_here("request", async move { unheard(handler.await) });
        }));
    }
}
