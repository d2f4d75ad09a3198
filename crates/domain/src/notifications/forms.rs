//! The words of a notification, in the form of each kind of receiver. Words of agents are quoted as plain text: they
//! are on one line, have no control characters, and are never read as markup.

use std::fmt::Write as _;

use chrono_tz::Tz;
use serde_json::{Value, json};
use unicode_general_category::{GeneralCategory, get_general_category};

use super::Topic;
use crate::clock::Timestamp;

/// Things listed in one message; the others are counted.
const LISTED: usize = 10;

/// Longest quotation of a question in characters.
const QUOTED: usize = 300;

/// Longest quotation where little room is: in a title or a push message.
const SHORT: usize = 120;

/// Seconds before a deadline from which a message is urgent.
const URGENT_SECONDS: i64 = 3_600;

/// Something that waits for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingItem {
    /// Its topic.
    pub topic: Topic,
    /// The question, or another text to read; in words of an agent.
    pub quote: Option<String>,
    /// The agent that it comes from.
    pub agent: Option<String>,
    /// When it lapses.
    pub deadline: Option<Timestamp>,
    /// Path of its page.
    pub path: String,
}

/// A message to a contact point.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// The content.
    pub content: Content<'a>,
    /// URL of the server, without a trailing slash.
    pub base: &'a str,
    /// Whether to quote words of agents.
    pub quotes: bool,
    /// Time zone of the person.
    pub zone: Tz,
    /// Current time.
    pub now: Timestamp,
}

/// Content of a message.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Items that wait, and whether the person was told of all of them before.
    Waiting {
        /// The things, at least one.
        items: &'a [WaitingItem],
        /// Whether this is a reminder.
        is_reminder: bool,
    },
    /// The code that confirms an address.
    Confirmation(&'a str),
    /// A message to try the contact point.
    Test,
}

/// Path of the page with a person's notification settings.
pub const SETTINGS_PATH: &str = "/notifications";

/// Returns a text on one line without control characters, as plain text of limited length.
#[must_use]
pub fn line(text: &str, most: usize) -> String {
    let plain = text.chars().map(|c| match get_general_category(c) {
        // Formatting characters can reverse or hide the text after them.
        GeneralCategory::Control
        | GeneralCategory::Format
        | GeneralCategory::LineSeparator
        | GeneralCategory::ParagraphSeparator => ' ',
        _ => c,
    });
    let plain: String = plain.collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let whole = words.join(" ");
    if whole.chars().count() <= most {
        return whole;
    }
    let cut: String = whole.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    }
}

/// Returns the waiting items, counted by topic: `2 decisions and 1 task`.
fn summary(items: &[WaitingItem]) -> String {
    let of = |topic: Topic| items.iter().filter(|item| item.topic == topic).count();
    let parts: Vec<String> = [
        counted(of(Topic::Decision), "decision", "decisions"),
        counted(of(Topic::Approval), "task to approve", "tasks to approve"),
        counted(of(Topic::Inbox), "entry of your inbox", "entries of your inbox"),
    ]
    .into_iter()
    .flatten()
    .collect();
    match parts.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        parts => parts.concat(),
    }
}

impl Message<'_> {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Returns the link of the whole message: the page of the only thing, or of all that waits.
    #[must_use]
    pub fn link(&self) -> String {
        match self.content {
            Content::Waiting { items: [only], .. } => self.url(&only.path),
            Content::Waiting { .. } => self.url("/inbox"),
            Content::Confirmation(_) | Content::Test => self.url(SETTINGS_PATH),
        }
    }

    /// Returns the subject, on one line.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.content {
            Content::Waiting { items: [only], is_reminder } => {
                let quote = only.quote.as_deref().filter(|_| self.quotes).map(|quote| line(quote, SHORT));
                let what = match (quote, only.topic) {
                    (Some(quote), Topic::Decision) => format!("Decide: {quote}"),
                    (Some(quote), Topic::Approval) => format!("Approve: {quote}"),
                    (Some(quote), Topic::Inbox) => quote,
                    (None, Topic::Decision) => "A decision waits for you".to_owned(),
                    (None, Topic::Approval) => "A task waits for your approval".to_owned(),
                    (None, Topic::Inbox) => "An entry of your inbox waits for you".to_owned(),
                };
                if is_reminder { format!("Still waiting: {what}") } else { what }
            }
            Content::Waiting { items, is_reminder } => {
                let still = if is_reminder { "still wait" } else { "wait" };
                format!("{} {still} for you", summary(items))
            }
            Content::Confirmation(_) => "Confirm this address".to_owned(),
            Content::Test => "This is where you are told".to_owned(),
        }
    }

    /// Returns whether something lapses soon.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        let soon = |at: Timestamp| (at - self.now).num_seconds() <= URGENT_SECONDS;
        match self.content {
            Content::Waiting { items, .. } => items.iter().filter_map(|item| item.deadline).any(soon),
            Content::Confirmation(_) | Content::Test => false,
        }
    }

    /// Returns one sentence about a thing, without the quotation.
    fn about(&self, item: &WaitingItem) -> String {
        let agent = item.agent.as_deref().map(|agent| line(agent, SHORT));
        let mut text = match (item.topic, agent) {
            (Topic::Decision, Some(agent)) => format!("{agent} asks you to decide"),
            (Topic::Decision, None) => "You are asked to decide".to_owned(),
            (Topic::Approval, Some(agent)) => format!("A task of {agent} waits for approval"),
            (Topic::Approval, None) => "A task waits for approval".to_owned(),
            (Topic::Inbox, Some(agent)) => format!("Your inbox has something from {agent}"),
            (Topic::Inbox, None) => "Your inbox has something new".to_owned(),
        };
        if let Some(deadline) = item.deadline {
            let local = deadline.with_timezone(&self.zone);
            // Writing to a `String` cannot fail.
            let _ = write!(text, "; it lapses on {}", local.format("%-d %B %Y at %H:%M %Z"));
        }
        text
    }

    fn quote(&self, item: &WaitingItem) -> Option<String> {
        item.quote.as_deref().filter(|_| self.quotes).map(|quote| line(quote, QUOTED))
    }

    /// Returns the sentence for the items that are not listed.
    fn others(&self, items: &[WaitingItem]) -> Option<String> {
        let more = items.len().saturating_sub(LISTED);
        (more > 0).then(|| format!("{more} more wait on {}.", self.url("/inbox")))
    }

    /// Returns the message as plain text of several lines, for mail.
    #[must_use]
    pub fn text(&self) -> String {
        let settings = self.url(SETTINGS_PATH);
        match self.content {
            Content::Waiting { items, .. } => {
                let mut text = String::new();
                for item in items.iter().take(LISTED) {
                    let _ = writeln!(text, "{}:", self.about(item));
                    if let Some(quote) = self.quote(item) {
                        let _ = writeln!(text, "\n  {quote}\n");
                    }
                    let _ = writeln!(text, "{}\n", self.url(&item.path));
                }
                if let Some(others) = self.others(items) {
                    let _ = writeln!(text, "{others}\n");
                }
                let _ = write!(
                    text,
                    "You decide on these pages, after logging in; an answer to this message reaches nobody.\n\
                     What you are told, and when: {settings}\n"
                );
                text
            }
            Content::Confirmation(code) => format!(
                "Somebody, probably you, wants to be told here when decisions wait for them.\n\n\
                 Enter this code on {settings}:\n\n  {code}\n\n\
                 If it was not you, do nothing: without the code no other message comes.\n"
            ),
            Content::Test => {
                format!(
                    "Decisions that wait for you will be told here.\n\nWhat you are told, and when: {settings}\n"
                )
            }
        }
    }

    /// Returns the body of a request to an incoming webhook of Slack. Quotations are in blocks of plain text, where nothing is a
    /// link, a mention or a picture.
    #[must_use]
    pub fn slack(&self) -> Value {
        let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
        let link = |url: &str, text: &str| json!({ "type": "context", "elements": [{ "type": "mrkdwn", "text": format!("<{url}|{text}>") }] });
        let mut blocks = Vec::new();
        match self.content {
            Content::Waiting { items, .. } => {
                for item in items.iter().take(LISTED) {
                    let quote = self.quote(item).map_or_else(String::new, |quote| format!(":\n{quote}"));
                    let text = format!("{}{quote}", self.about(item));
                    blocks.push(json!({ "type": "section", "text": plain(&text) }));
                    blocks.push(link(&self.url(&item.path), "Open"));
                }
                if let Some(others) = self.others(items) {
                    blocks.push(json!({ "type": "section", "text": plain(&others) }));
                }
            }
            Content::Confirmation(_) | Content::Test => {
                blocks.push(json!({ "type": "section", "text": plain(&self.text()) }));
            }
        }
        // Shown by itself in notifications of the operating system; there `<`, `>` and `&` are markup.
        let subject = self.subject().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        json!({ "text": subject, "blocks": blocks, "unfurl_links": false, "unfurl_media": false })
    }

    /// Returns the body of a request to a workflow of Microsoft Teams: an adaptive card. Quotations are text runs, which are
    /// not read as Markdown.
    #[must_use]
    pub fn teams(&self) -> Value {
        let run = |text: &str, is_strong: bool| {
            let weight = if is_strong { "Bolder" } else { "Default" };
            json!({ "type": "RichTextBlock", "inlines": [{ "type": "TextRun", "text": text, "weight": weight }] })
        };
        let mut body = vec![run(&self.subject(), true)];
        if let Content::Waiting { items, .. } = self.content {
            for item in items.iter().take(LISTED) {
                body.push(run(&self.about(item), false));
                body.extend(self.quote(item).map(|quote| run(&quote, false)));
            }
            body.extend(self.others(items).map(|others| run(&others, false)));
        } else {
            body.push(run(&self.text(), false));
        }
        let open = json!([{ "type": "Action.OpenUrl", "title": "Open", "url": self.link() }]);
        let card = json!({
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
            "body": body, "actions": open,
        });
        let kind = "application/vnd.microsoft.card.adaptive";
        json!({ "type": "message", "attachments": [{ "contentType": kind, "content": card }] })
    }

    /// Returns the body of a request that publishes to a topic of ntfy.
    #[must_use]
    pub fn ntfy(&self, topic: &str) -> Value {
        let priority = if self.is_urgent() { 4 } else { 3 };
        json!({
            "topic": topic, "title": self.subject(), "message": self.brief(), "click": self.link(), "priority": priority,
        })
    }

    /// Returns the payload of a push message, which the service worker shows (`assets/push.js`).
    #[must_use]
    pub fn push(&self) -> Value {
        let count = match self.content {
            Content::Waiting { items, .. } => items.len(),
            Content::Confirmation(_) | Content::Test => 0,
        };
        // The browser opens a path of the page's own origin, whatever this server calls itself.
        let link = self.link();
        let path = link.strip_prefix(self.base).unwrap_or("/inbox");
        json!({ "title": self.subject(), "body": self.brief(), "path": path, "count": count })
    }

    /// Returns the text for a small screen: a sentence about the only item, or the first few quotations.
    fn brief(&self) -> String {
        match self.content {
            Content::Waiting { items: [only], .. } => self.about(only),
            Content::Waiting { items, .. } => {
                let few = items.iter().take(3);
                let lines: Vec<String> = few
                    .map(|item| {
                        self.quote(item).map_or_else(|| self.about(item), |quote| line(&quote, SHORT))
                    })
                    .collect();
                lines.join("\n")
            }
            Content::Confirmation(_) | Content::Test => {
                "Decisions that wait for you will be told here.".to_owned()
            }
        }
    }
}
