//! Resuming a session on another connection (ARCP §6.3 and §8.3).

use serde_json::{Value, json};
use tokio::time::Instant;

use super::sessions::pong;
use super::{Session, envelope, hello, path};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, same, text};
use crate::site::{Site, Who};
use crate::socket::Socket;

checks! {
    "ARCP §6.3", Must, session_is_resumed, "A session goes on under its id on another connection.";
    "ARCP §6.3", Must, resume_token_rotates, "The resume token is another one after each welcome.";
    "ARCP §6.3", Must, events_are_replayed, "Events behind `last_event_seq` come again with their numbers.";
    "ARCP §6.3", Must, used_token_is_worthless, "A resume token resumes nothing once the client has gone on with a later one.";
    "ARCP §6.3", Must, foreign_token_is_worthless, "A wrong resume token resumes nothing.";
}

/// Where a resume stands.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// In the hello, as in the SDKs.
    Hello,
    /// In a message of its own, `session.resume`, as in the specification.
    Message,
}

/// Returns the first message of a connection that resumes a session.
fn resuming(site: &Site, form: Form, id: &str, token: &str, last: u64) -> Value {
    let resume = json!({ "session_id": id, "resume_token": token, "last_event_seq": last });
    let mut greeting = hello(site, Who::First);
    match form {
        Form::Hello => {
            greeting["resume"] = resume;
            envelope(site, "session.hello", &greeting)
        }
        Form::Message => {
            let mut payload = resume;
            payload["auth"] = greeting["auth"].take();
            let mut message = envelope(site, "session.resume", &payload);
            message["session_id"] = json!(id);
            message
        }
    }
}

/// Resumes a session, and returns the form that the server takes, too.
async fn resumed<'a>(
    site: &'a Site,
    id: &str,
    token: &str,
    last: u64,
) -> Result<(Session<'a>, Form), Finding> {
    let by_hello = Session::with(site, &resuming(site, Form::Hello, id, token, last)).await;
    match by_hello {
        Ok(session) if session.id == id => return Ok((session, Form::Hello)),
        _ => {}
    }
    let session = Session::with(site, &resuming(site, Form::Message, id, token, last)).await?;
    ensure(session.id == id, format!("the session {id}"), &session.id)?;
    Ok((session, Form::Message))
}

/// Resumes a session.
async fn resume<'a>(site: &'a Site, id: &str, token: &str, last: u64) -> Result<Session<'a>, Finding> {
    resumed(site, id, token, last).await.map(|(session, _)| session)
}

/// Fails unless a token resumes nothing: the server says an error, or opens another session. That it says nothing, or
/// something else, tells nothing about the token.
async fn is_worthless(site: &Site, form: Form, id: &str, token: &str) -> Outcome {
    let mut socket = Socket::open(site, path(site)).await?;
    socket.send(&resuming(site, form, id, token, 0).to_string()).await?;
    let answer = socket.next(Instant::now() + site.limit).await?.unwrap_or(Value::Null);
    if answer["type"] == json!("session.welcome") {
        return ensure(text(&answer, "/session_id")? != id, "another session, or none", answer);
    }
    same(&answer, "/type", "session.error")
}

fn token(session: &Session<'_>) -> Result<String, Finding> {
    text(&session.welcome, "/payload/resume_token")
}

async fn session_is_resumed(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, token) = (session.id.clone(), token(&session)?);
    drop(session);
    resume(site, &id, &token, 0).await.map(drop)
}

async fn resume_token_rotates(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, first) = (session.id.clone(), token(&session)?);
    drop(session);
    let resumed = resume(site, &id, &first, 0).await?;
    ensure(token(&resumed)? != first, "another resume token", "the same one")
}

async fn events_are_replayed(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let numbers = |session: &Session<'_>| -> Vec<u64> {
        session.events.iter().filter_map(|frame| frame["event_seq"].as_u64()).collect()
    };
    let (id, token, seen) = (session.id.clone(), token(&session)?, numbers(&session));
    drop(session);
    let mut resumed = resume(site, &id, &token, 0).await?;
    resumed.end(&job).await?;
    let again = numbers(&resumed);
    ensure(seen == again, format!("the events {seen:?}"), format!("{again:?}"))
}

async fn used_token_is_worthless(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, first) = (session.id.clone(), token(&session)?);
    drop(session);
    let (mut resumed, form) = resumed(site, &id, &first, 0).await?;
    // Until then the welcome with the later token may have been lost on its way.
    pong(&mut resumed).await?;
    drop(resumed);
    is_worthless(site, form, &id, &first).await
}

async fn foreign_token_is_worthless(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, token) = (session.id.clone(), token(&session)?);
    drop(session);
    // The right token first: a server that resumes nothing refuses any.
    let (resumed, form) = resumed(site, &id, &token, 0).await?;
    drop(resumed);
    is_worthless(site, form, &id, "rt_conform-knows-none").await
}
