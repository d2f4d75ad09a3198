//! Federation sender (RFC-0022): signs and sends due outbox messages to peers, and records the outcomes
//! (`openintent/src/federation/outbox.rs`). No transaction is open during a request, and a peer that hangs
//! delays only its own messages, because each peer has its own permits. A sweep creates the messages from
//! events on peers' intents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use entente_bridges::Ctx;
use entente_domain::webhooks::retries::{Failed, Failure};
use entente_kernel::Outcome;
use entente_openintent::federation;
use entente_openintent::federation::{Answered, Due};
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::egress::{Egress, judged};
use super::lookout::{LETTERS, Lookout};
use super::{TURN, note, timely};

/// Concurrent messages to one peer.
const PERMITS: i64 = 4;

/// Federation sender.
pub struct FederationSender {
    ctx: Ctx,
    egress: Egress,
    /// Messages in progress, by peer.
    busy: Mutex<HashMap<String, i64>>,
}

/// A peer's permit in use, released at the end of its work in any case.
struct HeldPermit<'a> {
    federation_sender: &'a FederationSender,
    peer: String,
}

impl Drop for HeldPermit<'_> {
    fn drop(&mut self) {
        self.federation_sender.permit(&self.peer, -1);
    }
}

impl FederationSender {
    /// Creates a sender that uses this client.
    #[must_use]
    pub fn new(ctx: Ctx, egress: Egress) -> Self {
        Self { ctx, egress, busy: Mutex::default() }
    }

    /// Sends until the server stops.
    pub async fn drive(self: Arc<Self>, lookout: Arc<Lookout>, tasks: Tasks) {
        loop {
            tokio::select! {
                () = tasks.stopping().cancelled() => return,
                () = lookout.found(LETTERS) => {}
            }
            match self.take().await {
                Ok(due) => {
                    for one in due {
                        let (federation_sender, stop) = (Arc::clone(&self), tasks.stopping().clone());
                        tasks.spawn("federation letter", async move {
                            let _hand = HeldPermit {
                                federation_sender: &federation_sender,
                                peer: one.peer().to_owned(),
                            };
                            // An interrupted message is sent again by the next claim.
                            if let Some(Err(failure)) =
                                stop.run_until_cancelled(federation_sender.carry(one)).await
                            {
                                note("federation letters", &failure);
                            }
                        });
                    }
                }
                Err(failure) => note("federation claims", &failure),
            }
        }
    }

    /// Sends until nothing is due, for tests; returns the number of attempts.
    ///
    /// # Errors
    /// The database fails.
    pub async fn step(&self) -> Outcome<usize> {
        let mut made = 0;
        loop {
            let due = self.take().await?;
            if due.is_empty() {
                return Ok(made);
            }
            made += due.len();
            let mut under_way: FuturesUnordered<_> = due
                .into_iter()
                .map(|one| async {
                    let _hand = HeldPermit { federation_sender: self, peer: one.peer().to_owned() };
                    self.carry(one).await
                })
                .collect();
            while let Some(done) = under_way.next().await {
                done?;
            }
        }
    }

    /// Claims as many due messages as there are free permits.
    async fn take(&self) -> Outcome<Vec<Due>> {
        let Some(federation) = self.ctx.openintent.state.federation.as_ref() else { return Ok(Vec::new()) };
        let free: Vec<(String, i64)> = federation
            .peers
            .iter()
            .map(|peer| (peer.did.clone(), PERMITS - self.permit(&peer.did, 0)))
            .filter(|(_, free)| *free > 0)
            .collect();
        if free.is_empty() {
            return Ok(Vec::new());
        }
        let due = timely(TURN, federation::claim(&self.ctx.openintent, &free)).await?;
        due.iter().for_each(|one| {
            self.permit(one.peer(), 1);
        });
        Ok(due)
    }

    /// Changes a peer's number of used permits by `more`, and returns the new number.
    fn permit(&self, peer: &str, more: i64) -> i64 {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let permits = busy.entry(peer.to_owned()).or_default();
        *permits += more;
        *permits
    }

    /// Makes one attempt.
    async fn carry(&self, due: Due) -> Outcome<()> {
        let answered = match federation::letter(&self.ctx.openintent, &due)? {
            Some((url, body)) => self.send(&url, body).await,
            None => Answered {
                failure: Some(Failure::Unreachable),
                text: "there is no such peer any more, or it has moved".to_owned(),
                retry_after: None,
            },
        };
        timely(TURN, federation::record(&self.ctx.openintent, &due, &answered)).await
    }

    async fn send(&self, url: &str, body: String) -> Answered {
        let answer = self.egress.post(url, body, self.ctx.now()).await;
        let (failure, error, retry_after) = match judged(&answer) {
            Ok(()) => (None, String::new(), None),
            Err(Failed { failure, error, retry_after }) => (Some(failure), error, retry_after),
        };
        Answered { failure, text: answer.map_or(error, |answer| answer.body), retry_after }
    }
}
