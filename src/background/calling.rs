//! Tool calls (RFC-0014): each call submitted to `openintent/src/tools/invocations/queue.rs` is recorded, executed, and
//! its outcome recorded. No transaction is open during the call. The secret is removed from a tool's answer
//! before anything else reads it.

mod tokens;

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_bridges::Ctx;
use entente_domain::limits::TOOL_RESULT_BYTES;
use entente_domain::openintent::tools::invocations::{
    CallFailure, INTERRUPTED, Invocation, InvocationStatus, shaped,
};
use entente_domain::openintent::tools::tool_secrets::Scrubber;
use entente_kernel::Outcome;
use entente_openintent::tools::invocations;
use entente_openintent::tools::invocations::{Begun, Made, Order, Started, busy};
use entente_runtime::tasks::Tasks;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::egress::{Egress, ToolFailure, ToolResponse};
use tokens::Tokens;

/// Concurrent calls of this server.
const PERMITS: usize = 256;

/// Time that a running call gets when the server stops: longer than the requests that wait for it get.
const GRACE: Duration = Duration::from_secs(3);

/// Attempts to record an outcome, and the pause between them.
const WRITES: u32 = 8;
const AGAIN: Duration = Duration::from_millis(500);

/// Executor of tool calls.
pub struct Calling {
    ctx: Ctx,
    egress: Egress,
    tokens: Tokens,
    stopping: CancellationToken,
}

/// A call without a usable answer.
struct Failed {
    mishap: CallFailure,
    message: String,
    response: Option<ToolResponse>,
}

impl Failed {
    fn new(mishap: CallFailure, message: impl Into<String>) -> Self {
        Self { mishap, message: message.into(), response: None }
    }
}

impl Calling {
    /// Creates an executor that uses this client.
    #[must_use]
    pub fn new(ctx: Ctx, egress: Egress, tasks: &Tasks) -> Arc<Self> {
        let (tokens, stopping) = (Tokens::new(&ctx.metrics), tasks.stopping().clone());
        Arc::new(Self { ctx, egress, tokens, stopping })
    }

    /// Takes orders until the server stops.
    ///
    /// Each runs as its own task on the server's runtime instead of a request thread, so that its connections
    /// outlive that thread.
    pub async fn drive(self: Arc<Self>, orders: Arc<Mutex<mpsc::Receiver<Order>>>, tasks: Tasks) {
        // Owned outside of this task: after a restart the next one continues with the same queue.
        let mut orders = orders.lock().await;
        let permits = Arc::new(Semaphore::new(PERMITS));
        while let Some(Some(order)) = self.stopping.run_until_cancelled(orders.recv()).await {
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                let _nobody_waits = order.told.send(Err(busy().into()));
                continue;
            };
            let calling = Arc::clone(&self);
            tasks.spawn("tool call", async move {
                calling.serve(order).await;
                drop(permit);
            });
        }
    }

    async fn serve(&self, order: Order) {
        let Order { caller, ask, once, told } = order;
        let done = match invocations::begin(&self.ctx.openintent, &caller, ask, once.as_ref()).await {
            Err(failure) => Err(failure),
            Ok(Begun::Before(invocation)) => Ok(*invocation),
            Ok(Begun::Now(started)) => self.carry_out(&started).await,
        };
        // The caller may have disconnected; the outcome is recorded anyway.
        let _nobody_waits = told.send(done);
    }

    async fn carry_out(&self, started: &Started) -> Outcome<Invocation> {
        let began = Instant::now();
        let given_up = async {
            self.stopping.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let mut scrubber = started.secret.scrubber();
        let response = tokio::select! {
            response = self.call(started, &mut scrubber) => response,
            () = given_up => Err(Failed::new(CallFailure::Interrupted, INTERRUPTED)),
        };
        let duration_ms = i32::try_from(began.elapsed().as_millis()).unwrap_or(i32::MAX);
        let made = made(response, &scrubber, duration_ms);
        self.write_down(started, &made).await
    }

    /// Records the outcome of a call, with retries while the database is unavailable.
    async fn write_down(&self, started: &Started, made: &Made) -> Outcome<Invocation> {
        let mut left = WRITES;
        loop {
            match invocations::finish(&self.ctx.openintent, started.id, made).await {
                Err(why) if why.is_passing() && left > 0 => {
                    left -= 1;
                    tracing::warn!(invocation.id = %started.id, error = %why, "what came of a call waits to be written down");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failure) => {
                    tracing::error!(invocation.id = %started.id, error = %failure,
                        "what came of a call could not be written down; it will count as interrupted");
                    return Err(failure);
                }
                done => return done,
            }
        }
    }

    /// Executes a call; retries once with another token when the service rejects the first.
    async fn call(&self, started: &Started, scrubber: &mut Scrubber) -> Result<ToolResponse, Failed> {
        let (auth, secret) = (started.credential.auth_type, &started.secret);
        let mut token = None;
        if started.connection.wants_token(auth, secret) {
            token = Some(self.token(started, scrubber, None).await?);
        }
        let first = self.send(started, token.as_ref()).await?;
        if first.status != 401 || !started.connection.refreshes(auth, secret) {
            return Ok(first);
        }
        let refused = token.as_ref().map(|token| token.as_str()).or_else(|| secret.first(&tokens::NAMES));
        let token = self.token(started, scrubber, refused).await?;
        self.send(started, Some(&token)).await
    }

    async fn send(
        &self,
        started: &Started,
        token: Option<&Zeroizing<String>>,
    ) -> Result<ToolResponse, Failed> {
        let call = started
            .call(token.map(|token| token.as_str()))
            .map_err(|refusal| Failed::new(CallFailure::Constraint, refusal.message))?;
        self.egress.call(call, TOOL_RESULT_BYTES).await.map_err(|failure| failed(failure, "The tool"))
    }
}

fn failed(failure: ToolFailure, who: &str) -> Failed {
    match failure {
        ToolFailure::Blocked(why) => {
            Failed::new(CallFailure::Blocked, format!("{who} may not be sent to: {why}."))
        }
        ToolFailure::TimedOut => Failed::new(CallFailure::TimedOut, format!("{who} did not answer in time.")),
        ToolFailure::Unreachable(why) => {
            Failed::new(CallFailure::Unreachable, format!("{who} cannot be reached: {why}."))
        }
        ToolFailure::TooLong => {
            Failed::new(CallFailure::TooLarge, format!("{who} answered more than {TOOL_RESULT_BYTES} bytes."))
        }
    }
}

/// Builds the record of an answer or a failure.
fn made(response: Result<ToolResponse, Failed>, scrubber: &Scrubber, duration_ms: i32) -> Made {
    let judged = response.and_then(|response| match response.status {
        200..300 => Ok(response),
        300..400 => Err(Failed {
            mishap: CallFailure::Redirected,
            message: format!(
                "The tool answered {}; the server goes nowhere else with a secret.",
                response.status
            ),
            // The redirect's target is not shown either.
            response: Some(ToolResponse { body: String::new(), ..response }),
        }),
        status => Err(Failed {
            mishap: CallFailure::Refused,
            message: format!("The tool answered {status}."),
            response: Some(response),
        }),
    });
    let (status, response, error) = match judged {
        Ok(response) => (InvocationStatus::Success, Some(response), None),
        Err(failed) => {
            let message = scrubber.text(&failed.message);
            (failed.mishap.status(), failed.response, Some(failed.mishap.told(&message)))
        }
    };
    let result = response.as_ref().map(|response| clean(&response.body, scrubber));
    Made {
        status,
        result,
        error,
        duration_ms,
        http_status: response.as_ref().map(|response| i32::from(response.status)),
        response_bytes: response.as_ref().and_then(|response| i32::try_from(response.bytes).ok()),
    }
}

/// Removes the secret and unstorable characters from a tool's answer.
fn clean(body: &str, scrubber: &Scrubber) -> Map<String, Value> {
    match scrubber.value(storable(Value::Object(shaped(body)))) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn storable(value: Value) -> Value {
    let plain = |text: String| if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    match value {
        Value::String(text) => Value::String(plain(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(storable).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (plain(name), storable(value))).collect())
        }
        other => other,
    }
}
