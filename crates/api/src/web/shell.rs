//! The frame of every page (login state, navigation), and the plain notice page.

use actix_web::http::StatusCode;
use askama::Template;

use super::assets::{SCRIPT, STYLE};
use super::guard::Visitor;

/// Section of the site, for the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The dashboard.
    Dashboard,
    /// The inbox, or a moment in it.
    Inbox,
    /// The jobs, or one of them.
    Jobs,
    /// The budgets and stops.
    Budgets,
    /// The threads of envelopes.
    Threads,
    /// The search.
    Search,
    /// Any other page.
    Elsewhere,
}

/// The frame of a page.
#[derive(Debug)]
pub struct Shell {
    /// Title, before the product's name.
    pub title: String,
    /// Principal that is logged in.
    pub who: Option<String>,
    /// Token that forms must carry.
    pub token: String,
    /// The page's own path, if it may be rendered at another: a refused form is shown at the path that it was
    /// submitted to.
    pub page: Option<String>,
    /// Path of the stream that reports changes of the page.
    pub live: Option<String>,
    /// URL of the style sheet, which changes with its content.
    pub style: String,
    /// URL of the script.
    pub script: String,
    place: Place,
}

impl Shell {
    /// Returns the frame for a logged-in visitor.
    pub fn of(visitor: &Visitor, title: impl Into<String>, place: Place) -> Self {
        Self {
            who: Some(visitor.caller.principal().to_owned()),
            token: visitor.token.clone(),
            place,
            ..Self::plain(title)
        }
    }

    /// Returns the frame for an anonymous visitor.
    pub fn plain(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            who: None,
            token: String::new(),
            page: None,
            live: None,
            style: format!("/assets/entente.css?v={}", STYLE.version()),
            script: format!("/assets/entente.js?v={}", SCRIPT.version()),
            place: Place::Elsewhere,
        }
    }

    /// Sets the stream that reports changes.
    pub fn live(self, path: impl Into<String>) -> Self {
        Self { live: Some(path.into()), ..self }
    }

    /// Sets the page's own path.
    pub fn at(self, path: impl Into<String>) -> Self {
        Self { page: Some(path.into()), ..self }
    }

    /// Returns whether the page belongs to the inbox.
    pub fn in_inbox(&self) -> bool {
        self.place == Place::Inbox
    }

    /// Returns whether the page belongs to the jobs.
    pub fn in_jobs(&self) -> bool {
        self.place == Place::Jobs
    }

    /// Returns whether the page is that of the budgets.
    pub fn in_budgets(&self) -> bool {
        self.place == Place::Budgets
    }

    /// Returns whether the page belongs to the threads.
    pub fn in_threads(&self) -> bool {
        self.place == Place::Threads
    }

    /// Returns whether the page is the search.
    pub fn in_search(&self) -> bool {
        self.place == Place::Search
    }

    /// Returns whether the page is the dashboard.
    pub fn in_dashboard(&self) -> bool {
        self.place == Place::Dashboard
    }
}

/// Intermediate page for visitors that follow a link from another site.
#[derive(Debug, Template)]
#[template(path = "cross_site.html")]
pub struct CrossSitePage {
    shell: Shell,
    path: String,
}

impl CrossSitePage {
    /// Continues to a path of this server.
    pub fn to(path: &str) -> Self {
        Self { shell: Shell::plain("One moment"), path: path.to_owned() }
    }
}

/// A page with a single notice.
#[derive(Debug, Template)]
#[template(path = "notice.html")]
pub struct Notice {
    shell: Shell,
    heading: String,
    text: String,
}

impl Notice {
    /// Returns the notice of an error.
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
