//! Notifications of people: sends the due ones to mail servers, chats and push services, and records the outcomes
//! (`kernel/src/notifications/sending.rs`). No transaction is open while a message is sent. Mail has permits of its own, so that
//! a mail server that hangs keeps nothing from the others, and a chat that hangs none from mail.

mod mail;
mod push;

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_domain::ids::NodeId;
use entente_domain::notifications::forms::{Content, Message};
use entente_domain::notifications::{ContactKind, ntfy_topic};
use entente_domain::webhooks::retries::{Failed, Failure};
use entente_kernel::notifications::sending::{self, Batch, ContactLease, Outgoing, SENDING};
use entente_kernel::{Outcome, notifications};
use entente_runtime::tasks::Tasks;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::egress::{Egress, judged};
use super::lookout::{Lookout, NOTIFICATIONS};
use super::permits::Busy;
use super::{TURN, note, timely};
pub use mail::Mailer;

/// Messages sent to the mail server at once.
const MAIL_PERMITS: usize = 4;

/// Messages sent to other receivers at once.
const OTHER_PERMITS: usize = 16;

/// The kinds that are sent over HTTP.
const OVER_HTTP: [ContactKind; 4] =
    [ContactKind::Slack, ContactKind::Teams, ContactKind::Ntfy, ContactKind::WebPush];

/// Time that a running attempt gets when the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Sender of notifications.
pub struct Notifier {
    /// Context for the operations.
    pub ctx: Ctx,
    egress: Egress,
    mailer: Option<Mailer>,
    /// URL of the server, with which links begin.
    base: String,
    node: NodeId,
    draining: CancellationToken,
    /// Signalled when a lease ends.
    freed: Arc<Notify>,
}

impl Notifier {
    /// Creates a sender.
    #[must_use]
    pub fn new(
        ctx: Ctx,
        egress: Egress,
        mailer: Option<Mailer>,
        base: String,
        node: NodeId,
        draining: CancellationToken,
    ) -> Self {
        Self { ctx, egress, mailer, base, node, draining, freed: Arc::default() }
    }

    /// Sends until the server drains. Each lease has its own task.
    pub async fn drive(self: Arc<Self>, lookout: Arc<Lookout>, tasks: Tasks) {
        let mail: (&[ContactKind], _) = (&[ContactKind::Mail], Arc::new(Semaphore::new(MAIL_PERMITS)));
        let others: (&[ContactKind], _) = (&OVER_HTTP, Arc::new(Semaphore::new(OTHER_PERMITS)));
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                () = self.ctx.notifications.queued() => {}
                () = self.freed.notified() => {}
                () = lookout.found(NOTIFICATIONS) => {}
            }
            for (kinds, permits) in [&mail, &others] {
                let free = permits.available_permits();
                if free == 0 {
                    continue;
                }
                match timely(TURN, sending::claim(&self.ctx, self.node, kinds, free)).await {
                    Ok(claimed) => {
                        for lease in claimed {
                            let notifier = Arc::clone(&self);
                            let busy = Busy::new(permits, &self.freed);
                            tasks.spawn("notification", async move {
                                notifier.serve(lease).await;
                                drop(busy);
                            });
                        }
                    }
                    Err(failure) => note("claims of contact points", &failure),
                }
            }
        }
    }

    /// Sends everything that is due, for tests; returns the number of leases.
    ///
    /// # Errors
    /// The database fails.
    pub async fn step(&self) -> Outcome<u64> {
        let mut taken = 0;
        loop {
            let claimed = sending::claim(&self.ctx, self.node, &ContactKind::ALL, OTHER_PERMITS).await?;
            if claimed.is_empty() {
                return Ok(taken);
            }
            taken += claimed.len() as u64;
            for lease in claimed {
                self.serve(lease).await;
            }
        }
    }

    /// Runs through one lease: one message, after which the contact point rests.
    async fn serve(&self, lease: ContactLease) {
        let done = self.send_due(&lease).await;
        if let Err(failure) = &done {
            note("notifications", failure);
        }
        if let Err(failure) = timely(TURN, sending::end(&self.ctx, &lease, done.is_err())).await {
            note("leases of contact points", &failure);
        }
    }

    async fn send_due(&self, lease: &ContactLease) -> Outcome<()> {
        let Some(outgoing) = timely(TURN, sending::load(&self.ctx, lease)).await? else { return Ok(()) };
        let given_up = async {
            self.draining.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let outcome = tokio::select! {
            outcome = timeout(SENDING, self.send(&outgoing)) => outcome,
            // It is not counted, and made again by whoever claims the contact point next.
            () = given_up => return Ok(()),
        };
        match outcome.unwrap_or_else(|_late| Err(Failed::timed_out())) {
            Ok(()) => timely(TURN, sending::sent(&self.ctx, lease, &outgoing)).await,
            Err(how) => timely(TURN, sending::failed(&self.ctx, lease, &outgoing, how)).await,
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<(), Failed> {
        let Outgoing { contact, batch, id, .. } = outgoing;
        let content = match batch {
            Batch::Waiting { items, is_reminder } => Content::Waiting { items, is_reminder: *is_reminder },
            Batch::Confirmation(code) => Content::Confirmation(code),
            Batch::Test => Content::Test,
        };
        let message = Message {
            content,
            base: &self.base,
            quotes: contact.settings.quotes(contact.address.kind),
            zone: contact.settings.zone(),
            now: self.ctx.now(),
        };
        let to = &contact.address.text;
        match contact.address.kind {
            ContactKind::Mail => match &self.mailer {
                Some(mailer) => mailer.send(to, id, &message).await,
                None => Err(refused("this server sends no mail any more".to_owned())),
            },
            ContactKind::Slack => self.post(to, message.slack().to_string()).await,
            ContactKind::Teams => self.post(to, message.teams().to_string()).await,
            ContactKind::Ntfy => match ntfy_topic(to) {
                Some((server, topic)) => self.post(&server, message.ntfy(&topic).to_string()).await,
                None => Err(refused("its address names no topic".to_owned())),
            },
            ContactKind::WebPush => self.push(contact, id, &message).await,
        }
    }

    async fn post(&self, url: &str, body: String) -> Result<(), Failed> {
        let headers = [("content-type", "application/json".to_owned())];
        let answer = self.egress.send(url, &headers, body.into_bytes(), self.ctx.now()).await;
        judged(&answer)
    }

    async fn push(
        &self,
        contact: &notifications::Contact,
        id: &str,
        message: &Message<'_>,
    ) -> Result<(), Failed> {
        let now = self.ctx.now();
        let key = &self.ctx.notifications.push_key;
        let request = push::request(key, &contact.address, id, message, &self.base, now).map_err(refused)?;
        let url = &contact.address.text;
        match judged(&self.egress.send(url, &request.headers, request.body, now).await) {
            // RFC 8030 §7.3: the subscription has ended; some services say so with 404.
            Err(Failed { failure: Failure::Status(404), error, retry_after }) => {
                Err(Failed { failure: Failure::Status(410), error, retry_after })
            }
            other => other,
        }
    }
}

/// A message that this server cannot send as it is, which is no fault of the receiver.
fn refused(error: String) -> Failed {
    Failed::silent(Failure::Status(400), error)
}
