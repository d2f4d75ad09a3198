//! The desk where calls of tools are handed in. They are made by tasks of the server's own: a client that hangs up, or the end
//! of the thread that served it, leaves no call without what came of it.

use std::time::Duration;

use entente_domain::idempotency::Idempotency;
use entente_domain::invocations::Invocation;
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines::extend;
use tokio::sync::{mpsc, oneshot};

use super::Ask;
use crate::{AppError, Caller, Outcome};

/// Calls that may wait to be taken up; they are taken up at once, so that more would only be lost together.
const WAITING: usize = 256;

/// How long whoever waits for a call may wait for the service, at the most.
const CALL: Duration = Duration::from_mins(5);

/// A call that somebody waits for.
pub struct Order {
    /// Who asks.
    pub caller: Caller,
    /// What for.
    pub ask: Ask,
    /// The key against doing it twice.
    pub once: Option<Idempotency>,
    /// Who waits.
    pub told: oneshot::Sender<Outcome<Invocation>>,
}

/// Where calls are handed in.
#[derive(Clone)]
pub struct Desk {
    orders: mpsc::Sender<Order>,
}

impl Desk {
    /// A desk, and where its orders come out.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (orders, taken) = mpsc::channel(WAITING);
        (Self { orders }, taken)
    }

    /// Has a tool called; answers with what came of it.
    ///
    /// # Errors
    /// As [`super::begin`]; there are too many calls under way, or the server is stopping.
    pub async fn invoke(&self, caller: Caller, ask: Ask, once: Option<Idempotency>) -> Outcome<Invocation> {
        // The service that is called has its own time, once more with another token.
        extend(CALL);
        let (told, hears) = oneshot::channel();
        let order = Order { caller, ask, once, told };
        if let Err(not_taken) = self.orders.try_send(order) {
            return Err(match not_taken {
                mpsc::error::TrySendError::Full(_) => busy().into(),
                mpsc::error::TrySendError::Closed(_) => stopping(),
            });
        }
        // Who drops an order without a word was given up with the server.
        hears.await.unwrap_or_else(|_dropped| Err(stopping()))
    }
}

/// What is said when no hand is free.
#[must_use]
pub fn busy() -> Refusal {
    let message = "This server makes as many calls of tools as it can at once. Try again shortly.";
    Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::Unavailable, message) }
}

fn stopping() -> AppError {
    AppError::Unavailable("the server stops and makes no more calls of tools".to_owned())
}
