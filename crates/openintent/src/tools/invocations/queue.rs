//! Queue of tool calls. Background tasks of the server make them, so that every call is recorded even if the
//! client disconnects or the request's task ends.

use std::time::Duration;

use entente_domain::idempotency::Idempotency;
use entente_domain::openintent::tools::invocations::Invocation;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome};
use entente_runtime::deadlines::extend;
use tokio::sync::{mpsc, oneshot};

use super::Ask;

/// Capacity of the queue; calls are taken at once, and a longer queue would only lose more of them together.
const WAITING: usize = 256;

/// Maximum time that a request waits for the service.
const CALL: Duration = Duration::from_mins(5);

/// A queued call.
pub struct Order {
    /// Caller of the request.
    pub caller: Caller,
    /// Requested call.
    pub ask: Ask,
    /// Idempotency key of the request.
    pub once: Option<Idempotency>,
    /// Channel that returns the outcome.
    pub told: oneshot::Sender<Outcome<Invocation>>,
}

/// Sender of the queue.
#[derive(Clone)]
pub struct CallQueue {
    orders: mpsc::Sender<Order>,
}

impl CallQueue {
    /// Creates a queue with its receiver.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (orders, taken) = mpsc::channel(WAITING);
        (Self { orders }, taken)
    }

    /// Queues a tool call and returns its outcome.
    ///
    /// # Errors
    /// As [`super::begin`]; too many calls are under way, or the server is stopping.
    pub async fn invoke(&self, caller: Caller, ask: Ask, once: Option<Idempotency>) -> Outcome<Invocation> {
        // The called service has a time limit of its own, and a second one after a token refresh.
        extend(CALL);
        let (told, hears) = oneshot::channel();
        let order = Order { caller, ask, once, told };
        if let Err(not_taken) = self.orders.try_send(order) {
            return Err(match not_taken {
                mpsc::error::TrySendError::Full(_) => busy().into(),
                mpsc::error::TrySendError::Closed(_) => stopping(),
            });
        }
        // An order dropped without an answer was lost in the shutdown.
        hears.await.unwrap_or_else(|_dropped| Err(stopping()))
    }
}

/// Refusal when the server makes as many calls as it can at once.
#[must_use]
pub fn busy() -> Refusal {
    let message = "This server makes as many calls of tools as it can at once. Try again shortly.";
    Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::Unavailable, message) }
}

fn stopping() -> AppError {
    AppError::Unavailable("the server stops and makes no more calls of tools".to_owned())
}
