//! What surrounds every page: who is logged in, where one can go, and the plain page that says one thing.

use actix_web::http::StatusCode;
use askama::Template;

use super::assets::{SCRIPT, STYLE, version};
use super::guard::Visitor;

/// Where on the pages somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The dashboard.
    Dashboard,
    /// The inbox, or a moment in it.
    Inbox,
    /// The threads of envelopes.
    Threads,
    /// Elsewhere.
    Elsewhere,
}

/// What surrounds a page.
#[derive(Debug)]
pub struct Shell {
    /// The title, before the product's name.
    pub title: String,
    /// Who is logged in.
    pub who: Option<String>,
    /// What forms carry.
    pub token: String,
    /// The page's own path, where it may be shown at another: what was sent and refused stands where it was sent to.
    pub page: Option<String>,
    /// The path of the stream that says when the page is no longer true.
    pub live: Option<String>,
    /// The address of the style sheet: another one whenever it is another one.
    pub style: String,
    /// The address of the script.
    pub script: String,
    place: Place,
}

impl Shell {
    /// Around a page of somebody who is logged in.
    pub fn of(visitor: &Visitor, title: impl Into<String>, place: Place) -> Self {
        Self {
            who: Some(visitor.caller.principal().to_owned()),
            token: visitor.token.clone(),
            place,
            ..Self::plain(title)
        }
    }

    /// Around a page of nobody in particular.
    pub fn plain(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            who: None,
            token: String::new(),
            page: None,
            live: None,
            style: format!("/assets/entente.css?v={}", version(STYLE)),
            script: format!("/assets/entente.js?v={}", version(SCRIPT)),
            place: Place::Elsewhere,
        }
    }

    /// The same, kept true by a stream.
    pub fn live(self, path: impl Into<String>) -> Self {
        Self { live: Some(path.into()), ..self }
    }

    /// The same, wherever it is shown the page of this path.
    pub fn at(self, path: impl Into<String>) -> Self {
        Self { page: Some(path.into()), ..self }
    }

    /// Whether this is the inbox.
    pub fn in_inbox(&self) -> bool {
        self.place == Place::Inbox
    }

    /// Whether this is a thread, or where one is looked for.
    pub fn in_threads(&self) -> bool {
        self.place == Place::Threads
    }

    /// Whether this is the dashboard.
    pub fn in_dashboard(&self) -> bool {
        self.place == Place::Dashboard
    }
}

/// The step between another site and a page of ours.
#[derive(Debug, Template)]
#[template(path = "led.html")]
pub struct Led {
    shell: Shell,
    path: String,
}

impl Led {
    /// On to a path of this server.
    pub fn to(path: &str) -> Self {
        Self { shell: Shell::plain("One moment"), path: path.to_owned() }
    }
}

/// A page that says one thing.
#[derive(Debug, Template)]
#[template(path = "notice.html")]
pub struct Notice {
    shell: Shell,
    heading: String,
    text: String,
}

impl Notice {
    /// What went wrong.
    pub fn of(status: StatusCode, text: &str) -> Self {
        let heading = match status.as_u16() {
            403 => "Not allowed",
            404 => "Not here",
            409 => "Too late",
            410 => "No longer there",
            429 => "Slowly",
            503 => "Away for a moment",
            500.. => "Something went wrong",
            _ => "That did not work",
        };
        Self { shell: Shell::plain(heading), heading: heading.to_owned(), text: text.to_owned() }
    }
}
