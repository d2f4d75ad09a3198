//! Notifications: tells people by mail, chat or push that something waits for them. Decisions are taken on the pages only.
//!
//! ```text
//!  a question, a held task, a ring ──► queue ──► one lease per contact point ──► sender ──► mail server, receivers
//!  (in the transaction of the change)            all that still waits, in one message
//! ```
//!
//! `contact_points.rs` has the operations on contact points, `rows.rs` their rows with the leases and the health of the
//! receivers, `queue.rs` the notifications for each, `rings.rs` the entries that wake in people's inboxes, `sending.rs`
//! the work of the sender (`src/background/notify.rs`). The times and words are in `entente_domain::notifications`.
//!
//! A contact point sees by its person, not by a key ([ADR 28](../../../../docs/adr/0028-told-by-the-person.md)): a
//! notification says that something waits for this person, and the hooks of the protocols are asked whether it still does when
//! the message is written.

pub mod contact_points;
mod push_keys;
mod queue;
pub(crate) mod rings;
mod rows;
pub mod sending;

use entente_domain::clock::Timestamp;
use entente_domain::notifications::times::Occasion;
use entente_runtime::push::PushKey;
use sqlx::PgConnection;
use tokio::sync::Notify;

use crate::Outcome;
pub use push_keys::open;
pub use rows::{Contact, ContactHealth};

/// State shared by everything that handles notifications.
pub struct Notifications {
    /// Whether the operator has set a mail server.
    pub sends_mail: bool,
    /// The key by which push services know this installation.
    pub push_key: PushKey,
    queued: Notify,
}

impl Notifications {
    /// Creates the state.
    #[must_use]
    pub fn new(sends_mail: bool, push_key: PushKey) -> Self {
        Self { sends_mail, push_key, queued: Notify::new() }
    }

    /// Wakes the sender after something was queued and committed.
    pub fn wake(&self) {
        self.queued.notify_one();
    }

    /// Waits until something was queued since the last call.
    pub async fn queued(&self) {
        self.queued.notified().await;
    }
}

/// People to be told.
#[derive(Debug, Clone, Copy)]
pub enum Audience<'a> {
    /// One person.
    Person(&'a str),
    /// Everybody with a contact point who may decide it.
    Anybody {
        /// The only person who may, if there is one.
        only: Option<&'a str>,
        /// Principals that are not asked.
        except: [&'a str; 2],
    },
}

impl<'a> Audience<'a> {
    /// Returns the only person that it may include.
    fn person(self) -> Option<&'a str> {
        match self {
            Self::Person(person) => Some(person),
            Self::Anybody { only, .. } => only,
        }
    }

    fn includes(self, person: &str) -> bool {
        match self {
            Self::Person(one) => one == person,
            Self::Anybody { only, except } => {
                !except.contains(&person) && only.is_none_or(|only| only == person)
            }
        }
    }
}

/// Something that people are to be told of.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// Whom.
    pub audience: Audience<'a>,
    /// The occasion.
    pub occasion: Occasion<'a>,
    /// Id of the object, which the topic's protocol knows.
    pub subject: &'a str,
}

/// Queues notifications for the contact points that want them, in the transaction of the change. Returns whether there
/// is any; then the caller wakes the sender after the commit.
///
/// # Errors
/// A database error.
pub async fn tell(conn: &mut PgConnection, told: &[Told<'_>], now: Timestamp) -> Outcome<bool> {
    let mut people: Vec<&str> = told.iter().filter_map(|one| one.audience.person()).collect();
    people.sort_unstable();
    people.dedup();
    let mut contacts = if people.is_empty() { Vec::new() } else { rows::told(conn, &people).await? };
    if told.iter().any(|one| one.audience.person().is_none()) {
        contacts = rows::told_all(conn).await?;
    }
    let mut queued = Vec::new();
    for one in told {
        for contact in contacts.iter().filter(|contact| one.audience.includes(&contact.person)) {
            if let Some(due_at) = contact.settings.due(one.occasion, now) {
                queued.push(queue::New::of_occasion(contact.id, one.occasion, one.subject, 0, due_at));
            }
        }
    }
    if queued.is_empty() {
        return Ok(false);
    }
    queue::insert(conn, &queued, now).await?;
    Ok(true)
}
