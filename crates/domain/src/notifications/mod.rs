//! Notifications: messages to a person by mail, chat or push when something waits for them. A decision itself is taken
//! on its page; a notification only leads there.
//!
//! A person has contact points. [`times`] says when one is told, [`forms`] in which words, for each kind of receiver.

pub mod forms;
pub mod times;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::egress::{self, Allowed};
use crate::inbox::quiet::{QuietHours, minutes};
use crate::refusal::{Code, Refusal};

/// Contact points of one person.
pub const CONTACTS: i64 = 10;

/// Times that a contact point is reminded of one thing: somebody who has not come after these will not hear the next one.
pub const REMINDERS: u32 = 10;

/// Wrong codes after which a contact point can no longer be confirmed.
pub const CODE_TRIES: u32 = 5;

/// Seconds for which the code of an unconfirmed contact point is valid.
pub const CODE_SECONDS: u32 = 24 * 3_600;

/// Seconds between two messages to one contact point: items that come together are told together.
pub const SPACING_SECONDS: u32 = 15;

/// Longest time in seconds that something waits before a contact point is told: a week.
const AFTER_MOST: u32 = 7 * 24 * 3_600;

/// Shortest time between two reminders in seconds.
const REMIND_LEAST: u32 = 60;

/// Times of day in one digest.
const DIGEST_TIMES: usize = 24;

/// Longest label in characters.
const LABEL: usize = 100;

/// Longest mail address in bytes (RFC 5321 §4.5.3.1.3, without the angle brackets).
const MAIL_BYTES: usize = 254;

/// Kind of a contact point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContactKind {
    /// A mail address.
    Mail,
    /// An incoming webhook of Slack, or of a server that takes the same form.
    Slack,
    /// A workflow of Microsoft Teams that is started by a webhook request.
    Teams,
    /// A topic of an ntfy server.
    Ntfy,
    /// A browser that subscribed to push messages (RFC 8030).
    WebPush,
}

impl ContactKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Mail, Self::Slack, Self::Teams, Self::Ntfy, Self::WebPush];

    /// Returns the kind's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Ntfy => "ntfy",
            Self::WebPush => "web_push",
        }
    }

    /// Parses a kind's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns whether the address has to be confirmed with a code: anybody can write down somebody else's mail address.
    #[must_use]
    pub fn needs_confirmation(self) -> bool {
        self == Self::Mail
    }

    /// Returns whether words of agents may leave the server in readable form unless the person says otherwise. A topic
    /// of ntfy is readable for everybody who guesses its name.
    #[must_use]
    pub fn is_private(self) -> bool {
        self != Self::Ntfy
    }
}

/// Subject matter of a notification.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = NotificationTopic)]
pub enum Topic {
    /// A decision or a deliberation that waits for the person, also one that was passed on to them (binding moment §6.1).
    Decision,
    /// A task that waits for a person's approval (AEE §3).
    Approval,
    /// An entry of the person's own inbox that should wake.
    Inbox,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 3] = [Self::Decision, Self::Approval, Self::Inbox];

    /// Returns the topic's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Approval => "approval",
            Self::Inbox => "inbox",
        }
    }
}

/// Reason of a notification: a topic, or the contact point itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Something waits.
    Topic(Topic),
    /// The address is to be confirmed.
    Confirmation,
    /// The person tries it out.
    Test,
}

impl Reason {
    /// Returns the stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Topic(topic) => topic.as_str(),
            Self::Confirmation => "confirmation",
            Self::Test => "test",
        }
    }

    /// Parses the stored form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let topics = Topic::ALL.into_iter().map(Self::Topic);
        topics.chain([Self::Confirmation, Self::Test]).find(|reason| reason.as_str() == text)
    }
}

/// Topics that are collected, and when they are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NotificationDigest)]
pub struct Digest {
    /// The topics.
    pub topics: Vec<Topic>,
    /// Local times of day, `HH:MM`, at which the collected items are told.
    #[schema(example = json!(["08:00", "16:00"]))]
    pub at: Vec<String>,
    /// Time zone by its name in the IANA database; defaults to `UTC`.
    #[serde(default = "utc")]
    #[schema(example = "Europe/Berlin")]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A person's settings for a contact point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({
    "topics": ["decision", "approval"], "after_seconds": 600, "remind_seconds": 3600,
    "quiet_hours": { "from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin" },
    "digest": { "topics": ["inbox"], "at": ["08:00"], "time_zone": "Europe/Berlin" },
}))]
pub struct ContactSettings {
    /// Topics that are told at once. Defaults to `decision` and `approval`.
    pub topics: Vec<Topic>,
    /// Topics that are collected. An item that would lapse before the next digest is told at once.
    pub digest: Option<Digest>,
    /// Daily hours in which nothing is told: it is told at their end. `except` names agents whose decisions are told anyway.
    pub quiet_hours: Option<QuietHours>,
    /// Seconds for which something has to wait before this contact point is told, up to a week. A second contact point
    /// with a longer time is told only of items that the person has left waiting.
    pub after_seconds: u32,
    /// Seconds after which this contact point is told again of items that still wait, 60 to a week, at most ten times;
    /// null for never.
    pub remind_seconds: Option<u32>,
    /// Whether messages quote words of agents: the questions. Defaults to true, and to false for `ntfy`, whose topics
    /// everybody can read who knows their names.
    pub quotes: Option<bool>,
}

impl Default for ContactSettings {
    fn default() -> Self {
        Self {
            topics: vec![Topic::Decision, Topic::Approval],
            digest: None,
            quiet_hours: None,
            after_seconds: 0,
            remind_seconds: None,
            quotes: None,
        }
    }
}

impl ContactSettings {
    /// Checks settings that a person sent.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`], with the member at fault.
    pub fn check(&self) -> Result<(), Refusal> {
        let collected = self.digest.as_ref().map_or(&[][..], |digest| &digest.topics);
        if let Some(both) = self.topics.iter().find(|topic| collected.contains(topic)) {
            let message = format!(
                "`{}` is told at once or collected, not both. Take it out of one of the lists.",
                both.as_str()
            );
            return fault("digest.topics", message);
        }
        if self.topics.is_empty() && collected.is_empty() {
            return fault("topics", "Name at least one topic, or delete the contact point.".to_owned());
        }
        if self.after_seconds > AFTER_MOST {
            return fault("after_seconds", format!("`after_seconds` must be from 0 to {AFTER_MOST}."));
        }
        if let Some(seconds) = self.remind_seconds
            && !(REMIND_LEAST..=AFTER_MOST).contains(&seconds)
        {
            let message = format!("`remind_seconds` must be from {REMIND_LEAST} to {AFTER_MOST}.");
            return fault("remind_seconds", message);
        }
        if let Some(hours) = &self.quiet_hours {
            hours.check()?;
        }
        self.digest.as_ref().map_or(Ok(()), Digest::check)
    }

    /// Returns whether messages quote words of agents.
    #[must_use]
    pub fn quotes(&self, kind: ContactKind) -> bool {
        self.quotes.unwrap_or(kind.is_private())
    }

    /// Returns the person's time zone, as far as a setting names one.
    #[must_use]
    pub fn zone(&self) -> Tz {
        let named = self.quiet_hours.as_ref().map(|hours| &hours.time_zone);
        let named = named.or(self.digest.as_ref().map(|digest| &digest.time_zone));
        named.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC)
    }
}

impl Digest {
    fn check(&self) -> Result<(), Refusal> {
        if self.topics.is_empty() {
            return fault("digest.topics", "A digest needs at least one topic.".to_owned());
        }
        if !(1..=DIGEST_TIMES).contains(&self.at.len()) {
            let message = format!("A digest has from 1 to {DIGEST_TIMES} times of day in `at`.");
            return fault("digest.at", message);
        }
        if let Some(time) = self.at.iter().find(|time| minutes(time).is_none()) {
            return fault("digest.at", format!("`{time}` is no time of day; write it as `08:00`."));
        }
        if self.time_zone.parse::<Tz>().is_err() {
            let message = format!("`{}` is no time zone, such as `Europe/Berlin` or `UTC`.", self.time_zone);
            return fault("digest.time_zone", message);
        }
        Ok(())
    }
}

fn fault(member: &str, message: String) -> Result<(), Refusal> {
    Err(Refusal::field(Code::InvalidRequest, member, "value", message))
}

/// Keys of a browser's push subscription (RFC 8291 §2).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PushKeys {
    /// The browser's public key: an uncompressed point of P-256, in base64url.
    pub p256dh: String,
    /// The authentication secret: 16 bytes in base64url.
    pub auth: String,
}

impl fmt::Debug for PushKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushKeys")
    }
}

impl PushKeys {
    /// Returns the public key and the secret as bytes; `None` if one is malformed.
    #[must_use]
    pub fn bytes(&self) -> Option<([u8; 65], [u8; 16])> {
        let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let key: [u8; 65] = decoded(&self.p256dh)?.try_into().ok()?;
        let secret: [u8; 16] = decoded(&self.auth)?.try_into().ok()?;
        // 4: an uncompressed point (SEC 1 §2.3.3).
        (key[0] == 4).then_some((key, secret))
    }
}

/// Where a contact point is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Kind of the contact point.
    pub kind: ContactKind,
    /// A mail address, or a URL.
    pub text: String,
    /// Keys of a push subscription.
    pub push_keys: Option<PushKeys>,
}

impl Address {
    /// Checks an address that a person sent; URLs as those of webhooks.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check(&self, allowed: &Allowed, https_only: bool) -> Result<(), Refusal> {
        if self.kind == ContactKind::Mail {
            if is_mail(&self.text) {
                return Ok(());
            }
            let message = "`address` is no mail address, such as `ada@example.com`.";
            return fault("address", message.to_owned());
        }
        egress::check("address", &self.text, allowed, https_only)?;
        match self.kind {
            ContactKind::Ntfy if ntfy_topic(&self.text).is_none() => fault(
                "address",
                "`address` names no topic: it is the server's URL with the topic, such as `https://ntfy.sh/my-secret-topic`."
                    .to_owned(),
            ),
            ContactKind::WebPush if self.push_keys.as_ref().and_then(PushKeys::bytes).is_none() => fault(
                "push_keys",
                "`push_keys` has `p256dh` and `auth` of the browser's subscription.".to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Returns the address as others than its person may see it: URLs are secrets as a whole.
    #[must_use]
    pub fn masked(&self) -> String {
        if self.kind == ContactKind::Mail {
            return self.text.clone();
        }
        let url = Url::parse(&self.text).ok();
        let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
        format!("{host}/…")
    }
}

/// Checks a label.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_label(label: &str) -> Result<(), Refusal> {
    if label.chars().count() <= LABEL && !label.chars().any(char::is_control) {
        return Ok(());
    }
    fault("label", format!("`label` has at most {LABEL} characters, on one line."))
}

/// Returns the server and the topic of an ntfy URL.
#[must_use]
pub fn ntfy_topic(address: &str) -> Option<(String, String)> {
    let url = Url::parse(address).ok()?;
    let topic = url.path().trim_matches('/').to_owned();
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_topic = (1..=64).contains(&topic.len()) && topic.bytes().all(lawful);
    (is_topic && url.query().is_none()).then(|| (url.origin().ascii_serialization(), topic))
}

/// Returns whether a text has the form of a mail address that every mail server takes, without quoting and comments.
fn is_mail(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
    let dots = |text: &str| !text.starts_with('.') && !text.ends_with('.') && !text.contains("..");
    let label = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= MAIL_BYTES
        && (1..=64).contains(&local.len())
        && local.bytes().all(atom)
        && dots(local)
        && domain.split('.').all(label)
}
